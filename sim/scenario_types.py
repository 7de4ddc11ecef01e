"""Scenario types that route files name: the known ones, and those that the simulator stages."""

from drive.score.abilities import SCENARIO_TYPES

LEADERBOARD_ONLY = ("BackgroundActivityParametrizer", "EnterActorFlowV2", "PriorityAtJunction")
KNOWN = frozenset((*SCENARIO_TYPES, *LEADERBOARD_ONLY))
STAGED: frozenset[str] = KNOWN  # sim.scenarios.catalog has a behaviour for each; a test compares the two
