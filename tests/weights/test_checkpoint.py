"""Loading, saving, converting, looking: round trips to the bit, halves that stay unread."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from kits import COPIES, load
from safetensors.torch import load_file, save_file

from dac_rocm.errors import ConfigError, OutputError, SourceError, WeightsError
from dac_rocm.lowering import tensor_shapes
from dac_rocm.weights import (
    Checkpoint,
    convert_checkpoint,
    inspect_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from dac_rocm.weights import read as reading

CHECKPOINTS = [
    "descript/even/weights.pth",
    "descript/odd/weights.pth",
    "descript/listdim/weights.pth",
    "transformers/main",
    "mova/audio_vae",
    "hunyuan/vae_tiny_fp16.safetensors",
    "dacvae/odd/weights.pth",
    "oobleck/vae",
    "oobleck/stable_audio_tools",
]


def same(a: Checkpoint, b: Checkpoint) -> bool:
    return (
        a.config == b.config
        and a.tensors.keys() == b.tensors.keys()
        and all(torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)
        and a.stamp.fingerprints == b.stamp.fingerprints
    )


def saved(checkpoint: Checkpoint, folder: Path, **options: object) -> Path:
    save_checkpoint(folder, checkpoint.config, checkpoint.tensors, checkpoint.stamp, **options)
    return folder


@pytest.mark.parametrize("source", CHECKPOINTS)
def test_tensors_are_canonical_float32_and_own_their_memory(source: str) -> None:
    checkpoint = load(COPIES / source)
    shapes = {name: tuple(t.shape) for name, t in checkpoint.tensors.items()}
    assert shapes == tensor_shapes(checkpoint.config)
    assert list(shapes) == list(tensor_shapes(checkpoint.config))
    for tensor in checkpoint.tensors.values():
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


@pytest.mark.parametrize("source", CHECKPOINTS)
def test_saved_checkpoints_come_back_equal(source: str, tmp_path: Path) -> None:
    checkpoint = load(COPIES / source)
    folder = saved(checkpoint, tmp_path / "new" / "model", license="MIT")
    again = load_checkpoint(folder)
    assert same(checkpoint, again)
    assert again.layout == "canonical"
    assert again.license == "MIT"
    assert again.stamp.name == checkpoint.stamp.name
    assert "library_name: dac_rocm" in (folder / "README.md").read_text()
    assert {file.name for file in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "README.md",
    }


def test_our_file_alone_knows_its_config(tmp_path: Path) -> None:
    checkpoint = load(COPIES / "mova" / "audio_vae")
    folder = saved(checkpoint, tmp_path)
    (folder / "config.json").unlink()
    again = load_checkpoint(folder / "model.safetensors")
    assert same(checkpoint, again)
    assert again.config.bottleneck.spread == "logvar"


def test_saving_overwrites_only_when_told(tmp_path: Path) -> None:
    checkpoint = load(COPIES / CHECKPOINTS[0])
    saved(checkpoint, tmp_path)
    with pytest.raises(OutputError, match="exists already"):
        saved(checkpoint, tmp_path)
    saved(checkpoint, tmp_path, overwrite=True)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="a folder that can be written"):
        saved(checkpoint, tmp_path / "file" / "inside")


@pytest.mark.parametrize("source", CHECKPOINTS)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_half_of_a_checkpoint(source: str, part: str, tmp_path: Path) -> None:
    whole = load(COPIES / source)
    rate = whole.config.sample_rate if "fp16" in source else None
    half = load_checkpoint(COPIES / source, parts=part, sample_rate=rate)
    assert half.parts == (part,)
    assert half.config == whole.config
    other = {"encoder": "decoder.", "decoder": "encoder."}[part]
    assert half.tensors and not any(name.startswith(other) for name in half.tensors)
    assert all(torch.equal(t, whole.tensors[name]) for name, t in half.tensors.items())
    assert half.stamp.differs_from(whole.stamp) is False
    again = load_checkpoint(saved(half, tmp_path))
    assert same(half, again)
    assert again.parts == (part,)
    with pytest.raises(WeightsError, match=f"only the {part} found"):
        load_checkpoint(tmp_path, parts=other[:-1])


def test_the_other_half_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = saved(load(COPIES / CHECKPOINTS[0]), tmp_path)
    seen: list[int] = []
    real = reading._read_tensor
    monkeypatch.setattr(
        reading, "_read_tensor", lambda stored: seen.append(stored.start) or real(stored)
    )
    half = load_checkpoint(folder, parts="decoder")
    assert len(set(seen)) == len(half.tensors)


def test_parts_is_one_of_three_words() -> None:
    with pytest.raises(ConfigError, match="one of all, encoder, decoder"):
        load_checkpoint(COPIES / CHECKPOINTS[0], parts="left")


@pytest.mark.parametrize("to", ["canonical", "transformers", "descript"])
@pytest.mark.parametrize("source", [CHECKPOINTS[1], "transformers/main"])
def test_converting_there_and_back_is_the_identity(source: str, to: str, tmp_path: Path) -> None:
    checkpoint = load(COPIES / source)
    convert_checkpoint(checkpoint, tmp_path / "there", to)
    there = load_checkpoint(tmp_path / "there")
    assert there.layout == to
    assert same(checkpoint, there)
    convert_checkpoint(there, tmp_path / "back", "canonical")
    assert same(checkpoint, load_checkpoint(tmp_path / "back"))


@pytest.mark.parametrize("source", ["mova/audio_vae", "descript/listdim/weights.pth"])
def test_converting_to_one_file(source: str, tmp_path: Path) -> None:
    checkpoint = load(COPIES / source)
    convert_checkpoint(checkpoint, tmp_path / "codec.pth", "descript")
    assert same(checkpoint, load_checkpoint(tmp_path / "codec.pth"))
    with pytest.raises(ConfigError, match="DacModel"):
        convert_checkpoint(checkpoint, tmp_path / "dac", "transformers")


def test_what_a_reader_cannot_express_is_refused(tmp_path: Path) -> None:
    codec = load(COPIES / "oobleck" / "vae")
    for to in ("transformers", "descript"):
        with pytest.raises(ConfigError, match="cannot express"):
            convert_checkpoint(codec, tmp_path, to)
    with pytest.raises(ConfigError, match="one of canonical"):
        convert_checkpoint(codec, tmp_path, "onnx")
    half = load_checkpoint(COPIES / CHECKPOINTS[0], parts="encoder")
    with pytest.raises(WeightsError, match="both halves"):
        convert_checkpoint(half, tmp_path, "descript")


def test_float16_files_name_their_parent(tmp_path: Path) -> None:
    checkpoint = load(COPIES / CHECKPOINTS[0])
    tensors = {name: tensor.half() for name, tensor in checkpoint.tensors.items()}
    save_checkpoint(tmp_path, checkpoint.config, tensors, checkpoint.stamp)
    again = load_checkpoint(tmp_path)
    assert again.stamp == checkpoint.stamp
    assert not same(checkpoint, again)
    fields = json.loads((tmp_path / "config.json").read_text())
    del fields["parent"]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    assert load_checkpoint(tmp_path).stamp.differs_from(checkpoint.stamp)


def test_fingerprints_do_not_depend_on_the_layout() -> None:
    diffusers, stable_audio = (load(COPIES / source) for source in CHECKPOINTS[-2:])
    assert diffusers.stamp.fingerprints == stable_audio.stamp.fingerprints
    assert diffusers.stamp.fingerprints.keys() == {"encoder", "decoder"}
    assert all(len(digits) == 16 for digits in diffusers.stamp.fingerprints.values())
    assert load(COPIES / CHECKPOINTS[0]).stamp.fingerprints.keys() == {
        "codebooks",
        "encoder",
        "decoder",
    }


@pytest.mark.parametrize(
    ("source", "layout", "spelling", "dtypes"),
    [
        ("descript/even/weights.pth", "descript", "legacy", ("F32",)),
        ("transformers/main", "transformers", "folded", ("F32",)),
        ("hunyuan/vae_tiny_fp16.safetensors", "descript", "legacy", ("F16",)),
        ("dacvae/odd/weights.pth", "dacvae", "legacy", ("F32",)),
        ("oobleck/stable_audio_tools", "stable-audio-tools", "legacy", ("F32",)),
        ("tiny", "canonical", "folded", ("F16",)),
    ],
)
def test_inspecting(source: str, layout: str, spelling: str, dtypes: tuple[str, ...]) -> None:
    where = source if source == "tiny" else COPIES / source
    found = inspect_checkpoint(where, sample_rate=48000 if "fp16" in source else None)
    checkpoint = load_checkpoint(where, sample_rate=48000 if "fp16" in source else None)
    assert (found.layout, found.weight_norm, found.dtypes) == (layout, spelling, dtypes)
    assert found.config == checkpoint.config
    assert found.parts == checkpoint.parts
    assert found.parameters == sum(t.numel() for t in checkpoint.tensors.values())
    assert found.tensors >= len(checkpoint.tensors)
    assert found.bitrate == checkpoint.config.bitrate
    assert found.license == checkpoint.license
    assert found.notes == checkpoint.notes


def projected(checkpoint: Checkpoint, rows: int) -> dict[str, torch.Tensor]:
    """Return the names of stable-audio-tools' DAC, with a projection after the encoder."""
    deeper = {"encoder.": "encoder.encoder.", "decoder.": "decoder.decoder."}
    deeper["quantizer."] = "bottleneck.quantizer."
    stored = {}
    for name, tensor in checkpoint.tensors.items():
        half = next(ours for ours in deeper if name.startswith(ours))
        stored[deeper[half] + name.removeprefix(half)] = tensor
    torch.manual_seed(3)
    width = checkpoint.config.encoder.out_channels
    stored["encoder.proj_out.weight"] = torch.randn(rows, width, 1) / width**0.5
    stored["encoder.proj_out.bias"] = torch.randn(rows)
    return stored


