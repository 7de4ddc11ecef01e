"""Streamed tables: the same rows as a whole read at any chunk size, refusals, and bounded memory."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.bench import json_rows
from drive.bench.json_rows import stream_rows
from drive.contracts import UserError
from drive.logs.nuscenes_rows import SCHEMA

TOKEN = {"token": SCHEMA["log"]["token"]}
rows = st.lists(
    st.fixed_dictionaries(
        {"token": st.text(min_size=1, max_size=6).filter(lambda t: "\0" not in t)},
        optional={"x": st.floats(allow_nan=False) | st.lists(st.text(max_size=4), max_size=3)},
    ),
    max_size=6,
)


@given(rows, st.integers(1, 60), st.sampled_from([None, 0, 3]))
def test_any_chunk_size_gives_the_rows(
    tmp_path_factory: pytest.TempPathFactory, table: list[dict[str, Any]], chunk: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.json"
    path.write_text(json.dumps(table, indent=indent, ensure_ascii=False), encoding="utf-8")
    whole, json_rows.CHUNK = json_rows.CHUNK, chunk
    try:
        assert list(stream_rows(path, TOKEN)) == list(enumerate(table))
    finally:
        json_rows.CHUNK = whole


def test_every_cut_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = json.dumps([{"token": "a", "x": [1.5, "}"]}, {"token": "b"}])
    for keep in range(len(text)):
        path.write_text(text[:keep], encoding="utf-8")
        with pytest.raises(UserError, match=r"t\.json: .*extract the metadata archive again") as caught:
            list(stream_rows(path, TOKEN))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"token": "a"}', "expected a list of records"),
        ("[1]", "row 0: expected a record, got 1"),
        ('[{"token": "a"}, {"token": 3}]', "row 1: token: expected text, got 3"),
        ('[{"token": "a"}, {}]', "row 1: token: expected text, got nothing"),
        ('[{"token": "a"} {"token": "b"}]', "unexpected '{'"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=words):
        list(stream_rows(path, TOKEN))


def peak_bytes(path: Path, count: int) -> int:
    path.write_text(json.dumps([{"token": f"{k:032d}", "x": "y" * 400} for k in range(count)]))
    tracemalloc.start()
    found = sum(1 for _ in stream_rows(path, TOKEN))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == count
    return peak


def test_memory_does_not_grow_with_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "CHUNK", 1 << 14)
    small, large = (peak_bytes(tmp_path / "t.json", count) for count in (500, 5000))
    assert large < 1.3 * small
