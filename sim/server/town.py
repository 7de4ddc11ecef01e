"""What a town's OpenDRIVE map says about lights, stop signs, light groups, speeds and spawn points."""

import math
import re
from collections import defaultdict
from dataclasses import dataclass, replace

import carla

from drive.contracts import UserError
from sim.server.opendrive import read_town, road_speeds_kmh, short_name

LaneKey = tuple[int, int]
TransformRow = list[list[float]]

_KINDS = {"1000001": "traffic.traffic_light", "206": "traffic.stop", "205": "traffic.yield"}
_SAME_LINE_M, _SAME_ROAD_M = 8.0, 12.0
_KERB_CELL_M = math.hypot(_SAME_LINE_M, _SAME_ROAD_M)
_SPAWN_APART_M = 5.0
_SPAWN_FIRST_M, _SPAWN_EVERY_M, _SPAWN_PER_LANE = 6.0, 40.0, 6


@dataclass(frozen=True)
class LaneStop:
    """End of one controlled lane, where a driver obeys the sign (CARLA frame: y to the right, degrees).

    Attributes:
        lane: (road id, lane id).
        x, y, z: Lane centre at the stop line [m].
        yaw_deg: Driving direction.
        width_m: Lane width.
        at_kerb: Is no other signalled lane of this direction to its right?
    """

    lane: LaneKey
    x: float
    y: float
    z: float
    yaw_deg: float
    width_m: float
    at_kerb: bool = True


@dataclass(frozen=True)
class Sign:
    """One traffic light, stop or yield sign.

    Attributes:
        type_id: Actor type.
        sign_id: OpenDRIVE signal id.
        transform: [[x, y, z], [pitch, yaw, roll]] of the actor; yaw is the approach yaw + 90 degrees.
        trigger: [location, extent, rotation] of the trigger box in the actor's frame.
        stops: Where it is obeyed, one per controlled lane.
    """

    type_id: str
    sign_id: str
    transform: TransformRow
    trigger: list[list[float]]
    stops: tuple[LaneStop, ...]


@dataclass(frozen=True)
class Town:
    """A parsed town.

    Attributes:
        name: Short name, e.g. "Town03".
        xodr: OpenDRIVE text.
        map: The client library's own map (waypoint queries).
        speed_kmh: Road id -> first speed limit given for it.
        signs: All signs that control at least one driving lane.
        groups: Per junction, the controllers in cycle order; each is a list of signal ids with one state.
        spawn_points: Transforms 0.5 m above driving lanes outside junctions.
    """

    name: str
    xodr: str
    map: carla.Map
    speed_kmh: dict[int, float]
    signs: tuple[Sign, ...]
    groups: tuple[tuple[tuple[str, ...], ...], ...]
    spawn_points: list[TransformRow]


def load_town(name: str) -> Town:
    """Read and parse a packaged town (0.1 s for small ones, seconds for Town12/13)."""
    name = short_name(name)
    return parse_town(name, read_town(name))


def parse_town(name: str, xodr: str) -> Town:
    """Parse any OpenDRIVE text; UserError when it is none."""
    try:
        world_map = carla.Map(name, xodr)
    except RuntimeError as error:
        raise UserError(f"{name}: not a usable OpenDRIVE text ({error})") from None
    signs = _signs(world_map)
    lights = [sign.sign_id for sign in signs if sign.type_id == "traffic.traffic_light"]
    return Town(
        name=name,
        xodr=xodr,
        map=world_map,
        speed_kmh=road_speeds_kmh(xodr),
        signs=signs,
        groups=_groups(xodr, lights),
        spawn_points=_spawn_points(world_map),
    )


