"""Names and shapes alone tell what a checkpoint is: the published models, prefixes, spellings."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from kits import ROOTS

from dac_rocm.config import GaussianConfig
from dac_rocm.errors import ConfigError, UnknownLayoutError, WeightsMismatchError
from dac_rocm.nn.blocks import Decoder, Encoder
from dac_rocm.nn.gaussian import GaussianBottleneck
from dac_rocm.nn.rvq import ResidualVectorQuantize
from dac_rocm.presets import preset
from dac_rocm.weights.fold import LEGACY, PARAMETRIZED, Shape
from dac_rocm.weights.plan import Plan, plan_of
from dac_rocm.weights.read import TensorFile

LAYOUTS = {
    "descript_44khz_8kbps": ("descript", "dac-44khz"),
    "descript_44khz_16kbps": ("descript", "dac-44khz-16kbps"),
    "descript_24khz": ("descript", "dac-24khz"),
    "descript_16khz": ("descript", "dac-16khz"),
    "ibm_24khz_1.5kbps": ("descript", "ibm-dac-speech-1.5kbps"),
    "transformers_dac_44khz": ("transformers", "dac-44khz"),
    "transformers_dac_24khz": ("transformers", "dac-24khz"),
    "transformers_dac_16khz": ("transformers", "dac-16khz"),
    "hunyuan_foley_vae_128d_48k": ("descript", "hunyuan-foley"),
    "mova_audio_vae": ("descript", "mova-720p"),
    "meta_dacvae_watermarked": ("dacvae", "dacvae"),
    "semantic_dacvae_32dim": ("dacvae", "semantic-dacvae-32"),
    "stable_audio_open_vae": ("oobleck", "stable-audio-open"),
    "ace_step_1.5_vae": ("oobleck", "ace-step-1.5"),
    "parler_mini_v1_audio_encoder": ("descript", "parler-dac-44khz"),
    "oobleck_stable_audio_tools_full_model": ("stable-audio-tools", "stable-audio-open"),
}
# What stands in model_config.json beside the checkpoints of stable-audio-tools.
STABLE_AUDIO = {
    "sample_rate": 44100,
    "model": {
        "pretransform": {
            "config": {
                "encoder": {"config": {"use_snake": True}},
                "decoder": {"config": {"use_snake": True, "final_tanh": False}},
                "bottleneck": {"type": "vae"},
            }
        }
    },
}


def key_files() -> list[Path]:
    files = {file.name: file for root in ROOTS for file in (root / "keys").glob("*.json")}
    return [file for name, file in sorted(files.items()) if name != "manifest.json"]


def shapes_of(name: str) -> dict[str, Shape]:
    file = next(file for file in key_files() if file.stem == name)
    return {key: tuple(shape) for key, shape in json.loads(file.read_text()).items()}


def plan(shapes: dict[str, Shape], fields: object = None, sample_rate: int | None = None) -> Plan:
    opened = TensorFile(Path("keys.safetensors"), shapes, dict.fromkeys(shapes, "F32"), shapes.get)
    return plan_of(opened, fields or {}, sample_rate)


def renamed(shapes: dict[str, Shape], prefix: str, leaves: tuple[str, str]) -> dict[str, Shape]:
    """Put a prefix before the names, and another spelling of weight norm in."""

    def spelled(name: str) -> str:
        for old, leaf in zip(LEGACY, leaves, strict=True):
            if name.endswith(old):
                return name.removesuffix(old) + leaf
        return name

    return {prefix + spelled(name): shape for name, shape in shapes.items()}


def folded(shapes: dict[str, Shape]) -> dict[str, Shape]:
    new = renamed(shapes, "", ("", ".weight"))
    return {name: shape for name, shape in new.items() if name.rpartition(".")[2] in LEAVES}


LEAVES = {"weight", "bias", "alpha", "beta"}


@pytest.mark.parametrize("file", key_files(), ids=lambda file: file.stem)
def test_published_models(file: Path) -> None:
    layout, name = LAYOUTS[file.stem]
    shapes = shapes_of(file.stem)
    facts = json.loads((file.parent / "manifest.json").read_text())["files"][file.stem]
    assert len(shapes) == facts["tensors"]
    fields = STABLE_AUDIO if layout == "stable-audio-tools" else {}
    known = preset(name)
    made = plan(shapes, fields, None if fields else known.sample_rate)
    assert made.layout.name == layout
    assert made.config == known.config
    assert made.parts == ("encoder", "decoder")
    values = sum(math.prod(entry.shape) for entry in made.entries.values())
    assert values == facts.get("folded_values", values)
    assert len(made.entries) == facts.get("folded_tensors", len(made.entries))


@pytest.mark.parametrize("file", key_files(), ids=lambda file: file.stem)
def test_published_models_build_at_full_size(file: Path) -> None:
    layout, name = LAYOUTS[file.stem]
    fields = STABLE_AUDIO if layout == "stable-audio-tools" else {}
    made = plan(shapes_of(file.stem), fields, preset(name).sample_rate)
    config, width = made.config, made.config.encoder.out_channels
    with torch.device("meta"):
        if isinstance(config.bottleneck, GaussianConfig):
            quantizer = GaussianBottleneck(width, config.decoder.in_channels, config.bottleneck)
        else:
            quantizer = ResidualVectorQuantize(width, config.bottleneck)
        halves = {"encoder": Encoder(config), "quantizer": quantizer, "decoder": Decoder(config)}
    built = {
        f"{half}.{name}": tuple(tensor.shape)
        for half, module in halves.items()
        for name, tensor in module.state_dict().items()
    }
    assert built == {name: entry.shape for name, entry in made.entries.items()}


@pytest.mark.parametrize(
    "prefix",
    ["", "model.", "dac.", "module.", "generator.", "audio_encoder.model.", "audio_codec.", "vae."],
)
@pytest.mark.parametrize("leaves", [LEGACY, PARAMETRIZED])
def test_prefixes_and_spellings(prefix: str, leaves: tuple[str, str]) -> None:
    shapes = shapes_of("descript_16khz")
    assert plan(renamed(shapes, prefix, leaves)).config == preset("dac-16khz").config


def test_parler_has_four_spellings() -> None:
    shapes = shapes_of("descript_44khz_8kbps")
    inner = "audio_encoder.model."
    theirs = {f"audio_encoder.{n}": s for n, s in shapes_of("transformers_dac_44khz").items()}
    for spelling in (
        renamed(shapes, "model.", LEGACY),
        renamed(shapes, inner, PARAMETRIZED),
        theirs,
        {inner + name: shape for name, shape in folded(shapes).items()},
    ):
        beside = {"decoder.lm_heads.0.weight": (8, 8), "text_encoder.shared.weight": (8, 8)}
        made = plan({**spelling, **(beside if "audio" in next(iter(spelling)) else {})})
        assert made.config == preset("dac-44khz").config
        assert ("2 tensors beside the codec were left alone" in made.notes) == (
            "audio" in next(iter(spelling))
        )


def test_names_of_training_are_left_out() -> None:
    shapes = {**shapes_of("descript_16khz"), "discriminator.convs.0.weight": (4, 1, 3)}
    made = plan(shapes)
    assert "1 tensors beside the codec were left alone" in made.notes


def test_the_watermark_is_left_out_and_said() -> None:
    made = plan(shapes_of("meta_dacvae_watermarked"))
    assert any("no watermark" in note for note in made.notes)
    kept = sum(len(entry.sources) for entry in made.entries.values())
    assert kept == 244
    values = sum(math.prod(entry.shape) for entry in made.entries.values())
    assert values == 92_995_298 - sum(
        entry.shape[0] for entry in made.entries.values() if len(entry.sources) == 2
    )


def test_sam_audio_holds_the_codec_under_a_prefix() -> None:
    shapes = {f"audio_codec.{n}": s for n, s in shapes_of("meta_dacvae_watermarked").items()}
    beside = {"audio_codec.mean": (1,), "audio_codec.std": (1,), "transformer.x": (3,)}
    made = plan({**shapes, **beside})
    assert made.layout.name == "dacvae"
    assert made.config == preset("dacvae").config


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("descript_16khz", "descript"),
        ("transformers_dac_44khz", "transformers"),
        ("hunyuan_foley_vae_128d_48k", "descript"),
        ("meta_dacvae_watermarked", "dacvae"),
        ("stable_audio_open_vae", "oobleck"),
    ],
)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_half_checkpoints(name: str, layout: str, part: str) -> None:
    heads = {
        "encoder": ("quant_conv", "quantizer.in_proj"),
        "decoder": ("post_quant_conv", "quantizer.out_proj"),
    }
    prefixes = (f"{part}.", "quantizer.quantizers.", *heads[part])
    half = {n: s for n, s in shapes_of(name).items() if n.startswith(prefixes)}
    made = plan(half)
    whole = preset(LAYOUTS[name][1]).config
    assert made.layout.name == layout
    assert made.parts == (part,)
    assert getattr(made.config, part) == getattr(whole, part)
    assert made.config.hop_length == whole.hop_length


def test_the_rate_is_stated_or_guessed_or_asked_for() -> None:
    shapes = shapes_of("descript_16khz")
    assert plan(shapes, {"sampling_rate": "16000"}).notes == ()
    assert "16000 Hz is taken from its shape" in plan(shapes).notes[0]
    assert plan(shapes, sample_rate=8000).config.sample_rate == 8000
    with pytest.raises(ConfigError, match="states 16000 Hz"):
        plan(shapes, {"sample_rate": 16000}, 24000)
    with pytest.raises(ConfigError, match="whole number of Hz"):
        plan(shapes, {"sample_rate": "fast"})
    odd = {n: s for n, s in shapes.items() if not n.startswith("quantizer.quantizers.11")}
    with pytest.raises(ConfigError, match=r"no sample rate .* Pass `sample_rate=`"):
        plan(odd)


def test_hop_length_of_a_config_is_not_believed() -> None:
    fields = {"sampling_rate": 44100, "hop_length": 320, "upsampling_ratios": [1, 2]}
    assert plan(shapes_of("transformers_dac_44khz"), fields).config.hop_length == 512


@pytest.mark.parametrize(
    "lie",
    [
        {"encoder_rates": [2, 4, 8, 8]},
        {"downsampling_ratios": (2, 4, 8, 8)},
        {"n_codebooks": 9},
        {"codebook_size": 1000},
    ],
)
def test_a_config_of_another_model_is_refused(lie: dict[str, object]) -> None:
    with pytest.raises(WeightsMismatchError, match=next(iter(lie))):
        plan(shapes_of("descript_16khz"), {"sample_rate": 16000, **lie})


def stable_audio(encoder=None, decoder=None, bottleneck="vae", **beside):  # type: ignore[no-untyped-def]
    model = {
        "encoder": {"config": encoder or {}},
        "decoder": {"config": {"final_tanh": False, **(decoder or {})}},
        "bottleneck": {"type": bottleneck},
        **beside,
    }
    return {"sample_rate": 44100, "model": model}


def test_stable_audio_switches() -> None:
    shapes = shapes_of("oobleck_stable_audio_tools_full_model")
    assert not plan(shapes, stable_audio()).config.decoder.final_tanh
    assert plan(shapes, stable_audio(decoder={"final_tanh": True})).config.decoder.final_tanh
    assert plan(shapes, stable_audio(soft_clip=True)).config.decoder.final_tanh
    for fields in (
        stable_audio(decoder={"use_nearest_upsample": True}),
        stable_audio(encoder={"antialias_activation": True}),
        stable_audio(decoder={"final_tanh": True}, soft_clip=True),
        stable_audio(bottleneck="tanh"),
    ):
        with pytest.raises(UnknownLayoutError, match="Use stable-audio-tools"):
            plan(shapes, fields)
    with pytest.raises(ConfigError, match=r"model_config\.json beside it"):
        plan(shapes)


RELATIVES = {
    "Fish modded DAC": "quantizer.semantic_quantizer.quantizers.0.codebook.weight",
    "SNAC": "decoder.model.2.block.2.linear.weight",
    "X-Codec": "acoustic_encoder.block.0.weight",
    "VoxCPM": "encoder.fc_mu.weight",
    "PE-Audio": "audio.embedder.dac_encoder.conv1.weight",
    "TAAE": "encoder.layers.1.layers.2.0.self_attn.to_q.weight",
    "EnCodec": "encoder.layers.0.conv.weight",
    "BigVGAN": "decoder.resblocks.0.convs1.0.weight",
}


@pytest.mark.parametrize(("relative", "key"), RELATIVES.items(), ids=RELATIVES)
def test_relatives_are_refused_by_name(relative: str, key: str) -> None:
    shapes = {key: (4, 4, 1), "encoder.block.0.weight": (4, 1, 7)}
    with pytest.raises(UnknownLayoutError, match=rf"{relative}.*differs by"):
        plan(shapes)


def test_agc_is_known_by_its_fields() -> None:
    fields = {"continuous": True, "vae": True, "sample_rate": 48000}
    with pytest.raises(UnknownLayoutError, match="AGC"):
        plan(shapes_of("descript_16khz"), fields)


def test_a_bottleneck_alone_is_refused() -> None:
    with pytest.raises(WeightsMismatchError, match="neither an encoder nor a decoder"):
        plan({"quantizer.in_proj.weight": (4, 8, 1)}, sample_rate=48000)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownLayoutError, match=r"lstm\.weight"):
        plan({"lstm.weight": (3, 3)})
