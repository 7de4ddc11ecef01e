"""Graph of a town's driving lanes: which lane follows which, and the shortest way between two places."""

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import carla
import numpy as np

from drive.contracts import F64
from sim.frames import location, waypoint_pose

LaneKey = tuple[int, int, int]  # OpenDRIVE road, lane section, lane
Node = tuple[LaneKey, bool]  # a lane, and whether it was entered where the way starts, not at its beginning
EDGE_M = 1e-3  # a place this near to a section's end still belongs to it
SAMPLE_M = 1.0
BACKWARDS_M = 1.0  # coordinates in route files are rounded: this far back is the same place
CHANGE_COST_M = 10.0
FORBIDDEN_CHANGE_COST_M = 100.0  # across a solid line
SAME_PLACE_M = 1.0  # lanes of a junction within this distance of the nearest one are as good a match
OVERLAP_REACH_M = 3.0
JOIN_M = 3.0
BEYOND_M = 1e6


@dataclass(frozen=True)
class Lane:
    """One driving lane of one lane section.

    Attributes:
        key: Road, section, lane.
        entry_s_m: Road coordinate at which traffic enters the lane.
        length_m: Length along the road's reference line.
        junction: OpenDRIVE junction id, -1 outside junctions.
        after: Lanes that follow it.
    """

    key: LaneKey
    entry_s_m: float
    length_m: float
    junction: int
    after: tuple[LaneKey, ...]

    @property
    def way(self) -> float:
        """+1 if traffic runs with the road's reference line (right-hand lanes), else -1."""
        return 1.0 if self.key[2] < 0 else -1.0


@dataclass(frozen=True)
class Place:
    """A point on a lane, `at_m` along its traffic, and how far the matched point was from it."""

    lane: LaneKey
    at_m: float
    off_m: float = 0.0


@dataclass(frozen=True)
class Leg:
    """Part of a way: one lane from `start_m` to `end_m`; `changed` says it was entered from the side."""

    lane: LaneKey
    start_m: float
    end_m: float
    changed: bool = False


