"""PDM terms in scenes made by hand, totals by hand, and a run over recorded drives."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.bench.pdm import EXCUSED, PdmTerms, _strays, drive_proposals, epdms, excuse, pdms, score_scenes
from drive.bench.pdm_run import TERMS
from drive.bench.pdm_scene import PdmScene, areas_of, scene_of
from drive.cli.main import main
from drive.contracts import RoadPatch, UserError
from drive.logs import write_drive
from tests import builders

T = 0.1 * np.arange(1, 41)
NOW = np.append(0.0, T)
LINE = np.linspace([-60.0, 0.0], [120.0, 0.0], 60)


def road() -> RoadPatch:
    """Our lane and one to the right lead east, one to the left leads west."""
    lanes = np.stack([LINE, LINE + np.array([0.0, -3.5]), LINE[::-1] + np.array([0.0, 3.5])])
    return RoadPatch(lanes, np.full(3, 3.5, np.float32), np.zeros(3, bool), np.zeros((0, 2, 2)))


def scene(agents: Any = (), speed: float = 8.0, **more: Any) -> PdmScene:
    """Straight road; agents as (x, y, speed along x, static)."""
    rows = np.array([[[x + v * t, y, 0.0] for t in NOW] for x, y, v, _ in agents]).reshape(-1, 41, 3)
    facts: dict[str, Any] = {
        "case_id": "made",
        "speed_mps": speed,
        "accel_mps2": 0.0,
        "yaw_rate_radps": 0.0,
        "ego_size": builders.EGO_MKZ,
        "wheelbase_m": 2.86,
        "agent_pose": rows,
        "agent_size_m": np.tile([4.5, 1.9], (len(rows), 1)),
        "agent_valid": np.ones(rows.shape[:2], bool),
        "static": np.array([a[3] for a in agents], bool),
        "areas": areas_of(road(), np.zeros(3), LINE),
        "route": LINE,
        "red_line": np.zeros((0, 2, 2)),
        "red_steps": 0,
        "speed_limit_mps": 13.9,
        "human": None,
    }
    return PdmScene(**(facts | more))


def straight(speed: float = 8.0, y: float = 0.0) -> np.ndarray:
    """Along the lane, moving aside smoothly within 1.5 s where y is not 0."""
    aside = np.clip(T / 1.5, 0, 1)
    side = y * aside**2 * (3 - 2 * aside)
    yaw = np.arctan2(np.gradient(side, 0.1), max(speed, 0.1))
    return np.stack([speed * T, side, yaw], -1)


def terms(one: PdmScene, *plans: np.ndarray, **more: Any) -> PdmTerms:
    return score_scenes([one], [np.stack(plans)], **more)[0]


def test_going_on_in_an_empty_lane_is_perfect() -> None:
    got = terms(scene(), straight())
    for name in TERMS:
        assert getattr(got, name)[0] == 1.0 or (name == "ec" and np.isnan(got.ec[0])), name
    assert pdms(got)[0] == epdms(got)[0] == 1.0
    assert got.progress_m[0] == pytest.approx(32.0, abs=0.5)


@pytest.mark.parametrize(
    ("agent", "nc", "ttc"),
    [
        ((20.0, 0.0, 0.0, False), 0.0, 0.0),
        ((20.0, 0.0, 0.0, True), 0.5, 0.0),
        ((10.0, 0.0, 7.1, False), 1.0, 1.0),  # closes in, but not within the 4 s
        ((20.0, 8.0, 0.0, False), 1.0, 1.0),
        ((-12.0, 0.0, 12.0, False), 1.0, 0.0),  # runs into us from behind; ahead of where we are when it does
        ((30.0, 0.0, 8.0, False), 1.0, 1.0),
    ],
)
def test_collisions_and_time_to_them(agent: tuple[float, float, float, bool], nc: float, ttc: float) -> None:
    got = terms(scene([agent]), straight())
    assert (got.nc[0], got.ttc[0]) == (nc, ttc)


def test_the_map() -> None:
    off, oncoming, right, edge = (terms(scene(), straight(y=y)) for y in (9.0, 3.5, -3.5, 1.0))
    assert off.dac[0] == 0.0
    assert (oncoming.dac[0], oncoming.ddc[0]) == (1.0, 0.0)
    assert (right.ddc[0], right.lk[0], right.dac[0]) == (1.0, 0.0, 1.0)  # the route is in our lane
    assert (edge.lk[0], edge.ddc[0]) == (0.0, 1.0)
    slow = terms(scene(speed=4.0), straight(4.0, 3.5))
    assert slow.ddc[0] == 0.5
    nowhere = terms(scene(areas=None), straight(y=9.0))
    assert (nowhere.dac[0], nowhere.ddc[0], nowhere.lk[0]) == (1.0, 1.0, 1.0)


def test_red_lights_turn_green() -> None:
    line = np.array([[[16.0, -3.0], [16.0, 3.0]]])
    red = scene(red_line=line, red_steps=40)
    assert terms(red, straight(), straight(1.0)).tlc.tolist() == [0.0, 1.0]
    assert terms(replace(red, red_steps=10), straight()).tlc[0] == 1.0  # the bumper is there after 1.5 s


def test_progress_is_measured_against_the_best_that_passes() -> None:
    crash = scene([(34.0, 0.0, 0.0, False)])
    got = terms(crash, straight(9.0), straight(5.0), straight(2.5))
    assert got.nc.tolist() == [0.0, 1.0, 1.0]
    assert got.ep[1] == 1.0
    assert got.ep[2] == pytest.approx(got.progress_m[2] / got.progress_m[1])
    standing = terms(scene(speed=0.0), straight(0.0), straight(0.5))
    assert standing.ep.tolist() == [1.0, 1.0]  # below the floor of 5 m
    human = terms(scene(human=straight(8.0)), straight(4.0))
    assert human.ep[0] < 0.8


def test_comfort() -> None:
    brake = straight()
    brake[:, 0] = 8.0 * np.minimum(T, 0.6) + 1.0 * (1 - np.exp(-np.maximum(T - 0.6, 0)))
    assert terms(scene(), brake).hc[0] == 0.0
    before = drive_proposals([scene()], [straight()[None]])[0]
    assert terms(scene(), straight(), previous=[before], shift=4).ec[0] == 1.0
    assert terms(scene(), brake, previous=[before], shift=4).ec[0] == 0.0
    assert np.isnan(terms(scene(), straight()).ec[0])


def filled(**values: float) -> PdmTerms:
    return PdmTerms(**{f.name: np.array([values.get(f.name, 1.0)]) for f in fields(PdmTerms)})


def test_totals_by_hand() -> None:
    one = filled(nc=0.5, ddc=0.5, ep=0.6, ttc=0.0, lk=0.0, ec=0.0)
    assert pdms(one)[0] == pytest.approx(0.5 * (5 * 0.6 + 2) / 12)
    assert epdms(one)[0] == pytest.approx(0.25 * (5 * 0.6 + 2) / 16)
    assert epdms(filled(ep=0.5, ec=np.nan))[0] == pytest.approx((2.5 + 5 + 2 + 2) / 14)
    assert epdms(filled(dac=0.0))[0] == pdms(filled(dac=0.0))[0] == 0.0


def test_what_the_human_fails_is_excused() -> None:
    bad, human = filled(dac=0.0, lk=0.0, ep=0.4), filled(dac=0.0, ep=0.9)
    got = excuse(bad, human)
    assert (got.dac[0], got.lk[0], got.ep[0]) == (1.0, 0.0, 0.4)
    assert excuse(bad, filled()).dac[0] == 0.0
    assert excuse(filled(hc=0.0), filled(hc=0.0)).hc[0] == 0.0  # comfort is not, as in NAVSIM's code


@settings(max_examples=10)
@given(st.permutations(range(5)))
def test_order_and_failed_proposals_change_nothing_else(order: list[int]) -> None:
    plans = np.stack([straight(v, y) for v, y in ((8, 0), (5, 1), (3, -3.5), (9, 3.5), (6, 0))])
    one = scene([(40.0, 0.0, 2.0, False)])
    here, there = terms(one, *plans), terms(one, *plans[order])
    for f in fields(PdmTerms):
        assert np.allclose(getattr(here, f.name)[order], getattr(there, f.name), equal_nan=True)
    broken = plans[0].copy()
    broken[7, 1] = np.nan
    more = terms(one, *plans, broken)
    for f in fields(PdmTerms):
        assert np.allclose(getattr(more, f.name)[:5], getattr(here, f.name), equal_nan=True)
        assert getattr(more, f.name)[5] == 0.0
    assert epdms(more)[5] == pdms(more)[5] == 0.0


@pytest.mark.parametrize("absurd", [1e300, -1e7, float("inf"), float("nan")])
def test_a_plan_that_nobody_can_drive_scores_0_and_spoils_no_other(absurd: float) -> None:
    one = scene(areas=None)
    bad = straight()
    bad[7, 0] = absurd
    alone, beside = terms(one, straight()), terms(one, bad, straight())
    for name in TERMS:
        assert getattr(beside, name)[0] == 0.0
        assert getattr(beside, name)[1] == pytest.approx(getattr(alone, name)[0], abs=1e-12, nan_ok=True)


def test_lane_keeping_equals_a_count_by_hand(rng: np.random.Generator) -> None:
    areas = scene().areas
    assert areas is not None
    for share in rng.uniform(0.3, 0.99, 60):
        y = np.where(rng.random((8, 41)) < share, 2.0, 0.0)
        crossing = rng.random((8, 41)) < rng.choice([0.0, 0.2])
        got = _strays(areas, np.stack([np.zeros_like(y), y], -1), crossing, 20)
        for row, passed, out in zip(y > 0.5, crossing, got, strict=True):
            run = "".join("x" if off else "." for off in row[~passed])
            assert out == ("x" * 20 in run)


def test_scenes_in_a_batch_are_scenes_alone() -> None:
    scenes = [scene([(30.0, 0.0, 0.0, False)]), scene(speed=4.0), scene(human=straight(6.0))]
    plans = [np.stack([straight(8.0), straight(4.0)]), straight(4.0)[None], straight(7.0)[None]]
    for got, one, plan in zip(score_scenes(scenes, plans), scenes, plans, strict=True):
        alone = score_scenes([one], [plan])[0]
        for f in fields(PdmTerms):
            assert np.allclose(getattr(got, f.name), getattr(alone, f.name), equal_nan=True)


def test_a_scene_of_a_recorded_drive() -> None:
    log = builders.lead_braking()
    one = scene_of(log, 0)
    assert one.human is not None
    assert one.human[-1, 0] == pytest.approx(40.0)
    assert one.agent_pose.shape == (1, 41, 3)
    got = score_scenes([scene_of(log, 10)], [scene_of(log, 10).human[None]])[0]
    assert got.nc[0] == 0.0  # it never brakes
    with pytest.raises(UserError, match="less than 4 s follow"):
        scene_of(log, len(log.plans.step) - 1)


def test_red_lights_of_a_recorded_drive_stay_red_as_recorded() -> None:
    log = builders.cruise()
    aux = log.plans.aux.copy()
    aux[:8, 0], aux[:8, 1] = 0, 20.0
    log = replace(log, plans=replace(log.plans, aux=aux))
    assert scene_of(log, 0).red_steps == 16
    assert scene_of(log, 0).red_line.shape == (1, 2, 2)
    assert scene_of(log, 9).red_steps == 0


@pytest.fixture
def drives(tmp_path: Path) -> Path:
    for log in (builders.cruise(), builders.left_turn(), builders.lead_braking()):
        write_drive(tmp_path / "logs", log)
    return tmp_path / "logs"


def test_a_run_over_drives(drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["bench", "pdm", "--drives", str(drives), "--policy", "go_straight", "--json", str(out)]) == 0
    data, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert printed.startswith("3 drives (light simulator)")
    names = [row["policy"] for row in data["rows"]]
    assert names == ["go_straight", "constant_velocity", "recorded plan", "recorded drive"]
    for name in names:
        columns = data["columns"][name]
        for k, total in enumerate(columns["epdms"]):
            now = PdmTerms(
                **{t: np.array([np.nan if columns[t][k] is None else columns[t][k]]) for t in TERMS},
                progress_m=np.zeros(1),
            )
            assert pdms(now)[0] == pytest.approx(columns["pdms"][k], abs=1e-12)
            assert epdms(now)[0] == pytest.approx(columns["epdms_unfiltered"][k], abs=1e-12)
            excused = {t: np.ones(1) for t in EXCUSED if columns[f"excused_{t}"][k]}
            assert epdms(replace(now, **excused))[0] == pytest.approx(total, abs=1e-12)
        mean = next(row for row in data["rows"] if row["policy"] == name)["means"]["epdms"]["mean"]
        assert mean == pytest.approx(np.mean(columns["epdms"]))
    assert any(columns["ec"][k] is None for k in range(3))
    again = tmp_path / "again.json"
    assert (
        main(["bench", "pdm", "--drives", str(drives), "--policy", "go_straight", "--json", str(again)]) == 0
    )
    assert json.loads(again.read_text())["columns"] == data["columns"]


def test_drives_without_a_map_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = replace(builders.cruise(), road=None)
    for log in (builders.left_turn(), bare):
        write_drive(tmp_path / "logs", log)
    out = tmp_path / "out.json"
    argv = ["--drives", str(tmp_path / "logs"), "--policy", "go_straight", "--json", str(out)]
    assert main(["bench", "pdm", *argv]) == 0
    assert json.loads(out.read_text())["without_map"] == [bare.meta.log_id]
    assert "without a map: 1 of 2 drives; DAC, DDC, TLC and LK find no fault there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --drives DIR"),
        (["--drives", "absent"], "absent"),
        (["--drives", "x", "--every", "0"], "--every must be from 1 to"),
        (["--drives", "x", "--every", "9" * 30], "--every must be from 1 to"),
        (["--drives", "x", "--policy", "go_strait"], "did you mean 'go_straight'"),
        (["--drives", "x", "--dataroot", "x"], "--dataroot is an option of `drive bench nuscenes`"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "pdm", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
