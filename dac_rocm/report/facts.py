"""What a report says about its models: plain data, from the models themselves."""

from __future__ import annotations

from typing import Any

from dac_rocm.codec import Codec
from dac_rocm.config import RVQConfig


def model_facts(name: str, model: Codec) -> dict[str, Any]:
    """Return what matters to somebody who listens to a model.

    Args:
        name: As the user called it.
        model: It.
    """
    config, stamp = model.config, model.stamp
    is_codes = isinstance(config.bottleneck, RVQConfig)
    return {
        "name": name,
        "kind": "codes" if is_codes else "latents",
        "sample_rate": config.sample_rate,
        "audio_channels": config.audio_channels,
        "hop_length": config.hop_length,
        "frame_rate": config.frame_rate,
        **_bottleneck(config.bottleneck),
        "kbps": None if config.bitrate is None else config.bitrate / 1000,
        "parameters": sum(p.numel() for p in model.parameters()),
        "licence": model.licence,
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "chosen": [f"{choice.name}: {choice.reason}." for choice in model.choices],
        "fingerprints": dict(stamp.fingerprints),
        "notes": list(model.notes),
    }


def _bottleneck(bottleneck: Any) -> dict[str, int]:
    if isinstance(bottleneck, RVQConfig):
        return {
            "n_codebooks": bottleneck.n_codebooks,
            "codebook_size": bottleneck.codebook_size,
        }
    return {"latent_channels": bottleneck.latent_channels}
