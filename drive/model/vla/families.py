"""Families of vision-language models: configs, tokens around a picture, pixel layout."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from drive.contracts import UserError
from drive.model.vla.config import Shape

_HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_POSITIONS = 8192


class Layout(NamedTuple):
    """A picture as a model takes it: width and height in pixels, and how many tokens it becomes."""

    size_px: tuple[int, int]
    tokens: int


@dataclass(frozen=True)
class FamilyFacts:
    """What differs between families.

    Attributes:
        before, token, after: Marks around a picture, and the one that is repeated in its place.
        statistics: Mean and standard deviation of the colours, RGB in 0..1.
        layout: (model config, wanted width and height) -> Layout.
        pack: (model config, pictures float (B, N, 3, H, W)) -> the model's arguments.
        typed: The model wants to know which tokens are pictures (mm_token_type_ids).
    """

    before: tuple[str, ...]
    token: str
    after: tuple[str, ...]
    statistics: tuple[tuple[float, ...], tuple[float, ...]]
    layout: Callable[[Any, tuple[int, int]], Layout]
    pack: Callable[[Any, Tensor], dict[str, Tensor]]
    typed: bool = False

    def marks(self) -> tuple[str, ...]:
        """All tokens that stand for a picture."""
        return (*self.before, self.token, *self.after)


def facts_of(model_config: Any) -> FamilyFacts:
    """Facts about a loaded model.

    Raises:
        UserError: a family that is not known here.
    """
    kind = str(getattr(model_config, "model_type", None))
    if kind not in FAMILIES:
        raise UserError(f"vlm: a model of type {kind!r} is not known here; known: {', '.join(FAMILIES)}")
    return FAMILIES[kind]


def pixels(model_config: Any, pictures: Tensor, size_px: tuple[int, int]) -> dict[str, Tensor]:
    """Pictures uint8 (B, N, H, W, 3), RGB, as the model's arguments, seen at width and height `size_px`."""
    facts = facts_of(model_config)
    batch, count = pictures.shape[:2]
    flat = pictures.flatten(0, 1).permute(0, 3, 1, 2).float() / 255
    if flat.shape[-2:] != (size_px[1], size_px[0]):
        flat = interpolate(flat, (size_px[1], size_px[0]), mode="bilinear", antialias=True).clamp(0, 1)
    mean, std = (flat.new_tensor(values)[:, None, None] for values in facts.statistics)
    return facts.pack(model_config, ((flat - mean) / std).unflatten(0, (batch, count)))


def _side(value: Any) -> int:
    return int(value[0] if isinstance(value, list | tuple) else value)


