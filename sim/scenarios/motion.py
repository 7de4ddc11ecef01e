"""Scripted road users: cars and cyclists on a path, and people on foot."""

import math
from dataclasses import dataclass, field

import carla
import numpy as np

from drive.contracts import EGO_MKZ, F64
from drive.geometry.se2 import wrap
from sim.frames import centre_from_axle, vector
from sim.scenarios.stage import Now, Stage, beside

LOOK_M = (3.0, 0.5)  # pure pursuit: metres, plus seconds
SEE_AHEAD_M = 35
SIDE_M = 1.9  # centres nearer to the path than this are in the way
STAND_GAP_M = 2.5
BRAKE_MPS2 = 3.0
EGO_SOON_S = (0.8, 1.6)
ASIDE_M = 6.0
MAX_WHEEL_RAD = 0.7
HELD = carla.VehicleControl(throttle=0.0, brake=1.0, hand_brake=True)


@dataclass
class Car:
    """A vehicle (or bicycle) that follows a path and keeps its distance to what is before it.

    Attributes:
        stage: Where it lives.
        actor: The actor.
        path_world: float64 (P, 3), poses; resampled to one per metre.
        speed_mps: Wanted speed.
        careful: Brakes for others on its path.
        at_m: Arc length on its path.
        done: Its path is over.
    """

    stage: Stage
    actor: carla.Actor
    path_world: F64
    speed_mps: float
    careful: bool = True
    at_m: float = 0.0
    done: bool = False
    speed_now_mps: float = 0.0
    _size: tuple[float, float] = field(default=(4.5, 2.0))

    def __post_init__(self) -> None:
        self.path_world = evenly(self.path_world)
        extent = self.actor.bounding_box.extent
        self._size = (2 * extent.x, 2 * extent.y)

    @property
    def length_m(self) -> float:
        """Length of its path."""
        return float(len(self.path_world) - 1)

    def tick(self, now: Now, speed_mps: float | None = None) -> None:
        """Steer and set the speed for the next tick."""
        body = now.body(self.actor)
        if body is None or self.done:
            return
        self.speed_now_mps = body.speed_mps
        self._locate(body.pose_world)
        if self.at_m > self.length_m - 1.5:
            self.done = True
        wanted = self.speed_mps if speed_mps is None else speed_mps
        if self.careful and wanted > 0:
            wanted = min(wanted, self._free_speed(now))
        if wanted < 0.05 and body.speed_mps < 0.6:
            self.actor.apply_control(HELD)
            return
        self._drive(body.pose_world, body.speed_mps, max(0.0, wanted))

    def _locate(self, pose: F64) -> None:
        first = max(0, int(self.at_m) - 3)
        part = self.path_world[first : first + 25]
        k = int(np.argmin(np.hypot(part[:, 0] - pose[0], part[:, 1] - pose[1])))
        here = part[k]
        along = (pose[0] - here[0]) * math.cos(here[2]) + (pose[1] - here[1]) * math.sin(here[2])
        self.at_m = first + k + min(max(along, -0.5), 0.5)

    def _drive(self, pose: F64, speed: float, wanted: float) -> None:
        wheelbase = max(0.9, 0.585 * self._size[0])
        rear_x = pose[0] - 0.49 * wheelbase * math.cos(pose[2])
        rear_y = pose[1] - 0.49 * wheelbase * math.sin(pose[2])
        look = LOOK_M[0] + LOOK_M[1] * speed
        target = point_at(self.path_world, self.at_m - 0.49 * wheelbase + look)
        dx, dy = target[0] - rear_x, target[1] - rear_y
        ahead = dx * math.cos(pose[2]) + dy * math.sin(pose[2])
        left = -dx * math.sin(pose[2]) + dy * math.cos(pose[2])
        wheel = math.atan(2 * wheelbase * left / max(ahead * ahead + left * left, 1.0))
        wheel = max(-MAX_WHEEL_RAD, min(MAX_WHEEL_RAD, wheel))
        control = carla.VehicleAckermannControl(-wheel, 0.0, wanted, 3.0, 0.0)
        self.actor.apply_ackermann_control(control)

    def _free_speed(self, now: Now) -> float:
        """Speed at which it can still stop behind whatever stands or drives on its path."""
        first = int(self.at_m)
        path = self.path_world[first : first + SEE_AHEAD_M]
        if len(path) < 2:
            return math.inf
        poses, lengths, widths, speeds = road_users(now, self.actor.id)
        dx, dy = poses[:, 0, None] - path[:, 0], poses[:, 1, None] - path[:, 1]
        gap = np.hypot(dx, dy)
        near = gap.argmin(1)
        turned = wrap(poses[:, 2] - path[near, 2])
        half_side = np.abs(np.sin(turned)) * lengths / 2 + np.abs(np.cos(turned)) * widths / 2
        half_along = np.abs(np.cos(turned)) * lengths / 2 + np.abs(np.sin(turned)) * widths / 2
        in_way = gap.min(1) < half_side + self._size[1] / 2 + 0.2
        free = near + first - self.at_m - half_along - self._size[0] / 2
        in_way &= near + first - self.at_m > 0.5
        if not in_way.any():
            return math.inf
        moving = np.maximum(0.0, speeds * np.cos(turned))
        room = np.maximum(0.0, free - STAND_GAP_M)
        return float(np.sqrt(2 * BRAKE_MPS2 * room + moving**2)[in_way].min())

    def hold(self) -> None:
        """Stand still."""
        self.actor.apply_control(HELD)

    def close(self) -> None:
        """Take it away."""
        self.stage.remove(self.actor)


