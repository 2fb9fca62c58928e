"""Choice: one decision with its reason, for `doctor`, `bench` and `--verbose` to print."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """One decision.

    Args:
        name: What was chosen.
        reason: Why, in one sentence.
    """

    name: str
    reason: str
