"""Write the file tree in README.md: every module with the first line of its docstring.

Run `python tools/file_tree.py` after adding, moving or renaming a module.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("drive", "sim", "data_engine", "tools")
OTHERS = {
    "configs/": "YAML, one folder per job; `quickstart` and `base` in each",
    "docs/": "commands, conventions, glossary, architecture, results",
    "tests/": "unit/ mirrors the source; integration/; conformance/ (what every policy must do)",
    "Makefile": "venv, nightly, test, lint",
    ".ci/run": "continuous integration from a bare machine",
}
COLUMN = 34
WIDTH = 132


def summary(path: Path) -> str:
    """First sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split()).rstrip(".")
    return line if len(line) <= WIDTH - COLUMN else line[: WIDTH - COLUMN - 3].rsplit(" ", 1)[0] + " ..."


def lines(folder: Path, depth: int) -> list[str]:
    """Tree of one package: itself, its modules, its sub-packages."""
    indent = "  " * depth
    init = folder / "__init__.py"
    about = summary(init) if init.exists() else ""
    found = [f"{indent}{folder.name + '/':<{COLUMN - len(indent)}}{about}".rstrip()]
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            found.append(f"{indent}  {path.name:<{COLUMN - len(indent) - 2}}{summary(path)}")
    for path in sorted(p for p in folder.iterdir() if any(p.glob("*.py"))):
        found += lines(path, depth + 1)
    return found


def tree() -> str:
    """The whole tree as text."""
    found = [line for name in FOLDERS for line in lines(ROOT / name, 0)]
    return "\n".join(found + [f"{name:<{COLUMN}}{text}" for name, text in OTHERS.items()])


def main() -> None:
    """Replace the tree in README.md."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, body, tail = re.split(
        r"(?<=## File tree\n\n```\n)(.*?)(?=\n```\n)", text, maxsplit=1, flags=re.DOTALL
    )
    if body != tree():
        readme.write_text(head + tree() + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