@pytest.mark.parametrize("bottleneck", ["dac_rvq", "dac_rvq_vae", "vae"])
def test_stable_audio_dac(bottleneck: str, tmp_path: Path) -> None:
    """The projection and Descript's last convolution are one convolution here."""
    from dac_rocm.nn.blocks import Encoder

    codec = load(COPIES / CHECKPOINTS[1])
    width = codec.config.encoder.out_channels
    rows = width if bottleneck == "dac_rvq" else 2 * width
    stored = projected(codec, rows)
    if bottleneck == "vae":
        stored = {n: t for n, t in stored.items() if not n.startswith("bottleneck.")}
    save_file(stored, tmp_path / "model.safetensors")
    fields = {
        "model_type": "autoencoder",
        "sample_rate": 24000,
        "model": {"encoder": {}, "decoder": {}, "bottleneck": {"type": bottleneck}},
    }
    (tmp_path / "model_config.json").write_text(json.dumps(fields))
    made = load_checkpoint(tmp_path)
    assert made.layout == "stable-audio-tools-dac"

    def encode(checkpoint: Checkpoint, audio: torch.Tensor) -> torch.Tensor:
        module = Encoder(checkpoint.config)
        names = {n: t for n, t in checkpoint.tensors.items() if n.startswith("encoder.")}
        module.load_state_dict({n.removeprefix("encoder."): t for n, t in names.items()})
        with torch.no_grad():
            return module(audio)

    audio = 0.1 * torch.randn(1, 1, 400)
    point = stored["encoder.proj_out.weight"], stored["encoder.proj_out.bias"]
    expected = torch.nn.functional.conv1d(encode(codec, audio), *point)
    expected = expected[:, :width] if bottleneck == "dac_rvq_vae" else expected
    torch.testing.assert_close(encode(made, audio), expected, rtol=1e-5, atol=2e-5)
    assert (made.config.bitrate is None) == (bottleneck == "vae")


