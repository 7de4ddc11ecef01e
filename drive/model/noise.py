"""How noise is added to start points and taken away again: truncated diffusion or rectified flow."""

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from drive.model.config import FIRST_LEVEL, LEVEL_STEP, ModelConfig

if TYPE_CHECKING:
    from diffusers import DDIMScheduler, FlowMatchEulerDiscreteScheduler

TRAIN_STEPS = 1000


class Chain(Protocol):
    """From start points (B, P, 16) with noise to clean trajectories; `Noised.level` is below noise_levels."""

    @property
    def levels(self) -> tuple[int, ...]:
        """Noise level of every denoising step, highest first."""
        ...

    def begin(self, start: Tensor, noise: Tensor) -> Tensor:
        """State before the first step; `noise` is standard normal."""
        ...

    def step(self, clean: Tensor, index: int, state: Tensor) -> Tensor:
        """State after step `index`, in which the network took `state` for `clean`."""
        ...

    def noised(self, start: Tensor, goal: Tensor, noise: Tensor, generator: torch.Generator) -> "Noised":
        """What the network is trained on.

        Args:
            start: (B, P, 16).
            goal: (B, P, 16), where each proposal ought to end.
            noise: (B, P, 16), standard normal.
            generator: Draws the level.
        """
        ...


class Noised(NamedTuple):
    """States (B, P, 16) at one noise level a row, int64 (B,)."""

    state: Tensor
    level: Tensor


def chain_of(config: ModelConfig) -> Chain:
    """The chain of a planner with head "diffusion" or "flow"."""
    if config.head == "flow":
        return Flow(config.sampling_steps, config.noise_levels, config.flow_noise)
    return Diffusion(config.sampling_steps, config.noise_levels)


class Diffusion:
    """Start points are noised with the last DDIM levels of 1000 (DiffusionDrive, Liao et al. 2025)."""

    def __init__(self, sampling_steps: int, noise_levels: int) -> None:
        self._steps, self._levels = sampling_steps, noise_levels

    @property
    def levels(self) -> tuple[int, ...]:
        """10, 30, 50 ... from the end."""
        return tuple(_ddim(self._steps, "cpu").timesteps.tolist())

    def begin(self, start: Tensor, noise: Tensor) -> Tensor:
        """The start, noised to the first level."""
        ddim = _ddim(self._steps, str(start.device))
        return ddim.add_noise(start, noise, ddim.timesteps[:1])

    def step(self, clean: Tensor, index: int, state: Tensor) -> Tensor:
        """One DDIM step without new noise."""
        ddim = _ddim(self._steps, str(state.device))
        after: Tensor = ddim.step(clean, self.levels[index], state, eta=0.0).prev_sample
        return after

    def noised(self, start: Tensor, goal: Tensor, noise: Tensor, generator: torch.Generator) -> Noised:
        """The start at a random level: the network learns to go from near an anchor to the trajectory."""
        level = torch.randint(0, self._levels, (len(start),), generator=generator).to(start.device)
        return Noised(_ddim(self._steps, str(start.device)).add_noise(start, noise, level), level)


class Flow:
    """Straight paths from around the start points to the goals (rectified flow, Liu et al. 2022)."""

    def __init__(self, sampling_steps: int, noise_levels: int, spread: float) -> None:
        self._euler, self._last, self._spread = _euler(sampling_steps), noise_levels - 1, spread

    @property
    def levels(self) -> tuple[int, ...]:
        """Shares of noise 1 ... 1 / steps, in levels."""
        return tuple(round(float(share) * self._last) for share in self._euler.sigmas[:-1])

    def begin(self, start: Tensor, noise: Tensor) -> Tensor:
        """Around the start: nothing of the goal is known yet."""
        return start + self._spread * noise

    def step(self, clean: Tensor, index: int, state: Tensor) -> Tensor:
        """One Euler step along the velocity towards `clean`."""
        euler = self._euler
        velocity = (state - clean) / euler.sigmas[index]
        euler._step_index = index  # the shared scheduler keeps no state of ours
        after: Tensor = euler.step(velocity, euler.timesteps[index], state).prev_sample
        return after

    def noised(self, start: Tensor, goal: Tensor, noise: Tensor, generator: torch.Generator) -> Noised:
        """A place on the straight path, at a random share of noise."""
        level = torch.randint(1, self._last + 1, (len(start),), generator=generator).to(start.device)
        share = (level / self._last)[:, None, None]
        return Noised(share * self.begin(start, noise) + (1 - share) * goal, level)


@cache
def _ddim(sampling_steps: int, device: str) -> "DDIMScheduler":
    """DDIM with x0-prediction; its last `sampling_steps` time steps are 10, 30, 50 ... from the end.

    One for each device: a scheduler moves its tables to whatever it is given, for good.
    """
    from diffusers import DDIMScheduler

    with torch.inference_mode(False), torch.device("cpu"):  # made anywhere, it serves everywhere
        ddim = DDIMScheduler(
            num_train_timesteps=TRAIN_STEPS,
            beta_schedule="scaled_linear",
            prediction_type="sample",
            clip_sample=False,
            steps_offset=FIRST_LEVEL,
        )
        ddim.set_timesteps(TRAIN_STEPS // LEVEL_STEP)
        ddim.timesteps = ddim.timesteps[-sampling_steps:]
    return ddim


@cache
def _euler(sampling_steps: int) -> "FlowMatchEulerDiscreteScheduler":
    """Euler's method over equal shares of noise: 1, 1 - 1 / n, ... 1 / n."""
    from diffusers import FlowMatchEulerDiscreteScheduler

    shares: Any = [1 - k / sampling_steps for k in range(sampling_steps)]
    with torch.inference_mode(False), torch.device("cpu"):
        euler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=TRAIN_STEPS)
        euler.set_timesteps(sigmas=shares)
    return euler
