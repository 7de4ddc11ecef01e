"""Which behaviour belongs to which scenario type: Bench2Drive's 44, and the leaderboard's own."""

import math
from collections.abc import Callable

import carla

from sim.scenarios import crossings, manoeuvres, obstacles
from sim.scenarios.flows import BICYCLES, CARS, FRONT_M, Flow
from sim.scenarios.junctions import next_junction, ways_through
from sim.scenarios.lanes import way_between
from sim.scenarios.stage import Act, Cue, Now, Together, Unplaceable

Maker = Callable[[Cue], Act]
LIGHT = {"green": carla.TrafficLightState.Green, "red": carla.TrafficLightState.Red}
AGAIN_S = 0.5
RED_S = 8.0
BRAKE_MPS2 = 3.0


class Lights(Act):
    """The ego's light at the next junction shows green, or red for a while and then green; the others red.

    It does not turn red before an ego that could not stop any more.
    """

    def __init__(self, cue: Cue, end_m: float, red_s: float = 0.0) -> None:
        super().__init__(cue.stage, end_m)
        self.s_m, self.red_s = cue.s_m, red_s
        self.waited_s = self.next_s = 0.0
        self.light: carla.TrafficLight | None = None
        self.others: list[carla.TrafficLight] = []

    def tick(self, now: Now) -> None:
        """Hold the states against the cycle of the lights."""
        if not now.on:
            return
        if self.light is None:
            ahead = [stop for stop in now.scene.stops if stop.s_m > now.scene.s_m + 1.0]
            if not ahead:
                return
            room = ahead[0].s_m - now.scene.s_m - FRONT_M
            if room < now.scene.ego.speed_mps**2 / (2 * BRAKE_MPS2) + 0.5:
                self.red_s = 0.0
            self.light = self.stage.world.get_actor(ahead[0].light_id)
            self.others = [x for x in self.light.get_group_traffic_lights() if x.id != self.light.id]
        slow = now.scene.ego.speed_mps < 1.0
        self.waited_s += now.dt_s if slow else 0.0
        if now.scene.t_s < self.next_s:
            return
        self.next_s = now.scene.t_s + AGAIN_S
        self.light.set_state(LIGHT["green" if self.waited_s >= self.red_s else "red"])
        for other in self.others:
            other.set_state(LIGHT["red"])


def junction_end(cue: Cue, behind_m: float = 18.0) -> float:
    """Arc length a little behind the next junction."""
    return min(next_junction(cue.stage, cue.s_m).exit_m + behind_m, cue.stage.route.goal_m - 1.0)


def junction_flow(side: str, merging: bool, lights: bool) -> Maker:
    """A stream through the next junction that the ego's way crosses or joins."""

    def make(cue: Cue) -> Act:
        crossing = next_junction(cue.stage, cue.s_m)
        ways = []
        for from_side in dict.fromkeys((side, "opposite", "left", "right")):
            ways = ways_through(cue.stage, crossing, from_side, merging)
            ways = ways or ways_through(cue.stage, crossing, from_side, not merging)
            if ways:
                break
        if not ways:
            raise Unplaceable("no lane through this junction meets the route")
        end = junction_end(cue)
        gap = cue.interval("source_dist_interval", 20.0, 30.0)
        flow = Flow(cue, ways[0].path_world, cue.number("flow_speed", 10.0), gap, end)
        return Together(Lights(cue, end), flow) if lights else flow

    return make


def flow_between(models: tuple[str, ...] = CARS) -> Maker:
    """A stream from one place of the file to another."""

    def make(cue: Cue) -> Act:
        path = way_between(cue.stage, cue.place("start_actor_flow"), cue.place("end_actor_flow"))
        gap = cue.interval("source_dist_interval", 20.0, 35.0)
        end = _past(cue, path[-1][:2])
        return Flow(cue, path, cue.number("flow_speed", 10.0), gap, end, models)

    return make


def _past(cue: Cue, place: tuple[float, ...]) -> float:
    """Arc length at which the route passes a place, or its end."""
    route = cue.stage.route
    part = route.pose_world[int(cue.s_m) : int(route.goal_m)]
    gaps = [math.dist(pose[:2], place) for pose in part]
    near = min(range(len(gaps)), key=gaps.__getitem__) if gaps else 0
    return min(cue.s_m + near + 8.0, route.goal_m - 2.0) if gaps and gaps[near] < 12.0 else route.goal_m - 5.0


