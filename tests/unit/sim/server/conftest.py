"""Fixtures of the server's tests."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def mesh_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Meshes of towns go to a folder of the test module's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
