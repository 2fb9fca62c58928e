"""One table of tolerances, each with its reason; absolute unless said otherwise."""

from __future__ import annotations

import torch

EXACT_LAW = 1e-12
"""float64: the same sums in another order; activations are of order 1, rounding is 1e-16 each."""
FLOAT32_LAW = 2e-5
"""float32: the same sums in another order over some 40 layers; measured below 4e-6."""
WINOGRAD = 1e-4
"""Of the peak, float32 with minimal filtering, which rounds ten times more; measured near 3e-5."""
LAW = {torch.float64: EXACT_LAW, torch.float32: FLOAT32_LAW}
CODES_GAP = 1e-4
"""Squared distance by which the best entry must win for its code to be sure in float32: ten times
the change that FLOAT32_LAW makes of unit vectors. Source: reference/README.md."""
CODES_GAP_RESAMPLED = 1e-2
"""The same where the audio passed two resamplers (2e-5 apart) or a level 0.01 dB away first."""
LOUDNESS_DB = 0.01
"""dB, between meters. Source: reference/README.md."""
CUT = 1e-5
"""A part against the cut of the whole: engine and soxr divide elsewhere; measured below 6e-6."""
PCM16 = 1.0 / 32768
"""One step of 16 bits."""
GAIN_DB = 1e-3
"""dB, between a gain and its undoing in float32."""
BFLOAT16 = 0.2
"""bfloat16 has 8 bits of mantissa; relative RMS over a tiny network, measured near 0.03."""
