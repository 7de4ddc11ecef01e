"""`drive` dispatches lazily and turns every bad input into one line and exit code 2."""

import argparse
import errno
import os
import subprocess
import sys
import time
from types import ModuleType

import pytest

from drive.cli import main as cli
from drive.contracts import UserError

DRIVE = [sys.executable, "-m", "drive.cli.main"]
HEAVY = {
    "torch",
    "pandas",
    "pyarrow",
    "mlflow",
    "transformers",
    "pytorch_lightning",
    "nuscenes",
    "py123d",
    "carla",
}


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command `echo` whose behaviour tests may replace."""
    module = ModuleType("echo_command")
    module.add_arguments = lambda parser: parser.add_argument("--word", default="hi")  # type: ignore[attr-defined]
    module.run = lambda args: print(args.word) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "echo_command", module)
    monkeypatch.setitem(cli.COMMANDS, "echo", ("echo_command", "say a word"))
    return module


def test_runs_the_command_and_returns_its_code(echo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["echo", "--word", "night"]) == 0
    assert capsys.readouterr().out == "night\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ecko"], ["unknown command 'ecko'", "did you mean 'echo'?"]),
        (["qqqqq"], ["unknown command 'qqqqq'", "commands: nightly"]),
        (["echo", "--wrd", "x"], ["unrecognized arguments: --wrd x", "did you mean --word?"]),
        (["echo", "--word"], ["argument --word: expected one argument"]),
        (["echo", "--json", "."], ["--json .: is a folder"]),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    echo: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_user_errors_have_no_traceback(echo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_args: argparse.Namespace) -> int:
        raise UserError("x.yaml: broken; mend it")

    echo.run = fail  # type: ignore[attr-defined]
    assert cli.main(["echo"]) == 2
    assert capsys.readouterr().err == "error: x.yaml: broken; mend it\n"


def test_an_endless_message_is_cut(echo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_args: argparse.Namespace) -> int:
        raise UserError("x.json: token " + "x" * 100_000 + "; give another one")

    echo.run = fail  # type: ignore[attr-defined]
    assert cli.main(["echo"]) == 2
    error = capsys.readouterr().err
    assert len(error) < 2000
    assert error.startswith("error: x.json: token xxx")
    assert " ... " in error
    assert error.endswith("; give another one\n")


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, 1), (errno.EROFS, 2), (errno.EACCES, 2), (errno.ENAMETOOLONG, 2)]
)
def test_no_room_and_no_right_are_one_line(
    echo: ModuleType, capsys: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    def fail(_args: argparse.Namespace) -> int:
        raise OSError(number, os.strerror(number), "logs/x.arrow")

    echo.run = fail  # type: ignore[attr-defined]
    assert cli.main(["echo"]) == code
    assert capsys.readouterr().err.startswith(f"error: logs/x.arrow: {os.strerror(number)}; ")


def test_other_system_errors_stay_tracebacks(echo: ModuleType) -> None:
    def fail(_args: argparse.Namespace) -> int:
        raise OSError(errno.EBADF, "mistake of ours")

    echo.run = fail  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="mistake of ours"):
        cli.main(["echo"])


def test_arguments_that_are_not_utf8_are_refused(
    echo: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["echo", "--word", "a\udcff"]) == 2
    assert "'a\\udcff': is not UTF-8 here" in capsys.readouterr().err


def test_what_the_terminal_cannot_show_is_escaped() -> None:
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run([*DRIVE, "écho"], capture_output=True, text=True, check=False, env=plain)
    assert done.returncode == 2
    assert done.stderr.startswith("error: drive: unknown command '\\xe9cho'")


def test_ctrl_c_is_130(echo: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    echo.run = interrupt  # type: ignore[attr-defined]
    assert cli.main(["echo"]) == 130
    assert "continues where it stopped" in capsys.readouterr().err


def test_no_command_prints_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "nightly" in capsys.readouterr().err
    assert cli.main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert all(name in overview for name in cli.COMMANDS)
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("nightdrive ")


def test_help_answers_quickly() -> None:
    start = time.monotonic()
    done = subprocess.run([*DRIVE, "--help"], capture_output=True, text=True, check=True)
    assert "usage: drive COMMAND" in done.stdout
    assert time.monotonic() - start < 5  # below 0.3 s on an idle machine


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_the_help_of_each_command_imports_nothing_heavy(command: str) -> None:
    code = (
        "import sys\nfrom drive.cli.main import build_parser\n"
        f"build_parser({command!r}).format_help()\n"
        f"sys.exit(str(sorted({HEAVY!r} & set(sys.modules)) or '') or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(DRIVE)} --help | true; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
