"""Codec: what DAC and DACVAE share, on tensors.

Encoder, decoder and the networks that run them; the bottleneck between is the subclass's. Nothing
here reads files or weights, and the level of the audio is never changed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dac_rocm import checks
from dac_rocm.choice import Choice
from dac_rocm.config import CodecConfig
from dac_rocm.encoded import ModelStamp
from dac_rocm.engine import Network
from dac_rocm.errors import ConfigError, ShapeError
from dac_rocm.geometry import lost_frames, output_length
from dac_rocm.lowering import Steps, lower_decoder, lower_encoder
from dac_rocm.nn.blocks import Decoder, Encoder
from dac_rocm.nn.layers import Snake1d
from dac_rocm.ops.snake import check_backend
from dac_rocm.pretrained import Pretrained
from dac_rocm.runtime.backends import (
    deterministic,
    finite_or_retry,
    hint_at_first,
    prepare_miopen,
)
from dac_rocm.runtime.optimize import Networks, choose_profile, choose_push, in_parts, run_whole
from dac_rocm.runtime.tiles import choose_tile

PARTS = ("all", "encoder", "decoder")


class Codec(Pretrained, ABC):
    """What DAC and DACVAE share: encoder, decoder, and the networks that run them.

    Methods run without gradients, but not in inference mode, so that outputs can enter training.

    Args:
        config: Shape of the network.
        parts: `all`, `encoder` or `decoder`; the other half does not exist.
        stamp: Name and fingerprints, which encoded files carry.
        snake: Snake backend: `auto` or a name from `ops.snake.BACKENDS`.
        notes: What a user should know of these weights.
        licence: Licence of the weights, if known.

    Raises:
        ConfigError: The config belongs to the other class, or `parts` is unknown.
        BackendError: The Snake backend is unknown.
    """

    def __init__(
        self,
        config: CodecConfig,
        *,
        parts: str = "all",
        stamp: ModelStamp | None = None,
        snake: str = "auto",
        notes: Sequence[str] = (),
        licence: str | None = None,
    ) -> None:
        super().__init__()
        if parts not in PARTS:
            raise ConfigError(f"parts={parts!r} found; one of {', '.join(PARTS)} is expected.")
        self.config = config
        self.parts = parts
        self.stamp = stamp or ModelStamp()
        self.notes = tuple(notes)
        self.licence = licence
        self.profile = "plain"
        self.push: int | None = None
        self.tf32 = False
        self.choices: tuple[Choice, ...] = ()
        self.encoder = Encoder(config) if parts != "decoder" else None
        self.decoder = Decoder(config) if parts != "encoder" else None
        self._networks = Networks()
        self.set_snake(snake)

    def set_snake(self, backend: str) -> None:
        """Choose the Snake backend: `auto` or a name from `ops.snake.BACKENDS`.

        Raises:
            BackendError: The name is unknown.
        """
        check_backend(backend)
        self.snake = backend
        for module in self.modules():
            if isinstance(module, Snake1d):
                module.backend = backend
        self._networks = Networks()

    @property
    def name(self) -> str:
        """Name of the model, such as `tiny`; empty if unknown."""
        return self.stamp.name

    @property
    def sample_rate(self) -> int:
        """Rate of the audio in Hz."""
        return self.config.sample_rate

    @property
    def hop_length(self) -> int:
        """Samples per frame."""
        return self.config.hop_length

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return next(self.parameters()).dtype

    def steps(self, half: str, *, padded: bool = True) -> Steps:
        """Return the lowered `encoder` or `decoder`.

        Raises:
            ConfigError: The model was loaded without that half.
        """
        if getattr(self, half) is None:
            raise ConfigError(
                f"a model loaded with parts={self.parts!r} found; the {half} is needed. "
                "Load it with parts='all'."
            )
        lower = lower_encoder if half == "encoder" else lower_decoder
        return lower(self.config, padded=padded)

    def network(self, half: str, *, padded: bool = True) -> Network:
        """Return what runs the `encoder` or `decoder`, built at the first call.

        Raises:
            ConfigError: The model was loaded without that half.
        """
        key = half, padded
        if key not in self._networks:
            self._networks[key] = self._build_network(self.steps(half, padded=padded))
        return self._networks[key]

    def _build_network(self, steps: Steps) -> Network:
        snakes = {n: m for n, m in self.named_modules() if isinstance(m, Snake1d)}
        choice = choose_profile(self.profile, self.device, self.dtype, self.snake)
        push = choose_push(self.profile, self.push, self.config.frame_rate)
        prepare_miopen(self.device)
        self._check_sources()
        with torch.no_grad():
            tensors = self._to_pack() if choice.name == "cpu" else dict(self.named_parameters())
            built = self._networks.build(choice.name, steps, tensors, snakes, self.snake, push)
        built.tf32 = self.tf32
        return built

    def optimize(
        self, profile: str = "auto", *, push: int | None = None, tf32: bool = False
    ) -> tuple[Choice, ...]:
        """Choose what runs the model; see `dac_rocm.optimize`."""
        choice = choose_profile(profile, self.device, self.dtype, self.snake)
        choose_push(profile, push, self.config.frame_rate)
        if (profile, push, tf32) != (self.profile, self.push, self.tf32):
            self.profile, self.push, self.tf32 = profile, push, tf32
            self._networks = Networks()
        return (*self.choices, choice)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Codec:
        self._check_sources()
        self._networks = Networks()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load canonical tensors, as `torch.nn.Module` does, and take what follows from them."""
        result = super().load_state_dict(*args, **kwargs)
        self._apply(lambda tensor: tensor)
        return result

    def __getstate__(self) -> dict[str, Any]:
        self._check_sources()
        return {**self.__dict__, "_networks": Networks()}

    def choose_tile(
        self, half: str, batch: int, *, max_memory: int | None = None
    ) -> tuple[int, Choice]:
        """Choose inputs per push: samples for `encoder`, frames for `decoder`; and say why.

        Args:
            half: `encoder` or `decoder`.
            batch: Items that run side by side.
            max_memory: Bytes that activations may take; default: half of what is free.
        """
        where = self.device, self.dtype
        parted = in_parts(self.profile, *where, self.snake)
        return choose_tile(self.steps(half), batch, *where, max_memory=max_memory, parted=parted)

    def _run(self, half: str, x: Tensor, lengths: Sequence[int] | None = None) -> Tensor:
        tile, _ = self.choose_tile(half, x.shape[0])
        with hint_at_first(self.device):
            y = run_whole(self.network(half), x, tile=tile, lengths=lengths)
        if self.dtype != torch.float16:
            return y
        again = lambda: self._in_float32()._run(half, x.float(), lengths)  # noqa: E731
        return finite_or_retry(y, again, f"{half} output")

    def _in_float32(self) -> Codec:
        """Return a copy in float32; nothing is captured or compiled for it."""
        wide = copy.deepcopy(self).float()
        wide.optimize("plain" if self.profile == "plain" else "auto")
        return wide

    @contextmanager
    def _repeatable(self) -> Iterator[Any]:
        """Give the model in float32 or wider, while torch may use only kernels that repeat bits."""
        with deterministic():
            yield self if self.dtype.itemsize >= 4 else self._in_float32()

    def pad(self, audio: Tensor) -> Tensor:
        """Fill audio [B, A, T] up to a multiple of the hop, as this family does."""
        return torch.cat((audio, self.fill(audio, audio.shape[-1])), -1)

    def fill(self, recent: Tensor, total: int) -> Tensor:
        """Make the samples that `total` ones lack to a multiple of the hop.

        Args:
            recent: [B, A, n], the last samples: a whole hop of them, or all there are.
            total: Samples in all.

        Returns:
            [B, A, missing]: the reflection at the end where the family reflects and the signal is
            longer than what is missing, else zeros.
        """
        missing = -total % self.hop_length
        if self.config.input_padding == "reflect" and total > missing:
            return recent[..., recent.shape[-1] - 1 - missing : -1].flip(-1)
        return recent.new_zeros(*recent.shape[:2], missing)

    @abstractmethod
    def from_z(self, z: Tensor, **options: Any) -> Any:
        """Return what `encode` returns, given encoder output z [B, D, F], F ≥ 0."""

    @abstractmethod
    def to_z(self, data: Tensor) -> Tensor:
        """Return decoder input z [B, D, F], given what `decode` takes."""

    @torch.no_grad()
    def encode_z(self, audio: Tensor, *, sample_rate: int | None = None) -> Tensor:
        """Run the encoder alone.

        Args:
            audio: [B, A, T], T ≥ 1, filled up to a multiple of the hop here.
            sample_rate: Rate of `audio` in Hz, to be checked against the model's.

        Returns:
            z [B, D, F].

        Raises:
            ShapeError: Wrong shape, type or rate.
            AudioError: NaN or infinite samples.
        """
        self._check_rate(sample_rate)
        checks.check_audio(audio, self.config.audio_channels)
        return self._run("encoder", self.pad(audio))

    def _empty_z(self, batch: int) -> Tensor:
        width = self.config.decoder.in_channels
        return torch.zeros(batch, width, 0, device=self.device, dtype=self.dtype)

    def _check_rate(self, sample_rate: int | None) -> None:
        if sample_rate not in (None, self.sample_rate):
            raise ShapeError(
                f"audio at {sample_rate} Hz found; this model takes {self.sample_rate} Hz. "
                "Use dac_rocm.encode_audio(model, audio, sample_rate), which resamples."
            )

    @torch.no_grad()
    def decode_z(self, z: Tensor, *, length: int | None = None) -> Tensor:
        """Run the decoder alone.

        Args:
            z: [B, D, F].
            length: Samples wanted; default: what the network gives.

        Returns:
            Audio [B, A, T]; exactly `length` samples where it is given (cut, or zeros added).

        Raises:
            ShapeError: Wrong shape or type, or `length` beyond F · hop.
        """
        checks.check_width("z", z, self.config.decoder.in_channels)
        checks.check_length(length, self._most(z))
        if not z.shape[-1]:
            return fit(z.new_zeros(z.shape[0], self.config.audio_channels, 0), length)
        return fit(self._run("decoder", z), length)

    def _most(self, z: Tensor) -> int:
        """Samples at most that z [..., F] may stand for."""
        return (z.shape[-1] + lost_frames(self.config)) * self.hop_length

    def _encode_z_many(self, items: Sequence[Tensor]) -> list[Tensor]:
        checks.check_items("audio", items)
        padded = []
        for item in items:
            checks.check_audio(item[None], self.config.audio_channels)
            padded.append(self.pad(item[None])[0])
        return self._run_many("encoder", padded)

    def _decode_z_many(
        self, items: Sequence[Tensor], lengths: Sequence[int] | None
    ) -> list[Tensor]:
        wanted: Sequence[int | None] = lengths if lengths is not None else [None] * len(items)
        if len(wanted) != len(items):
            raise ShapeError(
                f"{len(wanted)} lengths for {len(items)} items found; one each, please."
            )
        for item, length in zip(items, wanted, strict=True):
            checks.check_length(length, self._most(item))
        outputs = self._run_many("decoder", items)
        return [fit(y, n) for y, n in zip(outputs, wanted, strict=True)]

    def _run_many(self, half: str, items: Sequence[Tensor]) -> list[Tensor]:
        lengths = [item.shape[-1] for item in items]
        batch = torch.stack([F.pad(item, (0, max(lengths) - item.shape[-1])) for item in items])
        steps = self.steps(half)
        outputs = self._run(half, batch, lengths if min(lengths) < max(lengths) else None)
        return [y[:, : output_length(steps, n)] for y, n in zip(outputs, lengths, strict=True)]


def fit(audio: Tensor, length: int | None) -> Tensor:
    """Cut audio [..., T] to `length` samples, or add zeros at its end; None leaves it."""
    if length is None:
        return audio
    return F.pad(audio, (0, max(0, length - audio.shape[-1])))[..., :length]
