"""Rules as SQL: a query over the same columns, with its parameters, straight from the night's YAML."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from data_engine.rules.moments import Finding
from data_engine.tables import COLUMNS, Tables, arrow_table, empty_tables
from drive.contracts import UserError

NEEDED = ("drive", "start_us", "end_us", "severity")
TABLES = ", ".join(COLUMNS)


@dataclass(frozen=True)
class SqlRule:
    """A query in duckdb's SQL over ego, agents, steps and events (columns as in data_engine/tables.py).

    Attributes:
        query: Returns drive, start_us, end_us and severity; further columns become the case's terms.
            Parameters are written $name.
        params: Their values.
    """

    query: str
    params: Mapping[str, float] = field(default_factory=dict)


def run_sql(name: str, rule: SqlRule, tables: Tables) -> list[Finding]:
    """Moments that a query finds.

    Raises:
        UserError: duckdb refuses the query, or a column is missing from its result.
    """
    columns = _result(name, rule, tables)
    missing = [key for key in NEEDED if key not in columns]
    if missing:
        raise UserError(f"mine.sql.{name}: the query returns no {missing[0]!r}; it needs {', '.join(NEEDED)}")
    more = [key for key in columns if key not in NEEDED]
    rows = zip(*(columns[key] for key in (*NEEDED, *more)), strict=True)
    return [
        Finding(
            int(drive),
            int(start),
            int(end),
            float(np.clip(severity, 0, 1)),
            {key: float(value) for key, value in zip(more, rest, strict=True)},
        )
        for drive, start, end, severity, *rest in rows
    ]


def _result(name: str, rule: SqlRule, tables: Tables) -> dict[str, Any]:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        for table in COLUMNS:
            database.register(table, arrow_table(getattr(tables, table)))
        try:
            database.execute("SET enable_external_access = false")  # a rule reads the night's columns only
            done = database.execute(rule.query, dict(rule.params) or None)
            names, rows = [column[0] for column in done.description], done.fetchall()
        except duckdb.Error as error:
            first = str(error).strip().splitlines()[0]
            raise UserError(f"mine.sql.{name}: {first}; tables are {TABLES}") from None
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def check_sql(rules: Mapping[str, SqlRule]) -> None:
    """Run every query on empty tables, so that a wrong one is refused before the night begins."""
    for name, rule in rules.items():
        run_sql(name, rule, empty_tables())
