"""The jobs of a comparison of planners, each resumable by itself: train, measure open loop, drive."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from data_engine.planner_config import PlannerEvalConfig, training
from drive.config import config_dict, config_sha, load_config
from drive.contracts import I64, Policy, UserError
from drive.files import new_folder, read_object, write_json
from drive.train.config import TrainConfig

if TYPE_CHECKING:
    from drive.data.bundle import Bundle
    from sim.suites import Suite

Driver = Callable[[], Policy] | Literal["expert"]
MODEL, RESULTS = "model", "results.json"
ERRORS = ("ade_m", "ade_intent_m", "ade_best_m")


@dataclass(frozen=True)
class Member:
    """A model of the comparison with one training seed; ready-made policies have none (seed None)."""

    name: str
    seed: int | None

    @property
    def label(self) -> str:
        """For people."""
        return self.name if self.seed is None else f"{self.name}, seed {self.seed}"

    @property
    def path(self) -> Path:
        """Its place below models/, drives/SUITE/ and open_loop/."""
        return Path(self.name) if self.seed is None else Path(self.name) / f"seed-{self.seed}"


def members(config: PlannerEvalConfig) -> list[Member]:
    """Everybody, seed by seed, so that the first seed's comparison is complete before the second begins."""
    made = [name for name, entry in config.models.items() if entry.policy is not None]
    found: list[Member] = []
    for seed in config.seeds:
        found += [Member(name, seed) for name, entry in config.models.items() if entry.trained]
        found += [Member(name, seed) for name, entry in config.models.items() if entry.weights_of is not None]
        if seed == config.seeds[0]:
            found += [Member(name, None) for name in made]
    return found


def results_path(out: Path, suite: str, member: Member) -> Path:
    """The results file of one member on one suite."""
    safe = "".join(c if c.isalnum() or c in "-_.@" else "-" for c in suite)
    return out / "drives" / safe / member.path / RESULTS


def errors_path(out: Path, name: str, seed: int) -> Path:
    """The errors of one model on the validation samples of one seed."""
    return out / "open_loop" / name / f"seed-{seed}.json"


def model_path(out: Path, member: Member) -> Path:
    """The model folder of a trained member."""
    return out / "models" / member.path / MODEL


def check_models(config: PlannerEvalConfig) -> None:
    """Refuse, before any work, model folders of other settings and changes that weights cannot follow.

    Raises:
        UserError: Says which folder and which settings differ, or which change.
    """
    for member in members(config):
        if member.seed is None:
            continue
        wanted, entry = training(config, member.name, member.seed), config.models[member.name]
        if entry.weights_of is not None:
            _check_weights(config, member, wanted)
            continue
        stored = config.out / "models" / member.path / "config.yaml"
        if not stored.exists():
            continue
        differing = _differences(config_dict(load_config(TrainConfig, stored)), config_dict(wanted))
        if differing:
            raise UserError(
                f"{stored.parent}: was trained with other settings ({', '.join(differing[:3])}); "
                "choose another `out`, or delete that folder"
            )


def _check_weights(config: PlannerEvalConfig, member: Member, wanted: TrainConfig) -> None:
    from drive.model.folder import read_config, same_weights

    entry = config.models[member.name]
    source = training(config, str(entry.weights_of), int(member.seed or 0))
    first = member.seed == config.seeds[0]  # the others have the same networks
    if first and not same_weights(source.model, wanted.model):
        raise UserError(
            f"models.{member.name}.change: {', '.join(entry.change)}: asks for other weights than those of "
            f"{entry.weights_of!r}; train it instead (leave `weights_of` out)"
        )
    folder = model_path(config.out, member)
    if folder.exists() and read_config(folder) != wanted.model:
        raise UserError(f"{folder}: was made with other changes; choose another `out`, or delete that folder")


def _differences(one: Any, other: Any, at: str = "") -> list[str]:
    """Dotted keys whose values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = dict.fromkeys([*one, *other])
        return [d for k in keys for d in _differences(one.get(k), other.get(k), f"{at}.{k}".lstrip("."))]
    return [] if one == other else [at]


class Validation:
    """Validation samples of each seed: routes of the training data that no model of that seed trains on."""

    def __init__(self) -> None:
        self._bundles: dict[Any, Bundle] = {}

    def bundle(self, train: TrainConfig) -> "Bundle":
        """Samples of a training config's data, seen by its camera; hashed and opened once."""
        from drive.data.bundle import find_drives, load_bundle

        key = (train.data, train.exclude_towns, train.model.camera)
        if key not in self._bundles:
            drives = find_drives(train.data, train.exclude_towns)
            assert train.cache is not None
            self._bundles[key] = load_bundle(drives, train.model.camera, train.cache)
        return self._bundles[key]

    def rows(self, train: TrainConfig) -> I64:
        """Its validation rows."""
        from drive.data.bundle import split_rows

        return split_rows(self.bundle(train), train.validation_share, train.split_seed)[1]


