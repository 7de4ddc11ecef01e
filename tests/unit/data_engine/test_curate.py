"""Curation on a small log store: split by route, shares, hygiene, determinism."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_engine.config import CurateConfig, DriveConfig, MineConfig, NightlyConfig
from data_engine.curate import Curated, Window, curate, held_out_routes
from data_engine.kinds import family
from data_engine.mine import mine
from data_engine.pool import does_well
from data_engine.store import DriveRef, collect
from drive.contracts import DriveLog, Event, UserError
from drive.logs import write_drive
from tests import builders

HELD_OUT = ("Town02", "Town10HD")
SETTINGS = CurateConfig(sibling_share=0.34, same_cosine=1.1)


TOWNS = ("Town01", "Town03", "Town04", "Town05", "Town06", "Town07")  # all drives start at the same point


def bad_drive(route: str, offset_m: float = 3.0, town: str | None = None) -> DriveLog:
    """A quiet drive in which the planner wanted to go elsewhere for a second; each route in its town."""
    town = town or TOWNS[ord(route[0]) % len(TOWNS)]
    log = builders.cruise(speed_mps=6.0 + (sum(route.encode()) % 5), image_size=8)
    plan = log.plans.plan_ego.copy()
    plan[6:11, :, 1] += offset_m
    meta = replace(log.meta, log_id=f"{route}__x", route=route, town=town, image_kind="rendered")
    return replace(log, meta=meta, plans=replace(log.plans, plan_ego=plan))


@pytest.fixture
def store(tmp_path: Path) -> list[DriveRef]:
    for name in "abcdef":
        write_drive(tmp_path, bad_drive(name))
    return collect([tmp_path])


COMMON: dict[str, Any] = {"held_out_towns": HELD_OUT, "needs_images": True, "parent_id": None, "seed": 7}


def curated(
    refs: Sequence[DriveRef],
    config: CurateConfig = SETTINGS,
    shown: Mapping[tuple[str, int], float] | None = None,
    **changes: Any,
) -> Curated:
    found = mine(
        [(ref.read(), "") for ref in refs], MineConfig(rules={"disagreement": {}, "collision": {}}), HELD_OUT
    )
    settings = COMMON | changes
    return curate(found.cases, refs, [], shown or {}, found.faults, config, **settings)


def test_shares_and_split(store: list[DriveRef]) -> None:
    made = curated(store)
    total = dict.fromkeys(("bad_case", "neighbour", "replay"), 0.0)
    for entry in made.manifest.entries:
        total[entry.reason] += entry.weight
    assert total == pytest.approx({"bad_case": 0.5, "neighbour": 0.2, "replay": 0.3})
    assert len({(e.log_id, e.plan_index) for e in made.manifest.entries}) == len(made.manifest.entries)
    assert not made.nothing


def test_demonstrations_teach_what_is_done_otherwise_but_not_of_routes_that_are_kept_apart(
    store: list[DriveRef], tmp_path: Path
) -> None:
    alone = curated(store)
    for name in "abcdef":
        log = bad_drive(name, offset_m=0.0)
        write_drive(tmp_path / "shown", replace(log, meta=replace(log.meta, log_id=f"{name}__expert")))
    config = replace(SETTINGS, bad_share=0.3, demonstration_share=0.2)
    demonstrations = collect([tmp_path / "shown"])
    shown = {(ref.meta.log_id, i): float(i) for ref in demonstrations for i in range(3, 9)}
    made = curated([*store, *demonstrations], config, shown)
    mine_ = [e for e in made.manifest.entries if e.reason == "demonstration"]
    held = {route.split("/")[1] for route in made.held_out_routes}
    assert made.held_out_routes == alone.held_out_routes
    assert {e.log_id for e in mine_} == {f"{name}__expert" for name in set("abcdef") - held}
    assert {e.plan_index for e in mine_} == set(range(3, 9))
    assert all(e.weight == pytest.approx(mine_[0].weight * e.plan_index / 3) for e in mine_)  # by how far off
    assert sum(e.weight for e in mine_) == pytest.approx(0.2)
    assert len({(e.log_id, e.plan_index) for e in made.manifest.entries}) == len(made.manifest.entries)


def test_sibling_routes_are_never_trained_on(store: list[DriveRef]) -> None:
    made = curated(store)
    held = {route.split("/")[1] for route in made.held_out_routes}
    assert len(held) == 2
    assert {w.log_id.split("__")[0] for w in made.siblings} == held
    assert not held & {e.log_id.split("__")[0] for e in made.manifest.entries}


def test_the_same_input_gives_the_same_manifest(store: list[DriveRef]) -> None:
    first, second = curated(store), curated(list(reversed(store)))
    assert first.manifest == second.manifest
    assert (
        first.manifest.manifest_id
        != curated(store, seed=8, config=replace(SETTINGS, replay_steps=10)).manifest.manifest_id
    )


def test_near_duplicates_and_the_cap_per_kind(store: list[DriveRef]) -> None:
    made = curated(store, replace(SETTINGS, same_cosine=0.5))
    assert made.dropped["near-duplicate of a worse case"] == 5
    capped = curated(store, replace(SETTINGS, per_kind=4))
    assert len(capped.trained) + len(capped.siblings) == 4


def test_too_few_cases_is_nothing_to_do_with_a_reason(store: list[DriveRef]) -> None:
    made = curated(store[:2])
    assert "fewer than curate.min_cases" in made.nothing
    assert made.manifest.entries == ()


def test_a_camera_planner_is_not_trained_on_logs_without_images(tmp_path: Path) -> None:
    blind = bad_drive("a")
    blind = replace(
        blind,
        meta=replace(blind.meta, image_kind="none"),
        plans=replace(blind.plans, images={}, cameras={}),
    )
    write_drive(tmp_path, blind)
    made = curated(collect([tmp_path]))
    assert made.dropped == {"drive has no images for a camera planner": 1}


def test_cases_that_no_plan_could_mend_are_dropped(tmp_path: Path) -> None:
    log = replace(bad_drive("a"), events=(Event("collisions_vehicle", 0),))
    write_drive(tmp_path, log)
    assert curated(collect([tmp_path])).dropped == {"already in violation at t = 0": 2}


def test_a_label_that_fails_the_gates_is_rejected(tmp_path: Path) -> None:
    log = bad_drive("a")
    label = log.plans.label_ego.copy()
    label[..., 1] -= np.linspace(0, 9, label.shape[1], dtype=np.float32)  # off the road
    write_drive(tmp_path, replace(log, plans=replace(log.plans, label_ego=label)))
    made = curated(collect([tmp_path]))
    assert made.dropped == {"label missing or fails the safety gates": 1}


def test_held_out_towns_are_refused(tmp_path: Path) -> None:
    write_drive(tmp_path, bad_drive("a", town="Town10HD"))
    assert curated(collect([tmp_path])).manifest.entries == ()


def test_at_least_one_route_is_kept_for_training_and_one_for_measuring() -> None:
    windows = [Window(str(i), "disagreement", f"log{i}", f"Town01/{i}", (0,)) for i in range(10)]
    assert held_out_routes([], 0.3) == held_out_routes(windows[:1], 0.3) == set()
    assert len(held_out_routes(windows[:2], 0.9)) == 1
    assert len(held_out_routes(windows, 0.3)) == 3
    assert held_out_routes(windows[::-1], 0.3) == held_out_routes(windows, 0.3)


def test_demonstrations_that_would_weigh_nothing_are_refused() -> None:
    with pytest.raises(UserError, match=r"drive\.demonstrations: .*curate\.demonstration_share"):
        NightlyConfig(drive=DriveConfig(demonstrations=2))


def test_shares_must_add_up() -> None:
    with pytest.raises(UserError, match="must be 1"):
        CurateConfig(bad_share=0.9)


def test_no_replay_from_a_planner_that_errs(tmp_path: Path) -> None:
    for name in "abcdef":
        write_drive(tmp_path, bad_drive(name, offset_m=12.0))
    made = curated(collect([tmp_path]))
    logs = {ref.meta.log_id: ref.read() for ref in collect([tmp_path])}
    replayed = [e for e in made.manifest.entries if e.reason == "replay"]
    assert replayed
    assert all(does_well(logs[e.log_id], e.plan_index) for e in replayed)


def test_every_failed_route_weighs_the_same_in_the_demonstrations(
    store: list[DriveRef], tmp_path: Path
) -> None:
    """Found by a night that learned how bicycles are followed, not the obstacle that it was failed for."""
    log = builders.cruise(image_size=16)
    names = {"long": 3.0, "long_like1": 3.0, "short_like2": 1.0}
    for name in names:
        meta = replace(log.meta, log_id=name, route=name, town="Town12")
        write_drive(tmp_path / "shown", replace(log, meta=meta))
    refs = collect([tmp_path / "shown"])
    shown = {(ref.meta.log_id, i): names[ref.meta.log_id] for ref in refs for i in range(3, 9)}
    made = curated([*store, *refs], replace(SETTINGS, bad_share=0.3, demonstration_share=0.2), shown)
    weight: dict[str, float] = {}
    for e in made.manifest.entries:
        if e.reason == "demonstration":
            weight[family(e.log_id)] = weight.get(family(e.log_id), 0.0) + e.weight
    assert weight["long"] == pytest.approx(weight["short"])


def test_what_starts_where_a_kept_apart_route_does_is_not_trained_on(
    store: list[DriveRef], tmp_path: Path
) -> None:
    """Found by reading: a variation by another name may be the very place that measures the fix."""
    (held, *_) = curated(store).held_out_routes
    town = held.split("/")[0]
    twin = bad_drive("twin", town=town)
    away = replace(twin.ego, pose_world=twin.ego.pose_world + np.array([50.0, 0.0, 0.0]))
    write_drive(tmp_path / "more", twin)
    meta = replace(twin.meta, log_id="away", route="away")
    write_drive(tmp_path / "more", replace(twin, meta=meta, ego=away))
    made = curate([], store, collect([tmp_path / "more"]), {}, [], SETTINGS, **COMMON)
    assert made.nothing  # no case, nothing kept apart
    cases = mine([(ref.read(), "") for ref in store], MineConfig(rules={"disagreement": {}}), HELD_OUT).cases
    used = curate(cases, store, collect([tmp_path / "more"]), {}, [], SETTINGS, **COMMON).manifest.entries
    assert "twin__x" not in {e.log_id for e in used}


def test_without_a_step_to_train_on_there_is_nothing_to_do(store: list[DriveRef]) -> None:
    none = curate([], [], [], {}, [], replace(SETTINGS, min_cases=0), **COMMON)
    assert none.nothing == "no planning step may be trained on"
