"""load_config is strict, names the key, and answers without heavy imports."""

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drive.config import (
    AtLeastOne,
    Bounds,
    Count,
    NotNegative,
    Positive,
    Share,
    build_config,
    config_sha,
    dump_config,
    load_config,
)
from drive.contracts import UserError


@dataclass(frozen=True)
class Optimiser:
    lr: float = 1e-3
    steps: int = 10
    kind: Literal["adam", "sgd"] = "adam"

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise ValueError(f"lr must be positive, got {self.lr}")


@dataclass(frozen=True)
class Stage:
    name: str
    repeat: int = 1


@dataclass(frozen=True)
class Limits:
    count: Count = 0
    workers: AtLeastOne = 1
    weight: NotNegative = 0.0
    scale: Positive = 1.0
    share: Share | None = 0.5


@dataclass(frozen=True)
class Shares:
    bad: float = 0.5
    bend: float = -0.5


@dataclass(frozen=True)
class Job:
    train: Optimiser = Optimiser()
    root: Path = Path("runs")
    towns: tuple[str, ...] = ("Town01",)
    stages: tuple[Stage, ...] = ()
    warm_up: Stage | None = None
    weights: dict[str, float] = field(default_factory=dict)
    span: tuple[float, float] = (0.0, 1.0)
    every: int | tuple[AtLeastOne, ...] = 1
    limits: Limits = Limits()
    shares: Annotated[Shares, Bounds(0, within={"bend": Bounds(-1, 1)})] = Shares()
    rates: Mapping[str, dict[str, Positive]] = field(default_factory=dict)


def load(tmp_path: Path, text: str, *overrides: str) -> Job:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return load_config(Job, path, overrides)


def test_fills_nested_values_with_their_types(tmp_path: Path) -> None:
    job = load(
        tmp_path,
        "train: {lr: 1e-4}\nroot: a/b\ntowns: [Town02]\nstages: [{name: x}, {name: y, repeat: 3}]\n"
        "warm_up: {name: w}\nweights: {comfort: 2}\n",
    )
    assert job.train == Optimiser(lr=1e-4)
    assert job.root == Path("a/b")
    assert job.towns == ("Town02",)
    assert job.stages == (Stage("x"), Stage("y", 3))
    assert job.warm_up == Stage("w")
    assert job.weights == {"comfort": 2.0}


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Job()


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    job = load(tmp_path, "train: {steps: 5}", "train.steps=7", "towns=[a, b]", "warm_up.name=w")
    assert (job.train.steps, job.towns, job.warm_up) == (7, ("a", "b"), Stage("w"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {lrr: 3}", r"job.yaml: unknown key 'train.lrr'; did you mean 'train.lr'\?"),
        ("lr: 3", r"unknown key 'lr'; did you mean 'train.lr'\?"),
        (
            "stages: [{name: a, repeats: 2}]",
            r"unknown key 'stages\[0\].repeats'; did you mean 'stages\[0\].repeat'\?",
        ),
        ("zzzzz: 1", "unknown key 'zzzzz'; known here: train, root"),
        ("stages: [{repeat: 2}]", r"key 'stages\[0\].name' is missing"),
        ("train: {lr: fast}", "train.lr: expected float, got fast"),
        ("train: {steps: 1.5}", "train.steps: expected int, got 1.5"),
        ("train: {steps: null}", "train.steps: null is not allowed here"),
        ("train: {kind: lion}", "train.kind: expected one of adam, sgd, got lion"),
        ("train: {kind: [adam]}", "train.kind: expected one of adam, sgd"),
        ("train: {lr: -1}", "lr must be positive"),
        ("train: 3", "train: expected 'key: value' pairs"),
        ("towns: 3", r"towns: expected a list, got 3; write \[3\]"),
        ("towns: Town02", r"towns: expected a list, got Town02; write \[Town02\]"),
        ("towns: [a, 3]", r"towns\[1\]: expected str, got 3"),
        ("root: 3", "root: expected str, got 3"),
        ("weights: {comfort: {speed: 1}}", "weights.comfort: expected float"),
        ("weights: {comfort: high}", "weights.comfort: expected float, got high"),
        ("weights: {1: 2}", "weights.1: expected str, got 1"),
        ("weights: [1]", "weights: expected 'key: value' pairs"),
        ("warm_up: 3", "warm_up: expected 'key: value' pairs"),
        ("warm_up: {name: w, repeat: '3'}", "warm_up.repeat: expected int, got 3"),
        ("span: [1.0]", "span: expected 2 items, got 1"),
        ("span: [1, fast]", r"span\[1\]: expected float"),
        ("train: {steps: true}", "train.steps: expected int, got True"),
        ("train: {lr: '0.1'}", "train.lr: expected float, got 0.1"),
        ("towns: [2026-13-45]", "not valid YAML"),
        ("[" * 1200, "not valid YAML"),
        ("- a", "expected 'key: value' lines at the top level"),
        ("a: [", "not valid YAML"),
    ],
)
def test_bad_files_are_refused_with_the_key_path(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1.0e+999", "-1", "-0.001"])
@pytest.mark.parametrize(
    "key",
    ["limits.count", "limits.workers", "limits.weight", "limits.scale", "limits.share", "shares.bad",
     "rates.near.ttc_s"],
)  # fmt: skip
def test_numbers_out_of_their_bounds_are_refused_with_the_key_path(
    tmp_path: Path, key: str, value: str
) -> None:
    with pytest.raises(UserError, match=rf"job.yaml: {key}: (must be|expected int)"):
        load(tmp_path, "", f"{key}={value}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("limits.workers=0", "limits.workers: must be at least 1, got 0"),
        ("limits.scale=0", "limits.scale: must be above 0, got 0"),
        ("limits.share=1.5", "limits.share: must be at most 1, got 1.5"),
        ("shares.bend=-2", "shares.bend: must be at least -1, got -2"),
        ("every=[2, 0]", r"every\[1\]: must be at least 1, got 0"),
        ("train.lr=.nan", "train.lr: must be a finite number, got nan"),
        (f"limits.count={10**30}", "limits.count: must be at most 2147483647"),
        (f"train.lr={'9' * 400}", r"train.lr: must be a finite number, got 9+\.\.\."),
    ],
)
def test_the_broken_bound_is_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(tmp_path, "", override)


