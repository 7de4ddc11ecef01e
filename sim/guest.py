"""Drives the ego of a world that somebody else set up and ticks: an evaluator, another tool."""

import time
from collections.abc import Mapping

import carla

from drive.contracts import F32, F64, U8, Policy
from sim.control import MOST_MPS2, Tracker
from sim.expert import BRISK_MPS2, plan_expert
from sim.ground_truth import RoadUsers, ego_state, vehicle_gains
from sim.lights import RouteLights
from sim.navigator import Navigator, room_of
from sim.observe import Shots, chosen_poses, history_ego, observation
from sim.rig import Mount, camera_model
from sim.routes import Route
from sim.signs import stop_signs
from sim.situation import EgoState, Situation

PLAN_EVERY = 4
TICK_S = 0.05
SEEN = ("vehicle.", "walker.pedestrian", "static.prop")
KEPT_TRAIL = 60
SEE_M = 200.0  # oncoming traffic, before a way around


def _navigator(world: carla.World, route: Route) -> Navigator:
    signs = stop_signs(list(world.get_actors().filter("traffic.stop")), route)
    return Navigator(room_of(world.get_map(), route), signs)


class Guest:
    """One drive along a route; call `step` once per tick of 0.05 s.

    Args:
        world: The world, in synchronous mode.
        ego: Vehicle to drive.
        route: Where to.
        policy: Driver; None is the privileged expert.
        cameras: What `images` of `step` were taken with.
        seed: Seed of the plans.
    """

    def __init__(
        self,
        world: carla.World,
        ego: carla.Vehicle,
        route: Route,
        policy: Policy | None,
        cameras: tuple[Mount, ...] = (),
        seed: int = 0,
    ) -> None:
        self._world, self._ego, self._route, self._policy, self._seed = world, ego, route, policy, seed
        self._models = {mount.name: camera_model(mount) for mount in cameras}
        most = BRISK_MPS2 if policy is None else MOST_MPS2
        self._tracker = Tracker(vehicle_gains(ego), most)
        self._others = RoadUsers(world.get_map())
        self._others.see_m = SEE_M
        self._lights = RouteLights(list(world.get_actors().filter("traffic.traffic_light*")), route)
        self._navigator = None if policy is not None else _navigator(world, route)
        self._tick_s = float(world.get_settings().fixed_delta_seconds or TICK_S)
        self._s_m = route.start_m
        self._ticks = 0
        self._trail: list[tuple[float, F64]] = []
        self._shots = Shots()
        self.plan_ms: list[float] = []

    def step(self, t_s: float, images: Mapping[str, U8]) -> carla.VehicleControl:
        """Control for the next tick.

        Args:
            t_s: Time of this tick.
            images: Camera name -> uint8 (H, W, 3) RGB of this tick.
        """
        snapshot = self._world.get_snapshot()
        ego = ego_state(snapshot, self._ego.id)
        x, y, yaw = (float(v) for v in ego.pose_world)
        self._s_m, lateral = self._route.locate((x, y, yaw), self._s_m)
        self._trail = [*self._trail[-KEPT_TRAIL:], (t_s, ego.pose_world)]
        if self._ticks % PLAN_EVERY == 0:
            began = time.perf_counter()
            if self._policy is None:
                poses = plan_expert(self._seen(snapshot, t_s, ego, lateral)).pose_ego
            else:
                poses = self._ask(self._policy, t_s, ego, images)
            self.plan_ms.append(1e3 * (time.perf_counter() - began))
            self._tracker.set_plan(poses, ego.pose_world, t_s)
        self._ticks += 1
        pedals = self._tracker.control(ego.pose_world, ego.speed_mps, t_s, self._tick_s)
        return carla.VehicleControl(throttle=pedals.throttle, brake=pedals.brake, steer=-pedals.steer)

    def _seen(self, snapshot: carla.WorldSnapshot, t_s: float, ego: EgoState, lateral_m: float) -> Situation:
        """What the expert plans with: the scene with its route bent around what stands in the way."""
        scene = self._scene(snapshot, t_s, ego, lateral_m)
        return scene if self._navigator is None else self._navigator.view(scene)

    def _scene(self, snapshot: carla.WorldSnapshot, t_s: float, ego: EgoState, lateral_m: float) -> Situation:
        """Everything around the ego; actors come and go, so they are listed anew for every plan."""
        seen = [a for a in self._world.get_actors() if a.id != self._ego.id and a.type_id.startswith(SEEN)]
        self._others.describe(seen)
        agents = self._others.around(snapshot, self._route, self._s_m, ego.pose_world[:2], predict=True)
        lights = self._lights
        return Situation(
            t_s=t_s,
            ego=ego,
            s_m=self._s_m,
            lateral_m=lateral_m,
            route=self._route,
            agents=agents,
            stops=lights.stops,
            lights=lights.states(),
            emergency=self._others.emergency,
        )

    def _ask(self, policy: Policy, t_s: float, ego: EgoState, images: Mapping[str, U8]) -> F32:
        hint = self._route.hint(ego.pose_world, self._s_m)
        times, poses = zip(*self._trail, strict=True)
        past = history_ego(times, poses, t_s, ego)
        seen = images if policy.needs_images else {}
        asked = observation(t_s, ego, hint, past, self._shots.add(t_s, ego.pose_world, seen), self._models)
        return chosen_poses(policy.plan([asked], self._seed * 100_003 + len(self.plan_ms) + 1)[0])
