"""`drive doctor`: is this machine ready? One line per check, exit code 1 if one of them fails."""

import argparse
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

from drive.contracts import UserError

GIB = 2**30
CARLA_TIMEOUT_S = 2.0
Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One finding: what was looked at, how it is, a readable detail, and the same as numbers."""

    name: str
    level: Level
    detail: str
    values: Mapping[str, Any] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `drive doctor`."""
    parser.add_argument("--carla", metavar="HOST:PORT", help="also check this CARLA server")
    parser.add_argument(
        "--workspace", default="runs", metavar="DIR", help="folder of the nights; default: runs"
    )


def run(args: argparse.Namespace) -> int:
    """Print all checks; 1 if one fails."""
    from drive.cli import output

    found = [check(args) for check in CHECKS]
    width = max(len(c.name) for c in found)
    for check in found:
        print(f"{check.level:<4}  {check.name:<{width}}  {check.detail}")
    rows = [{"name": c.name, "level": c.level, "detail": c.detail, "values": dict(c.values)} for c in found]
    failed = sum(c.level == "fail" for c in found)
    output.finish(args, {"checks": rows, "failed": failed})
    return 1 if failed else 0


def _python(_args: argparse.Namespace) -> Check:
    ok = (3, 11) <= sys.version_info[:2] <= (3, 12)
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok" if ok else "fail", text if ok else f"{text}; 3.11 or 3.12 is needed")


def _packages(_args: argparse.Namespace) -> Check:
    """Installed versions against the ranges nightdrive declares."""
    from packaging.requirements import Requirement

    shown, wrong, found = [f"nightdrive {version('nightdrive')}"], [], {"nightdrive": version("nightdrive")}
    for requirement in map(Requirement, requires("nightdrive") or []):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            have = found[requirement.name] = version(requirement.name)
        except PackageNotFoundError:
            wrong.append(f"{requirement.name} is not installed")
            continue
        if not requirement.specifier.contains(have, prereleases=True):
            wrong.append(f"{requirement.name} {have} (needs {requirement.specifier})")
        if requirement.name in ("torch", "carla", "numpy", "py123d", "mlflow"):
            shown.append(f"{requirement.name} {have}")
    if wrong:
        return Check("packages", "fail", f"{'; '.join(wrong)}; run `make venv`", found)
    return Check("packages", "ok", ", ".join(shown), found)


def _opencv(_args: argparse.Namespace) -> Check:
    try:
        cv2 = import_module("cv2")
    except ImportError as error:
        return Check("opencv", "fail", f"{error}; run `make venv`")
    flavour = "headless" if cv2.version.headless else "with windows (needs libGL)"
    return Check("opencv", "ok", f"{cv2.__version__} {flavour}")


def _cores(_args: argparse.Namespace) -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0]
    level: Level = "ok" if cores >= 2 else "warn"
    return Check("cores", level, f"{cores} usable, load {load:.1f}", {"cores": cores, "load_1min": load})


def _memory(_args: argparse.Namespace) -> Check:
    import psutil

    memory = psutil.virtual_memory()
    total, free = memory.total / GIB, memory.available / GIB
    level: Level = "ok" if free >= 8 else "warn" if free >= 4 else "fail"
    hint = "" if level == "ok" else "; a night needs up to 8 GiB"
    return Check(
        "memory", level, f"{free:.1f} of {total:.1f} GiB free{hint}", {"free_gib": free, "total_gib": total}
    )


def _disk(args: argparse.Namespace) -> Check:
    folder = Path(args.workspace).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / GIB
    level: Level = "ok" if free >= 10 else "warn" if free >= 2 else "fail"
    hint = "" if level == "ok" else "; a night writes about 1 GiB"
    return Check("disk", level, f"{free:.1f} GiB free for {args.workspace}{hint}", {"free_gib": free})


def _shm(_args: argparse.Namespace) -> Check:
    if not Path("/dev/shm").is_dir():
        return Check("shm", "warn", "no /dev/shm: training workers may fail; set workers to 0")
    free = shutil.disk_usage("/dev/shm").free / GIB
    level: Level = "ok" if free >= 0.25 else "warn"
    hint = "" if level == "ok" else "; start the container with --shm-size=1g"
    return Check("shm", level, f"{free:.2f} GiB free in /dev/shm{hint}", {"free_gib": free})


