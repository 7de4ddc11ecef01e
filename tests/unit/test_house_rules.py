"""Rules about the source that no linter checks: sizes, excepts, unfinished marks, machine paths."""

import ast
import re
from pathlib import Path

import pytest

from tools.file_tree import tree

REPO = Path(__file__).resolve().parents[2]
FOLDERS = ("drive", "sim", "data_engine", "tools", "tests")
SOURCES = sorted(p for folder in FOLDERS for p in (REPO / folder).rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
TEXT_SUFFIXES = {".py", ".md", ".yaml", ".toml", ".sh", ".j2", ".html", ""}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|tmp|root|home)/\w")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")


def names(paths: list[Path]) -> list[str]:
    return [str(p.relative_to(REPO)) for p in paths]


def committed_texts() -> list[Path]:
    folders = [REPO / f for f in (*FOLDERS, "configs", "docs", ".ci")]
    files = [p for f in folders for p in f.rglob("*") if p.is_file()] + [
        p for p in REPO.glob("*") if p.is_file()
    ]
    return sorted(p for p in files if p.suffix in TEXT_SUFFIXES and "__pycache__" not in p.parts)


@pytest.mark.parametrize("path", SOURCES, ids=names(SOURCES))
def test_source_follows_the_house_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text)
    assert ast.get_docstring(module) or not module.body, f"{path}: say in one line what the module is for"
    lines = text.count("\n")
    assert lines < MAX_FILE_LINES, f"{path}: {lines} lines; split it"
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length < MAX_FUNCTION_LINES, (
                f"{path}:{node.lineno}: {node.name} has {length} lines; split it"
            )
        if isinstance(node, ast.ExceptHandler):
            assert not _is_broad(node), f"{path}:{node.lineno}: name the exceptions that are expected here"


def _is_broad(handler: ast.ExceptHandler) -> bool:
    """Does it catch everything and not raise again?"""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(
        t is None or (isinstance(t, ast.Name) and t.id in ("Exception", "BaseException")) for t in types
    )
    return broad and not any(isinstance(n, ast.Raise) for n in ast.walk(handler))


def test_no_committed_text_has_unfinished_marks_or_machine_paths() -> None:
    found = []
    for path in committed_texts():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if MACHINE_PATH.search(line) or UNFINISHED.search(line):
                found.append(f"{path.relative_to(REPO)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_no_module_is_called_utils() -> None:
    assert not [p for p in SOURCES if p.stem in ("utils", "util", "helpers", "misc")]


def test_the_readme_tree_is_the_one_the_tool_makes() -> None:
    shown = (REPO / "README.md").read_text(encoding="utf-8").split("## File tree\n\n```\n")[1]
    assert shown.split("\n```\n")[0] == tree(), "run: python tools/file_tree.py"
