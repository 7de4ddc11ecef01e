"""Guidance inside denoising: the reward field's gradient in the units of the diffusion state."""

import torch
from torch import Tensor

from drive.model.field.reward import RewardField
from drive.model.field.rollout import Rollout
from drive.model.field.scene import Prepared


class Guidance:
    """Ascent direction of the reward field at a diffusion state.

    A state z holds knots x = z * std + mean in metres, so dE/dz = std * dE/dx: the state's unit is respected.
    Both coordinates keep their gradient, so guidance can brake.

    Args:
        scene: The prepared scene, batch B.
        field: Gives the energy.
        mean, std: (16,), of the normalised state.
        scale: Factor on the gradient.
        most: Largest norm of one trajectory's gradient, in normalised units; longer ones are cut.
    """

    def __init__(
        self,
        scene: Prepared,
        field: RewardField,
        mean: Tensor,
        std: Tensor,
        *,
        scale: float = 1.0,
        most: float = 1.0,
    ) -> None:
        self.scene, self.field, self.scale, self.most = scene, field, scale, most
        with torch.inference_mode(False):
            self.mean, self.std = mean.detach().clone(), std.detach().clone()

    def __call__(self, state: Tensor) -> Tensor:
        """Minus the energy's gradient at states (B, P, 16), same shape; 0 where it is not finite."""
        with torch.inference_mode(False), torch.enable_grad():
            finite = state.isfinite().all(-1, keepdim=True)
            z = torch.where(finite, state.detach(), 0.0).clone().requires_grad_()
            knots = (z * self.std + self.mean).unflatten(-1, (-1, 2))
            energy = self.field.energy(Rollout(knots, self.scene))
            (grad,) = torch.autograd.grad(energy.sum(), z)
        finite = finite & grad.isfinite().all(-1, keepdim=True)
        grad = torch.where(finite, -self.scale * grad, 0.0)
        size = grad.norm(dim=-1, keepdim=True)
        return grad * (self.most / size.clamp(min=self.most))
