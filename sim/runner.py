"""Run a suite: workers with their own servers, bounded retries, resume, one results file."""

import hashlib
import json
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from drive.contracts import EvalResult, Policy, UserError
from drive.files import alone_in
from drive.progress import Progress
from sim.episode import DriveOptions
from sim.file_suites import prepare_pictures
from sim.fleet import Fleet, Launch
from sim.results import ResultsFile
from sim.suites import Suite
from sim.worker import LocalWorkers, PolicyFactory, Task, parse_address, parse_addresses

LOCK = ".lock"
SLOWEST_MPS = 1.0  # of wall time; only routes of more than 900 m get more than the usual limit by it


def run_suite(
    suite: Suite,
    policy: PolicyFactory | Literal["expert"],
    out_dir: Path,
    *,
    carla: str | None = None,
    workers: int = 1,
    cluster: str | None = None,
    record: bool = True,
    perturb: float = 0.0,
    dagger: bool = False,
    policy_name: str | None = None,
) -> EvalResult:
    """Drive every route of a suite that out_dir/results.json does not hold yet.

    Args:
        suite: Routes.
        policy: Picklable factory of the driver, built once per worker, or "expert".
        out_dir: Gets results.json, workers.log and, if `record`, logs/ (a log store).
        carla: host:port of a running CARLA server, or several with commas between them; None starts an own
            light server per route.
        workers: Parallel drives; with `carla` one per server.
        cluster: Ray cluster whose machines drive (`sim.cluster`); None: this one.
        record: Keep drive logs with camera images.
        perturb: Share of planning steps after which the ego is displaced (training data only).
        dagger: Let the expert take over when the policy is far off or stuck (training data only).
        policy_name: Name in the results; the driver of a resumed run has to have the same one.

    Returns:
        Scores over all planned routes; routes on which the simulator failed three times are "infrastructure".

    Raises:
        UserError: Missing town, other version, foreign results in out_dir or another run that writes there, a
            policy that cannot be built, no cluster, or three identical crashes.
    """
    simulator = preflight(suite, carla, cluster)
    name = policy_name or ("expert" if policy == "expert" else _factory_name(policy))
    options = DriveOptions(record, perturb, dagger, _wall_limit_s(suite))
    run = {
        "policy": name,
        "simulator": simulator,
        "suite": suite.name,
        "routes": _routes_sha(suite),
        "record": record,
        "perturb": perturb,
        "dagger": dagger,
    }
    with _alone_in(out_dir):
        results = ResultsFile(out_dir / "results.json", suite, run)
        todo = [(n, r) for n, r in enumerate(suite.routes) if r.route_id not in results.finished]
        tasks = deque(
            Task(n, route, options, str(out_dir / "logs"), simulator, None, name) for n, route in todo
        )
        servers = parse_addresses(carla) if carla is not None else (None,) * max(1, workers)
        if tasks:
            _drive_all(tasks, results, suite, policy, servers, cluster, name)
        results.write()
    return results.result(versions())


def _drive_all(
    tasks: deque[Task],
    results: ResultsFile,
    suite: Suite,
    policy: PolicyFactory | Literal["expert"],
    servers: Sequence[str | None],
    cluster: str | None,
    name: str,
) -> None:
    """Drive the tasks here, or on the machines of a cluster."""
    log_file = results.path.with_name("workers.log")
    pictures = servers[0] is None and bool(suite.note) and (tasks[0].options.record or _looks(policy))
    already = len(suite.routes) - len(tasks)

    def drive(launch: Launch, places: int) -> None:
        with Progress(f"{name[:24]} on {suite.name}", len(suite.routes), "routes", already) as bar:
            Fleet(launch, servers[:places], tasks, results, bar, log_file).run()

    if cluster is None:
        if pictures:
            prepare_pictures(suite)
        drive(LocalWorkers(policy if policy == "expert" else _Built(policy), log_file), len(servers))
        return
    from sim import cluster as machines

    driver = policy if policy == "expert" else _Built(machines.carried(policy))
    wanted = min(len(servers), len(tasks))
    with machines.cluster(cluster, wanted, driver, suite, pictures) as workers:
        drive(workers, workers.places)