def lights(red_s: float) -> Maker:
    """Just the ego's light."""
    return lambda cue: Lights(cue, junction_end(cue, 8.0), red_s)


def passing(cue: Cue) -> Act:
    """Nothing is added: the junction itself, its signs and lights, are the task."""
    return Act(cue.stage, junction_end(cue, 8.0))


def background(cue: Cue) -> Act:
    """Nothing is added: it only changes the leaderboard's background traffic."""
    return Act(cue.stage, cue.s_m + 1.0)


def two_ways(make: Maker) -> Maker:
    """With traffic in the oncoming lane."""
    return lambda cue: obstacles.with_oncoming(cue, make(cue))


def with_lights(make: Maker) -> Maker:
    """With a green light for the ego."""
    return lambda cue: Together(Lights(cue, junction_end(cue)), make(cue))


SCENARIOS: dict[str, Maker] = {
    "Accident": obstacles.accident,
    "AccidentTwoWays": two_ways(obstacles.accident),
    "BlockedIntersection": with_lights(manoeuvres.Blocked),
    "ConstructionObstacle": obstacles.construction,
    "ConstructionObstacleTwoWays": two_ways(obstacles.construction),
    "ControlLoss": manoeuvres.Slipping,
    "CrossingBicycleFlow": flow_between(BICYCLES),
    "DynamicObjectCrossing": crossings.dynamic_object,
    "EnterActorFlow": flow_between(),
    "EnterActorFlowV2": flow_between(),
    "HardBreakRoute": manoeuvres.HardBrake,
    "HazardAtSideLane": obstacles.riders,
    "HazardAtSideLaneTwoWays": two_ways(obstacles.riders),
    "HighwayCutIn": manoeuvres.HighwayCutIn,
    "HighwayExit": flow_between(),
    "InterurbanActorFlow": flow_between(),
    "InterurbanAdvancedActorFlow": flow_between(),
    "InvadingTurn": obstacles.Invading,
    "MergerIntoSlowTraffic": flow_between(),
    "MergerIntoSlowTrafficV2": flow_between(),
    "NonSignalizedJunctionLeftTurn": junction_flow("opposite", False, False),
    "NonSignalizedJunctionLeftTurnEnterFlow": junction_flow("right", True, False),
    "NonSignalizedJunctionRightTurn": junction_flow("left", True, False),
    "OppositeVehicleRunningRedLight": with_lights(lambda cue: crossings.vehicle_from(cue, emergency=True)),
    "OppositeVehicleTakingPriority": lambda cue: crossings.vehicle_from(cue, emergency=False),
    "ParkedObstacle": obstacles.parked,
    "ParkedObstacleTwoWays": two_ways(obstacles.parked),
    "ParkingCrossingPedestrian": crossings.parking_pedestrian,
    "ParkingCutIn": manoeuvres.parking_cut_in,
    "ParkingExit": manoeuvres.ParkingExit,
    "PedestrianCrossing": crossings.at_crosswalk,
    "SequentialLaneChange": manoeuvres.beside_traffic,
    "SignalizedJunctionLeftTurn": junction_flow("opposite", False, True),
    "SignalizedJunctionLeftTurnEnterFlow": junction_flow("right", True, True),
    "SignalizedJunctionRightTurn": junction_flow("left", True, True),
    "StaticCutIn": manoeuvres.static_cut_in,
    "T_Junction": passing,
    "VanillaNonSignalizedTurn": passing,
    "VanillaNonSignalizedTurnEncounterStopsign": passing,
    "VanillaSignalizedTurnEncounterGreenLight": lights(0.0),
    "VanillaSignalizedTurnEncounterRedLight": lights(RED_S),
    "VehicleOpensDoorTwoWays": two_ways(obstacles.opening_door),
    "VehicleTurningRoute": lambda cue: crossings.after_turn(cue, walkers=False),
    "VehicleTurningRoutePedestrian": lambda cue: crossings.after_turn(cue, walkers=True),
    "YieldToEmergencyVehicle": manoeuvres.Emergency,
    "BackgroundActivityParametrizer": background,
    "PriorityAtJunction": passing,
}
