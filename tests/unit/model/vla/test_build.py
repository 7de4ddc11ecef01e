"""Vision-language models: built, loaded from folders, refused in one line; pixel layouts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drive.contracts import UserError
from drive.model.vla.build import build_vlm, load_vlm, make_speaker, weights_sha
from drive.model.vla.config import FAMILIES as BUILT
from drive.model.vla.config import Shape, VlaConfig, VlmSpec
from drive.model.vla.decode import drafted, plain
from drive.model.vla.families import FAMILIES, facts_of, pixels
from drive.model.vla.network import VlaNetwork
from drive.model.vla.prompt import Task
from drive.model.vla.speaker import Speaker
from drive.model.vla.words import END, PAD
from tests import builders
from tests.unit.model.vla.speakers import SHAPE, config_of, tiny_speaker, tokenizer

_QWEN_MARKS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


@pytest.mark.parametrize("family", BUILT)
def test_replies_depend_on_the_picture_and_the_prompt(family: Any) -> None:
    speaker = tiny_speaker(family, 1)
    one = builders.observation(6.0, image_size=32)
    dark = replace(one, images={"front": np.zeros_like(one.images["front"])})
    other = replace(one, speed_mps=13.0)
    first = speaker.command(one).embedding
    assert first.shape == (32,)
    np.testing.assert_array_equal(speaker.command(one).embedding, first)
    for changed in (dark, other):
        assert np.abs(speaker.command(changed).embedding - first).max() > 1e-4


def test_the_same_seed_gives_the_same_weights() -> None:
    config = VlaConfig(vlm=VlmSpec(shape=SHAPE))
    shas = [weights_sha(make_speaker(config, seed).network) for seed in (0, 0, 1)]
    assert shas[0] == shas[1] != shas[2]


def test_qwen3_vl_is_known() -> None:
    """Deeper picture features go into its first text layers; cut drafts must not leave any behind."""
    from transformers import AutoModelForImageTextToText, Qwen3VLConfig

    base: Any = tiny_speaker("qwen2_vl").network.vlm
    ids = {name: getattr(base.config, name) for name in _QWEN_MARKS}
    text = {
        "vocab_size": base.config.get_text_config().vocab_size, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 2, 2]},
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 14,
        "out_hidden_size": 32, "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
    }  # fmt: skip
    config = Qwen3VLConfig(text_config=text, vision_config=vision, **ids)
    torch.manual_seed(0)
    network = VlaNetwork(AutoModelForImageTextToText.from_config(config)).eval()
    speaker = Speaker(network, tokenizer(), config_of("qwen2_vl"))
    one = builders.observation(6.0, image_size=32)
    dark = replace(one, images={"front": np.zeros_like(one.images["front"])})
    assert np.abs(speaker.command(dark).embedding - speaker.command(one).embedding).max() > 1e-5
    asked = speaker._question(one, (), Task.COMMAND)
    assert drafted(network, asked).ids == plain(network, asked).ids


@pytest.mark.parametrize("kind", ["idefics3", "qwen2_5_vl"])
def test_relatives_of_the_families_are_known(kind: str) -> None:
    """Configs of related models, built by transformers alone, with our pixel layout and prompt."""
    from transformers import AutoConfig, AutoModelForImageTextToText

    base: Any = tiny_speaker("smolvlm" if kind == "idefics3" else "qwen2_vl").network.vlm
    values = base.config.to_dict() | {"model_type": kind}
    vision = values["vision_config"]
    if kind == "qwen2_5_vl":
        vision |= {
            "intermediate_size": 64,
            "out_hidden_size": 32,
            "hidden_size": 32,
            "fullatt_block_indexes": [0],
        }
        vision["model_type"], values["text_config"]["model_type"] = "qwen2_5_vl", "qwen2_5_vl_text"
    else:
        vision["model_type"] = "idefics3_vision"
    model = AutoModelForImageTextToText.from_config(AutoConfig.for_model(**values)).eval()
    assert model.config.model_type == kind
    speaker = tiny_speaker("smolvlm" if kind == "idefics3" else "qwen2_vl")
    speaker.network = VlaNetwork(model)
    assert speaker.command(builders.observation(6.0, image_size=32)).passes >= 2


def test_qwen_patches_are_those_of_its_own_processor() -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    model: Any = tiny_speaker("qwen2_vl").network.vlm
    image = np.random.default_rng(0).integers(0, 256, (56, 84, 3)).astype(np.uint8)
    want = Qwen2VLImageProcessorPil(size={"shortest_edge": 1, "longest_edge": 10**7})(
        image, return_tensors="np"
    )
    got = pixels(model.config, torch.from_numpy(image)[None, None], (84, 56))
    np.testing.assert_array_equal(got["image_grid_thw"].numpy(), want["image_grid_thw"])
    np.testing.assert_allclose(got["pixel_values"].numpy(), want["pixel_values"], atol=1e-5)


@pytest.mark.parametrize("family", BUILT)
def test_several_cameras_are_seen(family: Any) -> None:
    from drive.data.camera import CameraSpec

    speaker = tiny_speaker(family, cameras=(CameraSpec(), CameraSpec(name="left")))
    one = builders.observation(6.0, image_size=32)
    both = replace(
        one,
        images={"front": one.images["front"], "left": one.images["front"] // 2},
        cameras={"front": one.cameras["front"], "left": one.cameras["front"]},
    )
    swapped = replace(both, images={"front": both.images["left"], "left": both.images["front"]})
    assert np.abs(speaker.command(both).embedding - speaker.command(swapped).embedding).max() > 1e-5
    with pytest.raises(UserError, match="needs images of camera 'left', the observation has front"):
        speaker.command(one)


def test_a_folder_in_the_layout_of_transformers_loads_offline(tmp_path: Path) -> None:
    speaker = tiny_speaker("internvl", 5)
    model: Any = speaker.network.vlm
    model.save_pretrained(str(tmp_path))
    speaker.tokenizer.save_pretrained(str(tmp_path))
    loaded = make_speaker(VlaConfig(vlm=VlmSpec(source=str(tmp_path))))
    assert weights_sha(loaded.network.vlm) == weights_sha(model)
    assert loaded.letters == speaker.letters


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere", "no such folder, and not a hub id"),
        ("/nowhere/at/all", "no such folder, and not a hub id"),
        ("nobody-here/no-such-model", "download it first and give its folder"),
    ],
)
def test_a_model_that_is_not_there_is_one_line(source: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        load_vlm(source)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("damage", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_damaged_folder_is_one_line(tmp_path: Path, damage: str) -> None:
    speaker = tiny_speaker()
    model: Any = speaker.network.vlm
    model.save_pretrained(str(tmp_path))
    speaker.tokenizer.save_pretrained(str(tmp_path))
    (tmp_path / damage).write_bytes(b"{}" if damage == "config.json" else b"damaged")
    with pytest.raises(UserError) as raised:
        load_vlm(str(tmp_path))
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_another_kind_of_model_is_refused_by_name() -> None:
    from transformers import LlamaConfig

    with pytest.raises(UserError, match=r"type 'llama' is not known here; known: smolvlm"):
        facts_of(LlamaConfig())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image_px": 57}, "image_px: must be a multiple"),
        ({"text_width": 33}, "text_width: 33 is not 2 heads"),
        ({"text_heads": 4, "text_kv_heads": 3}, "text_heads: must be a multiple"),
    ],
)
def test_shapes_that_cannot_be_built_are_refused(change: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        replace(SHAPE, **change)


def test_a_vocabulary_below_the_tokenizers_is_refused() -> None:
    with pytest.raises(UserError, match="vocabulary: 9 is less"):
        build_vlm(VlmSpec(shape=replace(Shape(), vocabulary=9)), tokenizer())


def test_every_family_that_can_be_built_is_known() -> None:
    assert set(BUILT) <= set(FAMILIES)
    assert {PAD, END} <= tokenizer().get_vocab().keys()
