"""CodecConfig: what is refused, and that JSON gives it back."""

from __future__ import annotations

import json
from dataclasses import replace

import networks as nw
import pytest

from dac_rocm.config import CodecConfig, GaussianConfig, RVQConfig
from dac_rocm.errors import ConfigError
from dac_rocm.presets import list_presets, preset


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_json_gives_it_back(shape):
    config = nw.CONFIGS[shape]
    assert CodecConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_rates_of_a_published_model():
    config = preset("dac-44khz").config
    assert config.hop_length == 512
    assert config.frame_rate == pytest.approx(86.1328125)
    assert config.bitrate == pytest.approx(7751.953125)
    assert config.audio_channels == 1
    assert nw.CONFIGS["mova"].bitrate is None


def changed(path, value, shape="even"):
    """The plain data of a config with one value replaced; `...` removes it."""
    data = nw.CONFIGS[shape].to_dict()
    data = json.loads(json.dumps(data))
    *parents, last = path
    place = data
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["sample_rate"], 0, "sample_rate: 0 found"),
        (["sample_rate"], "44100", "sample_rate: '44100' found"),
        (["sample_rate"], True, "sample_rate: True found"),
        (["sample_rate"], ..., "missing fields"),
        (["surprise"], 1, "unknown fields"),
        (["snake"], "relu", "one of alpha, log_alpha_beta is expected"),
        (["input_padding"], "wrap", "one of zero, reflect is expected"),
        (["encoder"], 3, "a JSON object is expected"),
        (["encoder", "levels"], "none", "a list is expected"),
        (["encoder", "levels"], [], "at least one is expected"),
        (["encoder", "levels", 0, "stride"], 3, "multiply"),
        (["encoder", "levels", 0, "kernel"], 1, "kernel: 1 found"),
        (["encoder", "levels", 0, "width"], 1 << 20, "width"),
        (["decoder", "levels", 0, "padding"], 7, "padding: 7 found"),
        (["decoder", "levels", 0, "output_padding"], 9, "output_padding: 9 found"),
        (["encoder", "dilations"], [], "at least one is expected"),
        (["encoder", "in_channels"], 2, "equal numbers are expected"),
        (["bottleneck", "kind"], "fsq", "one of rvq, gaussian is expected"),
        (["bottleneck", "codebook_dims"], 4, "a list is expected"),
        (["bottleneck", "codebook_dims"], [], "number of codebooks: 0 found"),
        (["bottleneck", "codebook_size"], 1, "codebook_size: 1 found"),
        (["encoder", "out_channels"], 11, "the bottleneck expects"),
    ],
)
def test_what_is_refused(path, value, message):
    with pytest.raises(ConfigError, match=message):
        CodecConfig.from_dict(changed(path, value))


def test_bottlenecks_of_vaes_are_checked():
    with pytest.raises(ConfigError, match="spread"):
        CodecConfig.from_dict(changed(["bottleneck", "spread"], "exp", "mova"))
    with pytest.raises(ConfigError, match="latent_channels"):
        CodecConfig.from_dict(changed(["bottleneck", "latent_channels"], 0, "mova"))
    config = nw.CONFIGS["oobleck"]
    with pytest.raises(ConfigError, match="the bottleneck expects 10 and 5"):
        replace(
            config,
            bottleneck=GaussianConfig(
                latent_channels=5, spread="softplus", in_proj=False, out_proj=False
            ),
        )


def test_bits():
    assert RVQConfig(codebook_size=1024, codebook_dims=(8,) * 9).bits_per_frame == 90
    assert RVQConfig(codebook_size=48, codebook_dims=(2, 4)).bits_per_frame == 12


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


def test_published_models_there_and_back():
    for known in list_presets():
        assert CodecConfig.from_dict(json.loads(json.dumps(known.config.to_dict()))) == known.config


def test_numbers_in_plain_data_that_are_no_numbers():
    data = json.loads(json.dumps(nw.CONFIGS["even"].to_dict()))
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
    config = nw.CONFIGS["even"]
    wide = replace(config.encoder.levels[0], stride=1024, kernel=1024, padding=0)
    halves = {h: replace(getattr(config, h), levels=(wide,) * 3) for h in ("encoder", "decoder")}
    with pytest.raises(ConfigError, match="up to 1048576"):
        replace(config, **halves)
