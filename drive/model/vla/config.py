"""What fixes a VLA: its vision-language model, its pictures, and its pace beside a planner."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from drive.config import AtLeastOne, Bounds, NotNegative, Positive
from drive.contracts import UserError
from drive.data.camera import CameraSpec

FAMILIES = (
    "smolvlm",
    "qwen2_vl",
    "internvl",
)  # that can be built; what can be loaded: drive.model.vla.families
Family = Literal["smolvlm", "qwen2_vl", "internvl"]
Size = Annotated[int, Bounds(1, 1_000_000)]


@dataclass(frozen=True)
class Shape:
    """Sizes of a vision-language model that is built with random weights.

    Attributes:
        family: Whose architecture: "smolvlm" (as Idefics3), "qwen2_vl" or "internvl".
        text_width, text_layers, text_heads, text_kv_heads, text_inner: Language model.
        vision_width, vision_layers, vision_heads, vision_inner: Vision encoder.
        image_px: Side of its square picture; Qwen takes `VlaConfig.picture_px` instead.
        patch_px: Side of a patch.
        merge: This many patches across and down become one token.
        vocabulary: Rows of the embedding; 0 = as many as the tokenizer has.
        tied: Input and output embedding are the same.
    """

    family: Family = "smolvlm"
    text_width: Size = 128
    text_layers: Size = 3
    text_heads: Size = 4
    text_kv_heads: Size = 2
    text_inner: Size = 384
    vision_width: Size = 96
    vision_layers: Size = 3
    vision_heads: Size = 4
    vision_inner: Size = 288
    image_px: Size = 160
    patch_px: Size = 16
    merge: Size = 2
    vocabulary: Annotated[int, Bounds(0, 1_000_000)] = 0
    tied: bool = False

    def __post_init__(self) -> None:
        cell = self.patch_px * self.merge
        if self.family != "qwen2_vl" and self.image_px % cell:
            raise UserError(f"vlm.shape.image_px: must be a multiple of patch_px * merge = {cell}")
        for part, heads in (("text", self.text_heads), ("vision", self.vision_heads)):
            width = getattr(self, f"{part}_width")
            if width % heads or width // heads % 4:
                raise UserError(
                    f"vlm.shape.{part}_width: {width} is not {heads} heads of a multiple of 4 each"
                )
        if self.text_heads % self.text_kv_heads:
            raise UserError("vlm.shape.text_heads: must be a multiple of text_kv_heads")


@dataclass(frozen=True)
class VlmSpec:
    """Which vision-language model.

    Attributes:
        source: Local folder in the layout of transformers (works offline), or a hub id (OWNER/NAME); null =
            built from `shape` with random weights and a small tokenizer of its own.
        shape: Sizes, without `source`.
        dtype: Of the weights.
    """

    source: str | None = None
    shape: Shape = field(default_factory=Shape)
    dtype: Literal["float32", "bfloat16"] = "float32"


@dataclass(frozen=True)
class PaceConfig:
    """How a VLA that is slower than the planner is used; all on the clock of the observations.

    Attributes:
        period_s: A new command is asked for this long after the last question.
        delay_s: A command can be used this long after it was asked for: the VLA's latency.
        max_age_s: Older commands are not used; the planner's own command head takes over.
    """

    period_s: Positive = 0.4
    delay_s: NotNegative = 0.0
    max_age_s: Positive = 1.0


@dataclass(frozen=True)
class VlaConfig:
    """A VLA; stored as config.json in its folder.

    Attributes:
        vlm: Vision-language model.
        cameras: Views it sees, in the order of the prompt.
        picture_px: Width and height of a picture for models without a fixed one (Qwen-VL); rounded to whole
            tokens.
        max_reply_tokens: Longest reasoning.
        pace: How it is used beside a planner.
    """

    vlm: VlmSpec = field(default_factory=VlmSpec)
    cameras: tuple[CameraSpec, ...] = (CameraSpec(),)
    picture_px: tuple[Size, Size] = (252, 140)
    max_reply_tokens: AtLeastOne = 192
    pace: PaceConfig = field(default_factory=PaceConfig)

    def __post_init__(self) -> None:
        names = [camera.name for camera in self.cameras]
        if not names or len(set(names)) < len(names):
            raise UserError("cameras: give at least one, each with another name")
