"""OpenDRIVE texts of CARLA's towns, read from the data files of the installed py123d package."""

import gzip
import importlib.util
from pathlib import Path

from drive.contracts import UserError

_SUFFIX = ".xodr.gz"


def _folder() -> Path:
    # find_spec locates the package without running it: importing py123d takes seconds.
    spec = importlib.util.find_spec("py123d")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            "CARLA towns not found: package py123d is not installed; run `pip install py123d==0.7.0`"
        )
    return Path(spec.submodule_search_locations[0]) / "parser" / "opendrive" / "carla_maps"


def available_towns() -> list[str]:
    """Names of all packaged towns, sorted."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in _folder().glob("*" + _SUFFIX))


def short_name(name: str) -> str:
    """Town name without its asset path ("Carla/Maps/Town03_Opt" -> "Town03")."""
    return name.split("/")[-1].removesuffix("_Opt")


def read_town(name: str) -> str:
    """OpenDRIVE text of a town; UserError when there is no such town."""
    path = _folder() / (name + _SUFFIX)
    if name not in available_towns():
        raise UserError(f"town {name!r} is unknown; choose one of {', '.join(available_towns())}")
    return gzip.decompress(path.read_bytes()).decode("utf-8")
