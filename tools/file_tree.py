"""Write the file tree in README.md: every module with the first line of its docstring.

Run `python tools/file_tree.py` after adding, moving or renaming a module, config, page or make target. A line
that is too long for the tree is refused, never cut: shorten the docstring's first line.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("drive", "sim", "data_engine", "tools")
SCRIPTS = (".py", ".sh")
COLUMN = 34
WIDTH = 132


def summary(path: Path) -> str:
    """First sentence of a module's docstring; of a shell script, the comment below its first line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sh":
        return text.splitlines()[1].lstrip("# ").rstrip(".")
    about = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(about.split("\n\n")[0].split()).rstrip(".")


def row(name: str, about: str, depth: int = 0) -> str:
    """One line of the tree."""
    indent = "  " * depth
    return f"{indent}{name:<{COLUMN - len(indent)}}{about}".rstrip()


def package(folder: Path, depth: int) -> list[str]:
    """Tree of one package: itself, its modules and scripts, its sub-packages."""
    init = folder / "__init__.py"
    found = [row(f"{folder.name}/", summary(init) if init.exists() else "", depth)]
    for path in sorted(folder.iterdir()):
        if path.suffix in SCRIPTS and path != init:
            found.append(row(path.name, summary(path), depth + 1))
    for path in sorted(p for p in folder.iterdir() if any(p.glob("*.py"))):
        found += package(path, depth + 1)
    return found


def stems(folder: Path, pattern: str) -> str:
    """Names of the files in a folder, without their endings."""
    return ", ".join(sorted(path.stem for path in folder.glob(pattern)))


def heading(page: Path) -> str:
    """Title of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def others(root: Path) -> list[str]:
    """What is not a module: configs, pages, tests, and how the project is built."""
    configs = root / "configs"
    jobs = sorted({path.parent for path in configs.rglob("*.yaml")})
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    return [
        row("configs/", "YAML, one folder per job"),
        *(row(f"{job.relative_to(configs).as_posix()}/", stems(job, "*.yaml"), 1) for job in jobs),
        row("docs/", "Pages for users; RESULTS.md holds every number"),
        *(row(page.name, heading(page), 1) for page in sorted((root / "docs").glob("*.md"))),
        row("tests/", "unit/ mirrors the source; integration/; conformance/ (what every policy must do)"),
        row("Makefile", ", ".join(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))),
        row("pyproject.toml", "package, dependency ranges, rules of ruff, mypy, pytest and import-linter"),
        row("constraints.txt", "the tested version of every package; `make lock` writes it"),
        row(".ci/run", "continuous integration from a bare machine"),
    ]


def tree(root: Path = ROOT) -> str:
    """The whole tree as text.

    Raises:
        ValueError: Lines wider than WIDTH; the message lists them all.
    """
    found = [line for name in FOLDERS for line in package(root / name, 0)] + others(root)
    wide = [line.strip() for line in found if len(line) > WIDTH]
    if wide:
        raise ValueError("\n".join([f"a summary may have {WIDTH - COLUMN} characters; shorten:", *wide]))
    return "\n".join(found)


def main() -> int:
    """Replace the tree in README.md; 1 if a line does not fit."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    head, body, tail = re.split(
        r"(?<=## File tree\n\n```\n)(.*?)(?=\n```\n)", text, maxsplit=1, flags=re.DOTALL
    )
    try:
        made = tree()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if body != made:
        readme.write_text(head + made + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
