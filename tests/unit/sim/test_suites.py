"""Suites: the shipped ones, their separation, and bad files."""

from pathlib import Path

import pytest
import yaml

from drive.contracts import UserError
from sim.server.opendrive import available_towns
from sim.suites import HELD_OUT_TOWNS, load_suite, suite_names, take

NIGHTLY = Path(__file__).resolve().parents[3] / "configs" / "nightly"


def test_shipped_suites() -> None:
    assert {"collect", "gate", "heldout", "heldout_traffic", "quickstart", "tonight"} <= set(suite_names())


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_loads_with_unique_routes_in_known_towns(name: str) -> None:
    suite = load_suite(name)
    assert len({r.route_id for r in suite.routes}) == len(suite.routes)
    assert set(suite.towns) <= set(available_towns())
    assert all(100 <= r.length_m <= 300 for r in suite.routes)


def test_held_out_suites_are_the_same_routes_with_and_without_traffic() -> None:
    plain, traffic = load_suite("heldout"), load_suite("heldout_traffic")
    assert len(plain.routes) == 60
    assert [(r.town, r.seed, r.length_m) for r in plain.routes] == [
        (r.town, r.seed, r.length_m) for r in traffic.routes
    ]
    assert {r.condition for r in plain.routes} == {"no traffic"}
    assert {r.condition for r in traffic.routes} == {"traffic"}


def test_training_never_meets_held_out_towns_and_the_gate_never_meets_held_out_seeds() -> None:
    for name in ("collect", "tonight", "tonight@2026-11-30"):
        assert not set(load_suite(name).towns) & set(HELD_OUT_TOWNS)
    used = {(r.town, r.seed) for r in load_suite("heldout").routes}
    gate = load_suite("gate")
    assert not used & {(r.town, r.seed) for r in gate.routes}
    assert {r.condition for r in gate.routes} == {"no traffic", "traffic"}


@pytest.mark.parametrize("path", sorted(NIGHTLY.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_night_is_gated_on_the_routes_that_results_are_reported_on(path: Path) -> None:
    gate = load_suite(yaml.safe_load(path.read_text(encoding="utf-8"))["evaluate"]["suite"])
    reported = {(r.town, r.seed) for name in ("heldout", "heldout_traffic") for r in load_suite(name).routes}
    assert not reported & {(r.town, r.seed) for r in gate.routes}


def test_each_night_has_its_own_routes() -> None:
    first, again, other = (load_suite(f"tonight@2026-11-{d}") for d in (29, 29, 30))
    assert first == again
    assert not {r.seed for r in first.routes} & {r.seed for r in other.routes}


def test_take_spreads_over_the_suite() -> None:
    suite = load_suite("quickstart")
    assert len(take(suite, 4).routes) == 4
    assert len(take(suite, 4).towns) >= 3
    assert take(suite, 99) == suite
    with pytest.raises(UserError, match="at least 1"):
        take(suite, 0)


def test_unknown_suite_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown suite 'quikstart'; known: .*quickstart"):
        load_suite("quikstart")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "groups: [{town: Town01, cuont: 3}]",
            r"unknown key 'groups\[0\].cuont'; did you mean 'groups\[0\].count'",
        ),
        ("groups: [{town: Town01, count: many}]", r"groups\[0\].count: expected int"),
        ("groups: [{town: 1}]", r"groups\[0\].town: expected str"),
        ("groups: [{count: 1}]", r"key 'groups\[0\].town' is missing"),
        ("goups: []", "unknown key 'goups'; did you mean 'groups'"),
        ("groups: []", "no routes"),
        ("groups: 3", "groups: expected a list, got 3"),
        ("groups: {town: Town01}", "groups: expected a list"),
        ("groups: [Town01]", r"groups\[0\]: expected 'key: value' pairs"),
        ("groups: null", "groups: null is not allowed"),
        ("", "key 'groups' is missing"),
        ("description: [a]\ngroups: [{town: Town01}]", "description: expected str"),
        ("groups: [", "not valid YAML"),
        ("- 1", "at the top level, got list"),
        ("just text", "at the top level, got str"),
    ],
)
def test_bad_files_name_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        load_suite(str(path))


@pytest.mark.parametrize("key", ["count", "first_seed", "length_m", "vehicles", "walkers", "start_speed_mps"])
@pytest.mark.parametrize(
    "value", ["-3", ".nan", "1.0e+99", "true", "null", "{a: 1}", "x", "[]", "[1, x]", "[-1]"]
)
def test_no_number_of_a_group_may_be_nonsense(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"groups: [{{town: Town01, {key}: {value}}}]")
    with pytest.raises(UserError, match=rf"mine.yaml: groups.*{key}") as caught:
        load_suite(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_below_a_folder_with_an_at_sign_is_no_night(tmp_path: Path) -> None:
    path = tmp_path / "a@b" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("groups: [{town: Town01, count: 2, vehicles: [0, 3]}]")
    assert [r.vehicles for r in load_suite(str(path)).routes] == [0, 3]
    assert load_suite(f"{path}@2026-11-30").routes[0].seed > load_suite(str(path)).routes[0].seed
