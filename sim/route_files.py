"""Route files of the CARLA leaderboard (1 and 2) and of Bench2Drive, read as they are."""

import math
import re
import statistics
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

from drive.contracts import UserError
from sim.frames import pose_from_carla
from sim.scenario_types import KNOWN

Point = tuple[float, float, float]
Value = str | float | tuple[float, ...]
GAP_M, GAP_RATIO = 15.0, 5.0  # a hop longer than both this and so many times the usual one is a gap
REPEAT_M = 0.01
ROUTE_ID = re.compile(r"[\w.-]{1,100}")  # part of file names
ROUTE_PARTS = ("waypoints", "waypoint", "scenarios", "weathers", "weather")
WEATHER = (
    "cloudiness", "precipitation", "precipitation_deposits", "wind_intensity", "sun_azimuth_angle",
    "sun_altitude_angle", "fog_density", "fog_distance", "fog_falloff", "wetness", "scattering_intensity",
    "mie_scattering_scale", "rayleigh_scattering_scale", "dust_storm",
)  # fmt: skip


@dataclass(frozen=True)
class Weather:
    """CARLA's weather parameters by name, in force from `percent` [0, 100] of the route on."""

    percent: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Scenario:
    """Something that happens on a route.

    Attributes:
        name: As in the file, e.g. "ParkingCutIn_1".
        type: Kind, e.g. "ParkingCutIn".
        trigger_world: x, y, z [m] and yaw [rad] of the place on the route where it begins.
        parameters: Name -> number or text; (from, to) of an interval; x, y, z in the world of a place.
    """

    name: str
    type: str
    trigger_world: tuple[float, float, float, float]
    parameters: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class FileRoute:
    """One route of a file.

    Attributes:
        route_id: Its id in the file.
        town: Map name.
        points_world: Waypoints in order, x, y, z [m]; NaN where the file has no number.
        weathers: In the order of the file; may be empty.
        scenarios: In the order of the file; leaderboard 1 keeps them elsewhere, so there are none.
    """

    route_id: str
    town: str
    points_world: tuple[Point, ...]
    weathers: tuple[Weather, ...] = ()
    scenarios: tuple[Scenario, ...] = ()

    @property
    def kind(self) -> str:
        """Type of its first scenario, which Bench2Drive counts the route under; "none" without one."""
        return self.scenarios[0].type if self.scenarios else "none"


@dataclass(frozen=True)
class Finding:
    """Something to tell about a route: what kind of thing, and the detail."""

    route_id: str
    kind: str
    detail: str


@dataclass(frozen=True)
class RouteFile:
    """A parsed file.

    Attributes:
        path: Where it was read.
        routes: All of them, broken ones included.
        warnings: What a driver of these routes should know.
        problems: Why routes cannot be driven.
    """

    path: Path
    routes: tuple[FileRoute, ...]
    warnings: tuple[Finding, ...] = ()
    problems: tuple[Finding, ...] = ()


