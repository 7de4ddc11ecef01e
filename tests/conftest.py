"""Fixtures and limits shared by every test."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch: two threads collapse under contention
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"

from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

REPO = Path(__file__).resolve().parents[1]

settings.register_profile("bounded", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("bounded")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Root of the checkout."""
    return REPO


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the data sets laid beside the checkout; the test is skipped where it is absent."""
    path = REPO.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no ../shared/data beside this checkout")
    return path


@pytest.fixture(scope="session")
def nuscenes_mini(shared_data: Path) -> Path:
    """Root of nuScenes v1.0-mini."""
    path = shared_data / "nuscenes_mini"
    if not (path / "v1.0-mini").is_dir():
        pytest.skip("no nuscenes_mini in ../shared/data")
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers with a fixed seed."""
    return np.random.default_rng(0)
