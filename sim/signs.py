"""Stop signs that rule the route."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import carla
import numpy as np

from sim.frames import pose_from_carla
from sim.routes import Route

ON_ROUTE_M = 3.0
LEVEL_M = 4.0


@dataclass(frozen=True)
class StopSign:
    """A stop sign whose trigger volume the route passes; its centre is at arc length `s_m`."""

    s_m: float
    sign_id: int


def stop_signs(actors: Sequence[carla.Actor], route: Route) -> tuple[StopSign, ...]:
    """Stop signs on a route, ascending; those for traffic that runs across or against it do not count."""
    found = []
    for sign in actors:
        here = sign.get_transform()
        place = here.transform(sign.trigger_volume.location)
        x, y, yaw = pose_from_carla(place.x, place.y, here.rotation.yaw)
        gap = np.hypot(route.pose_world[:, 0] - x, route.pose_world[:, 1] - y)
        k = int(gap.argmin())
        if gap[k] > ON_ROUTE_M or abs(float(route.z_m[k]) - place.z) > LEVEL_M or not 0 < k < len(gap) - 1:
            continue
        turned = yaw + math.pi / 2 - float(route.pose_world[k, 2])
        if math.cos(turned) < 0.5:  # as in CARLA, a sign is turned by a quarter against its traffic
            continue
        found.append(StopSign(route.locate((x, y, 0.0), float(k))[0], sign.id))
    return tuple(sorted(found, key=lambda sign: (sign.s_m, sign.sign_id)))
