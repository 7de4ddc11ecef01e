"""Windows of big masks equal what Pillow decodes, for every way of storing them."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from drive.bench.map_mask import SIGNATURE, Window, png_size, read_bits, read_windows
from drive.contracts import UserError

WINDOWS = [Window(3, 5, 40, 90), Window(0, 0, 200, 150), Window(10, 149, 20, 150), Window(7, 60, 7, 80)]


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(path: Path, pixels: np.ndarray, filters: np.ndarray, idat_bytes: int) -> None:
    """A grey PNG with a chosen filter (0 none, 1 sub, 2 up) per row."""
    left = np.diff(pixels, axis=1, prepend=0).astype(np.uint8)
    up = np.diff(pixels, axis=0, prepend=0).astype(np.uint8)
    rows = np.choose(filters[:, None], [pixels, left, up]).astype(np.uint8)
    raw = zlib.compress(np.concatenate([filters[:, None].astype(np.uint8), rows], 1).tobytes())
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 0, 0, 0, 0)
    parts = [chunk(b"IDAT", raw[i : i + idat_bytes]) for i in range(0, len(raw), idat_bytes)]
    path.write_bytes(SIGNATURE + chunk(b"IHDR", head) + b"".join(parts) + chunk(b"IEND", b""))


@pytest.fixture
def pixels(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, (150, 200)).astype(np.uint8)


@pytest.mark.parametrize("allowed", [[0], [1], [0, 1], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("idat_bytes", [97, 10**9])
def test_windows_equal_the_pixels(
    tmp_path: Path, rng: np.random.Generator, pixels: np.ndarray, allowed: list[int], idat_bytes: int
) -> None:
    path = tmp_path / "map.png"
    write_png(path, pixels, rng.choice(allowed, 150), idat_bytes)
    assert png_size(path) == (200, 150)
    assert np.array_equal(np.asarray(Image.open(path)), pixels)
    for window, got in zip(WINDOWS, read_windows(path, WINDOWS), strict=True):
        part = pixels[window.top : window.bottom, window.left : window.right]
        assert np.array_equal(got, part)
        assert np.array_equal(read_bits(path, window), np.packbits(part > 0, axis=1))


def test_colour_pictures_are_read_as_grey(tmp_path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(np.stack([pixels] * 3, -1)).save(tmp_path / "map.png")
    assert np.array_equal(read_windows(tmp_path / "map.png", WINDOWS[:1])[0], pixels[5:90, 3:40])


@pytest.mark.parametrize("keep", [4, 60, 5000])
def test_damaged_files_are_named(tmp_path: Path, pixels: np.ndarray, keep: int) -> None:
    path = tmp_path / "map.png"
    write_png(path, pixels, np.ones(150, int), 10**9)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"map\.png: not a readable PNG"):
        read_windows(path, WINDOWS)
