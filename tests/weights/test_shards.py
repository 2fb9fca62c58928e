"""Several files and an index: the same checkpoint; files without anything wanted stay shut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from kits import COPIES, load
from safetensors.torch import load_file, save_file

from dac_rocm.errors import (
    ConfigError,
    DacError,
    SourceError,
    UnsafeWeightsError,
    WeightsError,
    WeightsMismatchError,
)
from dac_rocm.weights import inspect_checkpoint, load_checkpoint
from dac_rocm.weights.shards import shards_of

DAC = COPIES / "transformers" / "main"
INDEX = "model.safetensors.index.json"
FILES = {"encoder": "a.safetensors", "decoder": "b.safetensors", "quantizer": "c.safetensors"}
TEXT = "d.safetensors"


def split(folder: Path, prefix: str = "") -> dict[str, str]:
    """Spread a codec over three files; with a prefix, there is a fourth of something else."""
    tensors = load_file(DAC / "model.safetensors")
    listed = {f"{prefix}{name}": FILES[name.partition(".")[0]] for name in tensors}
    stored = {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
    if prefix:
        stored |= {"decoder.lm_heads.0.weight": torch.ones(2), "text.weight": torch.ones(3)}
        listed |= {"decoder.lm_heads.0.weight": TEXT, "text.weight": TEXT}
    for file in set(listed.values()):
        save_file({n: stored[n] for n, f in listed.items() if f == file}, folder / file)
    (folder / "config.json").write_bytes((DAC / "config.json").read_bytes())
    write(folder, listed)
    return listed


def write(folder: Path, listed: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": listed}))


@pytest.mark.parametrize("prefix", ["", "audio_encoder."])
def test_many_files_are_one_checkpoint(prefix: str, tmp_path: Path) -> None:
    split(tmp_path, prefix)
    whole, found = load(DAC), load_checkpoint(tmp_path)
    assert found.config == whole.config
    assert found.tensors.keys() == whole.tensors.keys()
    assert all(torch.equal(found.tensors[name], whole.tensors[name]) for name in whole.tensors)
    assert found.stamp.fingerprints == whole.stamp.fingerprints
    assert load_checkpoint(tmp_path / INDEX).stamp.fingerprints == whole.stamp.fingerprints
    seen = inspect_checkpoint(tmp_path)
    assert (seen.layout, seen.parts) == ("transformers", ("encoder", "decoder"))
    assert seen.path.name == INDEX


@pytest.mark.parametrize("prefix", ["", "audio_encoder."])
@pytest.mark.parametrize(("part", "other"), [("encoder", "decoder"), ("decoder", "encoder")])
def test_files_of_the_other_half_need_not_be_there(
    prefix: str, part: str, other: str, tmp_path: Path
) -> None:
    split(tmp_path, prefix)
    (tmp_path / FILES[other]).unlink()
    (tmp_path / TEXT).unlink(missing_ok=True)
    assert shards_of(tmp_path / INDEX, part) == sorted([FILES[part], FILES["quantizer"]])
    whole, half = load(DAC), load_checkpoint(tmp_path, parts=part)
    assert half.parts == (part,)
    assert any(name.startswith(f"{part}.") for name in half.tensors)
    assert all(torch.equal(t, whole.tensors[name]) for name, t in half.tensors.items())
    with pytest.raises(SourceError, match=FILES[other]):
        load_checkpoint(tmp_path)


def test_a_half_leaves_what_shares_its_files(tmp_path: Path) -> None:
    """Files may hold some of either half: the other half must not look incomplete."""
    tensors = load_file(DAC / "model.safetensors")
    names = sorted(tensors)
    listed = {name: "ab"[i % 2] + ".safetensors" for i, name in enumerate(names)}
    listed["encoder.conv1.weight"] = "c.safetensors"
    for file in set(listed.values()):
        save_file({n: tensors[n] for n in names if listed[n] == file}, tmp_path / file)
    (tmp_path / "config.json").write_bytes((DAC / "config.json").read_bytes())
    write(tmp_path, listed)
    (tmp_path / "c.safetensors").unlink()
    half = load_checkpoint(tmp_path, parts="decoder")
    assert half.parts == ("decoder",)
    assert all(torch.equal(t, load(DAC).tensors[n]) for n, t in half.tensors.items())


def test_a_single_file_has_no_shards(tmp_path: Path) -> None:
    assert shards_of(DAC / "model.safetensors") == []
    split(tmp_path)
    tensors = load_file(DAC / "model.safetensors")
    save_file(tensors, tmp_path / "model.safetensors")
    assert inspect_checkpoint(tmp_path).path.name == "model.safetensors"


@pytest.mark.parametrize(
    "file",
    [
        "../a.safetensors",
        "/a.safetensors",
        "sub/a.safetensors",
        "..\\a.safetensors",
        "a.pth",
        3,
        None,
    ],
)
def test_files_outside_of_the_folder_are_refused(file: object, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    listed = split(tmp_path / "in")
    save_file({"encoder.conv1.weight": torch.ones(1)}, tmp_path / "a.safetensors")
    write(tmp_path / "in", {**listed, "encoder.conv1.weight": file})
    with pytest.raises(WeightsError, match="index's own folder") as caught:
        load_checkpoint(tmp_path / "in")
    assert not isinstance(caught.value, UnsafeWeightsError)


@pytest.mark.parametrize("listed", [None, {}, [], "x"])
def test_an_index_without_a_list(listed: object, tmp_path: Path) -> None:
    split(tmp_path)
    write(tmp_path, listed)
    with pytest.raises(WeightsError, match="no weight_map"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100_000])
def test_an_index_that_is_no_json_object(text: str, tmp_path: Path) -> None:
    split(tmp_path)
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(ConfigError, match="JSON object"):
        load_checkpoint(tmp_path)


def test_two_files_with_one_tensor(tmp_path: Path) -> None:
    split(tmp_path)
    twice = load_file(tmp_path / FILES["quantizer"])
    twice["encoder.conv1.weight"] = torch.zeros(1)
    save_file(twice, tmp_path / FILES["quantizer"])
    with pytest.raises(
        WeightsMismatchError, match=r"c\.safetensors: 1 .*\(encoder\.conv1\.weight\)"
    ):
        load_checkpoint(tmp_path)


def test_a_tensor_that_is_in_the_index_alone(tmp_path: Path) -> None:
    listed = split(tmp_path)
    write(tmp_path, {**listed, "encoder.new.weight": FILES["encoder"]})
    with pytest.raises(WeightsMismatchError, match=r"index alone found \(encoder\.new\.weight\)"):
        load_checkpoint(tmp_path)


def test_a_tensor_that_the_index_leaves_out(tmp_path: Path) -> None:
    listed = split(tmp_path)
    del listed["decoder.conv1.bias"]
    write(tmp_path, listed)
    with pytest.raises(WeightsMismatchError, match=r"not at all.*\(decoder\.conv1\.bias\)"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("kept", [0, 9, 0.5])
def test_a_truncated_file(kept: float, tmp_path: Path) -> None:
    split(tmp_path)
    whole = (tmp_path / FILES["decoder"]).read_bytes()
    (tmp_path / FILES["decoder"]).write_bytes(
        whole[: kept if isinstance(kept, int) else int(len(whole) * kept)]
    )
    with pytest.raises(DacError, match=r"b\.safetensors"):
        load_checkpoint(tmp_path)
