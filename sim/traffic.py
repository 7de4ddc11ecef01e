"""Other road users: vehicles under CARLA's TrafficManager and scripted walkers, both fixed by the seed."""

import math
from dataclasses import dataclass

import carla
import numpy as np

from drive.contracts import F64, AgentKind, UserError
from sim.frames import location, transform, vector, waypoint_pose
from sim.routes import Route

CLEAR_OF_EGO_M = 12.0
CLEAR_OF_OTHERS_M = 9.0
AROUND_ROUTE_M = 70.0
SPAWN_LIFT_M = 0.5
FOLLOW_GAP_M = 3.0
SPEED_KMH = (20.0, 36.0)
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
    """Spawn up to `count` cars and vans on lanes near the route; same map, route and seed give the same cars."""
    rng = np.random.default_rng([seed, 1])
    library = world.get_blueprint_library().filter("vehicle.*")
    models = sorted(b.id for b in library if _is_car(b))
    blueprints = {b.id: b for b in library}
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
        blueprint = blueprints[models[int(rng.integers(len(models)))]]
        blueprint.set_attribute("role_name", "autopilot")
        vehicle = world.try_spawn_actor(blueprint, transform(pose, z + SPAWN_LIFT_M))
        if vehicle is not None:
            vehicles.append(vehicle)
            taken.append((pose[0], pose[1]))
    return vehicles


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


@dataclass
class Walker:
    """One pedestrian: walks along the route, and crosses it when the ego comes near if `crosses`."""

    actor: carla.Actor
    crosses: bool
    along: tuple[float, float]
    across: tuple[float, float]
    s_m: float
    speed_mps: float
    trigger_m: float
    state: str = "along"
    left_m: float = 0.0


class Walkers:
    """All pedestrians of a drive; scripted, so the same drive meets the same walkers."""

    def __init__(self, world: carla.World, route: Route, count: int, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 3])
        self._walkers: list[Walker] = []
        blueprints = sorted(world.get_blueprint_library().filter("walker.pedestrian.*"), key=lambda b: b.id)
        for number in range(count):
            walker = self._spawn(world, route, blueprints, crosses=number % 2 == 0)
            if walker is not None:
                self._walkers.append(walker)

    @property
    def actors(self) -> list[carla.Actor]:
        """The walkers' actors."""
        return [w.actor for w in self._walkers]

    def _spawn(
        self, world: carla.World, route: Route, blueprints: list[carla.ActorBlueprint], crosses: bool
    ) -> Walker | None:
        rng = self._rng
        for _ in range(20):
            s = float(rng.uniform(route.start_m + 30, route.goal_m - 8))
            if crosses and route.junction[max(0, int(s) - 6) : int(s) + 7].any():
                continue
            side = 1.0 if rng.random() < 0.4 else -1.0
            pose = route.at(s)
            edge = self._kerb(world.get_map(), pose, side, float(route.z_m[int(s)]))
            opposite = self._kerb(world.get_map(), pose, -side, float(route.z_m[int(s)]))
            if edge is None or opposite is None:
                continue
            offset = edge + float(rng.uniform(0.7, 1.6))
            normal = (-math.sin(pose[2]) * side, math.cos(pose[2]) * side)
            spot = (pose[0] + normal[0] * offset, pose[1] + normal[1] * offset, pose[2])
            blueprint = blueprints[int(rng.integers(len(blueprints)))]
            if blueprint.has_attribute("is_invincible"):
                blueprint.set_attribute("is_invincible", "false")
            place = transform(spot, float(route.z_m[int(s)]) + 1.1)
            actor = world.try_spawn_actor(blueprint, place)
            if actor is None:
                continue
            way = 1.0 if rng.random() < 0.5 else -1.0
            return Walker(
                actor=actor,
                crosses=crosses,
                along=(math.cos(pose[2]) * way, math.sin(pose[2]) * way),
                across=(-normal[0], -normal[1]),
                s_m=s,
                speed_mps=float(rng.uniform(1.0, 1.7)),
                trigger_m=float(rng.uniform(20, 34)),
                state="wait" if crosses else "along",
                left_m=float(rng.uniform(10, 30)) if not crosses else offset + opposite + 1.2,
            )
        return None

    @staticmethod
    def _kerb(carla_map: carla.Map, pose: F64, side: float, z_m: float) -> float | None:
        """Distance from the lane centre to the edge of the carriageway on one side; None if it is wider than 12 m."""
        for step in np.arange(1.5, 12.0, 0.25):
            x, y = pose[0] - math.sin(pose[2]) * side * step, pose[1] + math.cos(pose[2]) * side * step
            if carla_map.get_waypoint(location(x, y, z_m), False, carla.LaneType.Driving) is None:
                return float(step)
        return None

    def tick(self, snapshot: carla.WorldSnapshot, ego_centre: F64, ego_speed: float, ego_s: float, dt_s: float) -> None:
        """Give each walker its control for the next tick."""
        for walker in self._walkers:
            found = snapshot.find(walker.actor.id)
            if found is None:
                continue
            here = found.get_transform().location
            self._advance(walker, ego_s)
            way = walker.across if walker.state == "cross" else walker.along
            moving = walker.state in ("cross", "along")
            if moving and _would_touch(here.x, -here.y, way, ego_centre, ego_speed):
                moving = False
            if moving:
                walker.left_m -= walker.speed_mps * dt_s
            control = carla.WalkerControl(vector(*way), walker.speed_mps if moving else 0.0, False)
            walker.actor.apply_control(control)

    @staticmethod
    def _advance(walker: Walker, ego_s: float) -> None:
        ahead = walker.s_m - ego_s
        if walker.state == "wait" and ahead < walker.trigger_m:
            walker.state = "cross"
        elif walker.state in ("cross", "along") and walker.left_m <= 0:
            if walker.crosses:
                walker.state = "done"
            else:
                walker.along = (-walker.along[0], -walker.along[1])
                walker.left_m = 25.0


def _would_touch(x: float, y: float, way: tuple[float, float], ego_centre: F64, ego_speed: float) -> bool:
    """Would the next metre take a walker into the ego's side or into an ego that stands?  (Nobody does that.)"""
    c, s = math.cos(ego_centre[2]), math.sin(ego_centre[2])
    for reach in (0.4, 0.8, 1.2):
        dx, dy = x + way[0] * reach - ego_centre[0], y + way[1] * reach - ego_centre[1]
        forward, left = dx * c + dy * s, -dx * s + dy * c
        nose = 2.9 if ego_speed < 0.5 else 2.0
        if -2.9 < forward < nose and abs(left) < 1.4:
            return True
    return False


def kind_of(type_id: str, length_m: float) -> AgentKind:
    """AgentKind of a CARLA actor type."""
    if type_id.startswith("walker."):
        return AgentKind.PEDESTRIAN
    if type_id.startswith("static."):
        return AgentKind.OBSTACLE
    if any(word in type_id for word in ("bike", "century", "omafiets", "low_rider", "ninja", "vespa", "yzf")):
        return AgentKind.CYCLIST
    return AgentKind.TRUCK if length_m > 6.0 else AgentKind.CAR
