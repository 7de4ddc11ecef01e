"""Documentation names things that exist."""

import re
from pathlib import Path

import pytest

from drive.cli.main import COMMANDS, build_parser

REPO = Path(__file__).resolve().parents[2]
PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing, f"{page.name}: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_named_files_exist(page: Path) -> None:
    named = re.findall(
        r"\b((?:configs|drive|sim|data_engine|tools|tests|docs)/[\w./]+\.\w+)",
        page.read_text(encoding="utf-8"),
    )
    missing = sorted({n for n in named if not (REPO / n).exists()})
    assert not missing, f"{page.name}: {missing}"


def test_every_command_and_option_is_documented() -> None:
    text = (REPO / "docs" / "cli.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        start = text.find(f"drive {command}")
        assert start >= 0, f"docs/cli.md does not mention drive {command}"
        for action in build_parser(command)._actions:
            for option in action.option_strings:
                if option.startswith("--") and option not in ("--help", "--json"):
                    assert option in text, f"docs/cli.md: drive {command} {option}"


def test_commands_in_the_documentation_exist() -> None:
    for page in PAGES:
        used = set(re.findall(r"(?:`|^)drive ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert used <= COMMANDS.keys(), f"{page.name}: {used - COMMANDS.keys()}"
