"""Open side doors of vehicles: thin boxes that are drawn, and that others run into (CARLA frame)."""

import math
from typing import Any

from sim.server.actors import Actor, Vehicle

ALL_DOORS = 6
_SIDE_DOORS = (0, 1, 2, 3)  # front left, front right, rear left, rear right, as carla.VehicleDoor
_HINGE, _LENGTH = {0: 0.3, 1: 0.3, 2: -0.2, 3: -0.2}, {0: 0.48, 1: 0.48, 2: 0.4, 3: 0.4}  # of the half length
_OPEN_RAD = math.radians(65)
_HALF_THICK_M, _SILL_M = 0.04, 0.3


class Door(Actor):
    """One open door; whoever touches it touches the vehicle, and it moves with it."""

    kind = "door"

    def __init__(self, car: Vehicle, index: int) -> None:
        super().__init__(car.id, car.description, [[car.x, car.y, car.z], [0.0, car.yaw, 0.0]])
        self.car, self.index = car, index
        self.sensors = car.sensors
        half_x, _, half_z = car.body
        self.half_size = (_LENGTH[index] * half_x / 2, _HALF_THICK_M, half_z * 0.6)
        self.radius = math.hypot(*self.half_size[:2])
        self.follow()

    @property
    def label(self) -> int:
        """That of the vehicle."""
        return self.car.label

    def wire(self) -> list[Any]:
        """The vehicle as sent to clients."""
        return self.car.wire()

    def follow(self) -> None:
        """Take the place that belongs to the vehicle's pose."""
        car, half = self.car, self.car.body
        out = 1.0 if self.index % 2 else -1.0  # y points to the right
        length = _LENGTH[self.index] * half[0]
        x = _HINGE[self.index] * half[0] - math.cos(_OPEN_RAD) * length / 2
        y = out * (half[1] + math.sin(_OPEN_RAD) * length / 2)
        yaw = math.radians(car.yaw)
        c, s = math.cos(yaw), math.sin(yaw)
        self.x, self.y, self.z = car.x + c * x - s * y, car.y + s * x + c * y, car.z + _SILL_M
        self.yaw = car.yaw - out * math.degrees(_OPEN_RAD)


def set_doors(bodies: dict[int, Actor], car: Vehicle, index: int, is_open: bool) -> None:
    """Open or close one side door, or all of them; hoods, boots and cars without doors stay as they are.

    Args:
        bodies: What can be touched; doors have negative keys.
        car: The vehicle.
        index: carla.VehicleDoor.
        is_open: What the door shall be.
    """
    if not car.spec.has_doors:
        return
    for one in _SIDE_DOORS if index == ALL_DOORS else (index,):
        key = -(8 * car.id + one)
        if not is_open:
            car.doors.pop(one, None)
            bodies.pop(key, None)
        elif one in _SIDE_DOORS and one not in car.doors:
            car.doors[one] = bodies[key] = Door(car, one)
