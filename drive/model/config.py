"""Everything that fixes the shape of a planner; stored as config.json beside its weights."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from drive.config import Bounds, NotNegative, Share
from drive.contracts import UserError
from drive.data.camera import CameraSpec

FIRST_LEVEL, LEVEL_STEP = 10, 20  # of the DDIM time steps used for sampling, from the end: 10, 30, 50 ...
CELL_PX = 16  # image pixels per cell of the last feature map, across and down
Width = Annotated[int, Bounds(1, 4096)]
Camera = Annotated[
    CameraSpec,
    Bounds(
        within={
            "width_px": Bounds(CELL_PX, 4096),
            "height_px": Bounds(CELL_PX, 4096),
            "fov_deg": Bounds(1, 170),
            "pitch_deg": Bounds(-89, 89),
        }
    ),
]


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of the planner.

    Attributes:
        camera: View the encoder sees.
        mount_m: Place of that camera, forward of the rear axle and above the ground.
        crop_rows: First and last (exclusive) image row used: sky and bonnet tell little.
        channels: Widths of the four convolution stages (strides 4, 2, 2, 1).
        map_channels: Channels kept per cell of the last feature map.
        ground_channels: Channels per cell of the ground.
        width: Width of the image and of the fused features.
        ego_width: Width of the ego and route features.
        decoder_width: Width of the trajectory decoder.
        critic_width: Width of the critic, which says how likely a trajectory comes to grief; 0 = none.
        command_width: Width of the command embedding.
        dropout: Share of fused inputs dropped in training.
        kmeans_anchors: Learned anchors; standstill, two lane changes and a U-turn are added to them.
        command_drop: Probability that training hides the command from the decoder.
        command_bonus: Added to the score of every proposal that carries out the emitted command.
        caution: Added to every proposal's score times the logarithm of how likely the critic finds it safe.
        trust: A command from outside is carried out if the critic finds a proposal that does so safe with at
            least this probability; else the planner brakes on its own way, and says so.
        consensus_m: What is driven is the mean of the proposals this near [m] to the best one; 0 = off.
        guidance: Classifier-free guidance weight; 1 = off (one decoder pass).
        noise_levels: Truncation: anchors are noised with the first `noise_levels` of the 1000 DDIM steps.
        sampling_steps: Denoising steps at inference.
        use_speed: False hides the ego speed from the network (ego-status-free variant).
        use_motion: False hides what moved between two images (one-frame variant).
        use_image: False leaves the encoder out: an MLP on speed, speed limit and route hint.
        use_command: False leaves the driving command out: the planner neither emits nor reads one.
        refine_steps: Batches of changes with which the chosen trajectory is improved on the scene that the
            planner sees (drive.model.field); 0 = off, 1 or 2 are enough.
        reflect_rounds: Rounds in which the worst term of its critique picks the next change; 0 = off.
        field_guidance: Pull of that reward field on every denoising step; 0 = off.
        head: "flow" takes the noise away by rectified flow instead of diffusion; "regression" plans one
            trajectory straight from the features: no anchors, noise, scores.
        flow_noise: Standard deviation of the noise around the starts of "flow" (1 = that of the labels).
    """

    camera: Camera = field(default_factory=CameraSpec)
    mount_m: tuple[float, float] = (1.9, 1.7)
    crop_rows: tuple[int, int] = (20, 132)
    channels: tuple[Width, Width, Width, Width] = (32, 64, 128, 160)
    map_channels: Width = 20
    ground_channels: Width = 48
    width: Width = 256
    ego_width: Width = 96
    decoder_width: Width = 256
    critic_width: Annotated[int, Bounds(0, 4096)] = 192
    command_width: Width = 48
    dropout: Annotated[float, Bounds(0, 0.99)] = 0.1
    kmeans_anchors: Width = 20
    command_drop: Share = 1 / 3
    command_bonus: float = 1.0
    caution: NotNegative = 1.0
    trust: Share = 0.5
    consensus_m: NotNegative = 0.0
    guidance: NotNegative = 1.0
    noise_levels: Annotated[int, Bounds(1, 1000)] = 50
    sampling_steps: Annotated[int, Bounds(1, 1000)] = 2
    use_speed: bool = True
    use_motion: bool = True
    use_image: bool = True
    use_command: bool = True
    refine_steps: Annotated[int, Bounds(0, 5)] = 0
    reflect_rounds: Annotated[int, Bounds(0, 3)] = 0
    field_guidance: NotNegative = 0.0
    head: Literal["diffusion", "flow", "regression"] = "diffusion"
    flow_noise: NotNegative = 0.1

    def __post_init__(self) -> None:
        first, end = self.crop_rows
        height, width = self.camera.height_px, self.camera.width_px
        if not 0 <= first < end <= height or (end - first) % CELL_PX:
            raise UserError(
                f"model.crop_rows: must be a multiple of {CELL_PX} rows within {height}, got {first} to {end}"
            )
        if width % CELL_PX:
            raise UserError(f"model.camera.width_px: must be a multiple of {CELL_PX}, got {width}")
        for name in ("refine_steps", "reflect_rounds", "field_guidance"):
            if getattr(self, name) and not self.use_image:
                raise UserError(f"model.{name}: needs model.use_image, without it the planner sees no scene")
        highest = FIRST_LEVEL + LEVEL_STEP * (self.sampling_steps - 1)
        if self.head == "diffusion" and highest >= self.noise_levels:
            raise UserError(
                f"model.sampling_steps: {self.sampling_steps} steps start at noise level {highest}, "
                f"model.noise_levels has only {self.noise_levels}"
            )
