"""Our policies as an agent of the official evaluators: CARLA leaderboard 1 and 2, Bench2Drive.

Give this file as the evaluator's agent and a YAML file as its configuration (docs/bench2drive.md). Position,
speed and the map come from the simulator, not from GNSS and IMU, and the route is the evaluator's dense one.
"""

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

import carla
import numpy as np

from drive.config import Count, load_config
from drive.contracts import U8, Policy, UserError
from sim.guest import Guest
from sim.plan_route import plan_route
from sim.rig import RIGS, leaderboard_sensor
from sim.routes import road_speeds_mps

POLICIES = "drive.cli.policies:driver"  # by name: sim meets a planner only as a Policy
# Bench2Drive calls results of an agent without any sensor invalid
IMU = {"type": "sensor.other.imu", "id": "IMU", **dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), 0.0)}


@dataclass(frozen=True)
class AgentConfig:
    """What the agent's configuration file says.

    Attributes:
        policy: "expert", "base", a model folder, a registered model, or a floor such as "constant_velocity".
        cameras: Rigs to carry; empty carries our front camera if the policy looks at pictures.
        seed: Seed of the plans.
        track: The evaluator's track.
    """

    policy: str = "expert"
    cameras: tuple[Literal["front", "bench2drive"], ...] = ()
    seed: Count = 0
    track: Literal["SENSORS", "MAP"] = "SENSORS"


class _Track(Enum):
    """Stands in for the evaluator's enumeration where it is not installed."""

    SENSORS = "SENSORS"
    MAP = "MAP"


class _Agent:
    """Stands in for the evaluator's base class where it is not installed."""

    def __init__(self, carla_host: str, carla_port: int, debug: bool = False) -> None:
        self.hero_actor = None

    def set_global_plan(self, gps: Any, world: Any) -> None:
        """Nothing to keep."""


def _official(name: str, otherwise: Any) -> Any:
    module = name.partition(":")[0]
    return resolve_name(name) if importlib.util.find_spec(module.partition(".")[0]) else otherwise


Base: Any = _official("leaderboard.autoagents.autonomous_agent:AutonomousAgent", _Agent)
Track: Any = _official("leaderboard.autoagents.autonomous_agent:Track", _Track)


def get_entry_point() -> str:
    """Name of the agent's class, for the evaluator."""
    return "NightdriveAgent"


class NightdriveAgent(Base):
    """One agent per route; the evaluator calls set_global_plan, setup, sensors, then run_step per tick."""

    _plan: tuple[carla.Transform, ...] = ()
    _guest: Guest | None = None

    def set_global_plan(self, global_plan_gps: Any, global_plan_world_coord: Any) -> None:
        """Keep the dense plan: a list of (carla.Transform, RoadOption)."""
        super().set_global_plan(global_plan_gps, global_plan_world_coord)
        self._plan = tuple(transform for transform, _ in global_plan_world_coord)

    def setup(self, path_to_conf_file: str, *_: Any) -> None:
        """Read the configuration and build the policy.

        Args:
            path_to_conf_file: YAML file of an AgentConfig; Bench2Drive appends "+" and the route's name.

        Raises:
            UserError: No such file, an unknown key, or a policy that cannot be built.
        """
        self._config = load_config(AgentConfig, config_path(path_to_conf_file))
        self.track = Track(self._config.track)
        made: Callable[[], Policy] | str = resolve_name(POLICIES)(self._config.policy)
        self._policy = None if isinstance(made, str) else made()
        looks = self._policy is not None and self._policy.needs_images
        rigs = self._config.cameras or (("front",) if looks else ())
        self._mounts = tuple(mount for rig in dict.fromkeys(rigs) for mount in RIGS[rig])
        self._guest = None

    def sensors(self) -> list[dict[str, Any]]:
        """The cameras, as the evaluator wants them described; the IMU alone for a driver without eyes."""
        return [leaderboard_sensor(mount) for mount in self._mounts] or [dict(IMU)]

    def run_step(self, input_data: Mapping[str, tuple[int, Any]], timestamp: float) -> carla.VehicleControl:
        """Control for the next tick.

        Args:
            input_data: Camera name -> (frame, uint8 (H, W, 4) BGRA).
            timestamp: Time since the route began [s].
        """
        if self._guest is None:
            self._guest = self._board()
        images = {mount.name: _rgb(input_data[mount.name][1]) for mount in self._mounts}
        return self._guest.step(timestamp, images)

    def destroy(self) -> None:
        """Say how long planning took; the evaluator removes the sensors."""
        if self._guest is not None and self._guest.plan_ms:
            middle, late = np.percentile(self._guest.plan_ms, (50, 95))
            print(
                f"nightdrive: {len(self._guest.plan_ms)} plans, p50 {middle:.1f} ms, p95 {late:.1f} ms",
                flush=True,
            )
        self._guest = None

    def _board(self) -> Guest:
        """Find the ego and the route; at the first step, when the evaluator has spawned everything."""
        provider: Any = resolve_name("srunner.scenariomanager.carla_data_provider:CarlaDataProvider")
        world, town = provider.get_world(), provider.get_map()
        ego = provider.get_hero_actor()
        if ego is None:
            raise RuntimeError("the evaluator's world has no vehicle with the role name 'hero'")
        route = plan_route(town, self._plan, road_speeds_mps(town.to_opendrive()))
        return Guest(world, ego, route, self._policy, self._mounts, self._config.seed)


def config_path(text: str) -> Path:
    """The configuration file in what an evaluator passes on: "FILE" or "FILE+NAME+NAME..."."""
    parts = text.split("+")
    for count in range(len(parts), 0, -1):
        path = Path("+".join(parts[:count]))
        with suppress(OSError):  # with every route it grows, until it is too long for a path
            if path.is_file():
                return path
    raise UserError(
        f"agent configuration {parts[0] or text!r}: no such file; give a YAML file, e.g. with policy: expert"
    )


def _rgb(bgra: Any) -> U8:
    return np.ascontiguousarray(bgra[..., 2::-1])
