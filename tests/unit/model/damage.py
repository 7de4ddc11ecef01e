"""Every kind of damage to a model folder that can be done by hand."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Spoil = Callable[[Path], None]


def _config(**changes: Any) -> Spoil:
    """Set keys of config.json; "camera.x" is a key of the camera, None removes a key."""

    def spoil(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        for key, value in changes.items():
            place = values["camera"] if key.startswith("camera_") else values
            name = key.removeprefix("camera_")
            if value is None:
                del place[name]
            else:
                place[name] = value
        (folder / "config.json").write_text(json.dumps(values))

    return spoil


def _meta(**changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        values = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(values | changes))

    return spoil


def _write(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content) and None


def _remove(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def _weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Spoil:
    """Change tensors, and let meta.json know their checksum: only a look at the tensors finds this."""

    def spoil(folder: Path) -> None:
        tensors = load_file(str(folder / "model.safetensors"))
        change(tensors)
        save_file(tensors, str(folder / "model.safetensors"))
        _signed(folder)

    return spoil


def _signed(folder: Path) -> None:
    sha = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    _meta(sha256=sha, model_id=sha[:12])(folder)


def _signed_garbage(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)
    _signed(folder)


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _cut_and_signed(folder: Path) -> None:
    _cut(folder)
    _signed(folder)


DAMAGES: dict[str, tuple[Spoil, str]] = {  # name -> (what is done, what the message has to name)
    "width is text": (_config(width="wide"), "config.json: width: expected int"),
    "width is text of a number": (_config(width="256"), "config.json: width: expected int"),
    "width is a list": (_config(width=[1]), "config.json: width: expected int"),
    "width is a fraction": (_config(width=3.5), "config.json: width: expected int"),
    "width is 0": (_config(width=0), "config.json: width: must be at least 1"),
    "width is huge": (_config(width=10**12), "config.json: width: must be at most"),
    "widths that no memory holds": (
        _config(
            width=4096, map_channels=4096, crop_rows=[0, 4096], camera_height_px=4096, camera_width_px=4096
        ),
        "do not fit",
    ),
    "channels are negative": (_config(channels=[8, 8, -8, 8]), r"channels\[2\]: must be at least 1"),
    "channels are three": (_config(channels=[8, 8, 8]), "channels: expected 4 items"),
    "channels are a number": (_config(channels=8), "channels: expected a list"),
    "dropout is NaN": (_config(dropout=float("nan")), "dropout: must be a finite number"),
    "dropout is 1": (_config(dropout=1.0), "dropout: must be at most"),
    "use_speed is a number": (_config(use_speed=1), "use_speed: expected bool"),
    "crop_rows end below the image": (_config(crop_rows=[20, 1000]), "crop_rows"),
    "crop_rows are reversed": (_config(crop_rows=[132, 20]), "crop_rows"),
    "crop_rows fit no cell": (_config(crop_rows=[20, 131]), "crop_rows"),
    "camera is a number": (_config(camera=3), "camera: expected 'key: value'"),
    "camera is 0 pixels wide": (_config(camera_width_px=0), "camera.width_px: must be at least"),
    "camera sees everything": (_config(camera_fov_deg=360), "camera.fov_deg: must be at most"),
    "camera has no name": (_config(camera_name=None), "camera.name missing"),
    "sampling begins above the noise": (_config(sampling_steps=40), "sampling_steps"),
    "a key is missing": (_config(guidance=None), "guidance missing"),
    "a key is unknown": (_config(heads=3), "unknown key 'heads'"),
    "another width": (_config(width=64), "do not fit"),
    "another number of anchors": (_config(kmeans_anchors=6), "do not fit config.json .anchors"),
    "config is a list": (_write("config.json", b"[]"), "config.json: expected 'key: value'"),
    "config is null": (_write("config.json", b"null"), "config.json: expected 'key: value'"),
    "config is cut": (_write("config.json", b'{"width": 3'), "config.json: not valid JSON"),
    "config is not text": (_write("config.json", b"\xff\xfe\x00"), "config.json: not valid JSON"),
    "config is gone": (_remove("config.json"), "config.json: no such file"),
    "meta is a list": (_write("meta.json", b"[1]"), "meta.json"),
    "meta has no identity": (_write("meta.json", b'{"format": 2, "sha256": "0"}'), "meta.json"),
    "meta's checksum is a number": (_meta(sha256=3), "meta.json"),
    "meta's checksum is no checksum": (_meta(sha256="x", model_id="x"), "meta.json: sha256"),
    "meta names another model": (_meta(model_id="0" * 12), "meta.json: sha256"),
    "meta's provenance is a list": (_meta(provenance=[]), "meta.json"),
    "meta is of the future": (_meta(format=99), "meta.json: unknown format"),
    "meta is of before the ground view": (_meta(format=1), "go back to the version that made it"),
    "weights are gone": (_remove("model.safetensors"), "model.safetensors: missing"),
    "weights are cut": (_cut, "does not match the checksum"),
    "weights are cut and signed": (_cut_and_signed, "not a safetensors file"),
    "weights are garbage and signed": (_signed_garbage, "not a safetensors file"),
    "a tensor is missing": (_weights(lambda t: t.pop("anchors")), "anchors is missing"),
    "a tensor too many": (_weights(lambda t: t.update(more=torch.zeros(1))), "more is not part"),
    "a tensor of integers": (
        _weights(lambda t: t.update(std=t["std"].to(torch.int32))),
        r"std is int32 \(16,\), not float32",
    ),
    "anchors of another shape": (
        _weights(lambda t: t.update(anchors=torch.zeros(9, 7, 2))),
        "anchors is float32",
    ),
    "an anchor is NaN": (_weights(lambda t: t["anchors"].fill_(float("nan"))), "anchors is not finite"),
    "a weight is infinite": (
        _weights(lambda t: t["decode_offset.bias"].fill_(float("inf"))),
        "decode_offset.bias is not finite",
    ),
    "the scale is 0": (_weights(lambda t: t["std"].zero_()), "std is not above 0"),
}
