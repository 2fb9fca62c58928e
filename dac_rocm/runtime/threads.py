"""How many threads torch computes with.

`torch.set_num_threads` holds for the thread that calls it, and for those that use torch first
after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def intra_op_threads(number: int) -> Iterator[None]:
    """Compute with `number` threads, and then with as many as before, whoever changed that."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
