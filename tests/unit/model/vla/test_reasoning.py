"""Replies are parsed with types: a valid object or a reason, never an exception, never a guess."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.contracts import Lateral, Longitudinal
from drive.model.vla.reasoning import (
    BEHAVIOURS,
    DECISIONS,
    FAR_M,
    LIGHTS,
    MOST_OBJECTS,
    Reasoning,
    SceneFacts,
    SeenObject,
    parse,
)

distances = st.none() | st.integers(0, FAR_M)
scenes = st.builds(SceneFacts, st.sampled_from(LIGHTS), distances, distances)
seen = st.tuples(
    st.builds(SeenObject, st.integers(0, FAR_M), st.integers(-30, 30)), st.sampled_from(BEHAVIOURS)
)


@st.composite
def reasonings(draw: st.DrawFn) -> Reasoning:
    pairs = draw(st.lists(seen, max_size=MOST_OBJECTS))
    return Reasoning(
        draw(scenes),
        tuple(pair[0] for pair in pairs),
        tuple(pair[1] for pair in pairs),  # type: ignore[misc]
        draw(st.sampled_from(Lateral)),
        draw(st.sampled_from(Longitudinal)),
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
EXAMPLE = Reasoning(
    SceneFacts("red", 12, None), (SeenObject(8, -2),), ("stays",), Lateral.KEEP, Longitudinal.STOP
)


@given(reasonings())
def test_what_is_written_is_read_back(reasoning: Reasoning) -> None:
    assert parse(reasoning.text()) == reasoning
    assert parse(json.dumps(reasoning.values(), indent=3)) == reasoning


@given(st.text(max_size=300) | json_values.map(json.dumps))
def test_any_text_is_an_object_or_a_reason(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Reasoning) or (isinstance(found, str) and found)


@given(reasonings(), st.sampled_from(["scene", "objects", "behaviour", "decision"]), json_values)
def test_a_part_of_another_type_is_refused_or_typed(reasoning: Reasoning, part: str, value: Any) -> None:
    found = parse(json.dumps({**reasoning.values(), part: value}))
    if isinstance(found, Reasoning):
        assert found.values() == {**reasoning.values(), part: value}
        assert found.decision in DECISIONS
    else:
        assert found


@given(reasonings(), st.integers(0, 400), st.text(max_size=3))
def test_a_damaged_reply_is_never_mended(reasoning: Reasoning, at: int, inserted: str) -> None:
    text = reasoning.text()
    damaged = text[:at] + inserted + text[at + 1 :]
    found = parse(damaged)
    if isinstance(found, Reasoning):  # still well-formed: then it is what the damaged text says
        assert json.loads(damaged) == found.values()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"decision": "fly/stop"}, "decision: not a word"),
        ({"decision": None}, "decision: not a word"),
        ({"behaviour": []}, "1 objects with 0 behaviours"),
        ({"objects": [{"ahead_m": 61, "left_m": 0}]}, "objects[0].ahead_m: not from 0 to 60"),
        ({"objects": [{"ahead_m": True, "left_m": 0}]}, "objects[0].ahead_m: not a whole number"),
        ({"objects": [{"ahead_m": 1}]}, "objects[0]: not an object with exactly"),
        ({"objects": [EXAMPLE.values()["objects"][0]] * 4}, "objects: not a list of at most 3"),
        ({"scene": {"light": "blue", "stop_m": None, "lead_m": None}}, "scene.light: not a word"),
        ({"scene": {"light": "red", "stop_m": -1, "lead_m": None}}, "scene.stop_m: not from 0 to 60"),
        ({"mood": "good"}, "reply: not an object with exactly"),
    ],
)
def test_malformed_parts_are_named(change: dict[str, Any], said: str) -> None:
    found = parse(json.dumps({**EXAMPLE.values(), **change}))
    assert isinstance(found, str)
    assert said in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[" * 3000, "not JSON"),
        ("9" * 3900, "reply: not an object"),
        ('{"scene":NaN}', "NaN is not a number"),
        ('{"scene":1.5}', "not a whole number"),
        ('{"scene":1,"scene":1}', "given twice"),
        (EXAMPLE.text() + " stop", "not JSON"),
        (" " * 5000, "reply of 5000 letters"),
    ],
)
def test_other_texts_are_refused(text: str, said: str) -> None:
    found = parse(text)
    assert isinstance(found, str)
    assert said in found


def test_objects_and_behaviours_belong_together() -> None:
    with pytest.raises(ValueError, match="1 objects with 0 behaviours"):
        Reasoning(EXAMPLE.scene, EXAMPLE.objects, (), Lateral.KEEP, Longitudinal.STOP)
