"""Blind floors: policies that see the ego state and nothing else, beside every open-loop result."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from drive.contracts import DT_S, F32, F64, STEPS, Observation, Plan, Policy, Trajectory, UserError
from drive.geometry.se2 import resample_poses, wrap

HISTORY = 4
KEY_DT_S = 0.5
KEY_STEPS = 6
HIDDEN = (32,)
ALPHA = 30.0
MAX_ITER = 500


def single_plan(pose_ego: F64) -> Plan:
    """Plan with one proposal, pose_ego (STEPS, 3)."""
    pose = np.ascontiguousarray(pose_ego, np.float32)
    return Plan(best=Trajectory(pose), proposals_ego=pose[None], scores=np.ones(1, np.float32))


class GoStraight:
    """Keeps the speed of now and drives straight along the heading of now."""

    name = "go_straight"
    needs_images = False

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        """One straight proposal per observation; the seed has no effect."""
        del seed
        times = np.arange(1, STEPS + 1) * DT_S
        still = np.zeros(STEPS)
        return [single_plan(np.stack([o.speed_mps * times, still, still], -1)) for o in observations]


class ConstantVelocity:
    """Keeps the mean velocity vector of the last 0.5 s and the heading of now.

    Where no history row is given yet, the vector is the speed of now along the heading.
    """

    name = "constant_velocity"
    needs_images = False

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        """One proposal per observation; the seed has no effect."""
        del seed
        times = np.arange(1, STEPS + 1)[:, None] * DT_S
        plans = []
        for o in observations:
            known = len(o.history_ego) > 1
            velocity = (
                -o.history_ego[-2, :2].astype(np.float64) / KEY_DT_S
                if known
                else np.array([o.speed_mps, 0.0])
            )
            plans.append(single_plan(np.concatenate([times * velocity, np.zeros((STEPS, 1))], -1)))
        return plans


def ego_features(observation: Observation) -> F64:
    """Past poses at 2 Hz (oldest repeated), speed, acceleration and yaw rate, float64 (HISTORY * 3 + 3,)."""
    past = observation.history_ego[:-1][-HISTORY:].astype(np.float64)
    if len(past) < HISTORY:
        first = past[:1] if len(past) else np.zeros((1, 3))
        past = np.concatenate([np.repeat(first, HISTORY - len(past), 0), past])
    now = (observation.speed_mps, observation.accel_mps2, observation.yaw_rate_radps)
    return np.concatenate([past.ravel(), now])


class EgoMLP:
    """Small perceptron on the ego state alone, as AD-MLP but without the (oracle) command.

    It predicts the difference to constant speed and yaw rate at 0.5 s steps up to 3 s, so an untrained
    direction falls back to plain extrapolation. Same data and seed give the same weights.
    """

    name = "ego_mlp"
    needs_images = False

    def __init__(self) -> None:
        self._model: object | None = None

    def fit(self, observations: Sequence[Observation], future_ego: F32, seed: int = 0) -> "EgoMLP":
        """Train on futures future_ego (B, 6, 3) at 0.5 s steps; returns self.

        Raises:
            UserError: Fewer than 10 samples.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped,unused-ignore]

        if len(observations) < 10:
            raise UserError(
                f"ego_mlp needs at least 10 training samples, got {len(observations)}; use more scenes"
            )
        inputs = np.stack([ego_features(o) for o in observations])
        base = np.stack([_steady(o) for o in observations])
        gap = np.asarray(future_ego, np.float64) - base
        gap[..., 2] = wrap(gap[..., 2])
        perceptron = MLPRegressor(
            hidden_layer_sizes=HIDDEN, solver="lbfgs", alpha=ALPHA, max_iter=MAX_ITER, random_state=seed
        )
        model = make_pipeline(StandardScaler(), perceptron)
        with (
            threadpool_limits(1),
            warnings.catch_warnings(),
        ):  # one thread: sums in one order, equal weights each time
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # lbfgs reports a stalled line search at the optimum
            self._model = model.fit(inputs, gap.reshape(len(gap), -1))
        return self

    def plan(self, observations: Sequence[Observation], seed: int) -> list[Plan]:
        """One proposal per observation, interpolated to 0.1 s; the last second keeps the final velocity."""
        del seed
        if self._model is None:
            raise UserError(
                "ego_mlp is trained inside the benchmark: run `drive bench nuscenes --policy ego_mlp`"
            )
        inputs = np.stack([ego_features(o) for o in observations])
        gap = self._model.predict(inputs).reshape(-1, KEY_STEPS, 3)  # type: ignore[attr-defined]
        return [single_plan(_dense(_steady(o) + g)) for o, g in zip(observations, gap, strict=True)]


def _steady(observation: Observation) -> F64:
    """Constant speed and yaw rate: float64 (6, 3) at 0.5 s steps."""
    times = np.arange(1, KEY_STEPS + 1) * KEY_DT_S
    yaw = observation.yaw_rate_radps * times
    chord = observation.speed_mps * times * np.sinc(yaw / (2 * np.pi))
    return np.stack([chord * np.cos(yaw / 2), chord * np.sin(yaw / 2), yaw], -1)


def _dense(key_poses: F64) -> F64:
    """(6, 3) at 0.5 s -> (STEPS, 3) at 0.1 s, linear from the origin through the rows and beyond."""
    step = key_poses[-1] - key_poses[-2]
    extra = key_poses[-1] + step * np.arange(1, 3)[:, None]
    rows = np.concatenate([np.zeros((1, 3)), key_poses, extra])
    return resample_poses(rows, np.arange(len(rows)) * KEY_DT_S, np.arange(1, STEPS + 1) * DT_S)


FLOORS: dict[str, Callable[[], Policy]] = {
    "constant_velocity": ConstantVelocity,
    "go_straight": GoStraight,
    "ego_mlp": EgoMLP,
}
