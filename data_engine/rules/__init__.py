"""Mining rules: each scans the columns of many drives and returns the moments that went wrong.

A new rule is a function and a line in RULES; its keyword parameters are the keys that the YAML may set. All
times are in the log's clock [us]; poses are in the world frame unless the name says otherwise.
"""

from collections.abc import Callable

from data_engine.rules.agents import near_miss
from data_engine.rules.ego import hard_brake, jerk, route_deviation
from data_engine.rules.moments import Finding, from_events
from data_engine.rules.plans import (
    disagreement,
    intent,
    low_confidence,
    low_reward,
    novelty,
    split_brain,
    stuck,
)
from data_engine.tables import REAL_WORLD, Tables

Rule = Callable[..., list[Finding]]
REAL = REAL_WORLD
ONCOMING = "oncoming lane"


def collision(tables: Tables) -> list[Finding]:
    """Contact with anything, as the criteria saw it."""
    return from_events(tables, ("collision",), 1.0)


def off_road(tables: Tables) -> list[Finding]:
    """The car left the drivable lanes."""
    return from_events(tables, ("outside_route_lanes",), 0.9, without=ONCOMING)


def wrong_lane(tables: Tables) -> list[Finding]:
    """The car drove in a lane of oncoming traffic."""
    return from_events(tables, ("outside_route_lanes",), 0.9, word=ONCOMING)


def red_light(tables: Tables) -> list[Finding]:
    """The car passed a red light."""
    return from_events(tables, ("red_light",), 0.9)


def stop_sign(tables: Tables) -> list[Finding]:
    """The car passed a stop sign without stopping."""
    return from_events(tables, ("stop_infraction",), 0.7)


def takeover(tables: Tables) -> list[Finding]:
    """A person or the expert took the wheel from the planner."""
    return from_events(tables, ("takeover", "disengagement", "expert_takes_over"), 0.8)


RULES: dict[str, Rule] = {
    "hard_brake": hard_brake,
    "jerk": jerk,
    "near_miss": near_miss,
    "collision": collision,
    "off_road": off_road,
    "wrong_lane": wrong_lane,
    "red_light": red_light,
    "stop_sign": stop_sign,
    "stuck": stuck,
    "takeover": takeover,
    "route_deviation": route_deviation,
    "disagreement": disagreement,
    "intent": intent,
    "low_reward": low_reward,
    "low_confidence": low_confidence,
    "split_brain": split_brain,
    "novelty": novelty,
}
REAL_LOG_RULES = (
    "hard_brake", "jerk", "near_miss", "takeover", "disagreement", "intent", "low_confidence",
    "split_brain", "novelty",
)  # fmt: skip
VIOLATION_EVENTS = ("collision", "outside_route_lanes", "red_light")

__all__ = ["REAL", "REAL_LOG_RULES", "RULES", "VIOLATION_EVENTS", "Finding", "Rule"]