@dataclass
class LaneGraph:
    """Lanes of one town; make it with `LaneGraph.of`."""

    town: carla.Map
    lanes: dict[LaneKey, Lane]
    _in_junction: dict[int, list[LaneKey]] = field(default_factory=lambda: defaultdict(list))
    _samples: dict[LaneKey, F64] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for lane in self.lanes.values():
            if lane.junction >= 0:
                self._in_junction[lane.junction].append(lane.key)

    @classmethod
    def of(cls, town: carla.Map, opendrive: str) -> "LaneGraph":
        """Graph of a town from its map and the text the map was made from."""
        after: dict[LaneKey, list[LaneKey]] = defaultdict(list)
        first: dict[LaneKey, carla.Waypoint] = {}
        for here, there in town.get_topology():
            if here.lane_type == carla.LaneType.Driving:
                after[key_of(here)].append(key_of(there))
            for begin in (here, there):  # a lane that leads nowhere is only ever a second one
                if begin.lane_type == carla.LaneType.Driving:
                    first.setdefault(key_of(begin), begin)
        ends = section_ends(opendrive)
        lanes: dict[LaneKey, Lane] = {}
        for key, waypoint in first.items():
            begin, end = ends[key[0]][key[1]]
            junction = waypoint.junction_id if waypoint.is_junction else -1
            lanes[key] = Lane(key, begin if key[2] < 0 else end, end - begin, junction, tuple(after[key]))
        graph = cls(town, lanes)
        for key, lane in lanes.items():
            lanes[key] = replace(lane, after=graph._joining(lane, first))
        return graph

    def _joining(self, lane: Lane, first: Mapping[LaneKey, carla.Waypoint]) -> tuple[LaneKey, ...]:
        """Lanes that really begin where a lane ends: some towns' dead ends are said to lead to themselves."""
        end = self.waypoint(lane.key, lane.length_m).transform.location
        known = [key for key in dict.fromkeys(lane.after) if key in first]
        return tuple(key for key in known if first[key].transform.location.distance(end) < JOIN_M)

    def waypoint(self, lane: LaneKey, at_m: float) -> carla.Waypoint:
        """Waypoint `at_m` along a lane, kept off the section's very ends, where the lane is ambiguous."""
        known = self.lanes[lane]
        inside = min(EDGE_M, known.length_m / 2)
        at = min(max(at_m, inside), known.length_m - inside)
        return self.town.get_waypoint_xodr(lane[0], lane[2], known.entry_s_m + known.way * at)

    def nearest(self, x_m: float, y_m: float, z_m: float) -> carla.Waypoint | None:
        """Nearest point of any driving lane to a world point; None far beyond any town."""
        if max(abs(x_m), abs(y_m), abs(z_m)) > BEYOND_M:
            return None
        return self.town.get_waypoint(location(x_m, y_m, z_m), True, carla.LaneType.Driving)

    def places(self, x_m: float, y_m: float, z_m: float) -> list[Place]:
        """Places that a world point may mean, the nearest first: several where a junction's lanes overlap."""
        nearest = self.nearest(x_m, y_m, z_m)
        if nearest is None or key_of(nearest) not in self.lanes:
            return []
        lane = self.lanes[key_of(nearest)]
        pose = waypoint_pose(nearest)
        off = math.hypot(pose[0] - x_m, pose[1] - y_m)
        found = [Place(lane.key, lane.way * (nearest.s - lane.entry_s_m), off)]
        for key in self._in_junction.get(lane.junction, ()) if off < OVERLAP_REACH_M else ():
            if key == lane.key:
                continue
            points = self._points(key)
            gap = np.hypot(points[:, 0] - x_m, points[:, 1] - y_m)
            k = int(gap.argmin())
            if gap[k] < min(off + SAME_PLACE_M, OVERLAP_REACH_M) and abs(points[k, 2] - z_m) < 4.0:
                found.append(Place(key, k * self.lanes[key].length_m / (len(points) - 1), float(gap[k])))
        return sorted(found, key=lambda place: place.off_m)

    def _points(self, key: LaneKey) -> F64:
        """Centre line of a lane, float64 (P, 3) x, y, z at even distances, ends included."""
        if key not in self._samples:
            length = self.lanes[key].length_m
            rows = []
            for at in np.linspace(0.0, length, max(2, math.ceil(length / SAMPLE_M) + 1)):
                here = self.waypoint(key, float(at))
                rows.append((*waypoint_pose(here)[:2], here.transform.location.z))
            self._samples[key] = np.array(rows, np.float64)
        return self._samples[key]

    def beside(self, lane: LaneKey, at_m: float) -> list[tuple[LaneKey, float]]:
        """Lanes of the same direction left and right of a lane, with what a change to them costs [m]."""
        road, section, number = lane
        found = []
        for step in (-1, 1):
            other = (road, section, number + step)
            if number + step == 0 or other not in self.lanes:
                continue
            side = carla.LaneChange.Right if (step < 0) == (number < 0) else carla.LaneChange.Left
            allowed = bool(int(self.waypoint(lane, at_m).lane_change) & int(side))
            found.append((other, CHANGE_COST_M if allowed else FORBIDDEN_CHANGE_COST_M))
        return found

    def ways(self, start: Place, goals: list[Place]) -> list[tuple[float, list[Leg]] | None]:
        """Cheapest way from a place to each goal: cost [m] (length plus lane changes) and legs; None if none.

        A goal up to BACKWARDS_M behind the start counts as the start itself.
        """
        first: Node = (start.lane, True)
        best: dict[Node, float] = {first: 0.0}
        came: dict[Node, tuple[Node, bool]] = {}
        done: set[Node] = set()
        costs, last = [math.inf] * len(goals), [first] * len(goals)
        order = count()
        heap = [(0.0, next(order), first)]
        while heap:
            cost, _, node = heapq.heappop(heap)
            if cost >= max(costs):
                break
            if node in done:
                continue
            done.add(node)
            lane, begins = self.lanes[node[0]], start.at_m if node[1] else 0.0
            for n, goal in enumerate(goals):
                total = cost + max(0.0, goal.at_m - begins)
                if goal.lane == lane.key and goal.at_m >= begins - BACKWARDS_M and total < costs[n]:
                    costs[n], last[n] = total, node
            onward = [((key, False), lane.length_m - begins, False) for key in lane.after]
            onward += [((key, node[1]), price, True) for key, price in self.beside(lane.key, begins)]
            for following, price, changed in onward:
                if cost + price < best.get(following, math.inf):
                    best[following] = cost + price
                    came[following] = (node, changed)
                    heapq.heappush(heap, (cost + price, next(order), following))
        return [
            (cost, self._legs(start, goal, node, came)) if math.isfinite(cost) else None
            for cost, node, goal in zip(costs, last, goals, strict=True)
        ]

    def _legs(
        self, start: Place, goal: Place, node: Node, came: Mapping[Node, tuple[Node, bool]]
    ) -> list[Leg]:
        legs: list[Leg] = []
        ends = goal.at_m
        while True:
            begins = start.at_m if node[1] else 0.0
            before, changed = came.get(node, (None, False))
            legs.append(Leg(node[0], begins, max(begins, ends), changed))
            if before is None:
                return legs[::-1]
            ends = begins if changed else self.lanes[before[0]].length_m
            node = before


def key_of(waypoint: carla.Waypoint) -> LaneKey:
    """Lane that a waypoint lies on."""
    return waypoint.road_id, waypoint.section_id, waypoint.lane_id


def section_ends(opendrive: str) -> dict[int, list[tuple[float, float]]]:
    """Per road id the lane sections' first and last road coordinate [m], in order."""
    found: dict[int, list[tuple[float, float]]] = {}
    starts: list[float] = []
    length, road = 0.0, -1

    def close() -> None:
        if road >= 0:
            found[road] = list(zip(starts, [*starts[1:], length], strict=True))

    for tag in re.finditer(r"<(road|laneSection)\s([^>]*)>", opendrive):
        values = dict(re.findall(r'(\w+)\s*=\s*"([^"]*)"', tag[2]))
        if tag[1] == "road":
            close()
            length, road, starts = float(values["length"]), int(values["id"]), []
        else:
            starts.append(float(values["s"]))
    close()
    return found
