"""Which samples of recorded scenes are evaluated: named sets with a token hash, and their truth."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drive.bench.inputs import FUTURE_STEPS
from drive.bench.nuscenes_tables import SceneTrack
from drive.contracts import F64, AgentKind, Bool, UserError
from drive.files import read_json
from drive.geometry.se2 import to_local


class Rule(NamedTuple):
    """A sample needs this many earlier and later key frames."""

    history: int
    future: int
    words: str


STANDARD = "standard"
RULES: dict[str, Rule] = {
    STANDARD: Rule(1, FUTURE_STEPS, "an earlier key frame and a full 3 s future"),
    "stp3": Rule(2, FUTURE_STEPS, "two earlier key frames and a full 3 s future (ST-P3, AD-MLP)"),
    "every": Rule(0, 1, "at least one later key frame; steps beyond the scene's end are masked"),
}

PUBLISHED = {"c2aec801ad3d7f3f": "the filter that AD-MLP ships for ST-P3's protocol"}  # token hash -> set


@dataclass(frozen=True)
class Case:
    """One evaluated sample: key frame `k` of a scene, the recorded future and the road users in it.

    Attributes:
        truth_ego: float64 (6, 3), recorded rear-axle poses at the next key frames; NaN beyond the scene.
        known: bool (6,), steps that were recorded.
        agents_ego: float64 (N, 6, 3), box centres.
        size_m: float32 (N, 2).
        kind: int32 (N,), AgentKind.
        valid: bool (N, 6).
    """

    scene: SceneTrack
    k: int
    truth_ego: F64
    known: Bool
    agents_ego: F64
    size_m: Any
    kind: Any
    valid: Bool

    @property
    def token(self) -> str:
        """Sample token."""
        return self.scene.tokens[self.k]


@dataclass(frozen=True)
class SampleSet:
    """What was chosen.

    Attributes:
        name: Of a rule, or the file with the tokens.
        words: What a sample of it needs.
        planned: Tokens in the set.
        absent: Those of a file that are not in the scenes of the split, or have no later key frame.
        token_hash: First 16 hex digits of SHA-256 over the sorted tokens, one a line: equal hash, equal set.
        without_history, without_future: Samples of the split that a rule leaves out.
    """

    name: str
    words: str
    planned: int
    absent: int
    token_hash: str
    without_history: int
    without_future: int


def token_hash(tokens: Sequence[str]) -> str:
    """Fingerprint of a set of tokens; their order does not matter."""
    return hashlib.sha256("\n".join(sorted(tokens)).encode()).hexdigest()[:16]


def choose(scenes: Sequence[SceneTrack], spec: str = STANDARD) -> tuple[tuple[Case, ...], SampleSet]:
    """Cases of scenes by a named rule, or by a JSON list of sample tokens.

    Raises:
        UserError: Unknown name, damaged or repeated list, or nothing to evaluate.
    """
    if spec not in RULES:
        return _chosen_by_file(scenes, Path(spec))
    rule = RULES[spec]
    cases = tuple(case for scene in scenes for case in cases_of(scene, rule))
    if not cases:
        raise UserError(f"--samples {spec}: no sample of these scenes has {rule.words}")
    total = sum(len(s.tokens) for s in scenes)
    early = sum(min(rule.history, len(s.tokens)) for s in scenes)
    tokens = [case.token for case in cases]
    left = total - early - len(cases)
    found = token_hash(tokens)
    return cases, SampleSet(spec, _named(rule.words, found), len(cases), 0, found, early, left)


def _named(words: str, found: str) -> str:
    return f"{words}: {PUBLISHED[found]}" if found in PUBLISHED else words


def _chosen_by_file(scenes: Sequence[SceneTrack], path: Path) -> tuple[tuple[Case, ...], SampleSet]:
    if not path.is_file():
        raise UserError(f"--samples {path}: neither a file nor one of {', '.join(RULES)}")
    tokens = read_json(path)
    if not isinstance(tokens, list) or not tokens or not all(isinstance(t, str) for t in tokens):
        raise UserError(f"--samples {path}: expected a JSON list of sample tokens")
    if len(set(tokens)) < len(tokens):
        raise UserError(f"--samples {path}: {len(tokens) - len(set(tokens))} tokens are repeated")
    wanted, found = set(tokens), []
    for scene in scenes:
        found += [case for case in cases_of(scene, RULES["every"]) if case.token in wanted]
    if not found:
        raise UserError(f"--samples {path}: none of its {len(tokens)} tokens is in the scenes of this split")
    absent = len(tokens) - len(found)
    name = token_hash(tokens)
    words = _named(f"listed in {path.name}", name)
    return tuple(found), SampleSet(str(path), words, len(tokens), absent, name, 0, 0)


def cases_of(scene: SceneTrack, rule: Rule = RULES[STANDARD]) -> list[Case]:
    """Key frames of a scene that a rule takes."""
    return [case_at(scene, k) for k in range(rule.history, len(scene.tokens) - rule.future)]


def case_at(scene: SceneTrack, k: int) -> Case:
    """Key frame k with what follows it; obstacles are left out, steps beyond the scene's end are unknown."""
    ahead = slice(k + 1, k + 1 + FUTURE_STEPS)
    seen = scene.agents.valid[:, ahead].any(1) & (scene.agents.kind != AgentKind.OBSTACLE)
    steps = len(scene.pose_world[ahead])
    truth = np.full((FUTURE_STEPS, 3), np.nan)
    truth[:steps] = to_local(scene.pose_world[ahead], scene.pose_world[k])
    agents = np.zeros((int(seen.sum()), FUTURE_STEPS, 3))
    agents[:, :steps] = to_local(scene.agents.pose_world[seen, ahead], scene.pose_world[k])
    valid = np.zeros(agents.shape[:2], bool)
    valid[:, :steps] = scene.agents.valid[seen, ahead]
    return Case(
        scene=scene,
        k=k,
        truth_ego=truth,
        known=np.arange(FUTURE_STEPS) < steps,
        agents_ego=agents,
        size_m=scene.agents.size_m[seen],
        kind=scene.agents.kind[seen],
        valid=valid,
    )
