"""What a night leaves outside its folder: the case store, and which old nights are still needed."""

from collections.abc import Mapping
from pathlib import Path

from data_engine.cases import CaseStore, NightOutcome, apply_night, load_store, save_store
from data_engine.consolidate import promoted_since
from data_engine.evidence import evidence_from_json
from data_engine.mine import load_cases
from data_engine.night import NIGHTS, Night, earlier_nights
from data_engine.registry import ALIASES, CANDIDATE, CHAMPION
from data_engine.stages import Done
from drive.files import read_json, read_object


def record_cases(night: Night, done: Mapping[str, Done]) -> CaseStore:
    """Enter the night into the case store, once; returns the store after it."""
    mine, curate = done["mine"].folder, done["curate"].folder
    windows = read_object(curate / "windows.json", "trained", "siblings")
    promoted = "promote" in done and done["promote"].report["decision"] == "promoted"
    cases = load_cases(mine / "cases.json")
    quarantined = dict(read_json(curate / "poisoned.json"))
    left_out = read_json(mine / "left_out.json")
    quarantined |= {c.case_id: left_out[c.log_id] for c in cases if c.log_id in left_out}
    error_m: dict[str, float] = {}
    if "evaluate" in done:
        model = CANDIDATE if promoted else CHAMPION
        error_m = dict(evidence_from_json(read_json(done["evaluate"].folder / f"{model}.json")).retest)
        if not promoted:  # the champion has not seen tonight's cases: nothing was fixed by a refused model
            trained = {w["case_id"] for w in windows["trained"]}
            error_m = {key: value for key, value in error_m.items() if key not in trained}
    store = apply_night(
        load_store(night.workspace),
        NightOutcome(
            night.folder.name,
            cases,
            {w["case_id"]: w["plan_indices"] for w in [*windows["trained"], *windows["siblings"]]},
            [w["case_id"] for w in windows["trained"]],
            quarantined,
            promoted,
            error_m,
        ),
        night.config.evaluate.fixed_m,
    )
    save_store(night.workspace, store)
    return store


def still_needed(night: Night) -> set[str]:
    """Nights whose drives a later night replays or consolidates, or a model with an alias was trained on."""
    from data_engine.steps import registry_of

    needed = {folder.name for folder in earlier_nights(night, night.config.curate.replay_nights)}
    used = promoted_since(night) if night.config.consolidate_every else []
    registry = registry_of(night)
    for alias in ALIASES:
        version = registry.get(alias)
        tags = version.tags if version else {}
        names = filter(None, tags.get("trained_on", tags.get("night", "")).split(","))
        used += [night.workspace / NIGHTS / name for name in names]
    for folder in used:
        needed |= {folder.name, *_linked(folder / "curate" / "logs", night.workspace / NIGHTS)}
    return needed


def _linked(logs: Path, nights: Path) -> set[str]:
    """Nights that the drives of a training set lie in."""
    root = nights.resolve()
    places = [link.resolve() for link in logs.glob("*/*")]
    return {place.relative_to(root).parts[0] for place in places if place.is_relative_to(root)}
