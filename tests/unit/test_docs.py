"""Documentation names things that exist."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from data_engine.config import NightlyConfig
from data_engine.nightly import STAGES
from data_engine.rules import RULES
from drive.cli.main import COMMANDS, build_parser
from drive.config import load_config
from drive.contracts import STEPS
from tests import builders

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


def test_the_policy_in_the_readme_plans() -> None:
    code = re.findall(
        r"^```python\n(.*?)^```", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(code) == 1
    names: dict[str, Any] = {"__name__": "readme"}  # not "__main__": defines, starts nothing
    exec(compile(code[0], "README.md", "exec"), names)
    plans = names["Standing"]().plan([builders.observation()] * 2, seed=0)
    assert [plan.best.pose_ego.shape for plan in plans] == [(STEPS, 3)] * 2
    for call in ast.walk(ast.parse(code[0])):  # calls of ours take the arguments they are given
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("run_suite", "bench_nuscenes"):
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            inspect.signature(names[call.func.id]).bind(*call.args, **keywords)


def test_the_stages_of_a_night_are_all_described_in_order() -> None:
    text = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \|", text.split("| stage | makes |")[1], re.MULTILINE)
    assert rows == [*STAGES, "report"]


def test_every_mining_rule_is_configured_and_in_the_glossary() -> None:
    text = (REPO / "docs" / "glossary.md").read_text(encoding="utf-8")
    case = text.split("**bad case**")[1].split("\n\n")[0].replace("\n", " ")
    words = {rule: rule.replace("_", " ") for rule in RULES} | {
        "off_road": "off-road",
        "wrong_lane": "oncoming lane",
        "disagreement": "planner-driver disagreement",
        "split_brain": "command and trajectory",
    }
    assert not [rule for rule, said in words.items() if said not in case]
    for config in sorted((REPO / "configs" / "nightly").glob("*.yaml")):
        assert load_config(NightlyConfig, config).mine.rules.keys() == RULES.keys(), config.name