def _square(side: int, patch: int, merge: float) -> Layout:
    return Layout((side, side), int((side // patch / merge) ** 2))


def _idefics_layout(config: Any, _: tuple[int, int]) -> Layout:
    vision = config.vision_config
    return _square(_side(vision.image_size), _side(vision.patch_size), config.scale_factor)


def _intern_layout(config: Any, _: tuple[int, int]) -> Layout:
    vision = config.vision_config
    return _square(_side(vision.image_size), _side(vision.patch_size), 1 / config.downsample_ratio)


def _qwen_layout(config: Any, wanted_px: tuple[int, int]) -> Layout:
    vision = config.vision_config
    cell = _side(vision.patch_size) * vision.spatial_merge_size
    across, down = (max(1, round(side / cell)) for side in wanted_px)
    return Layout((across * cell, down * cell), across * down)


def _qwen_pack(config: Any, pictures: Tensor) -> dict[str, Tensor]:
    """Patches in the order of the merged tokens, each repeated over the frames of a patch: (patches, n)."""
    vision = config.vision_config
    patch, merge = _side(vision.patch_size), vision.spatial_merge_size
    flat = pictures.flatten(0, 1)
    down, across = flat.shape[2] // patch, flat.shape[3] // patch
    x = flat.unflatten(2, (down // merge, merge, patch)).unflatten(5, (across // merge, merge, patch))
    x = x.permute(
        0, 2, 5, 3, 6, 1, 4, 7
    )  # (pictures, rows, columns, row in it, column in it, 3, patch, patch)
    frames = _side(vision.temporal_patch_size)
    x = x[:, :, :, :, :, :, None].expand(-1, -1, -1, -1, -1, -1, frames, -1, -1)
    grid = torch.tensor([[1, down, across]], device=flat.device).expand(len(flat), -1)
    return {"pixel_values": x.reshape(len(flat) * down * across, -1), "image_grid_thw": grid}


def _stacked(_: Any, pictures: Tensor) -> dict[str, Tensor]:
    return {"pixel_values": pictures}


def _flat(_: Any, pictures: Tensor) -> dict[str, Tensor]:
    return {"pixel_values": pictures.flatten(0, 1)}


_FAKE = "<fake_token_around_image>"
_IDEFICS = FamilyFacts((_FAKE, "<global-img>"), "<image>", (_FAKE,), _HALF, _idefics_layout, _stacked)
_QWEN = FamilyFacts(
    ("<|vision_start|>",), "<|image_pad|>", ("<|vision_end|>",), _CLIP, _qwen_layout, _qwen_pack, typed=True
)
_QWEN3 = replace(_QWEN, statistics=_HALF)
FAMILIES: Mapping[str, FamilyFacts] = {  # by transformers' model_type; a new one is a line here
    "smolvlm": _IDEFICS,
    "idefics3": _IDEFICS,
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN3,
    "internvl": FamilyFacts(("<img>",), "<IMG_CONTEXT>", ("</img>",), _IMAGENET, _intern_layout, _flat),
}


def model_config(shape: Shape, vocabulary: int, ids: Mapping[str, int], pad: int, end: int) -> Any:
    """Transformers config of a model of this shape.

    Args:
        shape: Sizes.
        vocabulary: Rows of the embedding.
        ids: Token -> id of the tokenizer, the family's marks among them.
        pad: Id of the token that fills up.
        end: Id of the token that ends a reply.
    """
    text = {
        "vocab_size": vocabulary,
        "hidden_size": shape.text_width,
        "intermediate_size": shape.text_inner,
        "num_hidden_layers": shape.text_layers,
        "num_attention_heads": shape.text_heads,
        "num_key_value_heads": shape.text_kv_heads,
        "max_position_embeddings": _POSITIONS,
        "pad_token_id": pad,
        "bos_token_id": None,
        "eos_token_id": end,
        "tie_word_embeddings": shape.tied,
    }
    return _MAKERS[shape.family](shape, text, ids)


def _smolvlm(shape: Shape, text: dict[str, Any], ids: Mapping[str, int]) -> Any:
    from transformers import SmolVLMConfig

    return SmolVLMConfig(
        text_config={"model_type": "llama", **text},
        vision_config=_vision(shape),
        scale_factor=shape.merge,
        image_token_id=ids[_IDEFICS.token],
        pad_token_id=text["pad_token_id"],
        tie_word_embeddings=shape.tied,
    )


def _internvl(shape: Shape, text: dict[str, Any], ids: Mapping[str, int]) -> Any:
    from transformers import InternVLConfig

    return InternVLConfig(
        text_config={"model_type": "qwen2", **text},
        vision_config=_vision(shape),
        image_token_id=ids[FAMILIES["internvl"].token],
        image_seq_length=(shape.image_px // shape.patch_px // shape.merge) ** 2,
        downsample_ratio=1 / shape.merge,
        tie_word_embeddings=shape.tied,
    )


def _qwen2_vl(shape: Shape, text: dict[str, Any], ids: Mapping[str, int]) -> Any:
    from transformers import Qwen2VLConfig

    half = shape.text_width // shape.text_heads // 2
    part = 3 * half // 8
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [half - 2 * part, part, part]}
    return Qwen2VLConfig(
        text_config={**text, "rope_parameters": rope},
        vision_config={
            "depth": shape.vision_layers,
            "embed_dim": shape.vision_width,
            "hidden_size": shape.text_width,
            "num_heads": shape.vision_heads,
            "mlp_ratio": max(1, round(shape.vision_inner / shape.vision_width)),
            "patch_size": shape.patch_px,
            "spatial_merge_size": shape.merge,
        },
        image_token_id=ids[_QWEN.token],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids[_QWEN.before[0]],
        vision_end_token_id=ids[_QWEN.after[0]],
        tie_word_embeddings=shape.tied,
    )


def _vision(shape: Shape) -> dict[str, Any]:
    return {
        "hidden_size": shape.vision_width,
        "intermediate_size": shape.vision_inner,
        "num_hidden_layers": shape.vision_layers,
        "num_attention_heads": shape.vision_heads,
        "image_size": shape.image_px,
        "patch_size": shape.patch_px,
    }


_MAKERS: Mapping[str, Callable[[Shape, dict[str, Any], Mapping[str, int]], Any]] = {
    "smolvlm": _smolvlm,
    "qwen2_vl": _qwen2_vl,
    "internvl": _internvl,
}
