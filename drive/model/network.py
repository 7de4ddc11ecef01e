"""The planner network: image and route features, driving command, and the trajectory decoder."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from drive.contracts import Lateral, Longitudinal, Turn
from drive.data.frames import CHANNELS, COLOURS
from drive.model.agents import AgentHead
from drive.model.anchors import InputStatistics
from drive.model.config import ModelConfig
from drive.model.critic import FAULTS, Critic
from drive.model.ground import COLUMNS, FINER, ROWS, GroundView, along, image_places, seen_cells
from drive.model.horizon import KNOTS

NO_COMMAND = -1
_STATE = 2 * KNOTS
_EGO_FEATURES = 3 + len(Turn) + 12
_LIGHTS = 4


class Inputs(NamedTuple):
    """One batch of what the planner sees.

    Attributes:
        image: uint8 (B, H, W, 4), RGB and what moved (drive.data.frames).
        speed_mps: float32 (B,); NaN = hidden.
        speed_limit_mps: float32 (B,).
        turn: int64 (B,), observation.Turn.
        targets_ego: float32 (B, 2, 2), route points [m].
    """

    image: Tensor
    speed_mps: Tensor
    speed_limit_mps: Tensor
    turn: Tensor
    targets_ego: Tensor


class Seen(NamedTuple):
    """What the image says by itself: pooled (B, width), ground (B, ground_channels, rows, columns)."""

    pooled: Tensor
    ground: Tensor


class Scene(NamedTuple):
    """What the encoder made of a batch.

    Attributes:
        features: float32 (B, width).
        ground: float32 (B, ground_channels, rows, columns), features on the ground (drive.model.ground).
        lateral: float32 (B, 6), command logits.
        longitudinal: float32 (B, 5), command logits.
        light: float32 (B, 4), logits of red, yellow, green, none.
        stop_m, lead_m: float32 (B,), distance to the stop line and gap to the lead vehicle, at most 60.
    """

    features: Tensor
    ground: Tensor
    lateral: Tensor
    longitudinal: Tensor
    light: Tensor
    stop_m: Tensor
    lead_m: Tensor


def _conv(inside: int, outside: int, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


def _features(inputs: Inputs, use_speed: bool) -> Tensor:
    """Ego and route features (B, 21), all of order one."""
    known = (
        torch.isfinite(inputs.speed_mps)
        if use_speed
        else torch.zeros_like(inputs.speed_mps, dtype=torch.bool)
    )
    speed = torch.where(known, inputs.speed_mps, torch.zeros_like(inputs.speed_mps))
    x, y = inputs.targets_ego[..., 0], inputs.targets_ego[..., 1]
    scalars = torch.stack([speed / 10, known.float(), inputs.speed_limit_mps / 10], 1)
    turn = nn.functional.one_hot(inputs.turn, len(Turn)).float()
    bearing = 5 * torch.atan2(y, x.clamp(min=1))
    curvature = 20 * y / (x**2 + y**2 + 1)
    return torch.cat(
        [scalars, turn, x / 20, y / 20, torch.tanh(y / 2), torch.tanh(y / 8), bearing, curvature], 1
    )  # (B, 21)


class PlannerNetwork(nn.Module):
    """Encoder, command heads, trajectory decoder. Inside, trajectories are normalised and flat: (..., 16)."""

    mean: Tensor
    std: Tensor
    anchors: Tensor
    seen_cells: Tensor

    def __init__(self, config: ModelConfig, statistics: InputStatistics) -> None:
        super().__init__()
        self.config = config
        self.intents = int(config.use_command or config.head == "regression")  # starts that are not anchors
        self.register_buffer("mean", torch.from_numpy(statistics.mean.copy()).flatten())
        self.register_buffer("std", torch.from_numpy(statistics.std.copy()).flatten())
        self.register_buffer("anchors", torch.from_numpy(statistics.anchors.copy()))  # (A, 8, 2), metres
        width = config.width
        if config.use_image:
            self._build_eyes(config)
        ego = config.ego_width
        self.ego = nn.Sequential(nn.Linear(_EGO_FEATURES, ego), nn.ReLU(), nn.Linear(ego, ego), nn.ReLU())
        self.fuse = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(width + ego, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        if config.use_image:
            self.perception = nn.Linear(width, _LIGHTS + 2)
        self._condition = width + config.command_width * config.use_command
        if config.use_command:
            self._build_command(config)
        if self.intents:
            self.intent = nn.Sequential(nn.Linear(self._condition, 128), nn.ReLU(), nn.Linear(128, _STATE))
        if config.head != "regression":
            self._build_decoder(config)

    def _build_eyes(self, config: ModelConfig) -> None:
        inner = config.channels
        self.image_channels = CHANNELS if config.use_motion else COLOURS
        self.fine = nn.Sequential(_conv(self.image_channels, inner[0], 5, 4), _conv(inner[0], inner[1], 3, 2))
        self.coarse = nn.Sequential(_conv(inner[1], inner[2], 3, 2), _conv(inner[2], inner[3], 3, 1))
        self.squeeze = nn.Sequential(nn.Conv2d(inner[3], config.map_channels, 1), nn.ReLU())
        for part in (self.fine, self.coarse, self.squeeze):
            part.to(memory_format=torch.channels_last)
        places = image_places(config.camera, config.mount_m, config.crop_rows)
        self.ground = GroundView(places, (inner[1], inner[3]), config.ground_channels)
        self.agents = AgentHead(config.ground_channels, FINER)
        self.register_buffer(
            "seen_cells", seen_cells(config.camera, config.mount_m, config.crop_rows), persistent=False
        )
        rows = (config.crop_rows[1] - config.crop_rows[0]) // 16
        cells = config.map_channels * rows * (config.camera.width_px // 16)
        self.pool = nn.Sequential(nn.Linear(cells, config.width), nn.LayerNorm(config.width), nn.ReLU())

    def _build_command(self, config: ModelConfig) -> None:
        self.command = nn.Sequential(
            nn.Linear(config.width, 96), nn.ReLU(), nn.Linear(96, len(Lateral) + len(Longitudinal))
        )
        self.lateral_embedding = nn.Embedding(len(Lateral) + 1, config.command_width)
        self.longitudinal_embedding = nn.Embedding(len(Longitudinal) + 1, config.command_width)

    def _build_decoder(self, config: ModelConfig) -> None:
        deep = config.decoder_width
        self.decode_condition = nn.Linear(self._condition, deep)
        self.decode_anchor = nn.Linear(_STATE, deep, bias=False)
        self.decode_noisy = nn.Linear(_STATE, deep, bias=False)
        self.decode_ground = nn.Linear(KNOTS * config.ground_channels, deep, bias=False)
        self.decode_time = nn.Embedding(config.noise_levels, deep)
        self.decode = nn.Sequential(
            nn.ReLU(), nn.Linear(deep, deep), nn.ReLU(), nn.Linear(deep, 192), nn.ReLU()
        )
        self.decode_offset = nn.Linear(192, _STATE)
        self.score_condition = nn.Linear(self._condition, deep)
        self.score_state = nn.Linear(_STATE, deep, bias=False)
        self.score_ground = nn.Linear(2 * KNOTS * config.ground_channels, deep, bias=False)
        self.judge = nn.Sequential(nn.ReLU(), nn.Linear(deep, 128), nn.ReLU(), nn.Linear(128, 1))
        if self.criticises:
            self.critic = Critic(config.ground_channels, config.width, _STATE, config.critic_width)
        nn.init.zeros_(self.decode_offset.weight)
        nn.init.zeros_(self.decode_offset.bias)

    @property
    def criticises(self) -> bool:
        """Does this planner have a critic?"""
        config = self.config
        return bool(config.critic_width and config.use_image and config.head != "regression")

    @property
    def proposals(self) -> int:
        """Trajectories that one plan is chosen from."""
        return self.intents + (len(self.anchors) if self.config.head != "regression" else 0)

    def see(self, image: Tensor) -> Seen:
        """Image uint8 or float (B, H, W, 4) in 0..255 -> what it shows; zeros without `use_image`."""
        config = self.config
        if not config.use_image:
            zeros = self.mean.new_zeros
            return Seen(
                zeros(len(image), config.width), zeros(len(image), config.ground_channels, ROWS, COLUMNS)
            )
        top, bottom = config.crop_rows
        used = image[:, top:bottom, :, : self.image_channels]
        x = used.permute(0, 3, 1, 2).float()  # channels_last in memory
        fine = self.fine(x.div(127.5).sub(1))
        coarse = self.coarse(fine)
        pooled = self.pool(self.squeeze(coarse).float().flatten(1))
        return Seen(pooled, self.ground((fine.float(), coarse.float())))

    def encode(self, inputs: Inputs) -> Scene:
        """Inputs -> scene features, command logits and perception."""
        return self.interpret(self.see(inputs.image), inputs)

    def interpret(self, seen: Seen, inputs: Inputs) -> Scene:
        """Image features with ego and route (the image itself is not read) -> scene."""
        pooled = seen.pooled
        features = self.fuse(torch.cat([pooled, self.ego(_features(inputs, self.config.use_speed))], 1))
        commands = len(Lateral) + len(Longitudinal)
        logits = (
            self.command(features) if self.config.use_command else features.new_zeros(len(features), commands)
        )
        perceived = (
            self.perception(pooled) if self.config.use_image else pooled.new_zeros(len(pooled), _LIGHTS + 2)
        )
        stop_m, lead_m = (20 * perceived[:, _LIGHTS:]).unbind(1)
        lateral, longitudinal = logits.split([len(Lateral), len(Longitudinal)], 1)
        return Scene(features, seen.ground, lateral, longitudinal, perceived[:, :_LIGHTS], stop_m, lead_m)

    def condition(self, features: Tensor, command: Tensor) -> Tensor:
        """Features (B, width) and command int64 (B, 2), -1 = not told -> (B, width + command_width).

        Without `use_command` the features alone: (B, width).
        """
        if not self.config.use_command:
            return features
        lateral = torch.where(command[:, 0] < 0, len(Lateral), command[:, 0])
        longitudinal = torch.where(command[:, 1] < 0, len(Longitudinal), command[:, 1])
        told = self.lateral_embedding(lateral) + self.longitudinal_embedding(longitudinal)
        return torch.cat([features, told], 1)

    def starts(self, condition: Tensor) -> Tensor:
        """Where diffusion starts: the trajectory this command intends, then all anchors: (B, P, 16).

        P = 1 + A; without `use_command` the anchors alone, with the regression head the first row alone.
        """
        intent = [self.intent(condition)[:, None]] if self.intents else []
        if self.config.head == "regression":
            return intent[0]
        anchors = self.normalise(self.anchors)[None].expand(len(condition), -1, -1)
        return torch.cat([*intent, anchors], 1)

    def emit(self, scene: Scene) -> Tensor:
        """The driving command, int64 (B, 2); NO_COMMAND without `use_command`."""
        command = torch.stack([scene.lateral.argmax(1), scene.longitudinal.argmax(1)], 1)
        return command if self.config.use_command else torch.full_like(command, NO_COMMAND)

    def denoise(
        self, ground: Tensor, condition: Tensor, start: Tensor, noisy: Tensor, level: Tensor
    ) -> Tensor:
        """One pass of the decoder, which sees the ground along the noisy trajectory.

        Args:
            ground: (B, ground_channels, rows, columns).
            condition: (B, C).
            start: (B, P, 16), where each proposal started.
            noisy: (B, P, 16).
            level: int64 (B,), DDIM time step below noise_levels.

        Returns:
            Clean trajectories (B, P, 16).
        """
        shared = self.decode_condition(condition) + self.decode_time(level)  # (B, deep)
        read = self.decode_ground(along(ground, self.metres(noisy)))
        x = self.decode(shared[:, None] + self.decode_anchor(start) + self.decode_noisy(noisy) + read)
        clean: Tensor = start + self.decode_offset(x)
        return clean

    def score(self, ground: Tensor, condition: Tensor, clean: Tensor) -> Tensor:
        """Scores (B, P) of trajectories (B, P, 16) from the ground along them and the condition."""
        knots = self.metres(clean)
        before = torch.cat([torch.zeros_like(knots[:, :, :1]), knots[:, :, :-1]], 2)
        path = torch.stack([(before + knots) / 2, knots], 3).flatten(2, 3)  # (B, P, 2 * KNOTS, 2)
        x = self.score_condition(condition)[:, None] + self.score_state(clean)
        scores: Tensor = self.judge(x + self.score_ground(along(ground, path)))[..., 0]
        return scores

    def faults(self, scene: Scene, clean: Tensor) -> Tensor:
        """Logits (B, P, 4) of the critic's FAULTS for trajectories (B, P, 16); without a critic -inf."""
        if not self.criticises:
            return clean.new_full((*clean.shape[:2], len(FAULTS)), -torch.inf)
        logits: Tensor = self.critic(scene.ground, scene.features, self.metres(clean), clean)
        return logits

    def normalise(self, knots_ego: Tensor) -> Tensor:
        """Metres (..., 8, 2) -> (..., 16)."""
        return (knots_ego.flatten(-2) - self.mean) / self.std

    def metres(self, state: Tensor) -> Tensor:
        """(..., 16) -> metres (..., 8, 2)."""
        return (state * self.std + self.mean).unflatten(-1, (KNOTS, 2))
