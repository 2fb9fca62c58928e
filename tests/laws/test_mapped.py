"""Weights that a fast network has packed are left to their file, and come back from it whole."""

from __future__ import annotations

import copy
import os
import pickle
import sys
from pathlib import Path

import networks as nw
import pytest
import torch
from kits import ROOTS
from tolerances import FLOAT32_LAW

import dac_rocm
from dac_rocm.errors import SourceError
from dac_rocm.lowering import Conv, Transposed
from dac_rocm.runtime.optimize import choose_profile
from dac_rocm.weights import stored

DESCRIPT = next(root / "descript" for root in ROOTS if (root / "descript").is_dir())

pytestmark = pytest.mark.skipif(
    choose_profile("auto", torch.device("cpu"), torch.float32).name != "cpu",
    reason="no packed weights on this machine",
)


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(stored, "SMALLEST", 1)


@pytest.fixture
def saved(tmp_path):
    """A folder with a model, and the model."""

    def save(shape="even"):
        model = nw.build(shape)
        model.save_pretrained(tmp_path / "m")
        return tmp_path / "m", model

    return save


def used(folder, **options):
    """Load a model and run both halves, so that both are packed."""
    model = dac_rocm.load(folder, device="cpu", **options)
    z = model.encode_z(nw.noise(1, model.config.audio_channels, 700))
    model.decode_z(torch.zeros(1, model.config.decoder.in_channels, z.shape[-1]))
    return model


def packed_names(model):
    steps = (*model.steps("encoder"), *model.steps("decoder"))
    return {f"{step.name}.weight" for step in steps if isinstance(step, Conv | Transposed)}


def mapped_names(model):
    parameters = dict(model.named_parameters())
    maps = model._sources._mapped
    return {name for name in maps if maps[name].data_ptr() == parameters[name].data_ptr()}


def assert_equal(model, wanted):
    found, wanted = model.state_dict(), wanted.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def change_in_place(folder):
    path = folder / "model.safetensors"
    with path.open("r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(bytes(64))
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_all_packed_weights_lie_in_the_file(shape, saved, tmp_path):
    folder, plain = saved(shape)
    model = used(folder)
    assert packed_names(model) <= mapped_names(model)
    assert_equal(model, plain)
    model.save_pretrained(tmp_path / "again")
    assert_equal(dac_rocm.load(tmp_path / "again", optimize=False), plain)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_map_is_a_map(saved):
    folder, _ = saved()
    model = used(folder)
    assert "model.safetensors" in Path("/proc/self/maps").read_text()
    del model
    assert "model.safetensors" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("options", [{"optimize": False}, {"dtype": "bfloat16"}])
def test_what_is_not_packed_as_it_is_stays_in_memory(options, saved):
    folder, _ = saved()
    assert not mapped_names(used(folder, **options))


def test_weights_that_were_changed_before_are_kept(saved):
    folder, plain = saved()
    model = dac_rocm.load(folder, device="cpu")
    name, x = "encoder.block.0.weight", nw.noise(1, 1, 700)
    with torch.no_grad():
        for each in (model, plain):
            dict(each.named_parameters())[name].mul_(2)
    assert (model.encode_z(x) - plain.encode_z(x)).abs().max() <= FLOAT32_LAW
    assert name not in mapped_names(model) and mapped_names(model)
    assert_equal(model, plain)


def test_writing_to_weights_never_reaches_the_file(saved):
    folder, plain = saved()
    model, before = used(folder), (folder / "model.safetensors").read_bytes()
    with torch.no_grad():
        for each in (model, plain):
            each.encoder.block[0].weight.mul_(2)
    assert_equal(model, plain)
    assert (folder / "model.safetensors").read_bytes() == before


def test_new_weights_replace_mapped_ones(saved):
    folder, _ = saved()
    model, other = used(folder), nw.build("even", seed=1)
    model.load_state_dict(other.state_dict())
    x = nw.noise(1, 1, 700)
    assert (model.encode_z(x) - other.encode_z(x)).abs().max() <= FLOAT32_LAW
    assert_equal(model, other)


@pytest.mark.parametrize("twice", [False, True])
def test_both_paddings_and_a_second_optimize(twice, saved):
    folder, plain = saved()
    model = used(folder)
    if twice:
        model.optimize("plain")
        used_again = model.encode_z(nw.noise(1, 1, 700))
        assert torch.equal(used_again, plain.encode_z(nw.noise(1, 1, 700)))
        model.optimize("auto")
    model.network("decoder", padded=False)
    assert packed_names(model) <= mapped_names(model)
    assert_equal(model, plain)


USES = {
    "state_dict": lambda model, folder: model.state_dict(),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
    "pickle": lambda model, folder: pickle.dumps(model),
    "double": lambda model, folder: model.double(),
    "half": lambda model, folder: model.half(),
    "save": lambda model, folder: model.save_pretrained(folder / "x"),
    "plain": lambda model, folder: (model.optimize("plain"), model.encode_z(nw.noise(1, 1, 700))),
}


@pytest.mark.parametrize("use", USES)
def test_a_file_that_was_changed_is_refused(use, saved):
    folder, plain = saved()
    model = used(folder)
    x = nw.noise(1, 1, 700)
    change_in_place(folder)
    with pytest.raises(SourceError, match=r"model\.safetensors: .*changed.*optimize=False"):
        USES[use](model, folder)
    model.optimize("auto")
    assert not (folder / "x").exists()
    if use != "plain":  # what is packed owes nothing to the file
        assert (model.encode_z(x) - plain.encode_z(x)).abs().max() <= FLOAT32_LAW


@pytest.mark.parametrize("use", ["double", "pickle", "deepcopy"])
def test_copies_owe_nothing_to_the_file(use, saved):
    folder, plain = saved()
    model = used(folder)
    twin = {
        "double": lambda: model.double().float(),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),
        "deepcopy": lambda: copy.deepcopy(model),
    }[use]()
    change_in_place(folder)
    assert_equal(twin, plain)
    x = nw.noise(1, 1, 700)
    assert (twin.encode_z(x) - plain.encode_z(x)).abs().max() <= FLOAT32_LAW
    assert_equal(twin, plain)


def test_loaded_into_memory_it_owes_nothing_to_the_file(saved):
    folder, plain = saved()
    model = used(folder, optimize=False)
    change_in_place(folder)
    assert_equal(model, plain)


@pytest.mark.parametrize("how", ["deleted", "replaced", "saved over"])
@pytest.mark.skipif(os.name == "nt", reason="Windows refuses to")
def test_a_map_outlives_its_file(how, saved, tmp_path):
    folder, plain = saved()
    model = used(folder)
    if how == "deleted":
        (folder / "model.safetensors").unlink()
    elif how == "replaced":
        nw.build("even", seed=1).save_pretrained(folder, overwrite=True)
    else:
        model.save_pretrained(folder, overwrite=True)
    assert_equal(model, plain)
    assert_equal(copy.deepcopy(model), plain)


def test_folded_weights_stay_in_memory():
    """What a file does not hold as it is cannot be left to it."""
    assert not mapped_names(used(DESCRIPT / "odd" / "weights.pth"))
