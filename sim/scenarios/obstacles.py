"""Things that stand in or beside the ego's lane."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import carla
import numpy as np

from sim.scenarios.flows import BICYCLES, CARS, Flow, Oncoming
from sim.scenarios.lanes import kerb_offset, oncoming_path
from sim.scenarios.motion import Car
from sim.scenarios.stage import Act, Cue, Now, Together, Unplaceable, beside, route_path, shifted

PASSED_M = 18.0
Maker = Callable[[Cue], Act]
AROUND_MPS = 8.0
AROUND_M = (170.0, 40.0)  # before and behind the middle of the cyclists' way
REACH_M, REACH_S = 30.0, 5.4  # oncoming cars appear so far ahead, and so many seconds of their driving
NEAR_M = {"ConstructionObstacleTwoWays": 30.0, "VehicleOpensDoorTwoWays": 30.0}
USUALLY_NEAR_M = 50.0
HAZARD_LIGHTS = carla.VehicleLightState(
    carla.VehicleLightState.LeftBlinker | carla.VehicleLightState.RightBlinker
)
CONE, WARNING, BARRIER = (
    "static.prop.trafficcone01",
    "static.prop.trafficwarning",
    "static.prop.streetbarrier",
)
DEBRIS = "static.prop.dirtdebris02"
CONSTRUCTION_M = 12


@dataclass(frozen=True)
class Item:
    """One thing: blueprint, metres past the first place, metres left of the lane's centre, turned by."""

    blueprint: str
    along_m: float
    left_m: float = 0.0
    turned_rad: float = 0.0


class Standing(Act):
    """Things that just stand there."""

    def __init__(self, cue: Cue, at_m: float, items: Sequence[Item], oncoming_ok: bool = False) -> None:
        super().__init__(cue.stage, at_m + max(item.along_m for item in items) + PASSED_M)
        self.at_m, self.oncoming_ok = at_m, oncoming_ok
        try:
            for item in items:
                actor = cue.stage.spawn_beside(
                    item.blueprint, at_m + item.along_m, item.left_m, item.turned_rad
                )
                self.actors.append(actor)
                if item.blueprint.startswith("vehicle."):
                    actor.apply_control(carla.VehicleControl(brake=1.0, hand_brake=True))
                    actor.set_light_state(HAZARD_LIGHTS)
        except Unplaceable:
            self.close()
            raise


def side_of(cue: Cue) -> float:
    """+1 if the thing stands towards the left edge of the lane, -1 towards the right."""
    return 1.0 if cue.text("direction", "right") == "left" else -1.0


def accident(cue: Cue) -> Act:
    """A police car and two crashed cars behind each other."""
    off = 0.3 * side_of(cue)
    crashed = ("vehicle.nissan.patrol_2021", "vehicle.audi.tt")
    items = (
        Item("vehicle.dodge.charger_police_2020", 0.0, off),
        Item(crashed[0], 10.0, off, 0.12),
        Item(crashed[1], 16.0, off, -0.2),
    )
    return Standing(cue, cue.clear_ahead(cue.number("distance", 40.0)), items)


def parked(cue: Cue) -> Act:
    """A car that stands in the lane with its hazard lights on."""
    model = CARS[int(cue.rng.integers(len(CARS)))]
    items = (Item(model, 0.0, 0.3 * side_of(cue)),)
    return Standing(cue, cue.clear_ahead(cue.number("distance", 40.0)), items)


def construction(cue: Cue) -> Act:
    """A warning sign, a row of cones on the open side, and barriers."""
    open_side = -side_of(cue)
    items = [Item(WARNING, 0.0, -0.4 * open_side), Item(BARRIER, 3.0, 0.0, math.pi / 2)]
    items += [Item(CONE, 2.0 + k, 1.3 * open_side) for k in range(0, CONSTRUCTION_M, 3)]
    items += [Item(DEBRIS, 8.0), Item(BARRIER, float(CONSTRUCTION_M), 0.0, math.pi / 2)]
    return Standing(cue, cue.clear_ahead(cue.number("distance", 40.0)), items)


class Riders(Act):
    """Cyclists who ride slowly near the edge of the ego's lane, one behind the other."""

    def __init__(self, cue: Cue, at_m: float, count: int = 3) -> None:
        far = cue.number("bicycle_drive_distance", 50.0)
        super().__init__(cue.stage, min(at_m + far + PASSED_M, cue.stage.route.goal_m - 2.0))
        self.speed_mps = cue.number("bicycle_speed", 10.0) / 3.6
        width = float(cue.stage.route.width_m[int(at_m)])
        path = shifted(route_path(cue.stage.route, at_m, at_m + far + 25.0), -(width / 2 - 0.9))
        self.cars: list[Car] = []
        for k in range(count):
            model = BICYCLES[int(cue.rng.integers(len(BICYCLES)))]
            start = 5.0 * k
            if start >= len(path) - 2:
                break
            actor = cue.stage.spawn(model, path[int(start)], cue.stage.height(at_m + start))
            self.cars.append(Car(cue.stage, actor, path, self.speed_mps, at_m=start))

    def tick(self, now: Now) -> None:
        """Ride when the ego has come."""
        for car in self.cars:
            car.tick(now, self.speed_mps if now.on and not car.done else 0.0)
            if car.done:
                car.hold()

    def close(self) -> None:
        """All of them."""
        for car in self.cars:
            car.close()