def _groups(xodr: str, lights: list[str]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Controllers of each junction in file order; leftovers form their own groups."""
    controller = r'<controller\s[^>]*?\bid="([^"]+)"[^>]*?(?<!/)>(.*?)</controller>'
    junction = r'<junction\s[^>]*?\bid="([^"]+)"[^>]*>(.*?)</junction>'
    signals = {
        m.group(1): re.findall(r'<control\s[^>]*signalId="([^"]+)"', m.group(2))
        for m in re.finditer(controller, xodr, re.DOTALL)
    }
    free = dict.fromkeys(lights)

    def take(ids: list[str]) -> tuple[str, ...]:
        mine = tuple(i for i in dict.fromkeys(ids) if i in free)
        for i in mine:
            del free[i]
        return mine

    groups = []
    for match in re.finditer(junction, xodr, re.DOTALL):
        members = re.findall(r'<controller\s[^>]*?\bid="([^"]+)"', match.group(2))
        groups.append(tuple(c for c in (take(signals.get(i, [])) for i in members) if c))
    groups += [(take(ids),) for ids in signals.values()]
    groups += [((i,),) for i in sorted(free)]
    return tuple(group for group in groups if group and group[0])


def _signs(world_map: carla.Map) -> tuple[Sign, ...]:
    references: dict[str, list[carla.Landmark]] = {}
    for landmark in world_map.get_all_landmarks():
        if landmark.type in _KINDS:
            references.setdefault(landmark.id, []).append(landmark)
    found = (_sign(world_map, sign_id, marks) for sign_id, marks in references.items())
    signs = [sign for sign in found if sign is not None]
    nearby: dict[tuple[int, int], list[LaneStop]] = defaultdict(list)
    for sign in signs:
        if sign.type_id == "traffic.traffic_light":
            for stop in sign.stops:
                nearby[_cell(stop)].append(stop)
    return tuple(
        replace(sign, stops=tuple(_with_kerb(stop, nearby) for stop in sign.stops)) for sign in signs
    )


def _cell(stop: LaneStop) -> tuple[int, int]:
    return int(stop.x // _KERB_CELL_M), int(stop.y // _KERB_CELL_M)


def _with_kerb(stop: LaneStop, nearby: dict[tuple[int, int], list[LaneStop]]) -> LaneStop:
    yaw = math.radians(stop.yaw_deg)
    column, row = _cell(stop)
    around = ((column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1))
    for other in (other for cell in around for other in nearby.get(cell, ())):
        dx, dy = other.x - stop.x, other.y - stop.y
        along, right = math.cos(yaw) * dx + math.sin(yaw) * dy, -math.sin(yaw) * dx + math.cos(yaw) * dy
        same_way = abs((other.yaw_deg - stop.yaw_deg + 180) % 360 - 180) < 45
        if same_way and abs(along) < _SAME_LINE_M and 1.0 < right < _SAME_ROAD_M:
            return replace(stop, at_kerb=False)
    return stop


def _sign(world_map: carla.Map, sign_id: str, marks: list[carla.Landmark]) -> Sign | None:
    stops = _lane_stops(world_map, marks)
    if not stops:
        return None
    (x, y, z), yaw_deg, half = _span(stops)
    location = marks[0].transform.location
    is_light = marks[0].type == "1000001"
    back = 1.5 if is_light else 1.0
    yaw = math.radians(yaw_deg)
    dx, dy = x - back * math.cos(yaw) - location.x, y - back * math.sin(yaw) - location.y
    # Sign actors are turned by 90 degrees in CARLA, so that their x axis runs across the lanes.
    c, s = math.cos(yaw + math.pi / 2), math.sin(yaw + math.pi / 2)
    return Sign(
        type_id=_KINDS[marks[0].type],
        sign_id=sign_id,
        transform=[[location.x, location.y, location.z], [0.0, (yaw_deg + 90) % 360, 0.0]],
        # Stop boxes are square: the stop criterion ignores their rotation.
        trigger=[
            [c * dx + s * dy, -s * dx + c * dy, z - location.z],
            [half, 1.0 if is_light else half, 1.0],
            [0.0, 0.0, 0.0],
        ],
        stops=tuple(stops),
    )


def _lane_stops(world_map: carla.Map, marks: list[carla.Landmark]) -> list[LaneStop]:
    """End of every driving lane that the landmarks are valid for."""
    stops: dict[LaneKey, LaneStop] = {}
    for mark in marks:
        for first, last in mark.get_lane_validities():
            for lane in range(min(first, last), max(first, last) + 1):
                waypoint = world_map.get_waypoint_xodr(mark.road_id, lane, mark.s) if lane else None
                if waypoint is None or waypoint.lane_type != carla.LaneType.Driving:
                    continue
                end = _before_junction(waypoint)
                if end is not None:
                    at, key = end.transform, (end.road_id, end.lane_id)
                    place = (at.location.x, at.location.y, at.location.z, at.rotation.yaw)
                    stops.setdefault(key, LaneStop(key, *place, end.lane_width))
    return list(stops.values())


def _before_junction(waypoint: carla.Waypoint) -> carla.Waypoint | None:
    """Stop-line waypoint; towns place signals on roads inside the junction or up to 20 m before it."""
    if waypoint.is_junction:
        for _ in range(200):
            previous = waypoint.previous(0.5)
            if not previous:
                return None
            waypoint = previous[0]
            if not waypoint.is_junction:
                return waypoint
        return None
    for _ in range(40):
        following = waypoint.next(0.5)
        if not following or following[0].is_junction:
            break
        waypoint = following[0]
    return waypoint


def _span(stops: list[LaneStop]) -> tuple[tuple[float, float, float], float, float]:
    """Middle of the lanes at the stop line, driving direction [deg] and half of the width they span [m]."""
    first = stops[0]
    yaw = math.radians(first.yaw_deg)
    right_x, right_y = -math.sin(yaw), math.cos(yaw)
    edges = []
    for stop in stops:
        if abs((stop.yaw_deg - first.yaw_deg + 180) % 360 - 180) < 45:
            offset = (stop.x - first.x) * right_x + (stop.y - first.y) * right_y
            edges += [offset - 0.45 * stop.width_m, offset + 0.45 * stop.width_m]
    middle, half = (min(edges) + max(edges)) / 2, (max(edges) - min(edges)) / 2
    return (first.x + middle * right_x, first.y + middle * right_y, first.z), first.yaw_deg, half


def _crowded(point: TransformRow, other: TransformRow) -> bool:
    """Would two vehicles of one direction stand in each other there?"""
    same_way = abs((point[1][1] - other[1][1] + 180) % 360 - 180) < 90
    return same_way and math.dist(point[0], other[0]) < _SPAWN_APART_M


def _spawn_points(world_map: carla.Map) -> list[TransformRow]:
    """Lane centres outside junctions, in driving direction, none less than 5 m apart."""
    points: list[TransformRow] = []
    nearby: dict[tuple[int, int], list[TransformRow]] = defaultdict(list)
    seen = set()
    for start, _ in world_map.get_topology():
        key = (start.road_id, start.section_id, start.lane_id)
        if key in seen or start.is_junction or start.lane_type != carla.LaneType.Driving:
            continue
        seen.add(key)
        following = start.next(_SPAWN_FIRST_M)
        for _ in range(_SPAWN_PER_LANE):
            if not following or following[0].is_junction or following[0].road_id != start.road_id:
                break
            at = following[0].transform
            location = [at.location.x, at.location.y, at.location.z + 0.5]
            pitch = (at.rotation.pitch + 180) % 360 - 180  # the map library answers 369 degrees for 9
            point = [location, [pitch, at.rotation.yaw, 0.0]]
            column, row = int(location[0] // _SPAWN_APART_M), int(location[1] // _SPAWN_APART_M)
            around = ((column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1))
            if not any(_crowded(point, other) for cell in around for other in nearby.get(cell, ())):
                nearby[column, row].append(point)
                points.append(point)
            following = following[0].next(_SPAWN_EVERY_M)
    return points
