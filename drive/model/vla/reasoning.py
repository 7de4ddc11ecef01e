"""The VLA's reasoning: typed JSON with a closed vocabulary; any other reply is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

from drive.contracts import Lateral, Longitudinal

Light = Literal["red", "yellow", "green", "none", "unknown"]
Behaviour = Literal["stays", "leaves", "unknown"]
LIGHTS: tuple[str, ...] = get_args(Light)
BEHAVIOURS: tuple[str, ...] = get_args(Behaviour)
MOST_OBJECTS = 3
MOST_LETTERS = 4000
FAR_M = 60
_SIDE_M = 30


@dataclass(frozen=True)
class SceneFacts:
    """What the scene is like.

    Attributes:
        light: Of the traffic light ahead.
        stop_m: Distance to its stop line [m], None = none within 60 m.
        lead_m: Gap to the vehicle ahead [m], None = none within 60 m.
    """

    light: Light
    stop_m: int | None
    lead_m: int | None


@dataclass(frozen=True)
class SeenObject:
    """A road user: where its near edge is, metres ahead of and to the left of the ego."""

    ahead_m: int
    left_m: int


@dataclass(frozen=True)
class Reasoning:
    """A well-formed reply.

    Attributes:
        scene: Light, stop line, vehicle ahead.
        objects: The nearest road users, at most 3.
        behaviour: Per object: is its place still taken in 3 s?
        lateral, longitudinal: The decision.
    """

    scene: SceneFacts
    objects: tuple[SeenObject, ...]
    behaviour: tuple[Behaviour, ...]
    lateral: Lateral
    longitudinal: Longitudinal

    def __post_init__(self) -> None:
        if len(self.objects) != len(self.behaviour) or len(self.objects) > MOST_OBJECTS:
            raise ValueError(f"{len(self.objects)} objects with {len(self.behaviour)} behaviours")

    @property
    def decision(self) -> str:
        """The decision as a command's name, e.g. "keep/stop"."""
        return f"{self.lateral.name}/{self.longitudinal.name}".lower()

    def values(self) -> dict[str, Any]:
        """The four parts as plain JSON values."""
        scene = {"light": self.scene.light, "stop_m": self.scene.stop_m, "lead_m": self.scene.lead_m}
        objects = [{"ahead_m": o.ahead_m, "left_m": o.left_m} for o in self.objects]
        behaviour = list(self.behaviour)
        return {"scene": scene, "objects": objects, "behaviour": behaviour, "decision": self.decision}

    def text(self) -> str:
        """The one spelling that the VLA is trained on: compact JSON."""
        return json.dumps(self.values(), separators=(",", ":"))


DECISIONS = {f"{a.name}/{b.name}".lower(): (a, b) for a in Lateral for b in Longitudinal}


class _Refused(Exception):
    """The reply is malformed; the message says where."""


def parse(reply: str) -> Reasoning | str:
    """The reasoning in a reply, or why it is none; raises nothing, fills in nothing.

    Args:
        reply: Whole text of the reply; only white space may stand around the JSON.
    """
    if len(reply) > MOST_LETTERS:
        return f"reply of {len(reply)} letters"
    try:
        value = json.loads(
            reply, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_no_float
        )
        parts = _object(value, "reply", ("scene", "objects", "behaviour", "decision"))
        objects = tuple(
            _seen(item, f"objects[{i}]") for i, item in enumerate(_list(parts["objects"], "objects"))
        )
        words = _list(parts["behaviour"], "behaviour")
        behaviour = tuple(_word(word, f"behaviour[{i}]", BEHAVIOURS) for i, word in enumerate(words))
        if len(behaviour) != len(objects):
            return f"{len(objects)} objects with {len(behaviour)} behaviours"
        lateral, longitudinal = DECISIONS[_word(parts["decision"], "decision", tuple(DECISIONS))]
        return Reasoning(_scene(parts["scene"]), objects, behaviour, lateral, longitudinal)  # type: ignore[arg-type]
    except _Refused as refused:
        return str(refused)
    except (ValueError, RecursionError) as error:  # ValueError: syntax, or thousands of digits
        return f"not JSON: {str(error)[:80]}"


def _scene(value: Any) -> SceneFacts:
    parts = _object(value, "scene", ("light", "stop_m", "lead_m"))
    light = _word(parts["light"], "scene.light", LIGHTS)
    stop, lead = (_distance(parts[name], f"scene.{name}") for name in ("stop_m", "lead_m"))
    return SceneFacts(light, stop, lead)  # type: ignore[arg-type]


def _seen(value: Any, at: str) -> SeenObject:
    parts = _object(value, at, ("ahead_m", "left_m"))
    return SeenObject(
        _metres(parts["ahead_m"], f"{at}.ahead_m", 0, FAR_M),
        _metres(parts["left_m"], f"{at}.left_m", -_SIDE_M, _SIDE_M),
    )


def _distance(value: Any, at: str) -> int | None:
    return None if value is None else _metres(value, at, 0, FAR_M)


def _metres(value: Any, at: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Refused(f"{at}: not a whole number")
    if not low <= value <= high:
        raise _Refused(f"{at}: not from {low} to {high}")
    return value


def _word(value: Any, at: str, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise _Refused(f"{at}: not a word for it")
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_OBJECTS:
        raise _Refused(f"{at}: not a list of at most {MOST_OBJECTS}")
    return value


def _object(value: Any, at: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise _Refused(f"{at}: not an object with exactly {', '.join(keys)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _Refused("a key is given twice")
    return dict(pairs)


def _no_constant(text: str) -> NoReturn:
    raise _Refused(f"{text} is not a number")


def _no_float(text: str) -> NoReturn:
    raise _Refused(f"{text[:20]} is not a whole number")
