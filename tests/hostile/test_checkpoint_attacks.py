"""A hostile or broken checkpoint for every error: refused by name, and nothing of it runs."""

from __future__ import annotations

import errno
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from kits import COPIES, load
from safetensors.torch import save_file

from dac_rocm.errors import (
    ConfigError,
    DacError,
    SourceError,
    UnknownLayoutError,
    UnsafeWeightsError,
    WeightsError,
    WeightsMismatchError,
)
from dac_rocm.weights import convert_checkpoint, load_checkpoint, read, source
from dac_rocm.weights.hub import Request, explained

GOOD = COPIES / "descript" / "odd" / "weights.pth"
MARK = "dac_rocm_was_here"
Data = dict[str, dict]


class Payload:
    """Runs a command when it is unpickled by a reader that runs code."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.fixture
def data() -> Data:
    return torch.load(GOOD, weights_only=True)


def saved(data: object, folder: Path) -> Path:
    torch.save(data, folder / "weights.pth")
    return folder / "weights.pth"


def test_a_pickle_that_runs_code(data: Data, tmp_path: Path) -> None:
    mark = tmp_path / MARK
    data["metadata"]["extra"] = Payload(mark)
    with pytest.raises(UnsafeWeightsError, match="would run code"):
        load_checkpoint(saved(data, tmp_path))
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Payload(mark), protocol=2))
    with pytest.raises(UnsafeWeightsError, match="more than tensors"):
        load_checkpoint(tmp_path / "bare.pth")
    assert not mark.exists()


def test_a_torch_package(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "package.pth", "w") as archive:
        archive.writestr("dac/.data/extern_modules", "os\n")
        archive.writestr("dac/DAC/DAC.pth", pickle.dumps(Payload(tmp_path / MARK)))
    with pytest.raises(UnsafeWeightsError, match=r"torch\.package archive.*weights\.pth"):
        load_checkpoint(tmp_path / "package.pth")
    assert not (tmp_path / MARK).exists()


def broken(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Data], None]:
    return lambda data: bool(change(data["state_dict"]) is None)


def poison(value: float) -> Callable[[dict[str, torch.Tensor]], object]:
    return lambda state: state["decoder.model.0.bias"].__setitem__(0, value)


ATTACKS: dict[str, tuple[Callable[[Data], object], type[DacError], str]] = {
    "NaN": (broken(poison(float("nan"))), WeightsError, r"decoder\.model\.0\.bias: NaN"),
    "infinity": (broken(poison(float("-inf"))), WeightsError, "NaN or infinity"),
    "row of zeros": (
        broken(lambda s: s["encoder.block.0.weight_v"].zero_()),
        WeightsError,
        r"encoder\.block\.0\.weight: a row of zeros",
    ),
    "wrong dim of weight_g": (
        broken(lambda s: s.__setitem__("decoder.model.1.block.1.weight_g", torch.ones(20, 1, 1))),
        WeightsMismatchError,
        r"decoder\.model\.1\.block\.1\.weight_g .*dim 0",
    ),
    "missing tensor": (
        broken(lambda s: s.pop("encoder.block.1.block.3.alpha")),
        WeightsMismatchError,
        r"1 tensors missing \(encoder\.block\.1\.block\.3\.alpha\)",
    ),
    "missing level": (
        broken(lambda s: [s.pop(f"encoder.block.2.block.4.weight_{leaf}") for leaf in "gv"]),
        WeightsMismatchError,
        r"encoder\.block\.2\.block\.4\.weight: nothing found",
    ),
    "extra tensor": (
        broken(lambda s: s.update({"encoder.extra": torch.ones(3)})),
        WeightsMismatchError,
        r"1 tensors unexpected \(encoder\.extra\)",
    ),
    "other shape": (
        broken(lambda s: s.update({"encoder.block.1.block.3.alpha": torch.ones(4)})),
        WeightsMismatchError,
        r"encoder\.block\.1\.block\.3\.alpha \[4\] instead of \[1, 4, 1\]",
    ),
    "integers": (
        broken(lambda s: s.update({"encoder.block.0.bias": torch.ones(4, dtype=torch.long)})),
        WeightsMismatchError,
        r"another type than float \(encoder\.block\.0\.bias torch\.int64\)",
    ),
    "expanded tensor": (
        broken(
            lambda s: s.update({"encoder.block.0.bias": torch.ones(1).expand(1 << 33)}),
        ),
        WeightsError,
        "all of them stored",
    ),
    "lying strides": (
        lambda d: d["metadata"]["kwargs"].update(encoder_rates=[5, 4, 2]),
        WeightsMismatchError,
        "encoder_rates",
    ),
    "rate that is no number": (
        lambda d: d["metadata"]["kwargs"].update(sample_rate="fast"),
        ConfigError,
        "whole number of Hz",
    ),
    "rate out of range": (
        lambda d: d["metadata"]["kwargs"].update(sample_rate=10**9),
        ConfigError,
        "sample_rate",
    ),
    "no tensors": (lambda d: d.update(state_dict={}), WeightsError, "no tensors found"),
    "other network": (
        lambda d: d.update(state_dict={"lstm.weight_ih_l0": torch.ones(3, 3)}),
        UnknownLayoutError,
        "lstm",
    ),
}


@pytest.mark.parametrize(("attack", "kind", "message"), ATTACKS.values(), ids=ATTACKS)
def test_attacks(
    attack: Callable[[Data], object],
    kind: type[DacError],
    message: str,
    data: Data,
    tmp_path: Path,
) -> None:
    attack(data)
    with pytest.raises(kind, match=message) as caught:
        load_checkpoint(saved(data, tmp_path))
    assert type(caught.value) is kind


def test_finite_weights_whose_sum_is_not(data: Data, tmp_path: Path) -> None:
    bias = data["state_dict"]["decoder.model.0.bias"]
    bias.fill_(3e38)
    assert torch.isinf(bias.sum())
    found = load_checkpoint(saved(data, tmp_path)).tensors["decoder.model.0.bias"]
    assert torch.equal(found, bias)


def test_infinities_that_cancel(data: Data, tmp_path: Path) -> None:
    bias = data["state_dict"]["decoder.model.0.bias"]
    bias[:2] = torch.tensor([float("inf"), float("-inf")])
    with pytest.raises(WeightsError, match=r"decoder\.model\.0\.bias: NaN or infinity"):
        load_checkpoint(saved(data, tmp_path))


def test_many_missing_tensors_are_ten_and_a_count(data: Data, tmp_path: Path) -> None:
    state = data["state_dict"]
    gone = [name for name in state if name.endswith("alpha")]
    for name in gone:
        del state[name]
    with pytest.raises(WeightsMismatchError, match=rf"{len(gone)} tensors missing") as caught:
        load_checkpoint(saved(data, tmp_path))
    assert str(caught.value).count("alpha") == 10


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -1])
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_truncated_files(kept: float, suffix: str, tmp_path: Path) -> None:
    if suffix == "pth":
        content = GOOD.read_bytes()
    else:
        convert_checkpoint(load(GOOD), tmp_path / "whole")
        content = (tmp_path / "whole" / "model.safetensors").read_bytes()
    cut = tmp_path / f"cut.{suffix}"
    cut.write_bytes(content[: int(len(content) * kept) if isinstance(kept, float) else kept])
    with pytest.raises(WeightsError, match="Download it again"):
        load_checkpoint(cut)


def header(shape: list[int], end: int, dtype: str = "F32") -> bytes:
    tensors = {"encoder.block.0.weight": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        header([1 << 40, 1, 7], 28) + bytes(28),
        header([1 << 62, 4, 7], 28) + bytes(28),
        header([1, 1, 7], 1 << 40) + bytes(28),
        struct.pack("<Q", 1 << 60) + b"{}",
        b"\x00" * 64,
        b"not a checkpoint",
    ],
)
def test_headers_that_declare_too_much(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(WeightsError):
        load_checkpoint(tmp_path)


def test_garbage_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "weights.pth").write_bytes(b"garbage" * 100)
    with pytest.raises(WeightsError):
        load_checkpoint(tmp_path)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_TENSORS", 10)
    with pytest.raises(WeightsError, match="at most 10"):
        load_checkpoint(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        "not JSON",
        "[1, 2]",
        "[" * 100_000,
        '{"sampling_rate": 24000, "downsampling_ratios": [4, 5, 2]}',
        '{"sampling_rate": [24000]}',
        '{"format": "dac_rocm", "config": {"sample_rate": 24000}}',
        '{"format": "dac_rocm", "config": 7}',
        '{"format": "dac_rocm"}',
        " " * ((1 << 20) + 1),
        b"\xff\xfe\x00",
    ],
)
def test_configs_that_are_none(text: str | bytes, tmp_path: Path) -> None:
    content = (COPIES / "transformers" / "main" / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content)
    (tmp_path / "config.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises((ConfigError, WeightsMismatchError)):
        load_checkpoint(tmp_path)


def test_a_config_of_another_codec(tmp_path: Path) -> None:
    convert_checkpoint(load(GOOD), tmp_path / "a")
    convert_checkpoint(load(COPIES / "descript" / "even" / "weights.pth"), tmp_path / "b")
    (tmp_path / "a" / "config.json").write_bytes((tmp_path / "b" / "config.json").read_bytes())
    with pytest.raises(WeightsMismatchError, match="of another shape"):
        load_checkpoint(tmp_path / "a")


@pytest.mark.parametrize("text", ["{", "3", "[1]", "null", '"x"'])
def test_a_damaged_embedded_config(text: str, tmp_path: Path) -> None:
    tensors = {"encoder.block.0.weight": torch.ones(1)}
    save_file(tensors, tmp_path / "a.safetensors", {"dac_rocm": text})
    with pytest.raises(WeightsError, match="whole safetensors file"):
        load_checkpoint(tmp_path / "a.safetensors")


def test_stable_audio_configs_of_odd_types(tmp_path: Path) -> None:
    folder = COPIES / "oobleck" / "stable_audio_tools"
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    for model in ([], {"decoder": [1]}, {"pretransform": 3}, {"decoder": {}, "bottleneck": [2]}):
        fields = {"sample_rate": 44100, "model": model}
        (tmp_path / "model_config.json").write_text(json.dumps(fields))
        try:
            load_checkpoint(tmp_path)
        except DacError:
            continue


def test_huge_indices_ask_for_no_memory(tmp_path: Path) -> None:
    for name in (
        "encoder.block.999999999.block.0.block.0.alpha",
        "quantizer.quantizers.99999999999999999999.codebook.weight",
        f"decoder.model.{'9' * 5000}.block.0.alpha",
    ):
        tensors = {name: torch.ones(1, 4, 1), "encoder.block.0.weight": torch.ones(4, 1, 7)}
        save_file(tensors, tmp_path / "model.safetensors")
        with pytest.raises(WeightsMismatchError):
            load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["missing.pth", "no/such/thing/here.pth", "tinny", "../x", ""])
def test_sources_that_are_not_there(name: str, tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "":
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(SourceError) as caught:
        load_checkpoint(name, offline=True)
    if name == "tinny":
        assert "Did you mean tiny" in str(caught.value)


def test_a_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert_checkpoint(load(GOOD), tmp_path)

    def refuse(*_: object, **__: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(read, "safe_open", refuse)
        with pytest.raises(SourceError, match="Permission denied"):
            load_checkpoint(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(source.Path, "open", refuse)
        with pytest.raises(SourceError, match="Permission denied"):
            load_checkpoint(tmp_path)


def test_a_full_disk_is_said() -> None:
    error = explained(OSError(errno.ENOSPC, "No space left on device"), Request("org/dac"))
    assert "full disk" in str(error) and "cache_dir" in str(error)
