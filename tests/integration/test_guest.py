"""Our drivers in a world that somebody else set up and ticks, through the agent's own calls."""

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import carla
import numpy as np
import pytest

from sim.frames import transform
from sim.leaderboard_agent import NightdriveAgent
from sim.routes import Route, RouteSpec, build_route
from tests.light_server import TICK_S, connect, running_server, synchronous

PROVIDER = "srunner.scenariomanager.carla_data_provider"


class World:
    """A world as an evaluator leaves it to the agent: ego spawned, synchronous."""

    def __init__(self, port: int) -> None:
        self.client = connect(port)
        self.world = synchronous(self.client.get_world())
        self.map = self.world.get_map()
        self.route: Route = build_route(self.map, RouteSpec("r", "Town02", 3, 120.0))
        blueprint = self.world.get_blueprint_library().find("vehicle.lincoln.mkz_2020")
        blueprint.set_attribute("role_name", "hero")
        start = int(self.route.start_m)
        at = transform(self.route.pose_world[start], float(self.route.z_m[start]) + 0.5)
        self.ego = self.world.spawn_actor(blueprint, at)
        self.world.tick()

    @property
    def plan(self) -> list[tuple[carla.Transform, None]]:
        part = slice(int(self.route.start_m), int(self.route.goal_m))
        poses = zip(self.route.pose_world[part], self.route.z_m[part], strict=True)
        return [(transform(pose, z), None) for pose, z in poses]


@pytest.fixture
def evaluator(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with running_server("Town02") as (_, port, _):
        made = World(port)
        provider = types.ModuleType(PROVIDER)
        provider.CarlaDataProvider = types.SimpleNamespace(  # type: ignore[attr-defined]
            get_world=lambda: made.world, get_map=lambda: made.map, get_hero_actor=lambda: made.ego
        )
        for name in ("srunner", "srunner.scenariomanager"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, PROVIDER, provider)
        yield made


def drive(world: World, config: Path, seconds: float) -> tuple[NightdriveAgent, list[float]]:
    """Run an agent as an evaluator does; also the progress along the route."""
    agent = NightdriveAgent("127.0.0.1", 0)
    agent.set_global_plan([], world.plan)
    agent.setup(f"{config}+name")
    pictures: dict[str, SimpleQueue[carla.Image]] = {}
    sensors = []
    for spec in agent.sensors():
        blueprint = world.world.get_blueprint_library().find(spec["type"])
        if spec["type"] == "sensor.camera.rgb":
            for name, key in (("image_size_x", "width"), ("image_size_y", "height"), ("fov", "fov")):
                blueprint.set_attribute(name, str(spec[key]))
        place = carla.Transform(
            carla.Location(spec["x"], spec["y"], spec["z"]), carla.Rotation(spec["pitch"], spec["yaw"], 0.0)
        )
        sensor = world.world.spawn_actor(blueprint, place, world.ego)
        pictures[spec["id"]] = SimpleQueue()
        sensor.listen(pictures[spec["id"]].put)
        sensors.append(sensor)
    progress = []
    for n in range(round(seconds / TICK_S)):
        frame = world.world.tick()
        data = {}
        for name, waiting in pictures.items():
            while (image := waiting.get(timeout=10)).frame < frame:
                pass
            if isinstance(image, carla.Image):
                pixels = np.frombuffer(image.raw_data, np.uint8).reshape(image.height, image.width, 4)
                data[name] = (image.frame, pixels)
        world.ego.apply_control(agent.run_step(data, n * TICK_S))
        here = world.ego.get_transform().location
        progress.append(world.route.locate((here.x, -here.y, 0.0), progress[-1] if progress else 5.0)[0])
    agent.destroy()
    for sensor in sensors:
        sensor.stop()
    return agent, progress


@pytest.mark.parametrize("policy", ["expert", "base"])
def test_the_agent_drives_along_the_evaluators_plan(
    evaluator: World, tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(f"policy: {policy}\n")
    _, progress = drive(evaluator, config, 8.0)
    assert progress[-1] - progress[0] > 15.0
    here = evaluator.ego.get_transform().location
    gap = np.hypot(*(evaluator.route.pose_world[:, :2] - [here.x, -here.y]).T)
    assert gap.min() < 1.0
    assert "plans, p50" in capsys.readouterr().out


def test_no_ego_is_a_clear_reason(evaluator: World, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("policy: expert\n")
    evaluator.ego = None
    agent = NightdriveAgent("127.0.0.1", 0)
    agent.set_global_plan([], evaluator.plan)
    agent.setup(str(config))
    with pytest.raises(RuntimeError, match="role name 'hero'"):
        agent.run_step({}, 0.0)
