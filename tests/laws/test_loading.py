"""Models survive saving, copying, casting and folding, and what they give can be trained on."""

from __future__ import annotations

import copy
import json
import pickle
import warnings

import networks as nw
import pytest
import torch
from kits import ROOTS
from safetensors.torch import load_file
from tolerances import BFLOAT16, FLOAT32_LAW

import dac_rocm
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.errors import ConfigError, OutputError, SourceError, WeightsMismatchError
from dac_rocm.weights import load_checkpoint

DESCRIPT = next(root / "descript" for root in ROOTS if (root / "descript").is_dir())


def made(model, n=700, seed=0):
    """All that a model gives of one clip, as one flat tensor."""
    x = nw.noise(1, model.config.audio_channels, n, seed=seed)
    result = model.encode(x)
    data = result if isinstance(model, DAC) else result.mean
    parts = [model.encode_z(x), data, model.decode(data)]
    return torch.cat([part.double().flatten() for part in parts])


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_saved_and_loaded(shape, tmp_path):
    model = nw.build(shape)
    model.licence = "CC0-1.0"
    model.save_pretrained(tmp_path / "m")
    again = dac_rocm.load(tmp_path / "m", optimize=False, snake="eager")
    assert type(again) is type(model)
    assert again.config == model.config
    assert again.stamp == model.stamp
    assert again.licence == "CC0-1.0"
    assert not again.training
    assert not any(p.requires_grad for p in again.parameters())
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    assert torch.equal(made(again), made(model))
    fast = dac_rocm.load(tmp_path / "m")
    assert (
        fast.encode_z(nw.noise(1, model.config.audio_channels, 700))
        - model.encode_z(nw.noise(1, model.config.audio_channels, 700))
    ).abs().max() <= FLOAT32_LAW
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]


@pytest.mark.parametrize("shape", ("even", "meta", "oobleck"))
def test_one_half(shape, tmp_path):
    model = nw.build(shape)
    model.save_pretrained(tmp_path)
    x = nw.noise(1, model.config.audio_channels, 500)
    encoder = dac_rocm.load(tmp_path, parts="encoder", optimize=False, snake="eager")
    decoder = dac_rocm.load(tmp_path, parts="decoder", optimize=False, snake="eager")
    assert encoder.decoder is None
    assert decoder.encoder is None
    assert not any(n.startswith("decoder.") for n in encoder.state_dict())
    assert torch.equal(encoder.encode_z(x), model.encode_z(x))
    data = nw.frames(model, 1, 20)
    assert torch.equal(decoder.decode(data), model.decode(data))
    for call, match in (
        (lambda: encoder.decode(data), r"parts='encoder' found; the decoder is needed"),
        (lambda: decoder.encode(x), r"parts='decoder' found; the encoder is needed"),
        (lambda: dac_rocm.stream_decoder(encoder), "the decoder is needed"),
    ):
        with pytest.raises(ConfigError, match=match):
            call()
    encoder.save_pretrained(tmp_path / "half")
    half = dac_rocm.load(tmp_path / "half", parts="encoder", optimize=False, snake="eager")
    assert torch.equal(half.encode_z(x), model.encode_z(x))


def test_saving_overwrites_nothing(tmp_path):
    model = nw.build("listdim")
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        nw.build("listdim", 1).save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    nw.build("listdim", 1).save_pretrained(tmp_path, overwrite=True)
    assert (tmp_path / "model.safetensors").read_bytes() != before
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        model.save_pretrained(tmp_path / "file")


def test_the_class_is_checked(tmp_path):
    nw.build("even").save_pretrained(tmp_path)
    assert isinstance(DAC.from_pretrained(tmp_path), DAC)
    with pytest.raises(ConfigError, match="Use DAC"):
        DACVAE.from_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="Use DACVAE"):
        DAC(nw.CONFIGS["mova"])
    with pytest.raises(ConfigError, match="parts='both' found"):
        DAC(nw.CONFIGS["even"], parts="both")


