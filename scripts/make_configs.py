#!/usr/bin/env python
"""Write `configs/*.json`: every published model, with its results written out.

The family rules are those of `dac_rocm.weights.layouts`; the numbers are from the public sources
that each entry names.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from dac_rocm.atomic import atomic_write
from dac_rocm.config import CodecConfig, GaussianConfig, RVQConfig
from dac_rocm.weights.layouts.base import Sizes, assembled
from dac_rocm.weights.layouts.dacvae import META
from dac_rocm.weights.layouts.descript import CODES, KL, doubling_config
from dac_rocm.weights.layouts.oobleck import OOBLECK

CONFIGS = Path(__file__).parents[1] / "configs"
RELEASES = "https://github.com/descriptinc/descript-audio-codec/releases/download"
TENCENT = (
    "Tencent Hunyuan Community License: not valid in the EU, the UK and South Korea, and with "
    "terms of use. Read it before you use these weights."
)
STABILITY = "Stability AI Community License: gated on the Hub, and with terms of use."


def codes(rate: int, strides: tuple[int, ...], n: int, inner: int = 1024) -> CodecConfig:
    """Return a model of Descript's: 64 and 1,536 channels, n codebooks of 1,024 entries."""
    books = RVQConfig(codebook_size=1024, codebook_dims=(8,) * n)
    return doubling(CODES, books, rate, 64, strides, inner, 1536)


def meta(latent: int) -> CodecConfig:
    """Return Meta's DACVAE."""
    gaussian = GaussianConfig(
        latent_channels=latent, spread="softplus", in_proj=True, out_proj=True
    )
    return doubling(META, gaussian, 48000, 64, (2, 8, 10, 12), 1024, 1536)


def kl() -> CodecConfig:
    """Return the VAE of MOVA and HunyuanVideo-Foley."""
    gaussian = GaussianConfig(latent_channels=128, spread="logvar", in_proj=True, out_proj=True)
    return doubling(KL, gaussian, 48000, 128, (2, 3, 4, 5, 8), 128, 2048)


def doubling(family, bottleneck, rate, encoder_dim, strides, inner, decoder_dim) -> CodecConfig:
    return doubling_config(
        family,
        bottleneck,
        sample_rate=rate,
        encoder_dim=encoder_dim,
        encoder_rates=strides,
        latent_dim=inner,
        decoder_dim=decoder_dim,
        decoder_rates=strides[::-1],
    )


def oobleck(rate: int, strides: tuple[int, ...]) -> CodecConfig:
    """Return an Oobleck: stereo, 64 latents; the first level does not double."""
    widths = (128, 128, 256, 512, 1024, 2048)
    down = Sizes(2, widths, strides, 128, 3, final_bias=True)
    up = Sizes(64, widths[::-1], strides[::-1], 2, 7, final_bias=False)
    gaussian = GaussianConfig(latent_channels=64, spread="softplus", in_proj=False, out_proj=False)
    return assembled(OOBLECK, rate, down, up, gaussian)


HOP_512, HOP_320 = (2, 4, 8, 8), (2, 4, 5, 8)

