"""Round trips: one clip through a model and back, with its scores.

What `dac-rocm evaluate` prints and what a report shows come from here, and so are the same numbers.
Nothing here reads or writes files.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dac_rocm.audio.reader import Planar
from dac_rocm.codec import Codec
from dac_rocm.encoded import EncodedAudio
from dac_rocm.evaluate import Scores, evaluate
from dac_rocm.pipeline import decode_audio, encode_audio


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundTrip:
    """What became of a clip.

    Args:
        encoded: Its codes or latents.
        decoded: Audio [C, T] of the rate, channels and length of the original.
        kbps: Bitrate of the codes, all channels together; None for latents.
        elapsed: Seconds that encoding and decoding took.
        scores: How close `decoded` is to the original.
    """

    encoded: EncodedAudio
    decoded: Planar
    kbps: float | None
    elapsed: float
    scores: Scores

    def to_dict(self) -> dict[str, float | None]:
        """Return the numbers as plain data for JSON."""
        return {
            "n_codebooks": self.encoded.data.shape[1] if self.encoded.is_codes else None,
            "kbps": self.kbps,
            "times_real_time": self.encoded.seconds / self.elapsed,
            **self.scores.to_dict(),
        }


def round_trip(
    model: Codec, audio: Planar, sample_rate: int, *, n_codebooks: int | None = None
) -> RoundTrip:
    """Encode, decode and score one clip in memory.

    Args:
        model: A whole DAC or DACVAE.
        audio: [C, T], float32.
        sample_rate: Hz.
        n_codebooks: Codebooks to use; None for all.

    Raises:
        ShapeError: The model does not take so many channels, or has not so many codebooks.
        AudioError: No samples, or NaN.
    """
    started = time.perf_counter()
    encoded = encode_audio(model, audio, sample_rate, n_codebooks=n_codebooks)
    decoded, _ = decode_audio(model, encoded)
    return RoundTrip(
        encoded=encoded,
        decoded=decoded,
        elapsed=time.perf_counter() - started,
        kbps=_kbps(encoded, model.config.frame_rate),
        scores=evaluate(audio, decoded, sample_rate),
    )


def _kbps(encoded: EncodedAudio, frame_rate: float) -> float | None:
    if not encoded.is_codes or not encoded.codebook_size:
        return None
    rows, count, _ = encoded.data.shape
    bits: int = rows * count * (encoded.codebook_size - 1).bit_length()
    return bits * frame_rate / 1000


def means(
    rows: Iterable[dict[str, Any]], by: Sequence[str] = ("n_codebooks",)
) -> list[dict[str, Any]]:
    """Return the mean of each group of rows that agree in `by`, in the order of their coming.

    Numbers that a row does not know (None) do not count. Groups of one row are left out.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in by), []).append(row)
    return [_mean(group, by) for group in groups.values() if len(group) > 1]


def _mean(group: Sequence[dict[str, Any]], by: Sequence[str]) -> dict[str, Any]:
    mean: dict[str, Any] = {"file": "mean"}
    for name in group[0]:
        known = [row[name] for row in group if row[name] is not None]
        if name in by:
            mean[name] = group[0][name]
        elif name != "file":
            mean[name] = sum(known) / len(known) if known else None
    return mean
