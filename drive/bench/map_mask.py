"""Windows of the nuScenes map masks (up to 37 k x 32 k pixels) without holding a whole map in memory."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from drive.contracts import U8, UserError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
ROWS_AT_ONCE = 64
GREY_8_BIT = (8, 0, 0)
SUB_FILTER = 1


class Window(NamedTuple):
    """Half-open pixel ranges of a picture."""

    left: int
    top: int
    right: int
    bottom: int


def png_size(path: Path) -> tuple[int, int]:
    """Width and height from the header.

    Raises:
        UserError: Not a PNG file.
    """
    with path.open("rb") as file:
        return _header(file, path)[:2]


def read_windows(path: Path, windows: Sequence[Window]) -> list[U8]:
    """Cut windows out of a grey PNG; uint8 (bottom - top, right - left) each.

    The nuScenes masks are 8-bit grey with rows that do not depend on each other, so they are decoded row by
    row and only the wanted rows are kept. Any other PNG is decoded whole by Pillow.

    Raises:
        UserError: The file is damaged or not a PNG.
    """
    out = [np.zeros((w.bottom - w.top, w.right - w.left), np.uint8) for w in windows]
    end = max((w.bottom for w in windows), default=0)
    try:
        for top, pixels in _pixel_rows(path):
            for i, w in enumerate(windows):
                first, last = max(w.top, top), min(w.bottom, top + len(pixels))
                if first < last:
                    out[i][first - w.top : last - w.top] = pixels[first - top : last - top, w.left : w.right]
            if top + len(pixels) >= end:
                return out
    except _OtherKind:
        return _read_whole(path, windows)
    raise _damaged(path)


def read_bits(path: Path, window: Window) -> U8:
    """One window as bits, 1 where a pixel is not 0: uint8 (bottom - top, width / 8 rounded up).

    Raises:
        UserError: As `read_windows`.
    """
    out = np.zeros((window.bottom - window.top, -(-(window.right - window.left) // 8)), np.uint8)
    try:
        for top, pixels in _pixel_rows(path):
            first, last = max(window.top, top), min(window.bottom, top + len(pixels))
            if first < last:
                part = pixels[first - top : last - top, window.left : window.right]
                out[first - window.top : last - window.top] = np.packbits(part > 0, axis=1)
            if top + len(pixels) >= window.bottom:
                return out
    except _OtherKind:
        return np.packbits(_read_whole(path, [window])[0] > 0, axis=1)
    raise _damaged(path)


class _OtherKind(Exception):
    """Not 8-bit grey, or rows that depend on each other."""


def _pixel_rows(path: Path) -> Iterator[tuple[int, U8]]:
    """Number of the first row and pixels (<= 64, width) of successive blocks of rows."""
    with path.open("rb") as file:
        width, height, *kind = _header(file, path)
        if tuple(kind) != GREY_8_BIT:
            raise _OtherKind
        top = 0
        for block in _row_blocks(file, path, width + 1, height):
            if block[:, 0].max() > SUB_FILTER:
                raise _OtherKind
            if block[:, 0].any():
                yield (
                    top,
                    np.where(block[:, :1] == SUB_FILTER, block[:, 1:].cumsum(1, np.uint8), block[:, 1:]),
                )
            else:
                yield top, block[:, 1:]
            top += len(block)


def _header(file: BinaryIO, path: Path) -> tuple[int, int, int, int, int]:
    """Width, height, bit depth, colour type, interlacing; the file is left after the header."""
    head = file.read(33)
    if len(head) < 33 or head[:8] != SIGNATURE or head[12:16] != b"IHDR":
        raise _damaged(path)
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", head[16:29])
    return width, height, depth, colour, interlaced


def _row_blocks(file: BinaryIO, path: Path, stride: int, height: int) -> Iterator[U8]:
    """Filter byte and pixels of successive rows, uint8 (<= 64, stride)."""
    inflate, size, left = zlib.decompressobj(), stride * ROWS_AT_ONCE, height
    raw = bytearray()
    try:
        for part in _image_data(file):
            pending = part
            while pending:
                raw += inflate.decompress(pending, size)
                pending = inflate.unconsumed_tail
                while len(raw) >= size:
                    rows = min(left, ROWS_AT_ONCE)
                    yield np.frombuffer(bytes(raw[: rows * stride]), np.uint8).reshape(rows, stride)
                    del raw[:size]
                    left -= rows
        raw += inflate.flush()
    except zlib.error:
        raise _damaged(path) from None
    rows = min(left, len(raw) // stride)
    if rows:
        yield np.frombuffer(bytes(raw[: rows * stride]), np.uint8).reshape(rows, stride)


def _image_data(file: BinaryIO) -> Iterator[bytes]:
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        data = file.read(length)
        file.read(4)
        if kind == b"IDAT":
            yield data


def _read_whole(path: Path, windows: Sequence[Window]) -> list[U8]:
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # meant for pictures from strangers
    try:
        with Image.open(path) as image:
            grey = image.convert("L")
    except (UnidentifiedImageError, OSError):
        raise _damaged(path) from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return [np.asarray(grey.crop((w.left, w.top, w.right, w.bottom)), np.uint8) for w in windows]


def _damaged(path: Path) -> UserError:
    return UserError(f"{path}: not a readable PNG picture; download the nuScenes maps again")
