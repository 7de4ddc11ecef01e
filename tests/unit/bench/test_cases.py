"""Sample sets: rules, files, token hashes, and steps beyond the end of a scene."""

import json
from pathlib import Path

import numpy as np
import pytest

from drive.bench.cases import RULES, cases_of, choose, token_hash
from drive.contracts import UserError
from tests.bench_builders import scene

SCENES = (scene("a", 12), scene("b", 9))


@pytest.mark.parametrize(("name", "count", "early", "late"), [("standard", 7, 2, 12), ("stp3", 5, 4, 12)])
def test_rules_need_a_past_and_a_future(name: str, count: int, early: int, late: int) -> None:
    cases, chosen = choose(SCENES, name)
    assert (len(cases), chosen.planned, chosen.without_history, chosen.without_future) == (
        count,
        count,
        early,
        late,
    )
    assert all(case.known.all() and np.isfinite(case.truth_ego).all() for case in cases)


def test_every_sample_has_masked_steps_at_the_end() -> None:
    cases, chosen = choose(SCENES, "every")
    assert (len(cases), chosen.without_future) == (19, 2)
    last = cases_of(SCENES[0], RULES["every"])[-1]
    assert last.known.tolist() == [True] + [False] * 5
    assert np.isnan(last.truth_ego[1:]).all()
    assert not last.valid[:, 1:].any()


def test_a_hash_names_a_set_whatever_its_order(tmp_path: Path) -> None:
    cases, chosen = choose(SCENES, "stp3")
    tokens = [case.token for case in cases]
    assert token_hash(tokens[::-1]) == chosen.token_hash != token_hash(tokens[1:])
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([*tokens[::-1], "elsewhere"]))
    again, mine = choose(SCENES, str(path))
    assert {case.token for case in again} == set(tokens)
    assert (mine.planned, mine.absent) == (6, 1)
    assert mine.token_hash != chosen.token_hash


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("{}", "expected a JSON list"),
        ("[]", "expected a JSON list"),
        ('["a-01", "a-01"]', "1 tokens are repeated"),
        ('["elsewhere"]', "none of its 1 tokens"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        choose(SCENES, str(path))


def test_unknown_sets_and_empty_ones_are_refused() -> None:
    with pytest.raises(UserError, match="neither a file nor one of standard, stp3, every"):
        choose(SCENES, "stp4")
    with pytest.raises(UserError, match="no sample"):
        choose((scene("a", 5),), "standard")