def road_users(now: Now, without: int) -> tuple[F64, F64, F64, F64]:
    """Poses (N, 3), lengths, widths and speeds (N,) of everybody, the ego first, except one actor.

    A moving ego is also where it will be soon, beside its route as far as it is: nobody stops in the middle
    of its way.
    """
    scene, agents = now.scene, now.scene.agents
    others = agents.ids != without
    speed = max(0.0, scene.ego.speed_mps)
    drift = speed * math.sin(float(scene.ego.pose_world[2] - scene.route.at(scene.s_m)[2]))
    soon = [
        beside(scene.route, scene.s_m + speed * t, max(-ASIDE_M, min(ASIDE_M, scene.lateral_m + drift * t)))
        for t in (EGO_SOON_S if speed > 0.5 else ())
    ]
    ego = centre_from_axle(np.array([scene.ego.pose_world, *soon]))
    many = len(ego)
    return (
        np.concatenate([ego, agents.pose_world[others]]),
        np.concatenate([np.full(many, EGO_MKZ.length_m), agents.size_m[others, 0]]),
        np.concatenate([np.full(many, EGO_MKZ.width_m), agents.size_m[others, 1]]),
        np.concatenate([np.full(many, speed), agents.speed_mps[others]]),
    )


@dataclass
class Pedestrian:
    """Somebody who walks a straight line when told to.

    Attributes:
        stage: Where they live.
        actor: The actor.
        way: Unit vector.
        leg_m: How far.
        speed_mps: Walking speed.
        walking: They have been told to.
    """

    stage: Stage
    actor: carla.Actor
    way: tuple[float, float]
    leg_m: float
    speed_mps: float
    walking: bool = False
    origin: F64 | None = None
    done: bool = False

    def tick(self, now: Now) -> None:
        """Walk on, or stand."""
        body = now.body(self.actor)
        if body is None:
            return
        if self.origin is None:
            self.origin = body.pose_world[:2]
        gone = float((body.pose_world[:2] - self.origin) @ np.array(self.way))
        self.done = self.done or gone >= self.leg_m
        speed = self.speed_mps if self.walking and not self.done else 0.0
        self.actor.apply_control(carla.WalkerControl(vector(*self.way), speed, False))

    def close(self) -> None:
        """Take them away."""
        self.stage.remove(self.actor)


def evenly(path: F64) -> F64:
    """Path (P, 3) with one pose per metre."""
    keep = np.concatenate([[True], np.hypot(*np.diff(path[:, :2], axis=0).T) > 1e-3])
    path = path[keep]
    if len(path) < 2:
        ahead = path[0] + np.array([math.cos(path[0, 2]), math.sin(path[0, 2]), 0.0])
        return np.stack([path[0], ahead])
    arc = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path[:, :2], axis=0).T))])
    at = np.arange(0.0, max(1.0, arc[-1]) + 1e-6, 1.0)
    yaw = np.unwrap(path[:, 2])
    columns = [np.interp(at, arc, column) for column in (path[:, 0], path[:, 1], yaw)]
    return np.stack([*columns[:2], wrap(columns[2])], -1)


def point_at(path: F64, at_m: float) -> F64:
    """Point (2,) of a path with one pose per metre; beyond its end straight on."""
    last = len(path) - 1
    if at_m >= last:
        end = path[last]
        return np.array(
            [end[0] + (at_m - last) * math.cos(end[2]), end[1] + (at_m - last) * math.sin(end[2])]
        )
    k = max(0, int(at_m))
    f = max(0.0, at_m - k)
    point: F64 = path[k, :2] + f * (path[k + 1, :2] - path[k, :2])
    return point
