"""Once in a while a candidate is trained from the base model on everything the last nights taught.

Small updates on top of small updates drift; a consolidation replaces them by one, and has to pass the same
gate as any candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data_engine.night import SUMMARY, Night, finished_nights
from drive.contracts import Manifest, ManifestEntry
from drive.files import read_object, sha256_json


@dataclass(frozen=True)
class Training:
    """What tonight's candidate is trained from and on.

    Attributes:
        parent: Model folder.
        manifest: Samples.
        nights: Names of the nights that they come from, oldest first, tonight last.
        roots: Log folders.
    """

    parent: Path
    manifest: Manifest
    nights: tuple[str, ...]
    roots: tuple[Path, ...]

    @property
    def consolidates(self) -> bool:
        """Is it more than tonight's fine-tune of the champion?"""
        return len(self.nights) > 1


def nights_to_consolidate(night: Night) -> list[Path]:
    """Folders of the promoted nights since the last consolidation if tonight is the one for it, else none."""
    since = promoted_since(night)
    every = night.config.consolidate_every
    return since if every and len(since) + 1 >= every else []


def promoted_since(night: Night) -> list[Path]:
    """Folders of the promoted nights since the last consolidation, oldest first."""
    since: list[Path] = []
    for folder in reversed([f for f in finished_nights(night.workspace) if f != night.folder]):
        summary = read_object(folder / SUMMARY, "decision")
        if summary["decision"] != "promoted":
            continue
        if len((summary.get("training") or {}).get("nights", ())) > 1:
            break
        if (folder / "curate" / "logs").is_dir():
            since.append(folder)
    return since[::-1]


def training_of(night: Night, champion: Path, base: Path | None) -> Training:
    """Tonight's training: the champion on tonight's manifest, or the base on those of several nights.

    Args:
        night: Tonight.
        champion: Its model folder.
        base: Model folder of the registered base; None = there is none, nothing is consolidated.
    """
    from data_engine.steps import LOGS, load_manifest

    tonight = load_manifest(night.folder / "curate" / "manifest.json")
    earlier = nights_to_consolidate(night) if base is not None else []
    if base is None or not earlier:
        return Training(champion, tonight, (night.folder.name,), (night.folder / "curate" / LOGS,))
    folders = [*earlier, night.folder]
    manifests = [*(load_manifest(f / "curate" / "manifest.json") for f in earlier), tonight]
    roots = tuple(folder / "curate" / LOGS for folder in folders)
    return Training(base, union(manifests), tuple(f.name for f in folders), roots)


def union(manifests: Sequence[Manifest]) -> Manifest:
    """All entries, every manifest with the same total weight; a sample keeps the first of its reasons.

    "bad_case" goes before "demonstration", "neighbour" and "replay".
    """
    order = {"bad_case": 0, "demonstration": 1, "neighbour": 2, "replay": 3}
    found: dict[tuple[str, int], ManifestEntry] = {}
    for manifest in manifests:
        whole = sum(entry.weight for entry in manifest.entries) or 1.0
        for entry in manifest.entries:
            key = entry.log_id, entry.plan_index
            old = found.get(key)
            weight = entry.weight / whole / len(manifests) + (old.weight if old else 0.0)
            reason = min((entry.reason, old.reason if old else entry.reason), key=order.__getitem__)
            found[key] = ManifestEntry(*key, weight, reason)
    entries = tuple(found[key] for key in sorted(found))
    name = sha256_json([[e.log_id, e.plan_index, e.weight, e.reason] for e in entries])[:12]
    return Manifest(name, manifests[-1].parent_id, entries)
