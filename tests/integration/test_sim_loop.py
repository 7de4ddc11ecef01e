"""The closed loop on the real light server through the official client."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import carla
import numpy as np
import psutil
import pytest

from drive.bench.floors import ConstantVelocity, single_plan
from drive.cli.main import main
from drive.contracts import STEPS, Observation, Plan, UserError
from drive.logs import list_drives, read_drive
from sim.results import AGENT_CRASHED
from sim.route_files import FileRoute, Scenario
from sim.routes import RouteSpec, build_route, town_map
from sim.runner import run_suite
from sim.server.opendrive import read_town
from sim.server_process import ServerDied, own_server, reserve_ports
from sim.suites import Suite
from tests.route_xml import route_xml

BUSY = RouteSpec("busy", "Town01", 103, 60.0, vehicles=5, walkers=3, start_speed_mps=5.0)
QUIET = RouteSpec("quiet", "Town02", 110, 60.0)

pytestmark = pytest.mark.timeout(170)


class Crashing:
    """Raises at the third plan."""

    name, needs_images = "crashing", False

    def __init__(self) -> None:
        self.calls = 0

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        self.calls += 1
        if self.calls > 2:
            raise ValueError("boom")
        return ConstantVelocity().plan(observations, seed)


class NotFinite:
    """Returns NaN."""

    name, needs_images = "not_finite", False

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        return [single_plan(np.full((STEPS, 3), np.nan)) for _ in observations]


LONGEST_US = 350_000  # since the start: from then on there is an image of 0.4 s before


class Looking:
    """Checks what it is shown, and stands still."""

    name, needs_images = "looking", True

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        for o in observations:
            count = 2 if o.t_us >= LONGEST_US else 1
            assert o.images["front"].shape == (count, 144, 256, 3)
            assert o.before_ego.shape == (count - 1, 3)
            assert o.history_ego.shape == (5, 3)
            assert o.history_ego[-1] == pytest.approx([0, 0, 0], abs=1e-6)
            assert o.route.target_points_ego.shape == (2, 2)
        return ConstantVelocity().plan(observations, seed)


def suite_of(*routes: RouteSpec) -> Suite:
    return Suite("test", "", routes)


def arrays(out: Path, route: str) -> list[bytes]:
    """Everything that was recorded, as bytes."""
    log_id = next(m.log_id for m in list_drives(out / "logs") if m.route == route)
    log = read_drive(out / "logs", log_id)
    parts = [log.ego.t_us, log.ego.pose_world, log.ego.speed_mps, log.agents.pose_world, log.agents.speed_mps]
    parts += [
        log.plans.images["front"],
        log.plans.label_ego,
        log.plans.plan_ego,
        log.plans.aux,
        log.plans.turn,
    ]
    return [part.tobytes() for part in parts] + [repr(log.events).encode()]


@pytest.fixture(scope="module")
def expert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("expert")
    run_suite(suite_of(BUSY), "expert", out)
    return out


def test_expert_completes_a_route_and_leaves_results_and_a_log(expert: Path) -> None:
    data = json.loads((expert / "results.json").read_text())
    (record,) = data["_checkpoint"]["records"]
    assert record["status"] == "Perfect"
    assert data["nightdrive"]["run"]["simulator"] == "light simulator"
    (meta,) = list_drives(expert / "logs")
    assert (meta.simulator, meta.image_kind, meta.outcome) == ("light simulator", "rendered", "completed")
    log = read_drive(expert / "logs", meta.log_id)
    assert (np.diff(log.ego.t_us) == 100_000).all()
    assert (np.diff(log.plans.step) == 2).all()
    assert log.plans.images["front"].shape[1:] == (144, 256, 3)
    assert log.plans.images["front"].std() > 10  # a picture, not a grey card
    assert np.isfinite(log.plans.label_ego).all()
    assert log.road is not None
    assert len(log.agents.ids) >= 5


def test_labels_are_what_the_expert_then_drives(expert: Path) -> None:
    (meta,) = list_drives(expert / "logs")
    log = read_drive(expert / "logs", meta.log_id, images=False)
    from drive.geometry.se2 import to_local

    errors = []
    for k, step in enumerate(log.plans.step[:-6]):
        driven = to_local(log.ego.pose_world[step + 1 : step + 11], log.ego.pose_world[step])
        errors.append(np.abs(driven[:, :2] - log.plans.label_ego[k, :10, :2]).max())
    assert np.median(errors) < 0.35


def test_a_drive_does_not_depend_on_what_was_driven_before(expert: Path, tmp_path: Path) -> None:
    run_suite(suite_of(QUIET, BUSY), "expert", tmp_path)
    assert arrays(tmp_path, "busy") == arrays(expert, "busy")


def test_perturbed_drives_are_marked_and_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_suite(suite_of(QUIET), "expert", tmp_path / name, perturb=0.2)
    assert arrays(tmp_path / "a", "quiet") == arrays(tmp_path / "b", "quiet")
    (meta,) = list_drives(tmp_path / "a" / "logs")
    log = read_drive(tmp_path / "a" / "logs", meta.log_id, images=False)
    marks = [e for e in log.events if e.kind == "perturbation"]
    assert marks
    step = int(np.searchsorted(log.ego.t_us, marks[0].t_us))
    assert 0 < step < len(log.ego.t_us)


def test_finished_routes_are_not_driven_again(tmp_path: Path) -> None:
    first = run_suite(
        suite_of(QUIET, replace(QUIET, route_id="other", seed=111)), ConstantVelocity, tmp_path, record=False
    )
    before = (tmp_path / "results.json").stat().st_mtime_ns
    began = time.monotonic()
    again = run_suite(
        suite_of(QUIET, replace(QUIET, route_id="other", seed=111)), ConstantVelocity, tmp_path, record=False
    )
    assert time.monotonic() - began < 2.0
    assert again.cases == first.cases
    assert before <= (tmp_path / "results.json").stat().st_mtime_ns


def test_policies_that_fail_score_zero_and_the_run_goes_on(tmp_path: Path) -> None:
    result = run_suite(suite_of(QUIET), Crashing, tmp_path, record=False)
    assert [c.status for c in result.cases] == ["failed"]
    (record,) = json.loads((tmp_path / "results.json").read_text())["_checkpoint"]["records"]
    assert record["status"] == AGENT_CRASHED
    assert "boom" in record["meta"]["reason"]


def test_plans_that_are_not_finite_become_braking_and_are_counted(tmp_path: Path) -> None:
    run_suite(suite_of(replace(QUIET, start_speed_mps=5.0)), NotFinite, tmp_path, record=False)
    (record,) = json.loads((tmp_path / "results.json").read_text())["_checkpoint"]["records"]
    assert record["status"] == "Failed - Agent got blocked"
    assert record["meta"]["unusable_plans"] == record["meta"]["plans"] > 50
    assert record["scores"]["score_route"] < 40


def test_a_policy_sees_pictures_history_and_hints(tmp_path: Path) -> None:
    result = run_suite(suite_of(replace(QUIET, start_speed_mps=5.0)), Looking, tmp_path, record=False)
    assert [c.status for c in result.cases] == ["ok"]


def test_a_route_of_a_file_is_driven_and_labelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = build_route(town_map("Town02", read_town("Town02")), QUIET)
    rows = np.column_stack([path.pose_world[:, :2], path.z_m])[5:66:6].tolist()
    scenario = Scenario("ParkingCutIn_1", "ParkingCutIn", (*rows[3], 0.0))
    xml = tmp_path / "one.xml"
    xml.write_text(route_xml([FileRoute("4711", "Town02", tuple(map(tuple, rows)), scenarios=(scenario,))]))
    out, numbers = tmp_path / "out", tmp_path / "numbers.json"
    arguments = ["--routes", str(xml), "--policy", "expert", "--out", str(out), "--json", str(numbers)]
    assert main(["sim", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "background traffic left out; not comparable with published scores" in printed
    assert "scenarios left out" not in printed
    assert json.loads(numbers.read_text())["scenarios_left_out"] == {}
    data = json.loads((out / "results.json").read_text())
    (record,) = data["_checkpoint"]["records"]
    assert (record["status"], record["route_id"]) == ("Perfect", "RouteScenario_4711_rep0")
    (staged,) = record["scenarios"]
    assert (staged["name"], staged["type"], staged["state"]) == ("ParkingCutIn_1", "ParkingCutIn", "passed")
    assert data["nightdrive"]["scenarios"] == {"ParkingCutIn": {"passed": 1}}
    assert data["nightdrive"]["protocol"].endswith("route file: background traffic left out")
    assert record["meta"]["route_length"] == pytest.approx(60.0, abs=2.0)
    (meta,) = list_drives(out / "logs")
    assert (meta.route, meta.outcome) == ("RouteScenario_4711_rep0", "completed")
    assert main(["score", str(out / "results.json"), "--json", str(numbers)]) == 0
    scored = json.loads(numbers.read_text())
    assert scored["protocol"] == data["nightdrive"]["protocol"]
    assert scored["smoothness"]["drives"] == 1
    assert scored["scenarios"] == [{"type": "ParkingCutIn", "planned": None, "recorded": 1, "succeeded": 1}]


def test_a_missing_town_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"lacks Town99 \(1 of 1 routes\); it has: Town01"):
        run_suite(suite_of(replace(QUIET, town="Town99")), "expert", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unreachable_carla_is_refused_in_one_line(tmp_path: Path) -> None:
    with reserve_ports() as port, pytest.raises(UserError, match="--carla localhost"):
        run_suite(suite_of(QUIET), "expert", tmp_path / "out", carla=f"localhost:{port}")


def test_a_foreign_server_is_driven_on_and_left_running_as_it_was(tmp_path: Path) -> None:
    with reserve_ports() as port, own_server("Town01", port):
        address = f"127.0.0.1:{port}"
        routes = suite_of(QUIET, BUSY)
        result = run_suite(routes, "expert", tmp_path, carla=address, record=False, workers=2)
        assert [c.terms["success"] for c in result.cases] == [1.0, 1.0]
        client = carla.Client("127.0.0.1", port)
        client.set_timeout(10.0)
        world = client.get_world()
        assert not world.get_settings().synchronous_mode
        assert len(world.get_actors().filter("vehicle.*")) == 0


def test_a_server_that_dies_or_stays_silent_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text("raise SystemExit('no luck')")
    with pytest.raises(ServerDied, match="no luck"), own_server("Town01", 1, (sys.executable, str(script))):
        pass


def test_own_server_is_gone_afterwards_also_when_the_block_fails() -> None:
    def servers() -> list[int]:
        return [p.pid for p in psutil.Process().children() if "sim.server" in " ".join(p.cmdline())]

    def fail(port: int) -> None:
        with own_server("Town01", port):
            assert servers()
            raise RuntimeError("mine")

    with reserve_ports() as port:
        with pytest.raises(RuntimeError, match="mine"):
            fail(port)
        assert not servers()


def test_two_reservations_never_share_ports() -> None:
    with reserve_ports() as first, reserve_ports() as second:
        assert first != second


def test_command_refuses_bad_names_quickly_with_exit_code_2(tmp_path: Path) -> None:
    for arguments, message in (
        (["--suite", "quikstart"], "unknown suite"),
        (["--policy", "exprt"], "expert"),
    ):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "drive.cli.main", "sim", *arguments, "--out", str(tmp_path / "out")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert time.monotonic() - began < 10
        assert not (tmp_path / "out").exists()
