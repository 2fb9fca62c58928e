"""Small PNG pictures from arrays, in colours that colour-blind people can tell apart."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

Palette = npt.NDArray[np.uint8]
"""Red, green, blue and opacity [256, 4]."""

_VIRIDIS = "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725"
"""Ten even steps. Source: Smith and van der Walt's viridis (CC0)."""
_LESS, _MORE = "1f77c4", "e0631a"
"""Blue and orange, which differ for every kind of colour blindness."""


def level_colours() -> Palette:
    """Return colours from dark (quiet) to bright (loud)."""
    anchors = np.array([list(bytes.fromhex(c)) for c in _VIRIDIS.split()], float)
    places = np.linspace(0, len(anchors) - 1, 256)
    channels = [np.interp(places, np.arange(len(anchors)), c) for c in anchors.T]
    colours: Palette = np.rint(np.stack([*channels, np.full(256, 255)], 1)).astype(np.uint8)
    return colours


def difference_colours() -> Palette:
    """Return blue (less) over transparent (equal) to orange (more): it fits any background."""
    away = np.linspace(-1, 1, 256)[:, None]
    less, more = (list(bytes.fromhex(colour)) for colour in (_LESS, _MORE))
    return np.concatenate([np.where(away < 0, less, more), 255 * abs(away)], 1).astype(np.uint8)


def picture_uri(unit: npt.NDArray[np.float64], palette: Palette) -> str:
    """Return a picture as a `data:` URI.

    Args:
        unit: [rows, columns], 0 to 1; the first row is at the bottom.
        palette: Colours of 0 to 1.
    """
    data = make_png(np.rint(unit[::-1] * 255).astype(np.uint8), palette)
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def make_png(pixels: npt.NDArray[np.uint8], palette: Palette) -> bytes:
    """Return a PNG file of pixels [rows, columns], numbers of the palette.

    Source: W3C, Portable Network Graphics, sections 11.2 and 11.3.
    """
    rows, columns = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    unfiltered = np.pad(pixels, ((0, 0), (1, 0))).tobytes()  # each row begins with its filter, 0
    chunks = (
        (b"IHDR", header),
        (b"PLTE", palette[:, :3].tobytes()),
        (b"tRNS", palette[:, 3].tobytes()),
        (b"IDAT", zlib.compress(unfiltered, 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
