"""Background traffic of route files: TrafficManager vehicles beside the route, fixed by the seed."""

import math
from collections.abc import Iterator

import carla
import numpy as np

from drive.contracts import F64
from sim.frames import location, transform, waypoint_pose
from sim.routes import Route
from sim.traffic import SPAWN_LIFT_M, car_blueprints

EVERY_M = 15
CLEAR_OF_START_M = 30.0
CLEAR_OF_OTHERS_M = 9.0
OWN_WAY_M = 2.5  # nearer to the route's centre is the ego's own way: scenarios need it
SIDE_ROAD_M = (12.0, 24.0, 36.0)
MOST_LANES = 4
NARROWEST_M = 2.5


def spawn_background(world: carla.World, route: Route, count: int, seed: int) -> list[carla.Vehicle]:
    """Spawn up to `count` cars and vans on lanes beside the route and on roads that cross it.

    The ego's own lane is left free, as the leaderboard leaves space where scenarios are. The same map, route,
    count and seed give the same vehicles.
    """
    rng = np.random.default_rng([seed, 7])
    blueprints = car_blueprints(world)
    places = sorted(background_places(world.get_map(), route), key=lambda p: (*p[0].round(1), round(p[1], 1)))
    start = route.at(route.start_m)
    taken: list[F64] = []
    vehicles: list[carla.Vehicle] = []
    for k in rng.permutation(len(places)):
        if len(vehicles) == count:
            break
        pose, z = places[k]
        if math.dist(pose[:2], start[:2]) < CLEAR_OF_START_M:
            continue
        if any(math.dist(pose[:2], other[:2]) < CLEAR_OF_OTHERS_M for other in taken):
            continue
        blueprint = blueprints[int(rng.integers(len(blueprints)))]
        blueprint.set_attribute("role_name", "background")
        vehicle = world.try_spawn_actor(blueprint, transform(pose, z + SPAWN_LIFT_M))
        if vehicle is not None:
            vehicles.append(vehicle)
            taken.append(pose)
    return vehicles


def background_places(carla_map: carla.Map, route: Route) -> list[tuple[F64, float]]:
    """Poses (3,) and heights of lane points beside the route and on the roads that cross it."""
    found: dict[tuple[int, int, int], tuple[F64, float]] = {}
    for lane in (*_beside(carla_map, route), *_across(carla_map, route)):
        pose, z = np.array(waypoint_pose(lane)), float(lane.transform.location.z)
        gap = np.hypot(route.pose_world[:, 0] - pose[0], route.pose_world[:, 1] - pose[1])
        level = abs(float(route.z_m[int(gap.argmin())]) - z) < 4.0
        if lane.lane_width < NARROWEST_M or (gap.min() < OWN_WAY_M and level):
            continue
        found.setdefault((round(pose[0]), round(pose[1]), round(z)), (pose, z))
    return list(found.values())


def _on_route(carla_map: carla.Map, route: Route) -> Iterator[carla.Waypoint]:
    for s in range(int(route.start_m), int(route.goal_m), EVERY_M):
        x, y = route.pose_world[s, :2]
        here = carla_map.get_waypoint(location(x, y, float(route.z_m[s])), True, carla.LaneType.Driving)
        if here is not None:
            yield here


def _beside(carla_map: carla.Map, route: Route) -> Iterator[carla.Waypoint]:
    """Lanes of both directions next to the route, outside junctions."""
    for here in _on_route(carla_map, route):
        if here.is_junction:
            continue
        for left in (True, False):
            lane, turned = here, False
            for _ in range(MOST_LANES):
                after = lane.get_left_lane() if left != turned else lane.get_right_lane()
                if after is None or after.lane_type != carla.LaneType.Driving:
                    break
                turned = after.lane_id * here.lane_id < 0
                lane = after
                yield lane


def _across(carla_map: carla.Map, route: Route) -> Iterator[carla.Waypoint]:
    """Lanes that lead into the junctions of the route."""
    seen: set[int] = set()
    for here in _on_route(carla_map, route):
        if not here.is_junction or here.junction_id in seen:
            continue
        seen.add(here.junction_id)
        for begin, _ in here.get_junction().get_waypoints(carla.LaneType.Driving):
            for far in SIDE_ROAD_M:
                yield from (lane for lane in begin.previous(far) if not lane.is_junction)
