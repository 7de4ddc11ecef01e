"""Route files written from our dataclasses, in the forms of leaderboard 1 and 2."""

import math
from collections.abc import Iterable
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from sim.route_files import FileRoute, Scenario, Value


def number(value: float) -> str:
    return repr(float(value))


def place(parent: Element, tag: str, at: tuple[float, ...]) -> None:
    """An element with CARLA coordinates: y to the right, yaw clockwise in degrees."""
    names = {"x": at[0], "y": -at[1], "z": at[2]}
    if len(at) == 4:
        names["yaw"] = -math.degrees(at[3])
    SubElement(parent, tag, {name: number(value) for name, value in names.items()})


def parameter(parent: Element, name: str, value: Value) -> None:
    if isinstance(value, str):
        SubElement(parent, name, {"value": value})
    elif isinstance(value, float):
        SubElement(parent, name, {"value": number(value)})
    elif len(value) == 2:
        SubElement(parent, name, {"from": number(value[0]), "to": number(value[1])})
    else:
        place(parent, name, value)


def scenario(parent: Element, item: Scenario) -> None:
    element = SubElement(parent, "scenario", {"name": item.name, "type": item.type})
    place(element, "trigger_point", item.trigger_world)
    for name, value in item.parameters.items():
        parameter(element, name, value)


def route_xml(routes: Iterable[FileRoute], leaderboard: int = 2) -> str:
    """The routes as a file; leaderboard 1 has neither scenarios nor more than one weather."""
    root = Element("routes")
    for route in routes:
        element = SubElement(root, "route", {"id": route.route_id, "town": route.town})
        points = element if leaderboard == 1 else SubElement(element, "waypoints")
        for point in route.points_world:
            place(points, "waypoint" if leaderboard == 1 else "position", point)
        weathers = element if leaderboard == 1 else SubElement(element, "weathers")
        for weather in route.weathers:
            names = {name: number(value) for name, value in weather.values.items()}
            at = {"id": "Some"} if leaderboard == 1 else {"route_percentage": number(weather.percent)}
            SubElement(weathers, "weather", at | names)
        if leaderboard == 2:
            scenarios = SubElement(element, "scenarios")
            for item in route.scenarios:
                scenario(scenarios, item)
    return ElementTree.tostring(root, encoding="unicode")
