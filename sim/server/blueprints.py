"""Blueprint library sent to clients: ids, attributes and values as scenario code expects them."""

from collections.abc import Sequence
from typing import Any

from sim.server.catalog import CHILDREN, COLOURS, FIXED_COLOUR, VEHICLES, WALKER_COUNT
from sim.server.prop_sizes import PROPS, HalfSize
from sim.server.sensor_blueprints import sensor_attributes

BOOL, INT, FLOAT, STRING, COLOUR = range(1, 6)
MARK = "util.light_simulator"  # tells a client that this is not CARLA; cannot be spawned
Attribute = list[Any]
_SIZE_WORDS = ((0.3, "tiny"), (0.8, "small"), (1.8, "medium"))


def _attr(name: str, kind: int, value: str, recommended: Sequence[str] = ()) -> Attribute:
    return [name, kind, value, list(recommended), True, False]


def _fixed(name: str, kind: int, value: str, recommended: Sequence[str] = ()) -> Attribute:
    return [name, kind, value, list(recommended), False, False]


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _vehicles() -> dict[str, list[Attribute]]:
    out = {}
    for type_id, spec in VEHICLES.items():
        attrs = [
            _attr("role_name", STRING, "autopilot", ["autopilot", "scenario", "ego_vehicle", "hero"]),
            _attr("sticky_control", BOOL, "true"),
            _fixed("object_type", STRING, ""),
            _fixed("number_of_wheels", INT, str(spec.wheels)),
            _fixed("base_type", STRING, spec.base_type, [spec.base_type]),
            _fixed("special_type", STRING, spec.special_type, [spec.special_type]),
            _fixed("generation", INT, str(spec.generation)),
            _fixed("has_lights", BOOL, _flag(spec.has_lights)),
            _fixed("has_dynamic_doors", BOOL, _flag(spec.has_doors)),
            _attr("terramechanics", BOOL, "false"),
        ]
        if type_id not in FIXED_COLOUR:
            attrs.append(_attr("color", COLOUR, COLOURS[0], COLOURS))
        if spec.wheels == 2:
            attrs.append(_attr("driver_id", STRING, "1", ["1", "2"]))
        out[type_id] = attrs
    return out


def _walkers() -> dict[str, list[Attribute]]:
    return {
        f"walker.pedestrian.{i:04d}": [
            _attr("role_name", STRING, "pedestrian"),
            _attr("is_invincible", BOOL, "true"),
            _fixed("gender", STRING, "male" if i % 2 else "female"),
            _fixed("age", STRING, "child" if i in CHILDREN else "adult"),
            _fixed("generation", INT, "2" if i > 14 else "1"),
            _fixed("can_use_wheelchair", BOOL, "false"),
            _attr("speed", FLOAT, "0.0", ["0.0", "1.4", "3.7"]),
            _attr("use_wheelchair", BOOL, "false"),
        ]
        for i in range(1, WALKER_COUNT + 1)
    }


def _size_word(half_size: HalfSize) -> str:
    """CARLA's words for the longest side of a prop."""
    longest = 2 * max(half_size)
    return next((word for limit, word in _SIZE_WORDS if longest < limit), "big")


def _props() -> dict[str, list[Attribute]]:
    props = {
        f"static.prop.{name}": [_attr("role_name", STRING, "prop"), _fixed("size", STRING, _size_word(size))]
        for name, size in PROPS.items()
    }
    props["static.prop.mesh"] = [
        _attr("mesh_path", STRING, ""),
        _attr("scale", FLOAT, "1.0"),
        _attr("mass", FLOAT, "0.0"),
        _attr("role_name", STRING, "prop"),
    ]
    props["static.trigger.friction"] = [
        _attr("friction", FLOAT, "3.5"),
        *(_attr(f"extent_{axis}", FLOAT, "1") for axis in "xyz"),
        _attr("role_name", STRING, ""),
    ]
    return props


def definitions() -> list[list[Any]]:
    """ActorDefinition rows [uid, id, tags, attributes] of what can be spawned, and of MARK."""
    controller = {"controller.ai.walker": [_attr("role_name", STRING, "")]}
    library = _vehicles() | _walkers() | controller | _props() | sensor_attributes()
    library[MARK] = []
    return [[uid, i, ",".join(i.split(".")), attrs] for uid, (i, attrs) in enumerate(library.items(), 1)]


NUMERIC: dict[str, frozenset[str]] = {
    row[1]: frozenset(attribute[0] for attribute in row[3] if attribute[1] in (INT, FLOAT))
    for row in definitions()
}
SPAWNABLE = frozenset(NUMERIC) - {MARK}