def test_bounds_are_inclusive_and_either_form_of_a_union_is_taken(tmp_path: Path) -> None:
    job = load(
        tmp_path, "limits: {count: 0, workers: 1, weight: 0, share: 1}\nevery: [1, 2]\nrates: {a: {b: 2}}"
    )
    assert job.limits == Limits(0, 1, 0.0, 1.0, 1.0)
    assert (job.every, load(tmp_path, "every: 3").every, job.rates) == ((1, 2), 3, {"a": {"b": 2.0}})
    assert load(tmp_path, "limits: {share: null}").limits.share is None


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = [
    "train",
    "root",
    "towns",
    "stages",
    "warm_up",
    "weights",
    "span",
    "every",
    "limits",
    "shares",
    "rates",
]


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(NAMES), plain, max_size=3) | plain)
def test_whatever_comes_is_built_or_refused_in_one_line(values: Any) -> None:
    said = ""
    try:
        assert isinstance(build_config(Job, values, "job"), Job)
    except UserError as error:
        said = str(error)
    assert said == "" or said.startswith("job: ")
    assert "\n" not in said


@pytest.mark.parametrize("override", ["train.stps=5", "steps", "=3", "train.steps.x=3", "train.lr=[1"])
def test_bad_overrides_are_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(UserError):
        load(tmp_path, "", override)


def test_a_hash_in_an_override_belongs_to_the_value(tmp_path: Path) -> None:
    assert load(tmp_path, "", "root=a # %20/b").root == Path("a # %20/b")
    assert load(tmp_path, "", "root='a # b'").root == Path("a # b")


def test_a_missing_file_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("")
    with pytest.raises(UserError, match=r"no such config file; .* has base\.yaml"):
        load_config(Job, tmp_path / "bse.yaml")


def test_a_folder_names_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("")
    with pytest.raises(UserError, match=r"is a folder; .* has base\.yaml; give one file"):
        load_config(Job, tmp_path)


def test_an_endless_override_is_shortened_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, "", "train.steps=" + "9" * 5000)
    assert len(str(caught.value)) < 300


@given(
    lr=st.floats(1e-8, 1e3),
    steps=st.integers(-1000, 1000),
    towns=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1), max_size=3),
    repeat=st.none() | st.integers(0, 9),
)
def test_dump_then_load_is_the_identity(
    tmp_path_factory: pytest.TempPathFactory, lr: float, steps: int, towns: list[str], repeat: int | None
) -> None:
    job = Job(
        train=Optimiser(lr, steps),
        towns=tuple(towns),
        warm_up=None if repeat is None else Stage("w", repeat),
        weights={"a": lr},
    )
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    dump_config(job, path)
    again = load_config(Job, path)
    assert again == job
    assert config_sha(again) == config_sha(job)


def test_sha_depends_on_values_and_not_on_layout(tmp_path: Path) -> None:
    one = load(tmp_path, "train: {lr: 0.5, steps: 3}")
    two = load(tmp_path, "# a comment\ntrain:\n  steps: 3\n  lr: 5.0e-1\n")
    assert config_sha(one) == config_sha(two) != config_sha(Job())
    assert len(config_sha(one)) == 12


def test_config_errors_need_no_heavy_imports(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("nme: x")
    code = (
        "import sys\nfrom dataclasses import dataclass\nfrom drive.config import load_config\n"
        "from drive.contracts import UserError\n"
        "@dataclass(frozen=True)\nclass Job:\n    name: str = ''\n"
        f"try:\n    load_config(Job, {str(path)!r})\nexcept UserError:\n    pass\n"
        "sys.exit(int(any(m in sys.modules for m in ('torch', 'pandas', 'mlflow', 'jsonargparse'))))"
    )
    start = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert time.monotonic() - start < 5  # about 0.3 s on an idle machine
