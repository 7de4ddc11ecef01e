"""Entry point of `drive`: picks the sub-command, turns errors into one line and an exit code."""

import argparse
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import NoReturn

from drive.cli import output
from drive.contracts import UserError

COMMANDS: dict[str, tuple[str, str]] = {
    "nightly": ("drive.cli.nightly", "turn yesterday's drives into a better driver, or refuse and say why"),
    "ingest": ("drive.cli.ingest", "convert a dataset into drive logs"),
    "check": ("drive.cli.check", "say what is missing or wrong in a folder of drive logs"),
    "sim": ("drive.cli.sim", "drive a suite of routes in closed loop and score it"),
    "score": ("drive.cli.score", "driving score, success and abilities of a leaderboard results file"),
    "serve-sim": ("drive.cli.serve_sim", "start the light CARLA-compatible server and wait"),
    "train": ("drive.cli.train", "train a planner from drive logs"),
    "vla": ("drive.cli.vla", "train a vision-language model to command the planner, or ask one"),
    "bench": ("drive.cli.bench", "score a planner open loop; statistics of closed-loop results files"),
    "compare": ("drive.cli.compare", "two saved benchmark results, paired case by case"),
    "eval": ("drive.cli.eval", "train planners and baselines alike, drive with them, compare"),
    "view": ("drive.cli.view", "one plan for one moment of a recorded drive, as a picture"),
    "report": ("drive.cli.report", "build a night's report again, or one page about the last nights"),
    "rollback": ("drive.cli.rollback", "make the previous champion the champion again"),
    "rebuild": ("drive.cli.rebuild", "train a registered model again and compare the weights bit for bit"),
    "demo": ("drive.cli.demo", "seven nights in a row, each with a kind of route that is new"),
    "doctor": ("drive.cli.doctor", "check this machine: versions, disk, memory, CARLA, registry"),
}
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
NO_PLACE = (*DISK_FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
LONGEST = 1500
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class CommandParser(argparse.ArgumentParser):
    """argparse with one-line errors that suggest the nearest option."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError instead of printing the usage and exiting."""
        found = re.match(r"unrecognized arguments: (\S+)", message)
        if found:
            options = [o for a in self._actions for o in a.option_strings]
            near = get_close_matches(found[1].split("=")[0], options, 1)
            message += f"; did you mean {near[0]}?" if near else ""
        raise UserError(f"{self.prog}: {message} (see {self.prog} --help)")


def build_parser(command: str) -> CommandParser:
    """Parser of one sub-command; imports only that command's module."""
    module, summary = COMMANDS[command]
    parser = CommandParser(prog=f"drive {command}", description=f"{summary}.", allow_abbrev=False)
    import_module(module).add_arguments(parser)
    parser.add_argument("--json", metavar="FILE", help="also write the numbers as JSON (keys: docs/cli.md)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run `drive`; returns the exit code: 0 done, 1 ran and found a failure, 2 bad input, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show is no reason to stop
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(arguments)
    except UserError as error:
        print(f"error: {_shortened(str(error))}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `drive ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in NO_PLACE:
            raise
        full = error.errno in DISK_FULL
        mend = "make room; the same command continues" if full else "choose another place"
        print(f"error: {error.filename or 'a file'}: {error.strerror}; {mend}", file=sys.stderr)
        return 1 if full else EXIT_USER_ERROR


def _shortened(text: str) -> str:
    """Without the middle of an endless message: what is wrong stands first, how to mend it last."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(_overview(), file=sys.stderr)
        return EXIT_USER_ERROR
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:  # Arrow, YAML and JSON take UTF-8 only
            raise UserError(f"{argument!a}: is not UTF-8 here; rename it, or set LC_ALL=C.UTF-8") from None
    command, rest = arguments[0], arguments[1:]
    if command in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if command == "--version":
        print(f"nightdrive {version('nightdrive')}")
        return 0
    if command not in COMMANDS:
        near = get_close_matches(command, COMMANDS, 1)
        tail = f"did you mean {near[0]!r}?" if near else f"commands: {', '.join(COMMANDS)}"
        raise UserError(f"drive: unknown command {command!r}; {tail}")
    args = build_parser(command).parse_intermixed_args(rest)
    args.command = command
    output.check_json_path(args)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        code: int = import_module(COMMANDS[command][0]).run(args)
    finally:
        signal.signal(signal.SIGTERM, before)
    return code


def _terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Leave through `finally` blocks, so that servers and workers are stopped."""
    raise SystemExit(EXIT_TERMINATED)


def _overview() -> str:
    lines = ["usage: drive COMMAND [options]      (drive COMMAND --help for its options)", ""]
    lines += [f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join([*lines, "", "  --version  print the version"])


if __name__ == "__main__":
    sys.exit(main())
