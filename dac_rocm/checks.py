"""Checks of what callers pass: one error each, before any kernel runs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dac_rocm.config import GaussianConfig, RVQConfig
from dac_rocm.errors import AudioError, ShapeError


def check_audio(audio: Tensor, channels: int, *, empty: bool = False) -> None:
    """Check audio [B, channels, T]; T may be 0 where `empty` is set.

    Raises:
        ShapeError: Wrong type, rank, channels, or no samples.
        AudioError: NaN or infinite samples.
    """
    _check_rank("audio", audio, f"[batch, {channels}, samples]")
    if not audio.is_floating_point():
        raise ShapeError(f"audio of {audio.dtype} found; a float type is expected. Scale to ±1.")
    if audio.shape[1] != channels:
        raise ShapeError(
            f"audio with {audio.shape[1]} channels found; this model takes {channels}. "
            + ("Fold channels into the batch." if channels == 1 else "Mix or duplicate channels.")
        )
    if 0 in audio.shape[: 2 if empty else 3]:
        raise ShapeError(f"audio of shape {tuple(audio.shape)} found; samples are expected.")
    if not torch.isfinite(audio).all():
        raise AudioError("NaN or infinite samples found; finite audio is expected. Clean it first.")


def check_codes(codes: Tensor, config: RVQConfig) -> None:
    """Check codes [B, n, F], 1 ≤ n ≤ N, of an integer type and in range.

    Raises:
        ShapeError: Something else was passed.
    """
    _check_rank("codes", codes, "[batch, codebooks, frames]")
    if codes.is_floating_point() or codes.is_complex() or codes.dtype == torch.bool:
        raise ShapeError(
            f"codes of {codes.dtype} found; an integer type is expected. For z use decode_z."
        )
    if not 1 <= codes.shape[1] <= config.n_codebooks:
        raise ShapeError(
            f"codes of {codes.shape[1]} codebooks found; 1 to {config.n_codebooks} are expected. "
            "Codes are [batch, codebooks, frames]."
        )
    if not codes.numel():
        return
    low, high = (int(v) for v in torch.aminmax(codes.long()))
    if low < 0 or high >= config.codebook_size:
        raise ShapeError(
            f"codes in {low}..{high} found; 0..{config.codebook_size - 1} are expected. "
            "Are they from another model?"
        )


def check_width(name: str, x: Tensor, width: int) -> None:
    """Check a float tensor [B, width, F].

    Raises:
        ShapeError: Something else was passed.
    """
    _check_rank(name, x, f"[batch, {width}, frames]")
    if not x.is_floating_point():
        raise ShapeError(
            f"{name} of {x.dtype} found; a float type is expected. For codes use decode."
        )
    if x.shape[1] != width:
        raise ShapeError(f"{name} of {x.shape[1]} channels found; {width} are expected.")


def check_finite(name: str, x: Tensor) -> None:
    """Check what a network gave.

    Raises:
        AudioError: NaN or infinite values, which float16 gives where it overflows.
    """
    if not torch.isfinite(x).all():
        raise AudioError(
            f"NaN or infinite values in {name} found; finite ones are expected. Use dtype=float32."
        )


def check_batch(found: int, expected: int) -> None:
    """Check that a push has as many items as the stream.

    Raises:
        ShapeError: It has not.
    """
    if found != expected:
        raise ShapeError(
            f"a push of {found} items found; the stream began with {expected}. "
            "Open one stream per batch, or call reset()."
        )


def check_n_codebooks(n: int | None, config: RVQConfig | GaussianConfig) -> int:
    """Return the number of codebooks to use.

    Raises:
        ShapeError: Not an integer in 1..N, or the model has no codebooks.
    """
    if isinstance(config, GaussianConfig):
        raise ShapeError(f"n_codebooks={n!r} found; a continuous model has none. Leave it out.")
    if n is None:
        return config.n_codebooks
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= config.n_codebooks:
        raise ShapeError(
            f"n_codebooks={n!r} found; an integer in 1..{config.n_codebooks} is expected."
        )
    return n


def check_length(length: int | None, most: int) -> None:
    """Check the number of samples that a caller wants of a decoder.

    Raises:
        ShapeError: Not an integer in 0..most.
    """
    if length is None:
        return
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= most:
        raise ShapeError(
            f"length={length!r} found; an integer in 0..{most} is expected: there are no more "
            "frames than that."
        )


def check_items(name: str, items: Sequence[Tensor]) -> None:
    """Check a list of [channels, time] tensors.

    Raises:
        ShapeError: The list is empty, or an item has another rank.
    """
    if not items:
        raise ShapeError(f"an empty list of {name} found; at least one item is expected.")
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise ShapeError(f"{name}[{i}] of type {type(item).__name__} found; a tensor, please.")
        if item.ndim != 2:
            raise ShapeError(
                f"{name}[{i}] of shape {tuple(item.shape)} found; two axes are expected: "
                "[channels or codebooks, time]. Leave out the batch axis."
            )


def _check_rank(name: str, x: Tensor, wanted: str) -> None:
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} of type {type(x).__name__} found; a tensor {wanted} is expected.")
    if x.ndim != 3:
        raise ShapeError(
            f"{name} of shape {tuple(x.shape)} found; {wanted} is expected. Add the missing axes."
        )
