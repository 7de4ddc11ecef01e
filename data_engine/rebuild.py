"""Train a registered model again from its lineage, and compare the weights bit for bit."""

from dataclasses import dataclass
from pathlib import Path

from data_engine.config import NightlyConfig
from data_engine.night import NIGHTS
from data_engine.registry import Registry, model_id_of
from data_engine.steps import load_manifest
from drive.config import load_config
from drive.contracts import UserError
from drive.files import sha256_file

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Rebuilt:
    """A model trained again: where it is, and the checksums of the registered and the new weights."""

    version: int
    folder: Path
    registered: str
    rebuilt: str

    @property
    def same(self) -> bool:
        """Are the weights equal, bit for bit?"""
        return self.registered == self.rebuilt


def rebuild(registry: Registry, version: int, out: Path) -> Rebuilt:
    """Fine-tune the parent on the manifest with the settings of then; an interrupted run continues.

    Equal weights are promised for the same machine type, package versions and number of threads.

    Args:
        registry: Where the version and its parent are.
        version: Registered by a night.
        out: Folder for checkpoints and the model.

    Raises:
        UserError: No such version, a base model, a parent that is not registered, or drives that are gone.
    """
    from drive.train import finetune

    known = {v.version: v for v in registry.versions()}
    if version not in known:
        raise UserError(f"{registry.uri}: {registry.model} has no version {version}")
    tags = known[version].tags
    lineage = registry.lineage(version)
    parent = registry.find(tags.get("parent_id", ""))
    if parent is None:
        raise UserError(f"version {version}: its parent {tags.get('parent_id')} is not registered")
    config = load_config(NightlyConfig, lineage / "config.yaml").finetune
    names = tags.get("trained_on", tags["night"]).split(",")
    logs = [registry.workspace / NIGHTS / name / "curate" / "logs" for name in names]
    for place in logs:
        if not place.is_dir():
            raise UserError(f"{place}: the drives of version {version} are gone; restore the night's folder")
    manifest = load_manifest(lineage / "manifest.json")
    made = finetune(config, registry.folder(str(parent.version)), manifest, logs, out)
    model_id_of(made)  # whole
    registered = registry.folder(str(version)) / WEIGHTS
    return Rebuilt(version, made, sha256_file(registered), sha256_file(made / WEIGHTS))
