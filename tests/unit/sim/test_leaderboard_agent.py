"""The agent file as an evaluator meets it: loaded by path, configured by YAML, asked for sensors."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import carla
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.leaderboard_agent as agent_file
from drive.contracts import UserError
from sim.leaderboard_agent import NightdriveAgent, config_path
from sim.rig import RIGS

FILE = Path(agent_file.__file__)


def agent_with(tmp_path: Path, text: str) -> NightdriveAgent:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    made = NightdriveAgent.__new__(NightdriveAgent)  # the evaluator's own constructor wants a world
    made.setup(f"{path}+RouteScenario_1_rep0_Town01")
    return made


def test_the_entry_point_names_a_class_of_the_file() -> None:
    made = getattr(agent_file, agent_file.get_entry_point())
    for name in ("setup", "sensors", "run_step", "destroy", "set_global_plan"):
        assert callable(getattr(made, name))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("policy: expert", ["IMU"]),
        ("policy: constant_velocity", ["IMU"]),
        ("policy: expert\ncameras: [front]", ["front"]),
        ("policy: expert\ncameras: [bench2drive]", [mount.name for mount in RIGS["bench2drive"]]),
        ("cameras: [front, bench2drive, front]", ["front", *(mount.name for mount in RIGS["bench2drive"])]),
    ],
)
def test_sensors_are_those_asked_for(tmp_path: Path, text: str, names: list[str]) -> None:
    sensors = agent_with(tmp_path, text).sensors()
    assert [sensor["id"] for sensor in sensors] == names
    for sensor in sensors:
        assert {"type", "id", "x", "y", "z", "roll", "pitch", "yaw"} <= set(sensor)


def test_a_policy_with_eyes_gets_our_camera(tmp_path: Path) -> None:
    assert [sensor["id"] for sensor in agent_with(tmp_path, "policy: base").sensors()] == ["front"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policy: nobody", "no such policy"),
        ("polici: expert", "polici"),
        ("cameras: [rear]", "cameras"),
        ("seed: -1", "seed"),
        ("track: RACE", "track"),
    ],
)
def test_bad_configuration_is_said_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        agent_with(tmp_path, text)


@settings(max_examples=40)
@given(st.lists(st.text("abc_ ", min_size=1, max_size=8), min_size=0, max_size=4), st.text("ab+", max_size=6))
def test_the_configuration_is_found_whatever_is_appended(
    tmp_path_factory: pytest.TempPathFactory, appended: list[str], stem: str
) -> None:
    path = tmp_path_factory.mktemp("agent") / f"x{stem}.yaml"
    path.write_text("policy: expert\n")
    assert config_path("+".join([str(path), *appended])) == path
    assert config_path("+".join([str(path), *appended, *["RouteScenario_1_rep0_Town01_A_1"] * 220])) == path


def test_a_missing_configuration_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.yaml': no such file; give a YAML file"):
        config_path(f"{tmp_path}/nothing.yaml+RouteScenario_1")


def test_the_plan_is_kept_dense(tmp_path: Path) -> None:
    made = agent_with(tmp_path, "policy: expert")
    if importlib.util.find_spec("leaderboard") is None:
        plan = [(carla.Transform(carla.Location(x=float(n))), None) for n in range(500)]
        made.set_global_plan([], plan)
        assert len(made._plan) == 500


def test_where_the_evaluator_is_installed_its_base_class_is_used(tmp_path: Path) -> None:
    """The evaluator loads the file by path, under its bare name."""
    package = tmp_path / "leaderboard" / "autoagents"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package / "autonomous_agent.py").write_text(
        "from enum import Enum\n"
        "class Track(Enum):\n    SENSORS = 'SENSORS'\n    MAP = 'MAP'\n"
        "class AutonomousAgent:\n    pass\n"
    )
    code = (
        f"import sys; sys.path[:0] = [{str(FILE.parent)!r}, {str(tmp_path)!r}, {str(FILE.parents[1])!r}]\n"
        "import leaderboard_agent as loaded\n"
        "from leaderboard.autoagents.autonomous_agent import AutonomousAgent, Track\n"
        "assert issubclass(loaded.NightdriveAgent, AutonomousAgent) and loaded.Track is Track\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
