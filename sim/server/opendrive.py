"""OpenDRIVE texts of CARLA's towns, from the installed py123d package, and the speeds they post."""

import gzip
import importlib.util
import re
from pathlib import Path

from drive.contracts import UserError

_SUFFIX = ".xodr.gz"
_KMH = {"mph": 1.609344, "km/h": 1.0, "m/s": 3.6, None: 3.6}


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


def road_speeds_kmh(opendrive: str) -> dict[int, float]:
    """Posted speed per road id; roads without one are absent."""
    pattern = r'<road\s[^>]*?\bid="(-?\d+)"|<speed\s+max="([\d.eE+-]+)"(?:\s+unit="([^"]+)")?'
    speeds: dict[int, float] = {}
    road = -1
    for match in re.finditer(pattern, opendrive):
        if match.group(1) is not None:
            road = int(match.group(1))
        else:
            speeds.setdefault(road, float(match.group(2)) * _KMH.get(match.group(3), 3.6))
    return speeds
