"""Bench2Drive's abilities: which scenario types ask for which, and how many routes were mastered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drive.score.closedloop import is_success, record_counts

ABILITIES: dict[str, tuple[str, ...]] = {
    "Overtaking": (
        "Accident", "AccidentTwoWays", "ConstructionObstacle", "ConstructionObstacleTwoWays",
        "HazardAtSideLane", "HazardAtSideLaneTwoWays", "ParkedObstacle", "ParkedObstacleTwoWays",
        "VehicleOpensDoorTwoWays",
    ),
    "Merging": (
        "CrossingBicycleFlow", "EnterActorFlow", "HighwayCutIn", "HighwayExit", "InterurbanActorFlow",
        "InterurbanAdvancedActorFlow", "MergerIntoSlowTraffic", "MergerIntoSlowTrafficV2",
        "NonSignalizedJunctionLeftTurn", "NonSignalizedJunctionLeftTurnEnterFlow",
        "NonSignalizedJunctionRightTurn", "ParkingExit", "SequentialLaneChange", "SignalizedJunctionLeftTurn",
        "SignalizedJunctionLeftTurnEnterFlow", "SignalizedJunctionRightTurn",
    ),
    "Emergency brake": (
        "BlockedIntersection", "ControlLoss", "DynamicObjectCrossing", "HardBreakRoute",
        "OppositeVehicleRunningRedLight", "OppositeVehicleTakingPriority", "ParkingCrossingPedestrian",
        "ParkingCutIn", "PedestrianCrossing", "StaticCutIn", "VehicleTurningRoute",
        "VehicleTurningRoutePedestrian",
    ),
    "Give way": ("InvadingTurn", "YieldToEmergencyVehicle"),
    "Traffic signs": (
        "BlockedIntersection", "CrossingBicycleFlow", "EnterActorFlow", "NonSignalizedJunctionLeftTurn",
        "NonSignalizedJunctionLeftTurnEnterFlow", "NonSignalizedJunctionRightTurn",
        "OppositeVehicleRunningRedLight", "OppositeVehicleTakingPriority", "PedestrianCrossing",
        "SignalizedJunctionLeftTurn", "SignalizedJunctionLeftTurnEnterFlow", "SignalizedJunctionRightTurn",
        "T_Junction", "VanillaNonSignalizedTurn", "VanillaNonSignalizedTurnEncounterStopsign",
        "VanillaSignalizedTurnEncounterGreenLight", "VanillaSignalizedTurnEncounterRedLight",
        "VehicleTurningRoute", "VehicleTurningRoutePedestrian",
    ),
}  # fmt: skip
SCENARIO_TYPES = tuple(sorted({kind for kinds in ABILITIES.values() for kind in kinds}))
SIGNS = "Traffic signs"


@dataclass(frozen=True)
class AbilityRow:
    """How many routes that ask for an ability were mastered.

    Attributes:
        ability: Name.
        planned: Routes that ask for it; None if the planned routes are not known.
        recorded: Those with a record.
        mastered: Those that succeeded; for traffic signs also those that passed the first junction without
            running a light or a stop sign, whatever went wrong elsewhere. None if that cannot be told.
    """

    ability: str
    planned: int | None
    recorded: int
    mastered: int | None

    @property
    def rate(self) -> float | None:
        """Share of the planned routes (a missing one counts as not mastered)."""
        return None if not self.planned or self.mastered is None else self.mastered / self.planned

    @property
    def rate_of_recorded(self) -> float | None:
        """Share of the recorded routes, which is what Bench2Drive publishes."""
        return None if not self.recorded or self.mastered is None else self.mastered / self.recorded


def ability_table(
    records: Sequence[Mapping[str, Any]],
    planned: Mapping[str, str] | None = None,
    junction_share: Mapping[str, float] | None = None,
) -> list[AbilityRow]:
    """Abilities from leaderboard records, one per route.

    Args:
        records: Of one run; their scenario type is that of `planned`, else that of their scenario name.
        planned: Route id as in the records -> scenario type of every planned route.
        junction_share: Route id -> share of the route [0, 1] after which its first junction is passed;
            without it the traffic signs of routes that failed cannot be judged.
    """
    kinds = {str(r["route_id"]): scenario_type(r) for r in records} if planned is None else planned
    rows = []
    for ability, types in ABILITIES.items():
        routes = {route for route, kind in kinds.items() if kind in types}
        asked = [r for r in records if str(r["route_id"]) in routes]
        good = [_mastered(r, ability == SIGNS, junction_share) for r in asked]
        rows.append(
            AbilityRow(
                ability,
                None if planned is None else len(routes),
                len(asked),
                None if None in good else sum(bool(g) for g in good),
            )
        )
    return rows


def scenario_type(record: Mapping[str, Any]) -> str:
    """Scenario type of a record: its scenario name ("ParkingCutIn_1") without the number."""
    name, _, number = str(record.get("scenario_name", "")).rpartition("_")
    return name if name and number.isdigit() else str(record.get("scenario_name", ""))


def _mastered(
    record: Mapping[str, Any], signs: bool, junction_share: Mapping[str, float] | None
) -> bool | None:
    counts = record_counts(record)
    if is_success(str(record["status"]), counts):
        return True
    if not signs or counts.get("stop_infraction") or counts.get("red_light"):
        return False
    if junction_share is None or str(record["route_id"]) not in junction_share:
        return None
    return float(record["scores"]["score_route"]) / 100 > junction_share[str(record["route_id"])]
