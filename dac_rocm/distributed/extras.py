"""Packages of the extra `ray`, imported where they are needed.

This file must not import one of them by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dac_rocm.errors import BackendError


def require(name: str) -> Any:
    """Import a module of an optional package.

    Raises:
        BackendError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise BackendError(
            f"{name} found missing ({error}); it is expected for corpora. Install it with "
            "`pip install 'dac_rocm[ray]'`."
        ) from error