def read_routes(path: str | Path) -> RouteFile:
    """Read a route file; what is wrong with single routes is in `problems`, all of it at once.

    Raises:
        UserError: The file cannot be read, is not XML, or holds no routes.
    """
    try:
        root = ElementTree.fromstring(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give a route file (XML)") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter two: its encoding
        raise UserError(f"{path}: not valid XML ({error}); restore the file") from None
    found = root.findall("route") if root.tag == "routes" else []
    if not found:
        raise UserError(f"{path}: holds no routes (expected <routes> with <route> in it, got <{root.tag}>)")
    reader = _Reader()
    routes = tuple(reader.route(element, number) for number, element in enumerate(found))
    seen: set[str] = set()
    for route in routes:
        if route.route_id in seen:
            reader.problem(route.route_id, "repeated id", "ids must differ within a file")
        seen.add(route.route_id)
    return RouteFile(Path(path), routes, tuple(reader.warnings), tuple(reader.problems))


def grouped(findings: Iterable[Finding], most: int | None = None) -> list[str]:
    """One readable phrase per kind of finding: on how many routes, and the details of `most` of them."""
    kinds: dict[str, dict[str, list[str]]] = {}
    for finding in findings:
        kinds.setdefault(finding.kind, {}).setdefault(finding.route_id, []).append(finding.detail)
    phrases = []
    for kind, routes in kinds.items():
        shown = list(routes.items())[:most]
        each = "; ".join(f"route {route}: {', '.join(details)}" for route, details in shown)
        rest = f"; and {len(routes) - len(shown)} more" if len(routes) > len(shown) else ""
        phrase = f"{kind} ({len(routes)} route{'s' * (len(routes) > 1)}): {each}{rest}"
        phrases.append(" ".join(phrase.split()))
    return phrases


class _Reader:
    """Turns elements into routes and notes what it meets on the way."""

    def __init__(self) -> None:
        self.warnings: list[Finding] = []
        self.problems: list[Finding] = []
        self._route = ""

    def problem(self, route: str, kind: str, detail: str) -> None:
        self.problems.append(Finding(route, kind, detail))

    def _warn(self, kind: str, detail: str) -> None:
        self.warnings.append(Finding(self._route, kind, detail))

    def route(self, element: Element, number: int) -> FileRoute:
        self._route = element.get("id") or f"number {number + 1}"
        if not ROUTE_ID.fullmatch(element.get("id") or ""):
            self.problem(self._route, "unusable id", "up to 100 letters, digits, '.', '-', '_' are allowed")
        town = (element.get("town") or "").split("/")[-1]
        if not town:
            self.problem(self._route, "no town", "the attribute 'town' is missing")
        for child in element:
            if child.tag not in ROUTE_PARTS:
                self._warn("unknown element, ignored", f"<{child.tag}>")
        places = [*element.findall("waypoints/position"), *element.findall("waypoint")]
        points = tuple(self._place(place, f"waypoint {n}")[:3] for n, place in enumerate(places))
        self._check_points(points)
        weathers = [*element.findall("weathers/weather"), *element.findall("weather")]
        return FileRoute(
            self._route,
            town,
            points,
            tuple(self._weather(w) for w in weathers),
            tuple(self._scenario(s) for s in element.findall("scenarios/scenario")),
        )

    def _check_points(self, points: tuple[Point, ...]) -> None:
        if not all(math.isfinite(v) for point in points for v in point):
            return  # noted where it was read
        hops = [math.dist(a[:2], b[:2]) for a, b in pairwise(points)]
        repeats = sum(hop < REPEAT_M for hop in hops)
        if len(hops) == repeats:
            self.problem(self._route, "fewer than 2 different waypoints", f"{len(points)} given")
        elif repeats:
            self._warn("repeated waypoints", str(repeats))
        usual = statistics.median(hops) if hops else 0.0
        gaps = [hop for hop in hops if hop > max(GAP_M, GAP_RATIO * usual)]
        if gaps:
            self._warn("gaps between waypoints", f"{max(gaps):.0f} m (usual {usual:.1f} m)")

    def _number(self, element: Element, name: str, where: str) -> float:
        text = element.get(name)
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.problem(self._route, "not a number", f"{where}: {name} is {text!r}")
            return math.nan
        return value

    def _place(self, element: Element, where: str, turned: bool = False) -> tuple[float, float, float, float]:
        """World x, y, z and yaw [rad] of an element in CARLA's frame; yaw is 0 unless `turned`."""
        x, y, z = (self._number(element, name, where) for name in ("x", "y", "z"))
        x, y, yaw = pose_from_carla(x, y, self._number(element, "yaw", where) if turned else 0.0)
        return x, y, z, yaw

    def _weather(self, element: Element) -> Weather:
        percent = (
            self._number(element, "route_percentage", "weather")
            if "route_percentage" in element.attrib
            else 0.0
        )
        values = {}
        for name in element.attrib:
            if name in WEATHER:
                values[name] = self._number(element, name, "weather")
            elif name not in ("route_percentage", "id"):
                self._warn("unknown weather parameter, ignored", name)
        return Weather(percent, values)

    def _scenario(self, element: Element) -> Scenario:
        kind = element.get("type") or ""
        name = element.get("name") or kind
        if kind not in KNOWN:
            self._warn("unknown scenario type", repr(kind))
        trigger = element.find("trigger_point")
        at = (math.nan, math.nan, math.nan, math.nan)
        if trigger is None:
            self.problem(self._route, "scenario without trigger_point", name)
        else:
            at = self._place(trigger, f"{name}: trigger_point", turned=True)
        parameters: dict[str, Value] = {}
        for child in element:
            if child.tag != "trigger_point":
                value = self._parameter(child, f"{name}: {child.tag}")
                if child.tag in parameters:
                    self._warn("repeated scenario parameter, the last one counts", f"{name}: {child.tag}")
                if value is not None:
                    parameters[child.tag] = value
        return Scenario(name, kind, at, parameters)

    def _parameter(self, element: Element, where: str) -> Value | None:
        names = set(element.attrib)
        if names == {"value"}:
            text = element.get("value", "")
            try:
                return float(text) if math.isfinite(float(text)) else text
            except ValueError:
                return text
        if names == {"from", "to"}:
            return self._number(element, "from", where), self._number(element, "to", where)
        if names == {"x", "y", "z"}:
            return self._place(element, where)[:3]
        if names == {"x", "y", "z", "yaw"}:
            return self._place(element, where, turned=True)
        self._warn("scenario parameter of unknown form, ignored", f"{where} {dict(element.attrib)}")
        return None