def train_member(config: PlannerEvalConfig, member: Member, validation: Validation) -> None:
    """Train one model, or continue; a finished one is only checked against the data.

    Raises:
        UserError: The logs have changed since it was trained.
    """
    from drive.model.folder import read_meta
    from drive.train import train

    assert member.seed is not None
    wanted, folder = training(config, member.name, member.seed), model_path(config.out, member)
    if not folder.exists():
        train(wanted, folder.parent)
    elif read_meta(folder).provenance["data_key"] != validation.bundle(wanted).key:
        raise UserError(f"{folder}: the logs have changed since it was trained; choose another `out`")


def change_member(config: PlannerEvalConfig, member: Member) -> None:
    """Make the model folder of a member that drives with another one's weights."""
    from drive.model.folder import CONFIG, load_model, read_meta

    assert member.seed is not None
    entry, folder = config.models[member.name], model_path(config.out, member)
    if folder.exists():
        return
    source = model_path(config.out, Member(str(entry.weights_of), member.seed))
    with new_folder(folder) as temp:
        shutil.copytree(source, temp, dirs_exist_ok=True)
        write_json(temp / CONFIG, config_dict(training(config, member.name, member.seed).model))
    assert load_model(folder)[1].sha256 == read_meta(source).sha256


def drive_member(config: PlannerEvalConfig, member: Member, suite: "Suite", driver: Driver | None) -> None:
    """Drive one suite, or what of it is missing."""
    from drive.model import policy_factory
    from drive.model.folder import read_config, read_meta
    from sim.runner import run_suite

    folder = model_path(config.out, member) if driver is None else getattr(driver, "folder", None)
    name = member.name
    if folder is not None:  # other weights or settings never continue a run
        name += f"-{read_meta(Path(folder)).model_id}-{config_sha(read_config(Path(folder)))[:6]}"
    out = results_path(config.out, suite.name, member).parent
    run_suite(
        suite,
        policy_factory(str(folder)) if driver is None else driver,
        out,
        workers=config.workers,
        record=False,
        policy_name=name,
    )


def measurable(driver: Driver | None) -> bool:
    """Do errors on validation samples mean something?

    Not those of a ready-made model, which may have been trained on these routes, nor those of the expert,
    whose plans are the labels.
    """
    return driver is None or (driver != "expert" and getattr(driver, "folder", None) is None)


def measure_member(
    config: PlannerEvalConfig, name: str, seed: int, driver: Driver | None, validation: Validation
) -> None:
    """Write errors on the validation samples of one seed, as sums per route: see `ERRORS`.

    For a member that can be measured.
    """
    from drive.model.folder import read_meta

    path, folder = errors_path(config.out, name, seed), model_path(config.out, Member(name, seed))
    wanted = training(config, name if driver is None else config.ours, seed)
    made_of = None if driver is not None else read_meta(folder).model_id
    if path.exists() and read_object(path, "model_id")["model_id"] == made_of:
        return
    bundle, rows = validation.bundle(wanted), validation.rows(wanted)
    if driver is None:
        from drive.model.folder import load_model
        from drive.train.evaluate import measure_samples

        measured = measure_samples(load_model(folder)[0], bundle.samples, rows)
        found = {key: value for key, value in measured.items() if key in ERRORS}
    else:
        assert driver != "expert"
        found = {"ade_m": policy_errors(driver(), bundle, rows)}
    groups = np.array([drive.group for drive in bundle.drives])[bundle.samples.drive[rows]]
    routes = {
        str(group): {"samples": int((groups == group).sum())}
        | {key: float(value[groups == group].sum()) for key, value in found.items()}
        for group in np.unique(groups)
    }
    write_json(path, {"name": name, "seed": seed, "model_id": made_of, "routes": routes})


def policy_errors(policy: Policy, bundle: "Bundle", rows: I64) -> Any:
    """Distance [m] of a policy's plans to the labels, at the network's eight moments, float32 (N,)."""
    from drive.data.observations import observation_at
    from drive.logs import read_drive
    from drive.model.horizon import knots_from_poses

    samples, errors = bundle.samples, np.zeros(len(rows), np.float32)
    for drive in np.unique(samples.drive[rows]):
        here = np.flatnonzero(samples.drive[rows] == drive)
        source = bundle.drives[drive]
        log = read_drive(source.folder.parents[1], source.log_id, images=policy.needs_images)
        plans = policy.plan([observation_at(log, int(i)) for i in samples.plan_index[rows[here]]], 0)
        made = knots_from_poses(np.stack([plan.best.pose_ego for plan in plans]))
        label = knots_from_poses(samples.label_ego[rows[here]])
        errors[here] = np.linalg.norm(made - label, axis=-1).mean(-1)
    return errors


def read_errors(path: Path) -> dict[str, dict[str, float]]:
    """Route -> sums, as `measure_member` wrote them; empty if it has not."""
    return dict(read_object(path, "routes")["routes"]) if path.exists() else {}
