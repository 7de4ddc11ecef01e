"""A night is known by its date and inputs: the same inputs find the same folder, others get the next one."""

from dataclasses import replace
from pathlib import Path

import pytest

from data_engine.config import GateConfig, MineConfig, NightlyConfig
from data_engine.night import SUMMARY, Night, earlier_nights, find_night, latest_night
from data_engine.sources import parse_source
from drive.contracts import UserError
from drive.files import write_json


def config(workspace: Path, **changes: object) -> NightlyConfig:
    return replace(NightlyConfig(workspace=str(workspace)), **changes)  # type: ignore[arg-type]


def finish(night: Night) -> Night:
    night.start()
    write_json(night.folder / SUMMARY, {"decision": "refused"})
    return night


def test_finding_a_night_makes_nothing(tmp_path: Path) -> None:
    night = find_night(config(tmp_path / "runs"), "2026-11-30", ())
    assert night.folder == tmp_path / "runs" / "nightly" / "2026-11-30"
    assert not (tmp_path / "runs").exists()
    assert night.summary() is None
    assert night.seed == 20261130


def test_the_same_inputs_find_the_same_night(tmp_path: Path) -> None:
    first = finish(find_night(config(tmp_path), "2026-11-30", ()))
    again = find_night(config(tmp_path), "2026-11-30", ())
    assert again.folder == first.folder
    assert again.summary() == {"decision": "refused"}


def test_the_key_does_not_depend_on_the_workspace(tmp_path: Path) -> None:
    a, b = (find_night(config(tmp_path / name), "2026-11-30", ()) for name in "ab")
    assert a.key == b.key


def test_other_inputs_on_the_same_date_get_their_own_folder(tmp_path: Path) -> None:
    finish(find_night(config(tmp_path), "2026-11-30", ()))
    strict = config(tmp_path, gate=GateConfig(min_case_gain=0.1))
    second = finish(find_night(strict, "2026-11-30", ()))
    assert second.folder.name == "2026-11-30-2"
    assert find_night(strict, "2026-11-30", ()).folder == second.folder


def test_log_sources_are_part_of_the_key(tmp_path: Path) -> None:
    tables = tmp_path / "data" / "v1.0-mini"
    tables.mkdir(parents=True)
    (tables / "scene.json").write_text("[]")
    source = parse_source(f"nuscenes:{tmp_path / 'data'}")
    assert source.version == "v1.0-mini"
    plain = find_night(config(tmp_path), "2026-11-30", ())
    assert find_night(config(tmp_path), "2026-11-30", (source,)).key != plain.key


def test_earlier_nights_are_finished_ones_in_order(tmp_path: Path) -> None:
    for date in ("2026-11-28", "2026-12-01", "2026-11-29"):
        finish(find_night(config(tmp_path), date, ()))
    find_night(config(tmp_path), "2026-11-27", ()).start()
    tonight = find_night(config(tmp_path), "2026-11-30", ())
    assert [p.name for p in earlier_nights(tonight, 7)] == ["2026-11-28", "2026-11-29"]
    assert [p.name for p in earlier_nights(tonight, 1)] == ["2026-11-29"]
    assert earlier_nights(tonight, 0) == []
    newest = latest_night(tmp_path)
    assert newest is not None
    assert newest.name == "2026-12-01"


@pytest.mark.parametrize("date", ["30.11.2026", "2026-13-01", "tonight", ""])
def test_a_wrong_date_is_a_user_error(tmp_path: Path, date: str) -> None:
    with pytest.raises(UserError, match="YYYY-MM-DD"):
        find_night(config(tmp_path), date, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nuscenes", "write nuscenes:FOLDER"),
        ("kitti:.", "write nuscenes"),
        ("py123d:absent", "'absent' is not a folder"),
        ("py123d:", "write nuscenes:FOLDER"),
        ("nuscenes:", "write nuscenes:FOLDER"),
        ("nuscenes:@v1.0-mini", "'' is not a folder"),
    ],
)
def test_a_wrong_source_is_a_user_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_source(text)


def test_rules_are_checked_by_name_and_parameter() -> None:
    with pytest.raises(UserError, match="did you mean 'hard_brake'"):
        MineConfig(rules={"hard_brakes": {}})
    with pytest.raises(UserError, match="did you mean 'decel_mps2'"):
        MineConfig(rules={"hard_brake": {"decel_mps": 3.0}})


@pytest.mark.parametrize("name", ["night.json", "summary.json"])
@pytest.mark.parametrize("text", ["[]", "5", "{}", "{"])
def test_a_damaged_night_is_named_and_never_taken_for_a_new_one(tmp_path: Path, name: str, text: str) -> None:
    night = finish(find_night(config(tmp_path), "2026-11-30", ()))
    (night.folder / name).write_text(text)
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        find_night(config(tmp_path), "2026-11-30", ()).summary()
