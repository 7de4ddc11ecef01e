"""Everything that fixes the shape of a planner; stored as config.json beside its weights."""

from dataclasses import dataclass, field

from drive.data.camera import CameraSpec


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of the planner.

    Attributes:
        camera: View the encoder sees.
        crop_rows: First and last (exclusive) image row used: sky and bonnet tell little.
        channels: Widths of the four convolution stages (strides 4, 2, 2, 1).
        map_channels: Channels kept per cell of the last feature map.
        width: Width of the image and of the fused features.
        ego_width: Width of the ego and route features.
        decoder_width: Width of the trajectory decoder.
        command_width: Width of the command embedding.
        dropout: Share of fused inputs dropped in training.
        kmeans_anchors: Learned anchors; standstill, two lane changes and a U-turn are added to them.
        command_drop: Probability that training hides the command from the decoder.
        command_bonus: Added to the score of every proposal that carries out the emitted command.
        guidance: Classifier-free guidance weight; 1 = off (one decoder pass).
        noise_levels: Truncation: anchors are noised with the first `noise_levels` of the 1000 DDIM steps.
        sampling_steps: Denoising steps at inference.
        use_speed: False hides the ego speed (ego-status-free variant).
    """

    camera: CameraSpec = field(default_factory=CameraSpec)
    crop_rows: tuple[int, int] = (20, 132)
    channels: tuple[int, int, int, int] = (32, 64, 128, 160)
    map_channels: int = 20
    width: int = 256
    ego_width: int = 96
    decoder_width: int = 256
    command_width: int = 48
    dropout: float = 0.1
    kmeans_anchors: int = 20
    command_drop: float = 1 / 3
    command_bonus: float = 1.0
    guidance: float = 1.0
    noise_levels: int = 50
    sampling_steps: int = 2
    use_speed: bool = True
