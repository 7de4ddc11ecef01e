"""Town meshes kept in the user's cache folder, keyed by the town's text and the mesh version."""

import hashlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np

from drive.files import write_atomic
from drive.viz.quads import Quads
from sim.server.mesh import VERSION, build_mesh
from sim.server.town import Town


def cache_folder() -> Path:
    """Folder of derived files: $XDG_CACHE_HOME/nightdrive or ~/.cache/nightdrive."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nightdrive"


def town_mesh(town: Town) -> Quads:
    """The town's quads, from the cache if possible; a damaged or unwritable cache only costs time."""
    digest = hashlib.sha256(f"{VERSION}:{town.xodr}".encode()).hexdigest()[:16]
    path = cache_folder() / "meshes" / f"{town.name}-{digest}.npz"
    try:
        with np.load(io.BytesIO(path.read_bytes())) as data:
            return Quads(data["corners"], data["colour"], data["layer"], data["tag"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        quads = build_mesh(town.xodr)
    buffer = io.BytesIO()
    np.savez(buffer, corners=quads.corners, colour=quads.colour, layer=quads.layer, tag=quads.tag)
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        print(f"mesh cache not written: {error}", flush=True)
    return quads
