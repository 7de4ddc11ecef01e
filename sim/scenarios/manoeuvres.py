"""What single vehicles do to the ego: cut in, brake hard, block, hurry past; and what the road does."""

import math

import carla
import numpy as np

from drive.contracts import EGO_MKZ, F64
from sim.frames import transform, vector
from sim.scenarios.crossings import exit_of
from sim.scenarios.flows import CARS, Flow
from sim.scenarios.lanes import kerb_offset, same_way, way_between
from sim.scenarios.motion import Car, evenly
from sim.scenarios.stage import (
    Act,
    Cue,
    Now,
    Stage,
    Together,
    Unplaceable,
    beside,
    follow,
    route_path,
    shifted,
)

MERGE_M = 14.0
ABREAST_M, GONE_M = 7.0, 16.0  # lead on the ego's rear axle at which a merging car would touch the ego
LATE_M = 25.0  # so near to the place where the lanes meet there is no more overtaking
BRAKE_MPS2 = 3.0


def merge_path(cue: Cue, at_m: float, left_m: float, wait_m: float = 2.0) -> F64:
    """From beside the route at `at_m` into its lane within MERGE_M, then along it to its end."""
    path = route_path(cue.stage.route, at_m, len(cue.stage.route.pose_world))
    t = np.clip((np.arange(len(path)) - wait_m) / MERGE_M, 0.0, 1.0)[:, None]
    share = 1 - t * t * (3 - 2 * t)
    moved: F64 = path + share * (shifted(path, left_m) - path)
    slope = np.arctan2(np.gradient(moved[:, 1]), np.gradient(moved[:, 0]))
    moved[:, 2] = slope
    return moved


class CutIn(Act):
    """A car that stands beside the ego's lane and drives into it when the ego is near.

    Args:
        cue: Where from.
        at_m: Where it stands.
        left_m: How far left of the route it stands.
        speed_mps: How fast it becomes.
        near_s: It goes when the ego is so many seconds away.
        row: So many more cars stand behind it.
    """

    NEAREST_M = 14.0

    def __init__(
        self, cue: Cue, at_m: float, left_m: float, speed_mps: float, near_s: float = 2.2, row: int = 0
    ) -> None:
        super().__init__(cue.stage, min(at_m + 40.0, cue.stage.route.goal_m - 2.0))
        self.at_m, self.near_s, self.speed_mps, self.go = at_m, near_s, speed_mps, False
        try:
            for k in range(row + 1):
                model = CARS[int(cue.rng.integers(len(CARS)))]
                actor = cue.stage.spawn_beside(model, at_m - 6.5 * k, left_m)
                actor.apply_control(carla.VehicleControl(brake=1.0, hand_brake=True))
                self.actors.append(actor)
        except Unplaceable:
            self.close()
            raise
        self.car = Car(cue.stage, self.actors[0], merge_path(cue, at_m, left_m), speed_mps)

    def tick(self, now: Now) -> None:
        """Wait, then go."""
        gap = self.at_m - now.scene.s_m - 4.0
        self.go = self.go or (now.on and gap < max(self.NEAREST_M, self.near_s * now.scene.ego.speed_mps))
        if self.go:
            self.car.tick(now, self.speed_mps)


def parking_cut_in(cue: Cue) -> Act:
    """A parked car pulls out."""
    at = cue.clear_ahead(35.0)
    return CutIn(cue, at, kerb_offset(cue.stage, at, cue.text("direction", "right")), 6.0)


def static_cut_in(cue: Cue) -> Act:
    """A car leaves a standing row beside the ego's lane."""
    at = cue.clear_ahead(cue.number("distance", 40.0))
    side = cue.text("direction", "right")
    lane = same_way(cue.stage, at, side) or same_way(cue.stage, at, "left" if side == "right" else "right")
    left = lane[1] if lane is not None else kerb_offset(cue.stage, at, side)
    return CutIn(cue, at, left, 6.0, row=2)


class HighwayCutIn(Act):
    """A car on the ramp keeps a little ahead of the ego and merges in front of it."""

    AHEAD_M = 9.0

    def __init__(self, cue: Cue) -> None:
        stage = cue.stage
        ramp = evenly(way_between(stage, cue.place("other_actor_location"), cue.place("end_location")))
        route = stage.route.pose_world[int(cue.s_m) :]
        gap = np.hypot(ramp[:, 0, None] - route[:, 0], ramp[:, 1, None] - route[:, 1])
        close = np.flatnonzero(gap.min(1) < 6.0)
        if not len(close):
            raise Unplaceable("its ramp does not come near the route")
        k = int(close[0])
        self.merge_m = cue.s_m + float(gap[k].argmin())
        rest = route_path(stage.route, self.merge_m + 22.0, len(stage.route.pose_world))
        path = evenly(np.concatenate([ramp[: k + 1], rest]))
        super().__init__(stage, min(self.merge_m + 40.0, stage.route.goal_m - 2.0))
        self.along_m, self.begun = float(k), False
        z = stage.lane_at((*ramp[0, :2], cue.place("other_actor_location")[2])).transform.location.z
        self.car = Car(stage, stage.spawn(CARS[0], path[0], z), path, 9.0)
        self.actors.append(self.car.actor)

    def tick(self, now: Now) -> None:
        """Keep pace until the lanes meet."""
        if not now.on:
            return
        speed = now.scene.ego.speed_mps
        if not self.begun:
            self.begun = True
            yaw = float(self.car.path_world[0, 2])
            self.car.actor.set_target_velocity(vector(speed * math.cos(yaw), speed * math.sin(yaw)))
        mine, ego = self.along_m - self.car.at_m, self.merge_m - now.scene.s_m
        self.car.careful = mine <= 0
        self.car.tick(now, merge_speed(mine, ego, speed, self.AHEAD_M))


