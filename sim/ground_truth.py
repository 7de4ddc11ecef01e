"""Ground truth of a world as numpy: the ego's motion and the road users around it."""

import math
from collections.abc import Iterable
from dataclasses import replace

import carla
import numpy as np

from drive.contracts import F64, AgentKind
from sim.control import VehicleGains
from sim.frames import axle_from_centre, pose_from_carla
from sim.predict import Ways
from sim.routes import Route
from sim.situation import Agents, EgoState
from sim.traffic import is_emergency, kind_of
from sim.vehicle_response import WHEEL_SHARE

SEE_AGENTS_M = 100.0
OTHER_LEVEL_M = 4.5
WALKER_SIZE_M = 0.5  # their boxes are thinner than a person in motion
PREDICT_AGENTS_M = 55.0
DRIVEN_OVER_M = 0.25  # scattered dirt and litter


def ego_state(snapshot: carla.WorldSnapshot, ego_id: int) -> EgoState:
    """Motion of the ego in a snapshot."""
    found = snapshot.find(ego_id)
    here, velocity = found.get_transform(), found.get_velocity()
    centre = pose_from_carla(here.location.x, here.location.y, here.rotation.yaw)
    speed = velocity.x * math.cos(centre[2]) - velocity.y * math.sin(centre[2])
    accel = found.get_acceleration()
    forward = accel.x * math.cos(centre[2]) - accel.y * math.sin(centre[2])
    turning = -math.radians(found.get_angular_velocity().z)
    return EgoState(axle_from_centre(np.array(centre)), speed, forward, turning)


def vehicle_gains(ego: carla.Vehicle) -> VehicleGains:
    """How a vehicle's wheel acts, as far as the server tells."""
    physics = ego.get_physics_control()
    curve = tuple((float(p.x), float(p.y)) for p in physics.steering_curve) or ((0.0, 1.0),)
    stated = math.radians(physics.wheels[0].max_steer_angle)
    return VehicleGains(max_wheel_rad=WHEEL_SHARE * stated, curve=curve)


class RoadUsers:
    """The other road users of a world; kind and size are read once each: `bounding_box` is a remote call.

    Args:
        town: Map on which their ways are predicted.
    """

    def __init__(self, town: carla.Map) -> None:
        self._ways = Ways(town)
        self.see_m = SEE_AGENTS_M
        self._known: dict[int, tuple[AgentKind, tuple[float, float]] | None] = {}
        self._ids: list[int] = []
        self._sirens: set[int] = set()

    @property
    def emergency(self) -> frozenset[int]:
        """Ids of emergency vehicles."""
        return frozenset(self._sirens)

    def describe(self, actors: Iterable[carla.Actor]) -> None:
        """Say who is there from now on; those met before are not asked again."""
        self._ids = []
        self.include(actors)

    def include(self, actors: Iterable[carla.Actor]) -> None:
        """Say who is there as well; what is low enough to drive over is nobody."""
        for actor in sorted(actors, key=lambda a: a.id):
            if actor.id not in self._known:
                self._known[actor.id] = self._asked(actor)
                if is_emergency(actor):
                    self._sirens.add(actor.id)
            if self._known[actor.id] is not None:
                self._ids.append(actor.id)

    @staticmethod
    def _asked(actor: carla.Actor) -> tuple[AgentKind, tuple[float, float]] | None:
        extent = actor.bounding_box.extent
        length, width = 2 * extent.x, 2 * extent.y
        kind = kind_of(actor.type_id, length)
        if kind == AgentKind.OBSTACLE and 2 * extent.z < DRIVEN_OVER_M:
            return None
        if kind == AgentKind.PEDESTRIAN:
            return kind, (max(length, WALKER_SIZE_M), max(width, WALKER_SIZE_M))
        return kind, (length, width)

    def around(
        self, snapshot: carla.WorldSnapshot, route: Route, s_m: float, ego_xy: F64, predict: bool
    ) -> Agents:
        """Road users within 100 m and on the ego's level: not those on a bridge above or a road below.

        Args:
            snapshot: Tick to read.
            route: The ego's route, which tells its level.
            s_m: Where on it the ego is.
            ego_xy: (2,) in the world.
            predict: Add the paths they may take (slow).
        """
        level_m = float(route.z_m[min(max(int(s_m), 0), len(route.z_m) - 1)])
        rows, what, poses, speeds, heights = [], [], [], [], []
        for actor in self._ids:
            found, known = snapshot.find(actor), self._known[actor]
            if found is None or known is None:
                continue
            here, v = found.get_transform(), found.get_velocity()
            x, y, yaw = pose_from_carla(here.location.x, here.location.y, here.rotation.yaw)
            if abs(x - ego_xy[0]) + abs(y - ego_xy[1]) > self.see_m:
                continue
            if abs(here.location.z - level_m) > OTHER_LEVEL_M:
                continue
            rows.append(actor)
            what.append(known)
            if known[0] == AgentKind.PEDESTRIAN:
                speed = math.hypot(v.x, v.y)
                yaw = math.atan2(-v.y, v.x) if speed > 0.1 else yaw
            else:
                speed = v.x * math.cos(yaw) - v.y * math.sin(yaw)
            poses.append((x, y, yaw))
            speeds.append(speed)
            heights.append(here.location.z)
        agents = Agents(
            np.array(rows, np.int32),
            np.array([int(kind) for kind, _ in what], np.int32),
            np.array([size for _, size in what], np.float32).reshape(-1, 2),
            np.array(poses, np.float64).reshape(-1, 3),
            np.array(speeds, np.float64),
        )
        return replace(agents, paths=self._paths(agents, heights, ego_xy)) if predict else agents

    def _paths(self, agents: Agents, heights: list[float], ego_xy: F64) -> tuple[tuple[F64, ...], ...]:
        paths: list[tuple[F64, ...]] = []
        for i, pose in enumerate(agents.pose_world):
            speed = float(agents.speed_mps[i])
            near = math.hypot(pose[0] - ego_xy[0], pose[1] - ego_xy[1]) < PREDICT_AGENTS_M
            if agents.kind[i] == AgentKind.PEDESTRIAN or speed < 0.3 or not near:
                paths.append(())
            else:
                reach = 10.0 + 4.0 * max(speed, 5.0)
                paths.append(self._ways.of(int(agents.ids[i]), pose, heights[i], reach))
        return tuple(paths)