@contextmanager
def _alone_in(out_dir: Path) -> Iterator[None]:
    """Let no second run write into the folder; the kernel lets go of it when this process ends."""
    refusal = f"{out_dir}: another run writes there; wait for it or choose another --out"
    with alone_in(out_dir, LOCK, refusal):
        try:
            yield
        finally:
            if not (out_dir / "results.json").exists():  # refused: leave no empty folder behind
                with suppress(OSError):
                    (out_dir / LOCK).unlink()
                    out_dir.rmdir()


def _looks(policy: PolicyFactory | Literal["expert"]) -> bool:
    return policy != "expert" and bool(getattr(policy, "needs_images", True))


def _wall_limit_s(suite: Suite) -> float:
    """Wall time that a drive may take [s]; long routes get more."""
    longest_m = max((route.length_m for route in suite.routes), default=0.0)
    return max(DriveOptions.wall_limit_s, longest_m / SLOWEST_MPS)


def preflight(
    suite: Suite, carla: str | None, cluster: str | None = None
) -> Literal["light simulator", "CARLA"]:
    """Check towns (and the servers' version) before anything starts.

    Returns:
        What drives: `carla` may be the address of a light server too.

    Raises:
        UserError: A town is missing, a server does not answer, or the servers are of both kinds.
    """
    if cluster is not None:
        from sim.cluster import check_address

        check_address(cluster)
    if carla is None:
        from sim.server.opendrive import available_towns

        _check_towns(suite, available_towns(), "the light simulator")
        return "light simulator"
    from sim.session import connect, simulator_of, towns_on

    at: dict[Literal["light simulator", "CARLA"], str] = {}
    for address in parse_addresses(carla):
        try:
            client = connect(*parse_address(address))
            kind, towns = simulator_of(client), towns_on(client)
        except RuntimeError as error:
            raise UserError(
                f"--carla {address}: no answer ({error}); start CARLA 0.9.16 or leave --carla out"
            ) from None
        at.setdefault(kind, address)
        _check_towns(suite, towns, f"the {kind} at {address}")
    if len(at) > 1:
        where = ", ".join(f"{kind} at {address}" for kind, address in at.items())
        raise UserError(f"--carla: {where}; scores of the two do not mix, give servers of one kind")
    return next(iter(at))


def _check_towns(suite: Suite, towns: Sequence[str], where: str) -> None:
    missing = [town for town in suite.towns if town not in towns]
    if missing:
        lost = sum(route.town in missing for route in suite.routes)
        raise UserError(
            f"suite {suite.name}: {where} lacks {', '.join(missing)} ({lost} of {len(suite.routes)} routes); "
            f"it has: {', '.join(towns)}"
        )


@dataclass(frozen=True)
class _Built:
    """A policy factory whose failure ends the run with its reason: another try would fail as well."""

    factory: PolicyFactory

    def __call__(self) -> Policy:
        try:
            policy = self.factory()
        except UserError:
            raise
        except Exception as error:
            traceback.print_exc()  # goes to workers.log
            raise UserError(f"the policy cannot be built ({type(error).__name__}: {error})") from error
        absent = [name for name in ("name", "needs_images", "plan") if not hasattr(policy, name)]
        if absent:
            raise UserError(f"{type(policy).__name__} is no policy: it has no {', '.join(absent)}")
        return policy


def versions() -> dict[str, Any]:
    """Versions that scores depend on."""
    return {name: version(name) for name in ("nightdrive", "carla", "numpy")}


def _factory_name(factory: PolicyFactory) -> str:
    return str(getattr(factory, "name", None) or getattr(factory, "__name__", type(factory).__name__))


def _routes_sha(suite: Suite) -> str:
    return hashlib.sha256(json.dumps([asdict(r) for r in suite.routes]).encode()).hexdigest()[:16]
