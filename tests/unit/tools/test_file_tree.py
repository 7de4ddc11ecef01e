"""The tree of README.md: whole lines or a refusal that lists every line that does not fit."""

from pathlib import Path

import pytest

from tools.file_tree import COLUMN, FOLDERS, WIDTH, tree


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one module per package, a script, two configs, a page and a Makefile."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'"""The folder {name}."""\n')
        (tmp_path / name / "module.py").write_text('"""What it is\nfor.\n\nMore about it.\n"""\n')
    (tmp_path / "tools" / "set_up.sh").write_text("#!/bin/sh\n# Sets everything up.\n")
    for job in ("train/base", "sim/suites/gate"):
        (tmp_path / "configs" / job).parent.mkdir(parents=True)
        (tmp_path / "configs" / f"{job}.yaml").write_text("")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page\n\nText.\n")
    (tmp_path / "Makefile").write_text("FLAG := 1\nhidden:\n\ttrue\nslow-test: a b  ## long tests\n")
    return tmp_path


def test_modules_scripts_configs_pages_and_targets_are_listed(project: Path) -> None:
    rows = dict(line.split(maxsplit=1) for line in tree(project).splitlines() if " " in line.strip())
    assert rows["drive/"] == "The folder drive"
    assert rows["module.py"] == "What it is for"
    assert rows["set_up.sh"] == "Sets everything up"
    assert rows["sim/suites/"] == "gate"
    assert rows["page.md"] == "A page"
    assert rows["Makefile"] == "slow-test"


def test_a_line_may_be_as_wide_as_the_tree_and_no_wider(project: Path) -> None:
    fits = "x" * (WIDTH - COLUMN)
    (project / "sim" / "module.py").write_text(f'"""{fits}."""\n')
    assert f"module.py{' ' * (COLUMN - 11)}{fits}" in tree(project)
    for name in ("drive", "sim"):
        (project / name / "module.py").write_text(f'"""{fits}y."""\n')
    with pytest.raises(ValueError, match="shorten") as refused:
        tree(project)
    assert str(refused.value).count(f"{fits}y") == 2
