"""CodecConfig: what fits together is taken, everything else is refused by name."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import networks as nw
import pytest

from dac_rocm.config import CodecConfig, GaussianConfig, RVQConfig
from dac_rocm.errors import ConfigError, DacError
from dac_rocm.presets import list_presets, preset

EVEN, OOBLECK, MOVA = nw.CONFIGS["even"], nw.CONFIGS["oobleck"], nw.CONFIGS["mova"]


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_there_and_back(shape):
    config = nw.CONFIGS[shape]
    data = config.to_dict()
    assert CodecConfig.from_dict(data) == config
    assert CodecConfig.from_dict(json.loads(json.dumps(data))) == config
    assert data["bottleneck"]["kind"] == ("rvq" if shape in nw.CODES else "gaussian")


def test_published_models_there_and_back():
    for known in list_presets():
        assert CodecConfig.from_dict(json.loads(json.dumps(known.config.to_dict()))) == known.config


@pytest.mark.parametrize(
    ("name", "hop", "frame_rate", "bitrate"),
    [
        ("dac-44khz", 512, 86.1328125, 7751.953125),
        ("dac-44khz-16kbps", 512, 86.1328125, 15503.90625),
        ("dac-24khz", 320, 75.0, 24000.0),
        ("dac-16khz", 320, 50.0, 6000.0),
        ("dacvae", 1920, 25.0, None),
        ("stable-audio-open", 2048, 44100 / 2048, None),
    ],
)
def test_real_rates(name, hop, frame_rate, bitrate):
    """Source: user_demands.md section 0; the labels of the originals are not the bitrates."""
    config = preset(name).config
    assert (config.hop_length, config.frame_rate, config.bitrate) == (hop, frame_rate, bitrate)


def test_facts():
    assert EVEN.hop_length == 32
    assert EVEN.audio_channels == 1
    assert EVEN.frame_rate == 500.0
    assert EVEN.bitrate == 500.0 * 4 * 5
    assert OOBLECK.audio_channels == 2
    assert OOBLECK.bitrate is None
    assert RVQConfig(codebook_size=1000, codebook_dims=(8,) * 3).bits_per_frame == 30
    with pytest.raises(FrozenInstanceError):
        EVEN.sample_rate = 1


def level(config, half="encoder", index=0, **changes):
    part = getattr(config, half)
    levels = list(part.levels)
    levels[index] = replace(levels[index], **changes)
    return {half: replace(part, levels=tuple(levels))}


def ends(config, half="encoder", **changes):
    return {half: replace(getattr(config, half), **changes)}


def bottleneck(config, **changes):
    return {"bottleneck": replace(config.bottleneck, **changes)}


@pytest.mark.parametrize(
    ("config", "changes", "match"),
    [
        (EVEN, {"sample_rate": 0}, "sample_rate: 0 found; an integer in 1..768000"),
        (EVEN, {"sample_rate": 16000.0}, "sample_rate: 16000.0 found"),
        (EVEN, {"sample_rate": True}, "sample_rate: True found"),
        (EVEN, {"snake": "beta"}, "snake: 'beta' found; one of alpha, log_alpha_beta"),
        (EVEN, {"input_padding": "same"}, "input_padding: 'same' found"),
        (EVEN, level(EVEN, stride=3, kernel=6), "multiply to 48 in the encoder and 32"),
        (EVEN, level(EVEN, stride=0), "encoder.stride: 0 found"),
        (EVEN, level(EVEN, kernel=1), r"encoder.kernel: 1 found; an integer in 2\.\."),
        (EVEN, level(EVEN, padding=-1), "encoder.padding: -1 found"),
        (EVEN, level(EVEN, padding=4), "encoder.padding: 4 found"),
        (EVEN, level(EVEN, "decoder", output_padding=9), "decoder.output_padding: 9 found"),
        (EVEN, level(EVEN, "decoder", padding=99), "decoder.padding: 99 found"),
        (EVEN, level(EVEN, width=1 << 17), "encoder.width: 131072 found"),
        (EVEN, ends(EVEN, levels=()), "no levels or no dilations"),
        (EVEN, ends(EVEN, dilations=()), "no levels or no dilations"),
        (EVEN, ends(EVEN, dilations=(0,)), "encoder.dilations: 0 found"),
        (EVEN, ends(EVEN, last_kernel=0), "encoder.last_kernel: 0 found"),
        (EVEN, ends(EVEN, in_channels=2), "encoder for 2 and decoder for 1 audio channels"),
        (EVEN, ends(EVEN, out_channels=11), "encoder output of 11 and decoder input of 10"),
        (EVEN, bottleneck(EVEN, codebook_size=1), "codebook_size: 1 found"),
        (EVEN, bottleneck(EVEN, codebook_dims=()), "number of codebooks: 0 found"),
        (EVEN, bottleneck(EVEN, codebook_dims=(8, 0)), "codebook_dims: 0 found"),
        (OOBLECK, bottleneck(OOBLECK, latent_channels=7), "bottleneck expects 14 and 7"),
        (MOVA, bottleneck(MOVA, out_proj=False), "bottleneck expects 9 and 5"),
        (MOVA, bottleneck(MOVA, spread="std"), "spread: 'std' found"),
        (MOVA, bottleneck(MOVA, latent_channels=0), "latent_channels: 0 found"),
    ],
)
def test_refused(config, changes, match):
    with pytest.raises(ConfigError, match=match) as caught:
        replace(config, **changes)
    assert isinstance(caught.value, DacError | ValueError)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.pop("encoder"), "encoder: NoneType found; a JSON object"),
        (lambda d: d.update(colour=1), r"unknown fields \['colour'\]"),
        (lambda d: d.pop("sample_rate"), r"missing fields \['sample_rate'\]"),
        (lambda d: d.update(bottleneck=[]), "bottleneck: list found; a JSON object"),
        (lambda d: d["bottleneck"].update(kind="vq"), "bottleneck.kind: 'vq' found"),
        (lambda d: d["bottleneck"].update(codebook_dims=8), "codebook_dims: int found; a list"),
        (lambda d: d["encoder"].update(levels={}), "encoder.levels: dict found; a list"),
        (lambda d: d["encoder"].update(levels=[1]), "encoder: int found; a JSON object"),
        (lambda d: d["encoder"]["levels"][0].pop("kernel"), r"missing fields \['kernel'\]"),
        (lambda d: d["decoder"].update(dilations=1), "decoder.dilations: int found"),
    ],
)
def test_plain_data_that_is_refused(change, match):
    data = json.loads(json.dumps(EVEN.to_dict()))
    change(data)
    with pytest.raises(ConfigError, match=match):
        CodecConfig.from_dict(data)
    with pytest.raises(ConfigError, match="config: list found"):
        CodecConfig.from_dict([])


def test_numbers_in_plain_data_that_are_no_numbers():
    data = json.loads(json.dumps(EVEN.to_dict()))
    for field, value in (
        ("codebook_size", "1024"),
        ("codebook_dims", ["8"]),
        ("codebook_size", None),
    ):
        broken = json.loads(json.dumps(data))
        broken["bottleneck"][field] = value
        with pytest.raises(ConfigError):
            CodecConfig.from_dict(broken)
    data["encoder"]["levels"][0]["padding"] = "1"
    with pytest.raises(ConfigError):
        CodecConfig.from_dict(data)
    data["encoder"]["levels"][0].update(padding=1, kernel="4")
    with pytest.raises(ConfigError):
        CodecConfig.from_dict(data)


def test_hop_has_a_limit():
    levels = tuple(
        replace(EVEN.encoder.levels[0], stride=1024, kernel=1024, padding=0) for _ in "abc"
    )
    halves = {h: replace(getattr(EVEN, h), levels=levels) for h in ("encoder", "decoder")}
    with pytest.raises(ConfigError, match="up to 1048576"):
        replace(EVEN, **halves)


def test_gaussians_need_no_projections():
    plain = GaussianConfig(latent_channels=6, spread="softplus", in_proj=False, out_proj=False)
    assert OOBLECK.bottleneck == plain
