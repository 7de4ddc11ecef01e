"""The VLA folder: config, meta, heads, vlm/ and tokenizer/; no pickle, every file checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive.config import build_config
from drive.contracts import UserError
from drive.files import new_folder, read_object, sha256_file, sha256_json, write_json
from drive.model.vla.config import VlaConfig

if TYPE_CHECKING:  # torch takes seconds: what is wrong with a folder's files is said without it
    from drive.model.vla.speaker import Speaker

KIND, FORMAT = "vla", 1
META, CONFIG, HEADS, VLM, TOKENIZER = "meta.json", "config.json", "heads.safetensors", "vlm", "tokenizer"


@dataclass(frozen=True)
class VlaMeta:
    """Identity and origin of a VLA.

    Attributes:
        files: Path in the folder -> sha256.
        provenance: How it was trained: steps, data key, numbers reached.
    """

    files: Mapping[str, str]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def vla_id(self) -> str:
        """Short name, unique to weights, tokenizer and config."""
        return sha256_json(dict(self.files))[:12]


def save_vla(folder: Path, speaker: "Speaker", provenance: Mapping[str, Any] | None = None) -> VlaMeta:
    """Write a VLA folder; it appears whole or not at all, and needs nothing outside it."""
    from safetensors.torch import save_file

    from drive.model.vla.build import without_bars

    network: Any = speaker.network
    with new_folder(folder) as temp:
        write_json(temp / CONFIG, asdict(speaker.config))
        with without_bars():
            network.vlm.save_pretrained(str(temp / VLM))
        speaker.tokenizer.save_pretrained(str(temp / TOKENIZER))
        heads = {
            name: value.detach().cpu().contiguous() for name, value in network.heads.state_dict().items()
        }
        save_file(heads, str(temp / HEADS))
        paths = sorted(path for path in temp.rglob("*") if path.is_file())
        files = {path.relative_to(temp).as_posix(): sha256_file(path) for path in paths}
        meta = VlaMeta(files, dict(provenance or {}))
        write_json(temp / META, {"kind": KIND, "format": FORMAT, "vla_id": meta.vla_id, **asdict(meta)})
    return meta


def read_vla_meta(folder: Path) -> VlaMeta:
    """Identity of a VLA folder without loading it.

    Raises:
        UserError: not a VLA folder, or of another format.
    """
    path = folder / META
    if not path.is_file():
        raise UserError(f"{folder}: not a VLA folder (no {META}); give a folder made by `drive vla train`")
    values = read_object(path)
    if values.get("kind") != KIND:
        raise UserError(f"{folder}: not a VLA folder but another model; give one made by `drive vla train`")
    files, provenance = values.get("files"), values.get("provenance")
    known = values.get("format") == FORMAT and isinstance(files, dict) and isinstance(provenance, dict)
    if not known or not all(isinstance(sha, str) for sha in files.values()):  # type: ignore[union-attr]
        raise UserError(f"{path}: unknown format; this version reads format {FORMAT}: train the VLA again")
    return VlaMeta(files, provenance)  # type: ignore[arg-type]


def check_vla(folder: Path) -> tuple[VlaConfig, VlaMeta]:
    """Check the files of a VLA folder without torch; returns its config and identity.

    Raises:
        UserError: a missing, damaged or foreign file.
    """
    meta = read_vla_meta(folder)
    for name, sha in meta.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            raise UserError(f"{path}: missing; restore the VLA folder")
        if sha256_file(path) != sha:
            raise UserError(f"{path}: does not match its checksum in {META}; the file is damaged, restore it")
    path = folder / CONFIG
    return build_config(VlaConfig, read_object(path), str(path)), meta


def load_vla(folder: Path) -> tuple["Speaker", VlaMeta]:
    """Load a VLA folder in eval mode; nothing is fetched.

    Raises:
        UserError: a missing or damaged file, or parts that do not belong together.
    """
    config, meta = check_vla(folder)
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    from drive.model.vla.build import load_model
    from drive.model.vla.network import VlaNetwork
    from drive.model.vla.speaker import Speaker

    vlm = load_model(str(folder / VLM), config.vlm.dtype)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder / TOKENIZER), local_files_only=True)
        network = VlaNetwork(vlm)
        network.heads.load_state_dict(load_file(str(folder / HEADS)))
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        first = " ".join(str(error).split())[:160]
        raise UserError(f"{folder}: its parts do not fit together ({first}); restore the folder") from None
    return Speaker(network.eval(), tokenizer, config), meta
