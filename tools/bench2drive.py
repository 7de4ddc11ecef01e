"""Run Bench2Drive's own evaluator, unmodified, with one of our policies on the light simulator."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[1]
POLL_S = 0.1
EVALUATOR = "leaderboard/leaderboard/leaderboard_evaluator.py"
# Their route parser calls Element.getchildren, gone since Python 3.9. The element in C cannot be given it, a
# subclass can; with the element in Python, they read a large town's map for twice as long, for every route.
SHIM = """
import runpy, sys
import xml.etree.ElementTree as tree
class Element(tree.Element):
    def getchildren(self):
        return list(self)
def builder(element_factory=None, made=tree.TreeBuilder, **options):
    return made(element_factory=element_factory or Element, **options)
def parser(*, target=None, encoding=None, made=tree.XMLParser):
    return made(target=target or builder(), encoding=encoding)
tree.Element, tree.TreeBuilder, tree.XMLParser = Element, builder, parser
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SERVER = """#!/bin/sh
# Started by the evaluator in CARLA's place: the light simulator on the port it asks for.
for option in "$@"; do
  case "$option" in -carla-rpc-port=*) port="${{option#*=}}" ;; esac
done
cd {project} && exec {python} -m sim.server --town {town} --port "${{port:-2000}}" --parent-pid {parent}
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the evaluator; 2 if something it needs is missing."""
    args = _parser().parse_args(argv)
    missing = [
        str(path)
        for path in (args.evaluator / EVALUATOR, args.agents / "agents", args.routes)
        if not path.exists()
    ]
    if missing:
        print(f"not found: {', '.join(missing)}; see docs/bench2drive.md", file=sys.stderr)
        return 2
    if (wrong := _wrong(args)) is not None:
        print(f"error: {wrong}", file=sys.stderr)
        return 2
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out.resolve()
    carla_root = _server_folder(out, args.town)
    config = out / "agent.yaml"
    config.write_text(yaml.safe_dump({"policy": _policy(args.policy), "cameras": args.cameras}))
    # An evaluator that is left behind knocks at the port of the next one's server.
    ended: list[int] = []  # noted only: an exception while the process is made would leave it behind
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, _: ended.append(number))
    with subprocess.Popen(
        _command(args, out, config),
        cwd=args.evaluator,
        env=_environment(args, carla_root),
        start_new_session=True,
    ) as process:
        try:
            while process.poll() is None and not ended:
                time.sleep(POLL_S)
            return 128 + ended[0] if ended else process.returncode
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _wrong(args: argparse.Namespace) -> str | None:
    """What the evaluator would fail on after minutes, in one line; None if nothing is found."""
    from drive.cli.output import check_folder
    from drive.cli.policies import driver
    from drive.contracts import UserError
    from sim.route_files import read_routes
    from sim.server.opendrive import available_towns

    try:
        known = {route.route_id: route.town for route in read_routes(args.routes).routes}
        driver(args.policy)
        check_folder("--out", args.out)
    except UserError as error:
        return str(error)
    absent = [name for name in args.subset.split(",") if name and "-" not in name and name not in known]
    if absent:  # a-b is a range
        return f"--subset: {args.routes} has no route {', '.join(absent)}"
    chosen = (
        [known[name] for name in args.subset.split(",") if name in known] if args.subset else known.values()
    )
    if lost := sorted({town for town in chosen if town not in available_towns()}):
        return f"{args.routes}: unknown town {', '.join(lost)}; leave its routes out with --subset"
    if args.repetitions < 1:
        return f"--repetitions must be at least 1, got {args.repetitions}"
    for option, port in (("--port", args.port), ("--traffic-port", args.traffic_port)):
        if not 1024 <= port <= 65000:
            return f"{option} {port}: choose a port from 1024 to 65000"
    if args.town not in available_towns():
        return f"--town {args.town}: unknown town; choose one of {', '.join(available_towns())}"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluator", type=Path, required=True, help="checkout of Bench2Drive")
    parser.add_argument("--agents", type=Path, required=True, help="folder with CARLA's `agents` package")
    parser.add_argument("--routes", type=Path, required=True, help="route file")
    parser.add_argument("--subset", default="", help="route ids: 1711,1773 (default: all)")
    parser.add_argument("--policy", default="expert", help="as for `drive sim`")
    parser.add_argument(
        "--cameras", nargs="*", default=[], choices=("front", "bench2drive"), help="rigs to carry"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of results.json")
    parser.add_argument("--town", default="Town01", help="town that the server starts with")
    parser.add_argument("--port", type=int, default=2000, help="first port; the next free one is used")
    parser.add_argument("--traffic-port", type=int, default=8000, help="port of the TrafficManager")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="go on where results.json ends")
    return parser


def _policy(spec: str) -> str:
    """The policy as the evaluator, which runs in a folder of its own, finds it too."""
    from drive.cli.policies import driver

    folder: Path | None = getattr(driver(spec), "folder", None)
    return spec if folder is None else str(Path(folder).resolve())


def _server_folder(out: Path, town: str) -> Path:
    """A CARLA_ROOT whose CarlaUE4.sh starts the light simulator, which ends when this process does."""
    folder = out / "carla"
    folder.mkdir(exist_ok=True)
    script = folder / "CarlaUE4.sh"
    quoted = {"project": shlex.quote(str(PROJECT)), "python": shlex.quote(sys.executable)}
    script.write_text(SERVER.format(town=shlex.quote(town), parent=os.getpid(), **quoted))
    script.chmod(0o755)
    return folder


def _command(args: argparse.Namespace, out: Path, config: Path) -> list[str]:
    options = {
        "routes": args.routes.resolve(),
        "routes-subset": args.subset,
        "repetitions": args.repetitions,
        "agent": PROJECT / "sim" / "leaderboard_agent.py",
        "agent-config": config,
        "checkpoint": out / "results.json",
        "debug-checkpoint": out / "live_results.txt",
        "port": args.port,
        "traffic-manager-port": args.traffic_port,
        "track": "SENSORS",
        **({"resume": "True"} if args.resume else {}),  # any text counts as true there
    }
    script = str(args.evaluator.resolve() / EVALUATOR)
    return [sys.executable, "-c", SHIM, script, *(f"--{name}={value}" for name, value in options.items())]


def _environment(args: argparse.Namespace, carla_root: Path) -> dict[str, str]:
    """What the evaluator reads from the environment."""
    theirs = args.evaluator.resolve()
    paths = [PROJECT, theirs / "leaderboard", theirs / "scenario_runner", args.agents.resolve()]
    return {
        **os.environ,
        "CARLA_ROOT": str(carla_root),
        "LEADERBOARD_ROOT": str(theirs / "leaderboard"),
        "SCENARIO_RUNNER_ROOT": str(theirs / "scenario_runner"),
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


if __name__ == "__main__":
    sys.exit(main())