MODELS = {
    "dac-16khz": {
        "title": "Descript Audio Codec 16 kHz, 6 kbit/s",
        "license": "MIT",
        "repo": "descript/dac_16khz",
        "file": "model.safetensors",
        "original_file": "weights_16khz_8kbps_0.0.5.pth",
        "config": codes(16000, HOP_320, 12),
    },
    "dac-24khz": {
        "title": "Descript Audio Codec 24 kHz, 24 kbit/s",
        "license": "MIT",
        "repo": "descript/dac_24khz",
        "file": "model.safetensors",
        "original_file": "weights_24khz_8kbps_0.0.4.pth",
        "config": codes(24000, HOP_320, 32),
    },
    "dac-44khz": {
        "title": "Descript Audio Codec 44.1 kHz, 7.75 kbit/s",
        "license": "MIT",
        "repo": "descript/dac_44khz",
        "file": "model.safetensors",
        "original_file": "weights_44khz_8kbps_0.0.1.pth",
        "config": codes(44100, HOP_512, 9),
    },
    "dac-44khz-16kbps": {
        "title": "Descript Audio Codec 44.1 kHz, 15.5 kbit/s",
        "license": "MIT",
        "url": f"{RELEASES}/1.0.0/weights_44khz_16kbps.pth",
        "bytes": 256_984_809,
        "original_file": "weights_44khz_16kbps_1.0.0.pth",
        "config": codes(44100, HOP_512, 18, inner=128),
    },
    "parler-dac-44khz": {
        "title": "Descript's 44.1 kHz codec as Parler-TTS packs it",
        "license": "MIT",
        "repo": "parler-tts/dac_44khZ_8kbps",
        "file": "model.safetensors",
        "config": codes(44100, HOP_512, 9),
    },
    "hance-dac-44khz": {
        "title": "Descript's 44.1 kHz codec as hance-ai packs it",
        "license": "MIT",
        "repo": "hance-ai/descript-audio-codec-44khz",
        "config": codes(44100, HOP_512, 9),
    },
    "hance-dac-24khz": {
        "title": "Descript's 24 kHz codec as hance-ai packs it",
        "license": "MIT",
        "repo": "hance-ai/descript-audio-codec-24khz",
        "config": codes(24000, HOP_320, 32),
    },
    "hance-dac-16khz": {
        "title": "Descript's 16 kHz codec as hance-ai packs it",
        "license": "MIT",
        "repo": "hance-ai/descript-audio-codec-16khz",
        "config": codes(16000, HOP_320, 12),
    },
    "ibm-dac-speech-1.5kbps": {
        "title": "IBM DAC.speech 24 kHz, 1.5 kbit/s",
        "license": "CDLA-Permissive-2.0",
        "repo": "ibm-research/DAC.speech.v1.0",
        "file": "weights_24khz_1.5kbps_v1.0.pth",
        "config": codes(24000, HOP_320, 2),
    },
    "ibm-dac-speech-3kbps": {
        "title": "IBM DAC.speech 24 kHz, 3 kbit/s",
        "license": "CDLA-Permissive-2.0",
        "repo": "ibm-research/DAC.speech.v1.0",
        "file": "weights_24khz_3*kbps*.pth",
        "note": "The number of codebooks, 4, follows from the bitrate.",
        "config": codes(24000, HOP_320, 4),
    },
    "mova-360p": {
        "title": "Audio VAE of MOVA-360p, 48 kHz",
        "license": "Apache-2.0",
        "repo": "OpenMOSS-Team/MOVA-360p",
        "subfolder": "audio_vae",
        "file": "diffusion_pytorch_model.safetensors",
        "note": "Same shape as HunyuanVideo-Foley's; whether the weights descend from it is open.",
        "config": kl(),
    },
    "mova-720p": {
        "title": "Audio VAE of MOVA-720p, 48 kHz",
        "license": "Apache-2.0",
        "repo": "OpenMOSS-Team/MOVA-720p",
        "subfolder": "audio_vae",
        "file": "diffusion_pytorch_model.safetensors",
        "note": "Same shape as HunyuanVideo-Foley's; whether the weights descend from it is open.",
        "config": kl(),
    },
    "hunyuan-foley": {
        "title": "Audio VAE of HunyuanVideo-Foley, 48 kHz",
        "license": "Tencent-Hunyuan-Community",
        "repo": "tencent/HunyuanVideo-Foley",
        "file": "vae_128d_48k.pth",
        "note": TENCENT,
        "config": kl(),
    },
    "hunyuan-foley-fp16": {
        "title": "Audio VAE of HunyuanVideo-Foley, 48 kHz, rounded to float16 by phazei",
        "license": "Tencent-Hunyuan-Community",
        "repo": "phazei/HunyuanVideo-Foley",
        "file": "vae_128d_48k_fp16.safetensors",
        "note": TENCENT,
        "config": kl(),
    },
    "moss-soundeffect": {
        "title": "Audio VAE of MOSS-SoundEffect 2.0, 48 kHz",
        "license": "Apache-2.0",
        "repo": "OpenMOSS-Team/MOSS-SoundEffect-v2.0",
        "subfolder": "vae",
        "note": "Same file name as HunyuanVideo-Foley's; whether it is the same file is open.",
        "config": kl(),
    },
    "dacvae": {
        "title": "Meta DACVAE, 48 kHz, 128 latents",
        "license": "Apache-2.0",
        "repo": "facebook/dacvae-watermarked",
        "file": "weights.pth",
        "note": "The card also mentions the SAM License; a maintainer says Apache-2.0.",
        "config": meta(128),
    },
    "semantic-dacvae-32": {
        "title": "Semantic-DACVAE-Japanese, 48 kHz, 32 latents",
        "license": "MIT",
        "repo": "Aratako/Semantic-DACVAE-Japanese-32dim",
        "file": "weights.pth",
        "config": meta(32),
    },
    "stable-audio-open": {
        "title": "Oobleck VAE of Stable Audio Open 1.0, 44.1 kHz stereo",
        "license": "Stability-AI-Community",
        "repo": "stabilityai/stable-audio-open-1.0",
        "subfolder": "vae",
        "file": "diffusion_pytorch_model.safetensors",
        "note": STABILITY,
        "config": oobleck(44100, (2, 4, 4, 8, 8)),
    },
    "ace-step-1.5": {
        "title": "Oobleck VAE of ACE-Step 1.5, 48 kHz stereo",
        "license": None,
        "repo": "ACE-Step/Ace-Step1.5",
        "subfolder": "vae",
        "note": "The model card states the licence.",
        "config": oobleck(48000, (2, 4, 4, 6, 10)),
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=CONFIGS)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, fields in MODELS.items():
        shape: CodecConfig = fields["config"]
        data = {
            "name": name,
            **{key: value for key, value in fields.items() if key != "config"},
            "kind": "latents" if shape.bitrate is None else "codes",
            "bitrate": shape.bitrate,
            "frame_rate": shape.frame_rate,
            "hop_length": shape.hop_length,
            "config": shape.to_dict(),
        }
        with atomic_write(folder / f"{name}.json", overwrite=True) as file:
            file.write((json.dumps(data, indent=2) + "\n").encode())
    print(f"{len(MODELS)} presets written to {folder}")


if __name__ == "__main__":
    main()