def merge_speed(mine_m: float, ego_m: float, ego_mps: float, ahead_m: float) -> float:
    """Speed [m/s] of a car that wants to merge `ahead_m` before the ego.

    Args:
        mine_m: Its way to the place where the lanes meet; 0 or less behind it.
        ego_m: The ego's way there.
        ego_mps: The ego's speed.
        ahead_m: How far ahead of the ego it wants to be. Abreast of the ego it lets the ego go first.
    """
    if mine_m <= 0:
        return max(8.0, ego_mps - 1.0)
    lead = ego_m - mine_m
    wanted = min(13.0, max(3.0, ego_mps + 0.5 * (ahead_m - lead)))
    if lead < -GONE_M and mine_m < LATE_M:
        return min(wanted, max(3.0, ego_mps))
    abreast = -GONE_M <= lead < ABREAST_M
    return min(wanted, math.sqrt(2 * BRAKE_MPS2 * max(0.0, mine_m - 2.0))) if abreast else wanted


class HardBrake(Act):
    """The car ahead brakes to a standstill, waits, and goes on."""

    WAIT_S = 4.0
    GAP_M = 18.0

    def __init__(self, cue: Cue) -> None:
        at = cue.s_m + self.GAP_M + 5.0
        super().__init__(cue.stage, min(at + 45.0, cue.stage.route.goal_m - 3.0))
        path = route_path(cue.stage.route, at, len(cue.stage.route.pose_world))
        actor = cue.stage.spawn(CARS[int(cue.rng.integers(len(CARS)))], path[0], cue.stage.height(at))
        self.actors.append(actor)
        self.car = Car(cue.stage, actor, path, 8.0)
        self.start_m, self.standing_s, self.braking = at, 0.0, False

    def tick(self, now: Now) -> None:
        """Drive ahead, brake, go on."""
        if not now.on:
            return
        gap = self.start_m + self.car.at_m - now.scene.s_m - 8.0
        if not self.braking and self.car.at_m > 25.0 and self.car.speed_now_mps > 4.0:
            self.braking = True
        if self.braking and self.standing_s < self.WAIT_S:
            self.standing_s += now.dt_s if self.car.speed_now_mps < 0.2 else 0.0
            self.car.actor.apply_control(carla.VehicleControl(brake=1.0))
            self.car.speed_now_mps = _speed(now, self.car.actor)
            return
        self.car.tick(now, min(9.0, max(2.0, 6.0 + 0.4 * (self.GAP_M - gap))) if not self.braking else 9.0)


def _speed(now: Now, actor: carla.Actor) -> float:
    body = now.body(actor)
    return body.speed_mps if body is not None else 0.0


class Blocked(Act):
    """A car stands where the ego leaves the junction, and moves off after the ego has waited a while."""

    WAIT_S = 5.0
    NEAR_M = 22.0

    def __init__(self, cue: Cue) -> None:
        _, at = exit_of(cue)
        super().__init__(cue.stage, min(at + 20.0, cue.stage.route.goal_m - 1.0))
        path = route_path(cue.stage.route, at, len(cue.stage.route.pose_world))
        actor = cue.stage.spawn(CARS[int(cue.rng.integers(len(CARS)))], path[0], cue.stage.height(at))
        self.actors.append(actor)
        self.car, self.at_m, self.waited_s = Car(cue.stage, actor, path, 9.0, careful=False), at, 0.0

    def tick(self, now: Now) -> None:
        """Stand; then go."""
        near = self.at_m - now.scene.s_m < self.NEAR_M
        self.waited_s += now.dt_s if near and now.scene.ego.speed_mps < 1.0 else 0.0
        self.car.tick(now, 9.0 if self.waited_s > self.WAIT_S else 0.0)


