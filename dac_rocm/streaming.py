"""Live encoding and decoding: the engine behind a push, with its state in one object.

A joined stream equals the whole run, first and last samples included, whatever the pushes.
Several streams may run on one model at once, from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from dac_rocm import checks
from dac_rocm.codec import Codec
from dac_rocm.dac import DAC
from dac_rocm.runtime.backends import hint_at_first
from dac_rocm.runtime.optimize import lookahead_of, open_flow

S = TypeVar("S", bound="_Stream[Any]")
Out = TypeVar("Out")


class Latency(NamedTuple):
    """How far the output of a stream lags behind its input.

    Args:
        samples: Samples at the model's rate.
        seconds: The same in seconds.
    """

    samples: int
    seconds: float


class _Stream(ABC, Generic[Out]):
    """State of one stream: a flow through one half of a model."""

    half: str

    def __init__(self, model: Codec, *, tile: int | None = None) -> None:
        self.model = model
        self.network = model.network(self.half)
        self.tile = tile or model.choose_tile(self.half, 1)[0]
        self.reset()

    def reset(self) -> None:
        """Forget everything, and be ready for another signal."""
        self._flow = open_flow(self.network, tile=self.tile)
        self._batch: int | None = None

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reset()

    def _latency(self, unit: int) -> Latency:
        samples = lookahead_of(self.network) * unit
        return Latency(samples, samples / self.model.sample_rate)

    def _push(self, x: Tensor, *, end: bool = False) -> Out:
        """Push through the network and the bottleneck; whatever is raised, nothing has changed."""
        if self._batch is not None and not end:
            checks.check_batch(x.shape[0], self._batch)
        before = self._flow.snapshot()
        try:
            with hint_at_first(self.model.device):
                y = self._flow.push(x, end=end)
            result = self._finished(y)
        except BaseException:
            self._flow.restore(before)
            raise
        self._batch = x.shape[0]
        return result

    @abstractmethod
    def _finished(self, y: Tensor) -> Out:
        """Turn what the network gave into what a push returns."""


class StreamEncoder(_Stream[Out]):
    """Encodes audio as it arrives.

    Args:
        model: DAC or DACVAE with an encoder.
        n_codebooks: Codebooks to use (DAC only), 1..N; default: all.
        tile: Most samples that run at once; default: what suits the machine.

    Raises:
        ConfigError: The model has no encoder.
        ShapeError: `n_codebooks` is out of range, or the model has no codebooks.
    """

    half = "encoder"

    def __init__(
        self, model: Codec, *, n_codebooks: int | None = None, tile: int | None = None
    ) -> None:
        self._options: dict[str, Any] = {}
        if n_codebooks is not None or isinstance(model, DAC):
            self._options["n_codebooks"] = checks.check_n_codebooks(
                n_codebooks, model.config.bottleneck
            )
        super().__init__(model, tile=tile)

    @property
    def latency(self) -> Latency:
        """How many samples must follow a frame's own before it comes out."""
        return self._latency(1)

    def reset(self) -> None:
        """Forget everything, and be ready for another signal."""
        super().reset()
        self._total = 0
        self._recent: Tensor | None = None

    def push(self, audio: Tensor) -> Out:
        """Take the next samples; return what `encode` returns, for the frames known by now.

        Args:
            audio: [B, A, n], n ≥ 0, at the model's rate.

        Returns:
            Codes [B, N, f] or `Gaussian` over latents [B, D, f], f ≥ 0.

        Raises:
            ShapeError: Wrong shape, type or batch.
            AudioError: NaN or infinite samples.
            BackendError: The stream was flushed, or an earlier push failed.
        """
        checks.check_audio(audio, self.model.config.audio_channels, empty=True)
        result = self._push(audio)
        self._total += audio.shape[-1]
        self._recent = self._most_recent(audio).clone()
        return result

    def flush(self, last: Tensor | None = None) -> Out:
        """End the signal: fill it up to whole frames as `encode` does, and return the rest.

        Args:
            last: The last samples [B, A, n], where they have not been pushed: one run for both.

        Returns:
            As `push`.

        Raises:
            ShapeError: Wrong shape, type or batch.
            AudioError: NaN or infinite samples.
            BackendError: The stream was flushed, or an earlier push failed.
        """
        if last is None:
            return self._push(self._fill(self._recent, self._total), end=True)
        checks.check_audio(last, self.model.config.audio_channels, empty=True)
        if self._batch is not None:
            checks.check_batch(last.shape[0], self._batch)
        filled = self._fill(self._most_recent(last), self._total + last.shape[-1])
        return self._push(torch.cat((last, filled), -1), end=True)

    def _most_recent(self, audio: Tensor) -> Tensor:
        """Return the last hop of what was pushed and `audio` after it."""
        recent = audio if self._recent is None else torch.cat((self._recent, audio), -1)
        return recent[..., -self.model.hop_length :]

    def _fill(self, recent: Tensor | None, total: int) -> Tensor:
        if recent is None:
            recent = torch.zeros(1, self.model.config.audio_channels, 0)
        return self.model.fill(recent, total)

    def _finished(self, y: Tensor) -> Out:
        result: Out = self.model.from_z(y, **self._options)
        return result


class StreamDecoder(_Stream[Tensor]):
    """Decodes codes or latents as they arrive.

    Args:
        model: DAC or DACVAE with a decoder.
        tile: Most frames that run at once; default: what suits the machine.

    Raises:
        ConfigError: The model has no decoder.
    """

    half = "decoder"

    @property
    def latency(self) -> Latency:
        """How many frames, counted in samples, must follow a frame before its audio is whole."""
        return self._latency(self.model.hop_length)

    def push(self, data: Tensor) -> Tensor:
        """Take the next frames and return the audio that is known by now.

        Args:
            data: Codes [B, n, f] or latents [B, D, f], f ≥ 0.

        Returns:
            Audio [B, A, m], m ≥ 0.

        Raises:
            ShapeError: Wrong shape, type, range or batch.
            BackendError: The stream was flushed, or an earlier push failed.
        """
        return self._push(self.model.to_z(data))

    def flush(self) -> Tensor:
        """End the signal and return the rest of the audio [B, A, m].

        Raises:
            BackendError: The stream was flushed, or an earlier push failed.
        """
        width = self.model.config.decoder.in_channels
        return self._push(torch.zeros(self._batch or 1, width, 0), end=True)

    def _finished(self, y: Tensor) -> Tensor:
        return y


def stream_encoder(model: Codec, *, n_codebooks: int | None = None) -> StreamEncoder[Any]:
    """Open a live encoder on a model; see `StreamEncoder`."""
    return StreamEncoder(model, n_codebooks=n_codebooks)


def stream_decoder(model: Codec) -> StreamDecoder:
    """Open a live decoder on a model; see `StreamDecoder`."""
    return StreamDecoder(model)
