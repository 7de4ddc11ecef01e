"""Columns of drives: what is in them, that they survive the disk, and queries over them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_engine.config import MineConfig
from data_engine.mine import mine
from data_engine.rules.sql import SqlRule, check_sql, run_sql
from data_engine.tables import empty_tables, plan_rewards, read_tables, tables_of, write_tables
from drive.contracts import DriveLog, Event, UserError
from tests import builders

FAST = SqlRule(
    "SELECT drive, min(t_us) AS start_us, max(t_us) AS end_us, 0.4 AS severity, max(speed_mps) AS speed_mps "
    "FROM ego WHERE speed_mps > $limit GROUP BY drive",
    {"limit": 11.0},
)


def logs() -> list[DriveLog]:
    crash = replace(builders.lead_braking(), events=(Event("collisions_vehicle", 5_700_000, "hit <a> car"),))
    return [builders.cruise(), builders.hard_brake(), crash]


def test_columns_refer_to_each_other() -> None:
    made = logs()
    tables = tables_of(made)
    rows = [len(log.ego.t_us) for log in made]
    assert np.bincount(tables.ego["drive"]).tolist() == rows
    assert (tables.ego["drive"][tables.steps["row"]] == tables.steps["drive"]).all()
    assert (tables.ego["drive"][tables.agents["row"]] == 2).all()
    assert len(tables.agents["row"]) == rows[2]
    assert tables.first_hit_s().tolist() == [np.inf, np.inf, 2e6 + 5.7]
    clock = tables.clock_s()
    assert (np.diff(clock) > 0).all()
    assert np.diff(clock).max() > 1e5


def test_columns_come_back_from_the_disk(tmp_path: Path) -> None:
    tables = tables_of(logs())
    write_tables(tables, tmp_path)
    back = read_tables(tmp_path)
    assert back.drives == tables.drives
    for name in ("ego", "agents", "steps", "events"):
        for key, values in getattr(tables, name).items():
            np.testing.assert_array_equal(getattr(back, name)[key], values)
    (tmp_path / "agents.arrow").write_bytes(b"no")
    with pytest.raises(UserError, match=r"agents\.arrow"):
        read_tables(tmp_path)


def test_a_query_of_ones_own_makes_cases() -> None:
    found = mine([(log, "") for log in logs()], MineConfig(sql={"fast": FAST}), ())
    assert [(c.kind, c.log_id, c.severity) for c in found.cases] == [("fast", "hard_brake", 0.4)]
    assert found.cases[0].terms == {"speed_mps": pytest.approx(12.0, abs=1e-3)}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT nothing FROM ego", "mine.sql.q: "),
        ("SELECT drive, t_us AS start_us, t_us AS end_us FROM ego", "no 'severity'"),
        ("SELECT * FROM read_csv('/etc/passwd')", "mine.sql.q: "),
        ("not sql", "mine.sql.q: "),
    ],
)
def test_a_wrong_query_is_refused_before_the_night(query: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        check_sql({"q": SqlRule(query)})
    assert "\n" not in str(error.value)


def test_a_right_query_passes_the_check_on_no_rows() -> None:
    check_sql({"fast": FAST})
    assert run_sql("fast", FAST, empty_tables()) == []


def test_a_query_may_not_be_named_like_a_rule() -> None:
    with pytest.raises(UserError, match="another name"):
        MineConfig(sql={"jerk": FAST})


def test_rewards_of_plans_are_those_of_the_score() -> None:
    log = builders.cruise()
    earned = plan_rewards(log)
    known = np.isfinite(log.plans.plan_ego).all((1, 2))
    assert np.isnan(earned[~known]).all()
    assert (earned[known] > 0.9).all()