def test_tensors_of_another_float_type_are_taken(tmp_path: Path) -> None:
    folder = saved(load(COPIES / CHECKPOINTS[0]), tmp_path)
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t.double() for n, t in tensors.items()}, folder / "model.safetensors")
    assert same(load(COPIES / CHECKPOINTS[0]), load_checkpoint(folder))


def test_lightning_and_bare_state_dicts(tmp_path: Path) -> None:
    data = torch.load(COPIES / CHECKPOINTS[0], weights_only=True)
    state, checkpoint = data["state_dict"], load(COPIES / CHECKPOINTS[0])
    for number, wrapped in enumerate(
        (state, {"generator": state, "step": 3}, {"model": {"state_dict": state}})
    ):
        torch.save(wrapped, tmp_path / f"{number}.pth")
        found = load_checkpoint(tmp_path / f"{number}.pth", sample_rate=16000)
        assert same(checkpoint, found)
    torch.save(data, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert same(checkpoint, load_checkpoint(tmp_path / "old.pth"))


def test_a_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no weights found"):
        load_checkpoint(tmp_path)


def test_checkpoints_can_be_changed_and_saved() -> None:
    checkpoint = load(COPIES / CHECKPOINTS[0])
    assert replace(checkpoint, license="MIT").license == "MIT"