def riders(cue: Cue) -> Act:
    """Slow cyclists at the side of the lane."""
    return Riders(cue, cue.clear_ahead(cue.number("distance", 40.0)))


class OpeningDoor(Act):
    """A parked car whose door opens into the lane when the ego is near.

    The light simulator's cars have no doors, so a barrier as large as one stands for it there and on CARLA.
    """

    oncoming_ok = True
    OPENS_S = 3.5
    DOOR = "static.prop.chainbarrier"

    def __init__(self, cue: Cue, at_m: float) -> None:
        super().__init__(cue.stage, at_m + PASSED_M)
        self.at_m = at_m
        width = float(cue.stage.route.width_m[int(at_m)])
        self.left_m = max(kerb_offset(cue.stage, at_m, "right"), -width / 2 - 0.75)
        self.car = cue.stage.spawn_beside("vehicle.mercedes.coupe_2020", at_m, self.left_m)
        self.car.apply_control(carla.VehicleControl(brake=1.0, hand_brake=True))
        self.actors.append(self.car)
        self.open = False

    def tick(self, now: Now) -> None:
        """Open it."""
        gap = self.at_m - now.scene.s_m
        if self.open or not now.on or gap > max(18.0, self.OPENS_S * now.scene.ego.speed_mps):
            return
        self.open = True
        self.car.open_door(carla.VehicleDoor.FL)
        edge = self.left_m + 1.0 + 0.8
        self.actors.append(self.stage.spawn_beside(self.DOOR, self.at_m + 0.8, edge, math.pi / 2))


def opening_door(cue: Cue) -> Act:
    """A door that opens into the lane."""
    return OpeningDoor(cue, cue.clear_ahead(cue.number("distance", 50.0)))


def with_oncoming(cue: Cue, act: Act) -> Act:
    """The same, with traffic in the oncoming lane; "frequency" is the gap between its vehicles.

    Beside cyclists it flows from the beginning; past what stands it comes later, at the road's limit.
    """
    act.oncoming_ok = True
    if not isinstance(act, Standing | OpeningDoor):
        path = oncoming_path(cue.stage, act.end_m - PASSED_M, *AROUND_M)
        return Together(act, Flow(cue, path, AROUND_MPS, _gaps(cue), act.end_m, oncoming_ok=True))
    at_m = act.at_m
    speed = float(cue.stage.route.limit_mps[int(at_m)])
    reach = REACH_M + REACH_S * speed
    path = oncoming_path(cue.stage, at_m, reach, reach, road_only=True)
    near = at_m - NEAR_M.get(cue.type, USUALLY_NEAR_M)
    return Together(act, Oncoming(cue, path, speed, _gaps(cue), act.end_m, near))


def _gaps(cue: Cue) -> tuple[float, float]:
    value = cue.values.get("frequency")
    return (
        (float(value), float(value)) if isinstance(value, float) else cue.interval("frequency", 40.0, 100.0)
    )


class Invading(Act):
    """Oncoming cars in a bend that drive partly in the ego's lane, past a row of cones in their own."""

    SPEED_MPS = 8.0
    COUNT = 3

    def __init__(self, cue: Cue) -> None:
        at_m = cue.clear_ahead(cue.number("distance", 60.0))
        super().__init__(cue.stage, at_m + 10.0)
        path = oncoming_path(cue.stage, at_m, 90.0, 60.0)
        half = float(cue.stage.route.width_m[int(at_m)]) / 2
        own = half - 1.0 + cue.number("offset", 0.5)  # their side is `offset` over the middle line
        edge = np.clip(np.arange(len(path)) * 2.0 / 40.0, 0.0, 1.0)[:, None]
        invading = path + edge * (shifted(path, own) - path)
        gap = (18.0, 26.0)
        self.flow = Flow(cue, invading, self.SPEED_MPS, gap, self.end_m, filled=False)
        self.left = self.COUNT
        try:
            for k in range(4):
                pose = beside(cue.stage.route, at_m + 4.0 * k, 2 * half + 0.6)
                self.actors.append(cue.stage.spawn(CONE, pose, cue.stage.height(at_m)))
        except Unplaceable:
            self.close()
            raise

    def tick(self, now: Now) -> None:
        """They come, as many as there are."""
        self.flow.tick(now)

    def close(self) -> None:
        """Cars and cones."""
        self.flow.close()
        super().close()