def test_a_damaged_folder(tmp_path):
    nw.build("listdim").save_pretrained(tmp_path)
    with pytest.raises(SourceError):
        dac_rocm.load(tmp_path / "nowhere")
    data = json.loads((tmp_path / "config.json").read_text())
    data["config"]["encoder"]["width"] += 1
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises((WeightsMismatchError, ConfigError)):
        dac_rocm.load(tmp_path)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "there and back": lambda model: model.to(torch.float64).to(torch.float32),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_copies(shape, way):
    model = nw.build(shape)
    wanted = made(model)  # the networks are built by now
    twin = COPIES[way](model)
    assert torch.equal(made(twin), wanted)
    if twin is not model:
        with torch.no_grad():
            twin.encoder.block[0].weight.mul_(2)
        assert torch.equal(made(model), wanted)
        assert not torch.equal(made(twin), wanted)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_new_weights_reach_the_output(shape, assign):
    """MiniMax-H3#14: weights that were set must change what comes out, codebooks included."""
    model, other = nw.build(shape, 0), nw.build(shape, 1)
    assert not torch.equal(made(model), made(other))
    model.load_state_dict(copy.deepcopy(other.state_dict()), assign=assign)
    assert torch.equal(made(model), made(other))
    with pytest.raises(RuntimeError, match=r"(?i)missing key"):
        model.load_state_dict({})


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_other_types(shape):
    """All parameters have the type that was asked for; any float type goes in: demands 46, Y4."""
    model = nw.build(shape)
    x = nw.noise(1, model.config.audio_channels, 900)
    z, wanted = model.encode_z(x), model.decode(nw.frames(model, 1, 30))
    for dtype, limit in ((torch.float64, 1e-5), (torch.bfloat16, BFLOAT16)):
        cast = nw.build(shape).to(dtype)
        assert {p.dtype for p in cast.parameters()} == {dtype} == {cast.dtype}
        for dtype_in in (torch.float32, torch.bfloat16, torch.float64):
            found = cast.encode_z(x.to(dtype_in))
            assert found.dtype == dtype
            within = limit if dtype_in != torch.bfloat16 else BFLOAT16
            assert (found.double() - z).std() <= within * z.std()
        data = nw.frames(model, 1, 30)
        audio = cast.decode(data)
        assert (audio.double() - wanted).std() <= limit * wanted.std()


@pytest.mark.parametrize("shape", ("even", "mova"))
def test_outputs_can_enter_training(shape):
    model = nw.build(shape)
    x = nw.noise(1, 1, 500)
    data = model.encode(x)
    data = data if isinstance(model, DAC) else data.mean
    for y in (model.encode_z(x), model.decode(data), model.decode_z(model.to_z(data))):
        assert not y.is_inference()
        assert not y.requires_grad
        weight = torch.ones(y.shape[1], requires_grad=True)
        (weight[None, :, None] * y).square().sum().backward()
        assert torch.isfinite(weight.grad).all()
        y.add_(1)


def test_gradients_stay_off_even_with_trainable_weights():
    model = nw.build("even").requires_grad_(True)
    assert not model.decode(model.encode(nw.noise(1, 1, 300))).requires_grad
    assert not model.pad(nw.noise(1, 1, 33)).requires_grad


def test_loading_leaves_global_state_as_found(tmp_path):
    nw.build("listdim").save_pretrained(tmp_path)
    before = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
    state = torch.random.get_rng_state()
    model = dac_rocm.load(tmp_path)
    model.decode(model.encode(nw.noise(1, 1, 300)))
    assert (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()) == before
    assert torch.equal(torch.random.get_rng_state(), state)


def test_folding_twice_is_folding_once(tmp_path):
    """vllm-omni#7871: what was folded, saved and read again is not folded once more."""
    once = dac_rocm.load(DESCRIPT / "odd" / "weights.pth")
    assert not any("weight_g" in name or "original" in name for name in once.state_dict())
    once.save_pretrained(tmp_path)
    twice = load_checkpoint(tmp_path)
    for name, tensor in once.state_dict().items():
        assert torch.equal(twice.tensors[name], tensor)
    assert twice.stamp.fingerprints == once.stamp.fingerprints


def test_weights_of_the_file_are_folded():
    """The weight norm of a stored file by its formula, in float64."""
    path = DESCRIPT / "odd" / "weights.pth"
    stored = torch.load(path, weights_only=True)["state_dict"]
    model = dac_rocm.load(path)
    name = "decoder.model.1.block.1"
    g, v = stored[f"{name}.weight_g"].double(), stored[f"{name}.weight_v"].double()
    wanted = v * g / v.square().sum((1, 2), keepdim=True).sqrt()
    assert (model.state_dict()[f"{name}.weight"] - wanted).abs().max() < 1e-6
    assert (v - wanted).abs().max() > 0.01, "a fold that is missing would not show"


def test_the_bundled_model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # its weights may be random
        model = dac_rocm.load()
    assert model.name == "tiny"
    assert isinstance(model, DAC)
    codes = model.encode(nw.noise(1, 1, 8000))
    assert codes.shape == (1, model.rvq.n_codebooks, -(-8000 // model.hop_length))
    assert model.decode(codes, length=8000).shape == (1, 1, 8000)
    assert model.stamp.fingerprints.keys() == {"codebooks", "encoder", "decoder"}


def test_a_saved_file_is_plain(tmp_path):
    model = nw.build("even", dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert tensors.keys() == model.state_dict().keys()
    assert json.loads((tmp_path / "config.json").read_text())["parent"] == model.stamp.fingerprints
    again = dac_rocm.load(tmp_path)
    assert again.stamp.differs_from(model.stamp) is False
