"""From one container to another without encoding again: the codes stay what they are.

This file must not encode or decode but to measure a level, or where it is asked to do both again.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from dac_rocm.audio.loudness import LoudnessMeter
from dac_rocm.codec import Codec
from dac_rocm.container import container_format, read_encoded, read_info, write_encoded
from dac_rocm.dac import DAC
from dac_rocm.encoded import EncodedAudio, Gain, Loudness
from dac_rocm.errors import ContainerError, ShapeError
from dac_rocm.geometry import descript_frames
from dac_rocm.pipeline import decode_blocks, decode_file, encode_file
from dac_rocm.pipeline.stored import InMemory

Path_ = str | os.PathLike[str]


def repack(
    source: Path_,
    target: Path_,
    *,
    model: Codec | None = None,
    format: str | None = None,  # noqa: A002 - the word everybody uses for it
    n_codebooks: int | None = None,
    latents_dtype: str | None = None,
    decode_again: bool = False,
    overwrite: bool = False,
) -> EncodedAudio:
    """Write an encoded file anew: with fewer codebooks, or in the other container.

    `.dacz` keeps the gain before encoding, `.dac` the loudness after decoding. From one to the
    other, the codes are decoded once with `model` and measured, so that both files decode to the
    same level. `.dac` has no place for the model and the sample format of the source.

    Args:
        source: `.dacz` or `.dac`.
        target: Where to write.
        model: What made the codes; needed between the containers, and to decode again.
        format: `dacz` or `dac`; None takes it from the suffix of `target`.
        n_codebooks: Keep the first so many codebooks.
        latents_dtype: `float16` or `float32`, for latents in `.dacz`.
        decode_again: Decode, and encode what came out: for files whose codes cannot be kept.
        overwrite: Replace an existing target.

    Returns:
        What was written.

    Raises:
        SourceError, ContainerError: The source cannot be used, or not so.
        ShapeError: `n_codebooks` or `latents_dtype` does not fit the source.
        OutputError: The target exists, or cannot be written.
    """
    form = container_format(target, format)
    if decode_again:
        encoded = _again(_needed(model), source, form, n_codebooks)
    else:
        encoded = _thinned(read_encoded(source), n_codebooks)
        encoded = _retyped(encoded, latents_dtype)
        if read_info(source).container != form:
            _refuse_chunks(encoded)
            encoded = _moved(_needed(model), encoded, form)
    write_encoded(target, encoded, format=form, overwrite=overwrite)
    return encoded


def _thinned(encoded: EncodedAudio, n: int | None) -> EncodedAudio:
    """Keep the first n codebooks; the sum of the first ones is the coarser quantization."""
    if n is None:
        return encoded
    width = encoded.codes.shape[1]
    if not 1 <= n <= width:
        raise ShapeError(f"n_codebooks={n} found; the file has 1 to {width}. Ask for those.")
    return replace(encoded, data=encoded.codes[:, :n])


def _retyped(encoded: EncodedAudio, dtype: str | None) -> EncodedAudio:
    if dtype is None:
        return encoded
    if dtype not in ("float16", "float32"):
        raise ShapeError(f"latents_dtype={dtype!r} found; `float16` or `float32` is expected.")
    return replace(encoded, data=encoded.latents.astype(dtype))


def _refuse_chunks(encoded: EncodedAudio) -> None:
    if encoded.chunk_frames or encoded.length_at_model_rate:
        raise ContainerError(
            "a chunked or pre-1.0 `.dac` found, whose codes were made by rules that `.dacz` does "
            "not have; one that was encoded whole is expected. Allow a loss of quality with "
            "`--decode-again` (decode_again=True)."
        )


def _moved(model: Codec, encoded: EncodedAudio, form: str) -> EncodedAudio:
    """Say by the other container's rules what the codes are."""
    if not isinstance(model, DAC) or not encoded.is_codes:
        raise ContainerError(
            "latents, or a model of latents, found; `.dac` holds codes. Keep `.dacz` for latents."
        )
    described = encoded if form == "dac" else _described(model, encoded)
    loudness_db = _loudness(model, described)
    if form == "dac":
        assert isinstance(encoded.level, Gain)  # `.dacz` has nothing else
        _check_frames(model, encoded)
        return replace(encoded, level=Loudness(loudness_db - encoded.level.db))
    assert isinstance(encoded.level, Loudness)
    return replace(described, level=Gain(loudness_db - encoded.level.db))


def _described(model: DAC, encoded: EncodedAudio) -> EncodedAudio:
    return replace(
        encoded,
        model_rate=model.sample_rate,
        hop_length=model.hop_length,
        codebook_size=model.rvq.codebook_size,
        model=model.stamp,
    )


def _loudness(model: DAC, encoded: EncodedAudio) -> float:
    """Measure what the codes decode to, at the level at which the model gives it."""
    raw = replace(
        encoded,
        level=Gain(),
        sample_rate=model.sample_rate,
        length=encoded.frames * model.hop_length,
    )
    meter = LoudnessMeter(model.sample_rate, encoded.channels)
    for block in decode_blocks(model, InMemory(raw)):
        meter.push(block)
    return meter.loudness()


def _check_frames(model: DAC, encoded: EncodedAudio) -> None:
    wanted = descript_frames(model.config, encoded.length, encoded.sample_rate)
    if encoded.frames < wanted:
        raise ContainerError(
            f"{encoded.frames} frames found; Descript's decoder needs {wanted} for "
            f"{encoded.length} samples. Allow a loss of quality with `--decode-again` "
            "(decode_again=True)."
        )


def _again(model: Codec, source: Path_, form: str, n_codebooks: int | None) -> EncodedAudio:
    with tempfile.TemporaryDirectory() as folder:
        audio = Path(folder) / "audio.wav"
        decode_file(model, source, audio, subtype="float32")
        again = Path(folder) / f"again.{form}"
        encode_file(model, audio, again, n_codebooks=n_codebooks)
        return read_encoded(again)


def _needed(model: Codec | None) -> Codec:
    if model is None:
        raise ContainerError(
            "no model found; the one that made the codes is expected, to measure their level. "
            "Name it (`--model`, model=)."
        )
    return model
