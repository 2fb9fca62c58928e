"""JSON files beside the tensors: read whole, up to a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dac_rocm.errors import ConfigError, SourceError

MAX_CONFIG_BYTES = 1 << 20
"""Largest config.json; published ones have under 10 KB."""


def read_json(path: Path, limit: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """Read a config file.

    Args:
        path: The file.
        limit: Bytes that it may have.

    Raises:
        ConfigError: It is too large, or no JSON object.
        SourceError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read(limit + 1)
        data = json.loads(text) if len(text) <= limit else None
    except OSError as error:
        raise SourceError(
            f"{path}: {error.strerror or error} found; a readable config file is expected. "
            "Check its permissions."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: {error} found; a JSON object is expected. Download the file again."
        ) from error
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: something else found; a JSON object of at most {limit} bytes is "
            "expected. Download the file again."
        )
    return data