class Emergency(Act):
    """An emergency vehicle comes up from behind in the ego's lane; the ego has to let it pass.

    As in the leaderboard that is decided PATIENCE_S after it has come near, or at the end of the route.
    """

    FASTER_MPS, LEAST_MPS = 8.0, 10.0
    NEAR_M, PATIENCE_S, GONE_M = 50.0, 10.0, 50.0

    def __init__(self, cue: Cue) -> None:
        route = cue.stage.route
        super().__init__(cue.stage, route.goal_m - 4.0)
        here = cue.stage.waypoint(cue.s_m)
        self.behind_m = cue.number("distance", 30.0)
        back = here.previous(self.behind_m)
        if not back:
            raise Unplaceable("the lane behind the ego is too short for an emergency vehicle")
        behind = follow(here, self.behind_m, back=True)
        path = evenly(np.concatenate([behind[:-1], route_path(route, cue.s_m, len(route.pose_world))]))
        self.path, self.car, self.start_m = path, None, cue.s_m
        self.z_m = float(back[0].transform.location.z)
        self.near_s, self.over = 0.0, False

    car: Car | None

    def tick(self, now: Now) -> None:
        """Come, and pass."""
        if not now.on or self.over:
            return
        if self.car is None:
            actor = self.stage.spawn("vehicle.ford.ambulance", self.path[0], self.z_m, self.LEAST_MPS)
            actor.set_light_state(carla.VehicleLightState(carla.VehicleLightState.Special1))
            self.actors.append(actor)
            self.car = Car(self.stage, actor, self.path, self.LEAST_MPS)
        self.car.tick(now, max(self.LEAST_MPS, now.scene.ego.speed_mps + self.FASTER_MPS))
        lead = self.start_m - self.behind_m + self.car.at_m - now.scene.s_m - EGO_MKZ.centre_from_axle_m
        self.near_s += now.dt_s if lead > -self.NEAR_M else 0.0
        if lead > self.GONE_M or self.near_s > self.PATIENCE_S or now.scene.s_m > self.end_m - 1.5:
            self.over = True
            self.end_m = min(self.end_m, now.scene.s_m - 0.1)
            if lead < 0:
                detail = "Agent failed to yield to an emergency vehicle"
                self.faults.append(("yield_emergency_vehicle_infractions", detail))


class Slipping(Act):
    """Debris on the road; the ego's throttle and steering become noisy there."""

    STEER, THROTTLE = 0.06, 0.25

    def __init__(self, cue: Cue) -> None:
        super().__init__(cue.stage, min(cue.s_m + 60.0, cue.stage.route.goal_m - 3.0))
        self.rng, self.on = cue.rng, False
        for k in range(4):
            try:
                spot = cue.stage.spawn_beside("static.prop.dirtdebris01", cue.s_m + 14.0 * k, 0.3 * (-1) ** k)
            except Unplaceable:
                continue
            self.actors.append(spot)

    def tick(self, now: Now) -> None:
        """The road is bad from the trigger on."""
        self.on = now.on

    def disturb(self, throttle: float, steer: float) -> tuple[float, float]:
        """Noise on both."""
        if not self.on:
            return throttle, steer
        more = throttle + abs(self.rng.normal(0.0, self.THROTTLE)) if throttle > 0 else throttle
        return min(1.0, more), max(-1.0, min(1.0, steer + self.rng.normal(0.0, self.STEER)))


class ParkingExit(Act):
    """The ego starts in a parking space between two cars, and traffic passes beside it."""

    def __init__(self, cue: Cue) -> None:
        stage, at = cue.stage, max(cue.s_m, cue.stage.route.start_m + EGO_MKZ.centre_from_axle_m)
        super().__init__(stage, min(at + 35.0, stage.route.goal_m - 2.0))
        left = kerb_offset(stage, at, cue.text("direction", "right"))
        front, back = cue.number("front_vehicle_distance", 9.0), cue.number("behind_vehicle_distance", 9.0)
        for model, along in ((CARS[1], front), (CARS[4], -back)):
            try:
                self.actors.append(stage.spawn(model, _parked(stage, at + along, left), stage.height(at)))
            except Unplaceable:
                continue
        pose = beside(stage.route, at, left)
        z = stage.height(at) + 0.1
        stage.ego.set_transform(transform(pose, z))
        stage.ego.set_target_velocity(carla.Vector3D())
        here = stage.waypoint(at)
        path = np.concatenate([follow(here, 60.0, back=True)[:-1], follow(here, 90.0)])
        self.flow = Flow(cue, path, 7.0, (35.0, 60.0), self.end_m, filled=False)

    def tick(self, now: Now) -> None:
        """Traffic."""
        self.flow.tick(now)

    def close(self) -> None:
        """Cars."""
        self.flow.close()
        super().close()


def _parked(stage: Stage, s_m: float, left_m: float) -> F64:
    """Pose beside the route, also before its first point."""
    known = max(0.0, s_m)
    pose = beside(stage.route, known, left_m)
    pose[:2] += (s_m - known) * np.array([np.cos(pose[2]), np.sin(pose[2])])
    return pose


def beside_traffic(cue: Cue) -> Act:
    """Traffic on the neighbour lanes over the stretch where the ego changes lanes."""
    flows: list[Act] = []
    ahead = cue.clear_ahead(10.0)
    for side in ("left", "right"):
        lane = same_way(cue.stage, ahead, side)
        if lane is not None:
            path = np.concatenate([follow(lane[0], 30.0, back=True)[:-1], follow(lane[0], 140.0)])
            end = cue.stage.route.goal_m - 2.0
            flows.append(Flow(cue, path, 8.0, (25.0, 50.0), end))
    if not flows:
        raise Unplaceable("there is no lane beside the ego's")
    return Together(*flows)
