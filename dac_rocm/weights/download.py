"""Weights that are no repo: release files, from the cache of Descript's own tool or by https."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from dac_rocm.atomic import atomic_write
from dac_rocm.errors import DacError, SourceError

ORIGINAL_CACHE = Path("~/.cache/descript/dac")
"""Where Descript's tool keeps its downloads."""
TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""
BLOCK = 1 << 20
"""Bytes read at a time."""


def original_path(file: str) -> Path:
    """Return where Descript's tool keeps a file."""
    return ORIGINAL_CACHE.expanduser() / file


def fetch_url(url: str, size: int, target: Path) -> Path:
    """Download a file, unless it is there.

    Args:
        url: Address.
        size: Bytes that it has.
        target: Where it is kept; it appears whole or not at all.

    Raises:
        SourceError: The address cannot be reached, or gives another number of bytes.
        OutputError: `target` cannot be written.
    """
    if target.is_file() and target.stat().st_size == size:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            urllib.request.urlopen(url, timeout=TIMEOUT) as answer,
            atomic_write(target, overwrite=True) as file,
            tqdm(total=size, unit="B", unit_scale=True, desc=target.name, delay=2) as bar,
        ):
            while block := answer.read(BLOCK):
                file.write(block)
                bar.update(len(block))
            if file.tell() != size:
                raise SourceError(
                    f"{url}: {file.tell()} bytes found; {size} are expected. Try again, or "
                    "download the file yourself and pass its path."
                )
    except DacError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise SourceError(
            f"{url}: no file found there ({error}); the weights are expected. Check the network, "
            "or download the file yourself and pass its path."
        ) from error
    return target
