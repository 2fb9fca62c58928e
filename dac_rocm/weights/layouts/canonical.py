"""What this package saves: canonical names, folded, and the whole config in config.json."""

from __future__ import annotations

from dac_rocm.weights.layouts.base import Family, Layout

FORMAT = "dac_rocm"
"""Value of `format` in the config.json of this package."""

CANONICAL = Layout(
    name="canonical",
    matches=lambda entries, fields: fields.get("format") == FORMAT,
    rename=lambda entries: entries,
    family=lambda entries, fields: Family(),
    exact=True,
)
