"""People and vehicles that cross the ego's way."""

import math

import numpy as np

from sim.scenarios.flows import BICYCLES, Timed
from sim.scenarios.junctions import Crossing, next_junction, ways_through
from sim.scenarios.lanes import kerb_offset
from sim.scenarios.motion import Pedestrian
from sim.scenarios.stage import Act, Cue, Now, Unplaceable, beside

NEAR_M, NEAR_S = 13.0, 2.6
PASSED_M = 10.0
HURRY_MPS, HURRY_S = 14.0, 2.6
WALKERS = tuple(f"walker.pedestrian.{number:04d}" for number in range(1, 30))


class Walking(Act):
    """People who step onto the road when the ego is near, and walk across.

    Args:
        cue: Where from.
        at_m: Arc length at which they cross.
        from_left_m: How far left of the route they stand.
        angle_rad: How much they walk along with the ego's direction, against straight across.
        speed_mps: Walking speed.
        count: How many, side by side.
    """

    def __init__(
        self, cue: Cue, at_m: float, from_left_m: float, angle_rad: float, speed_mps: float, count: int = 1
    ) -> None:
        super().__init__(cue.stage, at_m + PASSED_M)
        self.at_m = at_m
        side = math.copysign(1.0, from_left_m)
        heading = float(cue.stage.route.at(at_m)[2]) - side * (math.pi / 2 - angle_rad)
        way = (math.cos(heading), math.sin(heading))
        leg = abs(from_left_m) + float(cue.stage.route.width_m[int(at_m)]) + 2.5
        self.people: list[Pedestrian] = []
        try:
            for k in range(count):
                pose = beside(cue.stage.route, at_m + 1.2 * k, from_left_m + 0.5 * side * (k % 2))
                pose[2] = heading
                model = WALKERS[int(cue.rng.integers(len(WALKERS)))]
                actor = cue.stage.spawn(model, pose, cue.stage.height(at_m))
                speed = speed_mps * (1.0 + 0.1 * k)
                self.people.append(Pedestrian(cue.stage, actor, way, leg, speed))
        except Unplaceable:
            self.close()
            raise

    def tick(self, now: Now) -> None:
        """Step out when the ego is near."""
        gap = self.at_m - now.scene.s_m - 3.9
        go = now.on and gap < max(NEAR_M, NEAR_S * now.scene.ego.speed_mps)
        for person in self.people:
            person.walking = person.walking or go
            person.tick(now)

    def close(self) -> None:
        """Everybody and everything."""
        for person in self.people:
            person.close()
        super().close()


def from_behind(cue: Cue, blocker: str, off_m: float, past_m: float, left_m: float) -> Act:
    """Somebody steps out from behind a thing that hides them."""
    at = cue.clear_ahead(cue.number("distance", 40.0))
    side = 1.0 if cue.text("direction", "right") == "left" else -1.0
    thing = cue.stage.spawn_beside(
        blocker, at, side * off_m, math.pi / 2 if blocker.startswith("static") else 0.0
    )
    angle = math.radians(cue.number("crossing_angle", 0.0))
    try:
        act = Walking(cue, at + past_m, side * left_m, angle, 1.8)
    except Unplaceable:
        cue.stage.remove(thing)
        raise
    act.actors.append(thing)
    return act


def dynamic_object(cue: Cue) -> Act:
    """A pedestrian behind a prop at the kerb."""
    width = float(cue.stage.route.width_m[int(cue.s_m)])
    off = max(width / 2 + 1.2, abs(kerb_offset(cue.stage, cue.s_m, cue.text("direction", "right"))))
    return from_behind(cue, cue.text("blocker_model", "static.prop.vendingmachine"), off, 2.2, off)


def parking_pedestrian(cue: Cue) -> Act:
    """A pedestrian behind a parked car."""
    at = cue.clear_ahead(cue.number("distance", 40.0))
    off = abs(kerb_offset(cue.stage, at, cue.text("direction", "right")))
    return from_behind(cue, "vehicle.nissan.patrol_2021", off, 4.2, off)


def after_turn(cue: Cue, walkers: bool) -> Act:
    """Somebody crosses the road into which the ego turns."""
    crossing = next_junction(cue.stage, cue.s_m)
    at = min(crossing.exit_m + 5.0, cue.stage.route.goal_m - 8.0)
    off = -(float(cue.stage.route.width_m[int(at)]) / 2 + 1.2)
    if walkers:
        return Walking(cue, at, off, 0.0, 1.7)
    return Cyclist(cue, at, off)


class Cyclist(Walking):
    """Somebody on a bicycle who rides across."""

    def __init__(self, cue: Cue, at_m: float, from_left_m: float) -> None:
        Act.__init__(self, cue.stage, at_m + PASSED_M)
        self.at_m, self.people = at_m, []
        far = 2 * abs(from_left_m) + 8.0
        start = beside(cue.stage.route, at_m, from_left_m * 1.6)
        start[2] += math.copysign(math.pi / 2, -from_left_m)
        steps = np.arange(0.0, far, 1.0)[:, None]
        path = start + steps * np.array([math.cos(start[2]), math.sin(start[2]), 0.0])
        model = BICYCLES[int(cue.rng.integers(len(BICYCLES)))]
        reach = abs(from_left_m) * 1.6
        self.ride = Timed(cue, path, at_m, reach, 3.5, at_m + PASSED_M, model, lead_s=0.8)

    def tick(self, now: Now) -> None:
        """Ride across so that it meets the ego; then be off."""
        self.ride.tick(now)
        if self.ride.car.done:
            self.ride.close()

    def close(self) -> None:
        """The cyclist."""
        self.ride.close()


def at_crosswalk(cue: Cue) -> Act:
    """Three people cross at the junction, before the ego has passed it."""
    crossing = next_junction(cue.stage, cue.s_m)
    at = min(crossing.exit_m + 2.0, cue.stage.route.goal_m - 8.0)
    off = -(float(cue.stage.route.width_m[int(at)]) / 2 + 1.5)
    return Walking(cue, at, off, 0.0, 1.5, count=3)


def vehicle_from(cue: Cue, emergency: bool) -> Act:
    """A vehicle that goes through the junction although it should wait."""
    crossing = next_junction(cue.stage, cue.s_m)
    ways = []
    wanted = cue.text("direction", "right")
    for side in dict.fromkeys((wanted, "left", "right", "opposite")):
        ways = ways_through(cue.stage, crossing, side, merging=False)
        if ways:
            break
    if not ways:
        raise Unplaceable("nobody can come from another side of this junction")
    model = "vehicle.dodge.charger_police_2020" if emergency else "vehicle.nissan.patrol_2021"
    way = ways[0]
    end = min(crossing.exit_m + PASSED_M, cue.stage.route.goal_m - 1.0)
    start = max(0.0, way.along_m - HURRY_MPS * HURRY_S)
    return Timed(cue, way.path_world, way.meets_m, way.along_m, HURRY_MPS, end, model, start_m=start)


def exit_of(cue: Cue) -> tuple[Crossing, float]:
    """The next junction, and the arc length a little behind it."""
    crossing = next_junction(cue.stage, cue.s_m)
    return crossing, min(crossing.exit_m + 4.0, cue.stage.route.goal_m - 10.0)
