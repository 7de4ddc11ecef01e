"""Streams of vehicles along a path, and single vehicles that meet the ego."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from drive.contracts import EGO_MKZ, F64
from sim.frames import centre_from_axle, location, vector
from sim.scenarios.motion import Car, evenly
from sim.scenarios.stage import Act, Cue, Now, Unplaceable

CARS = (
    "vehicle.audi.a2", "vehicle.audi.tt", "vehicle.bmw.grandtourer", "vehicle.chevrolet.impala",
    "vehicle.mini.cooper_s_2021", "vehicle.nissan.patrol_2021", "vehicle.seat.leon", "vehicle.toyota.prius",
    "vehicle.mercedes.coupe_2020", "vehicle.lincoln.mkz_2017",
)  # fmt: skip
BICYCLES = ("vehicle.bh.crossbike", "vehicle.diamondback.century", "vehicle.gazelle.omafiets")
CLEAR_OF_EGO_M = 25.0
CLEAR_AT_START_M = 8.0
MOST = 24
WAIT_S = 5.0
LATE_S = 3.0
NEAREST_M = 6.0  # so near to the meeting point a slow ego makes the other one go
FRONT_M = EGO_MKZ.centre_from_axle_m + EGO_MKZ.length_m / 2
OUT_M = 1.0  # farther left than this the ego is out of its lane


class Flow(Act):
    """Vehicles that appear at the start of a path, a random gap apart, and vanish at its end.

    Args:
        cue: Where from, and the random numbers.
        path: float64 (P, 3).
        speed_mps: Their speed.
        gap_m: (from, to) between one's end and the next one's front.
        end_m: Where the ego is past them.
        models: Blueprints to choose from.
        filled: Begin with the path populated, where that is not near the ego.
        oncoming_ok: The ego may use the oncoming lane meanwhile.
    """

    clear_m = CLEAR_AT_START_M

    def __init__(
        self,
        cue: Cue,
        path: F64,
        speed_mps: float,
        gap_m: tuple[float, float],
        end_m: float,
        models: Sequence[str] = CARS,
        filled: bool = True,
        oncoming_ok: bool = False,
    ) -> None:
        super().__init__(cue.stage, end_m)
        self.path, self.speed_mps, self.gap_m, self.rng = evenly(path), speed_mps, gap_m, cue.rng
        self.models, self.filled, self.oncoming_ok = tuple(models), filled, oncoming_ok
        self.z_m = _heights(cue, self.path)
        self.cars: list[Car] = []
        self._wait_m = 0.0
        self._begun = False

    def tick(self, now: Now) -> None:
        """New ones, moving ones, and those that have arrived."""
        if now.on and not self._begun:
            self._begun = True
            if self.filled:
                self._fill(now)
        for car in self.cars:
            car.tick(now)
        for car in [c for c in self.cars if c.done]:
            car.close()
            self.cars.remove(car)
        if (
            self._begun
            and len(self.cars) < MOST
            and self._room_at_start()
            and self._far_from_ego(now, 0.0, self.clear_m)
        ):
            self._add(0.0)

    def _fill(self, now: Now) -> None:
        at = len(self.path) - 8.0
        while at > 8.0:
            if self._far_from_ego(now, at, CLEAR_OF_EGO_M):
                self._add(at)
            at -= float(self.rng.uniform(*self.gap_m)) + 4.5

    def _room_at_start(self) -> bool:
        return min((car.at_m for car in self.cars), default=math.inf) > self._wait_m + 4.5

    def _far_from_ego(self, now: Now, at_m: float, clear_m: float) -> bool:
        ego = centre_from_axle(now.scene.ego.pose_world)
        place = self.path[int(at_m)]
        return math.hypot(ego[0] - place[0], ego[1] - place[1]) > clear_m

    def _add(self, at_m: float) -> None:
        model = self.models[int(self.rng.integers(len(self.models)))]
        self._wait_m = float(self.rng.uniform(*self.gap_m))
        k = int(at_m)
        try:
            actor = self.stage.spawn(model, self.path[k], float(self.z_m[k]), self.speed_mps)
        except Unplaceable:  # somebody stands there: later
            return
        self.cars.append(Car(self.stage, actor, self.path, self.speed_mps, at_m=at_m))

    def close(self) -> None:
        """All of them."""
        for car in self.cars:
            car.close()
        self.cars = []


class Oncoming(Flow):
    """Traffic in the oncoming lane that begins WAIT_S after the ego has come near to what blocks its own.

    As in the leaderboard nobody is on the lane at first, so that a driver who does not hesitate is past; and
    nobody appears while the ego is out of its own lane.

    Args:
        cue: Where from, and the random numbers.
        path: float64 (P, 3).
        speed_mps: Their speed.
        gap_m: (from, to) between one's end and the next one's front.
        end_m: Where the ego is past what blocks its lane.
        near_m: Arc length from which on the ego is near.
    """

    clear_m = CLEAR_OF_EGO_M

    def __init__(
        self,
        cue: Cue,
        path: F64,
        speed_mps: float,
        gap_m: tuple[float, float],
        end_m: float,
        near_m: float,
    ) -> None:
        super().__init__(cue, path, speed_mps, gap_m, end_m, filled=False, oncoming_ok=True)
        self.near_m, self.waited_s = near_m, 0.0

    def tick(self, now: Now) -> None:
        """Nobody yet; then one after the other."""
        if now.on and now.scene.s_m > self.near_m:
            self.waited_s += now.dt_s
        super().tick(replace(now, on=self.waited_s > WAIT_S))

    def _far_from_ego(self, now: Now, at_m: float, clear_m: float) -> bool:
        return now.scene.lateral_m < OUT_M and super()._far_from_ego(now, at_m, clear_m)


class Timed(Act):
    """One vehicle whose way meets the ego's: it goes when it will arrive a little before the ego.

    It does not slow down for an ego that does, so nobody waits for the other; a while after its way through
    it is taken away, whatever has become of it.

    Args:
        cue: Where from.
        path: float64 (P, 3); it starts at `start_m` on it.
        meets_m: Arc length of the route at the meeting point.
        along_m: Arc length of the path there.
        speed_mps: Its speed.
        end_m: Where the ego is past it.
        model: Blueprint.
        lead_s: It arrives so much earlier than the ego.
        start_m: Where on its path it starts.
    """

    def __init__(
        self,
        cue: Cue,
        path: F64,
        meets_m: float,
        along_m: float,
        speed_mps: float,
        end_m: float,
        model: str,
        lead_s: float = 0.5,
        start_m: float = 0.0,
    ) -> None:
        super().__init__(cue.stage, end_m)
        path = evenly(path)
        z = _heights(cue, path)
        actor = cue.stage.spawn(model, path[int(start_m)], float(z[int(start_m)]))
        self.car = Car(cue.stage, actor, path, speed_mps, careful=False, at_m=start_m)
        self.meets_m, self.along_m, self.speed_mps, self.lead_s = meets_m, along_m, speed_mps, lead_s
        self.left_s: float | None = None

    def tick(self, now: Now) -> None:
        """Stand until it is time, then go through."""
        if self.left_s is None:
            if not (now.on and self._is_time(now)):
                self.car.tick(now, 0.0)
                return
            yaw = float(self.car.path_world[int(self.car.at_m), 2])
            speed = self.speed_mps
            self.car.actor.set_target_velocity(vector(speed * math.cos(yaw), speed * math.sin(yaw)))
            self.left_s = (self.car.length_m - self.car.at_m) / speed + LATE_S
        self.left_s -= now.dt_s
        self.car.careful = self.car.at_m > self.along_m + 8.0
        self.car.tick(now)
        if self.car.done or self.left_s < 0:
            self.car.close()

    def _is_time(self, now: Now) -> bool:
        ego_left = self.meets_m - now.scene.s_m - FRONT_M
        mine_s = (self.along_m - self.car.at_m) / self.speed_mps
        return ego_left < NEAREST_M or ego_left / max(now.scene.ego.speed_mps, 1.0) < mine_s + self.lead_s

    def close(self) -> None:
        """The vehicle."""
        self.car.close()


def _heights(cue: Cue, path: F64) -> F64:
    """Road heights along a path."""
    town, z = cue.stage.map, cue.stage.height(cue.s_m)
    rows = []
    for pose in path:
        here = town.get_waypoint(location(pose[0], pose[1], z))
        z = float(here.transform.location.z) if here is not None else z
        rows.append(z)
    return np.array(rows)
