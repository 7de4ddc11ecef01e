"""Weights of the training terms; free of torch, so that configs load fast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LossWeights:
    """Weights of the terms.

    Attributes:
        intent: L1 of the command's intended trajectory (before diffusion).
        denoise: L1 of the denoised winner: the proposal whose anchor was nearest to the label.
        denoise_intent: L1 of the proposal that started from the intent.
        score: Cross entropy of scores against softmax(-distance / score_scale_m) over the denoised proposals.
        score_scale_m: Softness of the score target.
        command: Cross entropy of both command heads.
        perception: Light, stop distance and lead gap.
        near_lead: Factor on the gap to leads nearer than 45 m: they are rare, the median answer is "none".
        ground: Cross entropy of what is on the ground: road, oncoming lanes, road users now and later.
        agents: Detection of road users, with their size, heading and future (drive.train.agents).
        critic: Cross entropy of the critic's faults against the true scene (drive.train.critic).
        dream: The same of a trajectory for another feasible command, with a kinematic roll-out as label
            (drive.train.dreaming); 0 = nobody dreams.
        dream_unsafe: Under a command that nothing safe carries out: scores and the expert's own anchor.
        dream_share: Share of each batch that dreams.
        critic_share: Share of each batch that the critic looks at.
    """

    intent: float = 1.0
    denoise: float = 1.0
    denoise_intent: float = 0.5
    score: float = 0.5
    score_scale_m: float = 0.3
    command: float = 0.3
    perception: float = 0.2
    near_lead: float = 1.0
    ground: float = 1.0
    agents: float = 0.3
    critic: float = 1.0
    dream: float = 0.0
    dream_unsafe: float = 0.0
    dream_share: float = 1 / 6
    critic_share: float = 0.5
