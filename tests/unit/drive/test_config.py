"""load_config is strict, names the key, and answers without heavy imports."""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drive.config import config_sha, dump_config, load_config
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
class Job:
    train: Optimiser = Optimiser()
    root: Path = Path("runs")
    towns: tuple[str, ...] = ("Town01",)
    stages: tuple[Stage, ...] = ()
    warm_up: Stage | None = None
    weights: dict[str, float] = field(default_factory=dict)


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
        ("train: {kind: lion}", r"train.kind: expected Literal\['adam', 'sgd'\], got lion"),
        ("train: {lr: -1}", "lr must be positive"),
        ("train: 3", "train: expected 'key: value' pairs"),
        ("towns: 3", "towns: expected tuple, got 3"),
        ("- a", "expected 'key: value' lines at the top level"),
        ("a: [", "not valid YAML"),
    ],
)
def test_bad_files_are_refused_with_the_key_path(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("override", ["train.stps=5", "steps", "=3", "train.steps.x=3", "train.lr=[1"])
def test_bad_overrides_are_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(UserError):
        load(tmp_path, "", override)


def test_a_missing_file_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("")
    with pytest.raises(UserError, match=r"no such config file; .* has base\.yaml"):
        load_config(Job, tmp_path / "bse.yaml")


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
