"""Vehicles under CARLA's TrafficManager, fixed by the seed."""

import math

import carla
import numpy as np

from drive.contracts import F64, AgentKind, UserError
from sim.frames import transform, waypoint_pose
from sim.routes import Route

CLEAR_OF_EGO_M = 12.0
CLEAR_OF_OTHERS_M = 9.0
AROUND_ROUTE_M = 70.0
SPAWN_LIFT_M = 0.5
FOLLOW_GAP_M = 3.0
SPEED_KMH = (18.0, 30.0)
EGO_BLUEPRINT = "vehicle.lincoln.mkz_2020"


def spawn_ego(world: carla.World, route: Route) -> carla.Vehicle:
    """Put the ego's rear axle on the start of the route.

    Raises:
        UserError: The server has no Lincoln MKZ 2020 or the place is taken.
    """
    found = world.get_blueprint_library().filter(EGO_BLUEPRINT)
    if not len(found):
        raise UserError(f"the server has no blueprint {EGO_BLUEPRINT}; use CARLA 0.9.16 or the light server")
    blueprint = found[0]
    blueprint.set_attribute("role_name", "hero")
    pose = route.at(route.start_m + 1.4)
    return world.spawn_actor(blueprint, transform(pose, route.z_m[int(route.start_m)] + SPAWN_LIFT_M))


def spawn_vehicles(world: carla.World, route: Route, count: int, seed: int) -> list[carla.Vehicle]:
    """Spawn up to `count` cars and vans on lanes near the route, the same for the same map, route, seed."""
    rng = np.random.default_rng([seed, 1])
    blueprints = car_blueprints(world)
    places = _lane_places(world.get_map(), route, rng)
    start = route.at(route.start_m)
    taken: list[tuple[float, float]] = []
    vehicles: list[carla.Vehicle] = []
    for pose, z in places:
        if len(vehicles) == count:
            break
        if math.hypot(pose[0] - start[0], pose[1] - start[1]) < CLEAR_OF_EGO_M:
            continue
        if any(math.hypot(pose[0] - x, pose[1] - y) < CLEAR_OF_OTHERS_M for x, y in taken):
            continue
        blueprint = blueprints[int(rng.integers(len(blueprints)))]
        blueprint.set_attribute("role_name", "autopilot")
        vehicle = world.try_spawn_actor(blueprint, transform(pose, z + SPAWN_LIFT_M))
        if vehicle is not None:
            vehicles.append(vehicle)
            taken.append((pose[0], pose[1]))
    return vehicles


def car_blueprints(world: carla.World) -> list[carla.ActorBlueprint]:
    """Cars and vans without a special duty, by name."""
    library = world.get_blueprint_library().filter("vehicle.*")
    return sorted((b for b in library if _is_car(b)), key=lambda b: b.id)


def _is_car(blueprint: carla.ActorBlueprint) -> bool:
    base, special = _attribute(blueprint, "base_type"), _attribute(blueprint, "special_type")
    return base in ("car", "van") and not special and not blueprint.id.startswith("vehicle.micro")


def _attribute(blueprint: carla.ActorBlueprint, name: str) -> str:
    return blueprint.get_attribute(name).as_str() if blueprint.has_attribute(name) else ""


def _lane_places(carla_map: carla.Map, route: Route, rng: np.random.Generator) -> list[tuple[F64, float]]:
    """Places on driving lanes around the route in random order: first those on or beside the route itself."""
    places: list[tuple[F64, float]] = []
    seen: set[tuple[int, int, int]] = set()
    for waypoint in carla_map.generate_waypoints(8.0):
        if waypoint.is_junction or waypoint.lane_type != carla.LaneType.Driving:
            continue
        pose = np.array(waypoint_pose(waypoint))
        gap = np.hypot(*(route.pose_world[:, :2] - pose[:2]).T).min()
        key = (round(pose[0]), round(pose[1]), round(waypoint.transform.location.z))
        if gap > AROUND_ROUTE_M or key in seen or waypoint.lane_width < 2.5:
            continue
        seen.add(key)
        places.append((pose, waypoint.transform.location.z))
    places.sort(key=lambda p: (round(p[0][0], 1), round(p[0][1], 1), round(p[1], 1)))
    return [places[i] for i in rng.permutation(len(places))]


def start_traffic_manager(client: carla.Client, port: int, seed: int) -> carla.TrafficManager:
    """A fresh synchronous TrafficManager whose choices depend on nothing but the seed."""
    manager = client.get_trafficmanager(port)
    manager.set_synchronous_mode(True)
    manager.set_random_device_seed(seed)
    manager.set_hybrid_physics_mode(False)
    manager.set_global_distance_to_leading_vehicle(FOLLOW_GAP_M)
    return manager


def hand_over(manager: carla.TrafficManager, port: int, vehicles: list[carla.Vehicle], seed: int) -> None:
    """Let the TrafficManager drive the vehicles at seeded speeds, in their lanes, obeying lights."""
    rng = np.random.default_rng([seed, 2])
    for vehicle in vehicles:
        vehicle.set_autopilot(True, port)
        manager.auto_lane_change(vehicle, False)
        manager.set_desired_speed(vehicle, float(rng.uniform(*SPEED_KMH)))


def is_emergency(actor: carla.Actor) -> bool:
    """Is it a police car, an ambulance or a fire engine?"""
    return actor.attributes.get("special_type") == "emergency" or any(
        word in actor.type_id for word in ("police", "ambulance", "firetruck")
    )


def kind_of(type_id: str, length_m: float) -> AgentKind:
    """AgentKind of a CARLA actor type."""
    if type_id.startswith("walker."):
        return AgentKind.PEDESTRIAN
    if type_id.startswith("static."):
        return AgentKind.OBSTACLE
    if any(word in type_id for word in ("bike", "century", "omafiets", "low_rider", "ninja", "vespa", "yzf")):
        return AgentKind.CYCLIST
    return AgentKind.TRUCK if length_m > 6.0 else AgentKind.CAR
