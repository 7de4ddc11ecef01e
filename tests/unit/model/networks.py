"""A small untrained planner for tests."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from drive.model.anchors import InputStatistics, fit_statistics
from drive.model.config import ModelConfig
from drive.model.network import Inputs, PlannerNetwork

TINY = ModelConfig(
    channels=(8, 8, 8, 8),
    map_channels=4,
    width=32,
    ego_width=16,
    decoder_width=32,
    command_width=8,
    kmeans_anchors=5,
)


def statistics(seed: int = 0, kmeans_anchors: int = 5) -> InputStatistics:
    rng = np.random.default_rng(seed)
    t = (np.arange(8) + 1) * 0.5
    speed, bend = rng.uniform(0, 12, 200), rng.normal(0, 0.1, 200)
    knots = np.stack([speed[:, None] * t, bend[:, None] * speed[:, None] * t**2 / 2], -1)
    return fit_statistics(knots.astype(np.float32), kmeans_anchors, seed)


def tiny_network(seed: int = 0, **changes: Any) -> PlannerNetwork:
    """`changes`: other values of ModelConfig."""
    torch.manual_seed(seed)
    network = PlannerNetwork(replace(TINY, **changes), statistics())
    if network.config.head == "diffusion":
        torch.nn.init.normal_(network.decode_offset.weight, std=0.05)
    return network.eval()


def random_inputs(batch: int = 3, seed: int = 0) -> Inputs:
    rng = np.random.default_rng(seed)
    camera = TINY.camera
    return Inputs(
        torch.from_numpy(
            rng.integers(0, 256, (batch, camera.height_px, camera.width_px, 4)).astype(np.uint8)
        ),
        torch.from_numpy(rng.uniform(0, 12, batch).astype(np.float32)),
        torch.full((batch,), 13.9),
        torch.from_numpy(rng.integers(0, 6, batch)),
        torch.tensor([[[10.0, 0.5], [25.0, 2.0]]]).expand(batch, -1, -1).clone(),
    )
