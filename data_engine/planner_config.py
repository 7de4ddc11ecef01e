"""What a comparison of planners is made of: models, training seeds, suites, and how to train."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from drive.config import AtLeastOne, Bounds, Count, changed
from drive.contracts import UserError
from drive.train.config import TrainConfig

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class ModelEntry:
    """One model of the comparison; with neither `policy` nor `weights_of` it is trained, once per seed.

    Attributes:
        change: "dotted.key=value" changes of the training config, or with `weights_of` of its "model." keys.
        policy: What drives instead of a trained model: the name of a policy, or a model folder.
        weights_of: Trained model whose weights drive, with `change` applied to how they are used.
    """

    change: tuple[str, ...] = ()
    policy: str | None = None
    weights_of: str | None = None

    @property
    def trained(self) -> bool:
        """Does it have weights of its own?"""
        return self.policy is None and self.weights_of is None


@dataclass(frozen=True)
class PlannerEvalConfig:
    """A comparison of planners on the same data, routes and seeds.

    Attributes:
        out: Folder of models, drives and tables.
        models: Name -> what it is, in the order of the tables.
        ours: The model that is compared with all others; may be a ready-made one, e.g. `policy: base`.
        gap_from: Model whose chosen trajectory is where the gap to the best proposal begins; null = the
            trajectory that each model's own command intends.
        seeds: Training seeds; every trained model is trained with each of them.
        suites: Suites in held-out towns, as for `drive sim --suite`.
        routes: Routes per suite, spread over it; 0 = all.
        workers: Drives at once.
        bootstrap: Resamples per interval.
        scenes: Roots of recorded drives in held-out towns for the questions of drive.train.questions; empty =
            the validation routes of each seed, where ready-made models are left out.
        scene_count: Planning steps that each model is asked about, spread over those drives; 0 = none.
        train: How every model is trained, up to its `change`; `loop.seed` is taken from `seeds`.
    """

    models: Mapping[str, ModelEntry]
    out: Path = Path("runs/eval/planner")
    ours: str = "ours"
    gap_from: str | None = None
    seeds: tuple[Count, ...] = (0, 1, 2)
    suites: tuple[str, ...] = ("heldout", "heldout_traffic")
    routes: Count = 0
    workers: Annotated[int, Bounds(1, 256)] = 1
    bootstrap: AtLeastOne = 10_000
    scenes: tuple[Path, ...] = ()
    scene_count: Count = 300
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        for name, entry in self.models.items():
            _check_entry(name, entry, self.models)
        if self.ours not in self.models:
            raise UserError(f"ours: no model {self.ours!r}; models: {', '.join(self.models)}")
        if self.gap_from is not None and self.models.get(self.gap_from, _NOBODY).policy is not None:
            raise UserError(f"gap_from: no trained model {self.gap_from!r}; models: {', '.join(self.models)}")
        for key in ("seeds", "suites"):
            values = getattr(self, key)
            if not values or len(set(values)) < len(values):
                raise UserError(f"{key}: give at least one, and each only once")


_NOBODY = ModelEntry(policy="nobody")


def _check_entry(name: str, entry: ModelEntry, models: Mapping[str, ModelEntry]) -> None:
    where = f"models.{name}"
    if not _NAME.fullmatch(name):
        raise UserError(f"{where}: use letters, digits and -_. only")
    if entry.policy is not None and (entry.change or entry.weights_of is not None):
        raise UserError(f"{where}: a policy is driven as it is; leave `change` and `weights_of` out")
    if entry.weights_of is None:
        return
    if not models.get(entry.weights_of, _NOBODY).trained:
        known = ", ".join(other for other, what in models.items() if what.trained)
        raise UserError(f"{where}.weights_of: {entry.weights_of!r} is not trained here; trained: {known}")
    for change in entry.change:
        if not change.startswith("model."):
            raise UserError(f"{where}.change: {change}: only `model.` keys can change after the training")


def training(config: PlannerEvalConfig, name: str, seed: int) -> TrainConfig:
    """How one model is trained with one seed; for `weights_of` the training of those weights, changed.

    Raises:
        UserError: A change that the training config refuses.
    """
    entry = config.models[name]
    if entry.weights_of is not None:
        base = training(config, entry.weights_of, seed)
    else:
        cache = config.train.cache or config.out / "cache"
        base = replace(config.train, cache=cache, loop=replace(config.train.loop, seed=seed))
    made = changed(base, entry.change, f"models.{name}.change")
    return replace(made, loop=replace(made.loop, seed=seed))
