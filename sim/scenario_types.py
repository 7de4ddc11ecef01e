"""Scenario types that route files name: the known ones, and those that the simulator can stage."""

from drive.score.abilities import SCENARIO_TYPES

LEADERBOARD_ONLY = ("BackgroundActivityParametrizer", "EnterActorFlowV2", "PriorityAtJunction")
KNOWN = frozenset((*SCENARIO_TYPES, *LEADERBOARD_ONLY))
STAGED: frozenset[str] = frozenset()  # none yet: routes are driven without their scenarios, and say so
