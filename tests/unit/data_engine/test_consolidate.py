"""Consolidation: when it is due, and what it is trained on."""

from pathlib import Path

import pytest

from data_engine.config import NightlyConfig
from data_engine.consolidate import nights_to_consolidate, training_of, union
from data_engine.night import NIGHTS, SUMMARY, Night
from drive.contracts import Manifest, ManifestEntry
from drive.files import write_json


def manifest(name: str, *entries: ManifestEntry) -> Manifest:
    return Manifest(name, None, entries or (ManifestEntry(f"log-{name}", 0, 1.0, "bad_case"),))


def workspace_with(tmp_path: Path, *decisions: str) -> Path:
    """Finished nights 2026-01-01, ... that ended so; "consolidated" is a promotion of several nights."""
    for n, decision in enumerate(decisions):
        folder = tmp_path / NIGHTS / f"2026-01-{n + 1:02d}"
        (folder / "curate" / "logs").mkdir(parents=True)
        write_json(folder / "curate" / "manifest.json", manifest(folder.name))
        nights = ["a", "b"] if decision == "consolidated" else [folder.name]
        word = "promoted" if decision == "consolidated" else decision
        write_json(folder / SUMMARY, {"decision": word, "training": {"nights": nights}})
    return tmp_path


def tonight(workspace: Path, every: int) -> Night:
    config = NightlyConfig(workspace=str(workspace), consolidate_every=every)
    night = Night("2026-01-09", "k", workspace / NIGHTS / "2026-01-09", config, ())
    write_json(night.folder / "curate" / "manifest.json", manifest("tonight"))
    return night


@pytest.mark.parametrize(
    ("decisions", "every", "due"),
    [
        (["promoted", "promoted"], 3, ["2026-01-01", "2026-01-02"]),
        (["promoted", "refused", "promoted"], 3, ["2026-01-01", "2026-01-03"]),
        (["promoted", "promoted"], 4, []),
        (["promoted", "consolidated", "promoted"], 3, []),
        (["promoted", "promoted"], 0, []),
    ],
)
def test_it_is_due_after_so_many_promotions(
    tmp_path: Path, decisions: list[str], every: int, due: list[str]
) -> None:
    night = tonight(workspace_with(tmp_path, *decisions), every)
    assert [folder.name for folder in nights_to_consolidate(night)] == due


def test_it_trains_the_base_on_all_of_them(tmp_path: Path) -> None:
    night = tonight(workspace_with(tmp_path, "promoted", "promoted"), 3)
    champion, base = tmp_path / "champion", tmp_path / "base"
    made = training_of(night, champion, base)
    assert made.consolidates
    assert made.parent == base
    assert made.nights == ("2026-01-01", "2026-01-02", "2026-01-09")
    assert [e.log_id for e in made.manifest.entries] == ["log-2026-01-01", "log-2026-01-02", "log-tonight"]
    assert len(made.roots) == 3
    plain = training_of(tonight(tmp_path, 0), champion, base)
    assert (plain.parent, plain.nights, plain.consolidates) == (champion, ("2026-01-09",), False)
    assert training_of(night, champion, None).parent == champion


def test_manifests_weigh_the_same_and_a_sample_keeps_its_first_reason() -> None:
    small = manifest("a", ManifestEntry("x", 1, 2.0, "replay"), ManifestEntry("y", 1, 2.0, "bad_case"))
    large = manifest("b", ManifestEntry("x", 1, 30.0, "bad_case"), ManifestEntry("z", 1, 10.0, "neighbour"))
    made = union([small, large])
    assert {(e.log_id, e.reason): pytest.approx(e.weight) for e in made.entries} == {
        ("x", "bad_case"): 0.25 + 0.375,
        ("y", "bad_case"): 0.25,
        ("z", "neighbour"): 0.125,
    }
    assert sum(e.weight for e in made.entries) == pytest.approx(1.0)
    assert made.manifest_id != union([large]).manifest_id