def _gpu(_args: argparse.Namespace) -> Check:
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=3, check=False)
    except (FileNotFoundError, PermissionError):
        return Check("gpu", "ok", "none; everything runs on the CPU", {"gpus": []})
    except subprocess.TimeoutExpired:
        return Check("gpu", "warn", "nvidia-smi does not answer", {"gpus": []})
    gpus = [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
    if not gpus:
        return Check("gpu", "warn", "nvidia-smi is installed but reports no GPU", {"gpus": []})
    cpu_only = version("torch").endswith("+cpu")
    detail = ", ".join(gpus) + ("; torch is the CPU build and cannot use it" if cpu_only else "")
    return Check("gpu", "warn" if cpu_only else "ok", detail, {"gpus": gpus})


def _towns(_args: argparse.Namespace) -> Check:
    from sim.server.opendrive import available_towns

    try:
        towns = available_towns()
    except UserError as error:
        return Check("towns", "fail", str(error), {"towns": []})
    short = f"{len(towns)} CARLA towns: {', '.join(t.removeprefix('Town') for t in towns)}"
    return Check(
        "towns", "ok" if towns else "fail", short if towns else "none found in py123d", {"towns": towns}
    )


def _carla(args: argparse.Namespace) -> Check:
    """Reachability and version match; without --carla only the client's presence."""
    from sim.handshake import check_protocol

    try:
        carla = import_module("carla")
    except ImportError as error:
        return Check("carla", "fail", f"client cannot be imported ({error}); its wheels are for x86-64")
    client_version = version("carla")
    if args.carla is None:
        text = f"client {client_version}; no server asked for, the light simulator is used"
        return Check("carla", "ok", text, {"client": client_version, "server": None})
    host, _, port = args.carla.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"--carla {args.carla}: write it as host:port, e.g. localhost:2000")
    try:
        check_protocol(host, int(port), CARLA_TIMEOUT_S)
        client = carla.Client(host, int(port))
        client.set_timeout(CARLA_TIMEOUT_S)
        server = str(client.get_server_version())
    except UserError as error:
        return Check("carla", "fail", str(error), {"client": client_version, "server": None})
    except RuntimeError:
        text = f"no answer from {args.carla} within {CARLA_TIMEOUT_S:.0f} s; is the server running there?"
        return Check("carla", "fail", text, {"client": client_version, "server": None})
    values = {"client": client_version, "server": server}
    if server != client_version:
        return Check(
            "carla", "fail", f"{args.carla} is version {server}, the client is {client_version}", values
        )
    return Check("carla", "ok", f"{args.carla} answers, version {server} as the client", values)


def _registry(args: argparse.Namespace) -> Check:
    """Read the registry's database directly: importing mlflow takes seconds."""
    from data_engine.registry import ARTIFACTS, DATABASE
    from data_engine.tracking import check_sqlite

    path = Path(args.workspace) / DATABASE
    if not path.exists():
        return Check("registry", "ok", f"none yet; the first night makes {path}", {"champion": None})
    query = "SELECT version FROM registered_model_aliases WHERE name = 'nightdrive' AND alias = 'champion'"
    try:
        check_sqlite(path, path.parent / ARTIFACTS)
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            row = database.execute(query).fetchone()
    except UserError as error:
        return Check("registry", "fail", str(error), {"champion": None})
    except sqlite3.Error as error:
        return Check("registry", "fail", f"{path}: {error}; the first night mends it", {"champion": None})
    champion = str(row[0]) if row else None
    text = f"nightdrive@champion is version {champion}" if champion else "no champion registered yet"
    return Check("registry", "ok", f"{path}: {text}", {"champion": champion})


def _base_model(_args: argparse.Namespace) -> Check:
    """The shipped model is there and its weights have the checksum noted in meta.json."""
    from drive.files import read_json, sha256_file

    folder = Path(__file__).parents[1] / "model" / "base"
    weights = folder / "model.safetensors"
    if not weights.exists():
        return Check("base model", "fail", f"missing: {weights}; restore it from the repository")
    try:
        noted = read_json(folder / "meta.json").get("sha256")
    except UserError as error:
        return Check("base model", "fail", str(error))
    actual, size = sha256_file(weights), weights.stat().st_size / 1e6
    if noted != actual:
        return Check(
            "base model",
            "fail",
            f"{weights} is damaged: its checksum is not that of meta.json",
            {"sha256": actual},
        )
    return Check(
        "base model", "ok", f"{size:.1f} MB, sha256 {actual[:12]} as noted", {"sha256": actual, "mb": size}
    )


CHECKS: tuple[Callable[[argparse.Namespace], Check], ...] = (
    _python,
    _packages,
    _opencv,
    _cores,
    _memory,
    _disk,
    _shm,
    _gpu,
    _towns,
    _carla,
    _registry,
    _base_model,
)
