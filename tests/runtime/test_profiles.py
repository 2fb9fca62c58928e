"""Law: the profiles of equal pushes change nothing. The plain network is their slow twin.

On a CPU a graph is captured by a recorder, and the compiler hands back what it gets; what both
run is real.
"""

from __future__ import annotations

import copy
import pickle
from contextlib import contextmanager, nullcontext
from functools import partial

import networks as nw
import pytest
import torch
from gpu_networks import Recorder, smallest
from tolerances import CODES_GAP, FLOAT32_LAW

import dac_rocm
from dac_rocm.choice import Choice
from dac_rocm.dac import DAC
from dac_rocm.errors import BackendError, ShapeError
from dac_rocm.runtime import backends
from dac_rocm.runtime.compile import compiled_runner
from dac_rocm.runtime.flow import FixedRunner
from dac_rocm.runtime.graphs import ENVIRONMENT, graphed_runner
from dac_rocm.runtime.optimize import PUSH_SECONDS, choose_profile, choose_push

ROOM = "dac_rocm.runtime.optimize"


@pytest.fixture
def recorder(monkeypatch):
    """A machine whose CPU tensors are on a GPU, as far as the profile and its graphs can see."""
    own = Recorder()
    monkeypatch.setattr(f"{ROOM}._gpu", lambda profile, device: Choice(profile, "faked"))
    monkeypatch.setattr(f"{ROOM}.graphed_runner", partial(graphed_runner, capture=own))
    monkeypatch.setattr("dac_rocm.runtime.graphs.platform.on_gpu", lambda x: True)
    return own


@pytest.fixture
def compiler(monkeypatch):
    torch.compiler.reset()
    runner = partial(compiled_runner, backend=lambda graph, inputs: graph.forward)
    monkeypatch.setattr(f"{ROOM}.compiled_runner", runner)


@pytest.fixture(params=["graphs", "compile"])
def profile(request, recorder, compiler):
    return request.param


def compare(model, twin, x):
    """z, codes or latents, and audio of one signal [1, C, T]."""
    z, expected = model.encode_z(x), twin.encode_z(x)
    assert z.shape == expected.shape
    assert torch.allclose(z, expected, rtol=0, atol=FLOAT32_LAW)
    if isinstance(model, DAC):
        data, codes = twin.encode(x), model.encode(x)
        sure = nw.sure(nw.gaps(twin, expected), CODES_GAP)
        assert torch.equal(codes[sure], data[sure]) and sure.float().mean() > 0.9
    else:
        data = twin.encode(x).mode()
        assert torch.allclose(model.encode(x).mode(), data, rtol=0, atol=FLOAT32_LAW)
    audio, heard = model.decode(data), twin.decode(data)
    assert audio.shape == heard.shape
    assert torch.allclose(audio, heard, rtol=0, atol=FLOAT32_LAW)


@pytest.mark.parametrize("shape", ["even", "odd", "meta_odd", "mova"])
def test_graphs_change_nothing(shape, recorder):
    model, twin = nw.build(shape), nw.shared(shape)
    assert dac_rocm.optimize(model, "graphs", push=5)[-1].name == "graphs"
    for n in (1, 700, 5 * model.hop_length, 3001):
        compare(model, twin, nw.noise(1, model.config.audio_channels, n))
    assert recorder.captures


def test_compilation_changes_nothing(compiler):
    model, twin = smallest(), smallest()
    assert dac_rocm.optimize(model, "compile", push=5)[-1].name == "compile"
    for n in (1, 5 * model.hop_length, 1001):
        compare(model, twin, nw.noise(1, 1, n))


def test_ragged_batches_and_streams_and_files(profile):
    model, twin = smallest(), smallest()
    dac_rocm.optimize(model, profile, push=50)
    clips = [nw.noise(1, n, seed=n) for n in (100, 701, 33)]
    assert all(map(torch.equal, model.encode_many(clips), twin.encode_many(clips)))
    x = nw.noise(1, 1, 1501)
    expected = twin.encode(x)
    with dac_rocm.stream_encoder(model) as encoder:
        parts = [encoder.push(piece) for piece in x.split(97, -1)]
        assert torch.equal(torch.cat([*parts, encoder.flush()], -1), expected)
    with dac_rocm.stream_decoder(model) as decoder:
        parts = [decoder.push(piece) for piece in expected.split(3, -1)]
        audio = torch.cat([*parts, decoder.flush()], -1)
    assert (audio - twin.decode(expected)).abs().max() <= FLOAT32_LAW
    encoded = dac_rocm.encode_audio(model, x[0].numpy(), 16000)
    other = dac_rocm.encode_audio(twin, x[0].numpy(), 16000)
    assert (encoded.data == other.data).all()


def test_a_stream_tells_its_longer_latency(profile):
    model, n = smallest(), 8
    plain = dac_rocm.stream_encoder(model).latency.samples
    dac_rocm.optimize(model, profile, push=n)
    stream = dac_rocm.stream_encoder(model)
    late, hop = stream.latency.samples, model.hop_length
    assert plain < late
    frames = stream.push(nw.noise(1, 1, 20 * hop + late)).shape[-1]
    assert frames >= 20


def test_a_live_stream_of_one_push_replays_two_graphs(recorder):
    """The case that graphs are for: pushes that fill one, again and again."""
    model, twin = nw.build("even"), nw.shared("even")
    dac_rocm.optimize(model, "graphs", push=8)
    codes = nw.frames(model, 1, 160)
    with dac_rocm.stream_decoder(model) as stream:
        parts = [stream.push(piece) for piece in codes.split(8, -1)]
        sizes = {part.shape[-1] for part in parts[3:]}
        audio = torch.cat([*parts, stream.flush()], -1)
    assert (audio - twin.decode(codes)).abs().max() <= FLOAT32_LAW
    assert sizes == {8 * model.hop_length}
    assert recorder.captures == 2 and recorder.replays >= 20


@pytest.mark.parametrize("profile", ["plain", "gpu", "graphs", "compile"])
@pytest.mark.parametrize("wanted", [False, True])
def test_tf32_is_off_unless_asked(profile, wanted, recorder, compiler, monkeypatch):
    model, seen = smallest(), []

    @contextmanager
    def watched(*, tf32):
        seen.append(tf32)
        yield

    monkeypatch.setattr("dac_rocm.runtime.flow.float32_precision", watched)
    dac_rocm.optimize(model, profile, **({"tf32": True} if wanted else {}))
    for half in ("encoder", "decoder"):
        assert model.network(half).tf32 is wanted  # `engine.Flow` goes by it
    if profile in ("graphs", "compile"):
        model.encode(nw.noise(1, 1, 9))
        assert seen == [wanted]
    network = model.network("encoder")
    dac_rocm.optimize(model, profile, tf32=not wanted)
    assert model.network("encoder") is not network


@pytest.mark.parametrize("shape", ["even", "mova"])
def test_tf32_is_always_off_between_the_halves(shape, monkeypatch):
    """Torch lets convolutions use it by default, and these projections decide on codes."""
    model, seen = nw.build(shape), []
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    for module in model.quantizer.modules():
        if isinstance(module, torch.nn.Conv1d):
            flags = lambda *_: seen.append(torch.backends.cudnn.allow_tf32)  # noqa: E731
            module.register_forward_pre_hook(flags)
    data = model.encode(nw.noise(1, 1, 99))
    model.decode(data if isinstance(model, DAC) else data.mode())
    if isinstance(model, DAC):
        model.from_latents(model.quantize(model.encode_z(nw.noise(1, 1, 99))).latents)
    assert len(seen) > 1 and not any(seen)
    assert torch.backends.cudnn.allow_tf32


def test_graphs_have_an_off_switch(recorder, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "0")
    model = nw.build("even")
    dac_rocm.optimize(model, "graphs", push=4)
    compare(model, nw.shared("even"), nw.noise(1, 1, 500))
    assert not recorder.captures


def test_what_does_not_fit_is_refused():
    model = nw.build("even")
    with pytest.raises(BackendError, match="'graphs' for cpu found; a CUDA or ROCm device is"):
        dac_rocm.optimize(model, "graphs")
    for push in (0, -1, True, 2.5):
        with pytest.raises(ShapeError, match=r"found; 1 or more frames are expected"):
            dac_rocm.optimize(model, "compile", push=push)
    with pytest.raises(BackendError, match=r"push=3 for the profile 'auto' found.*graphs or"):
        dac_rocm.optimize(model, push=3)
    with pytest.raises(BackendError, match="'compile' for mps found; a CUDA or ROCm device, or"):
        choose_profile("compile", torch.device("mps"), torch.float32)
    assert model.profile == "plain" and model.push is None


def test_auto_never_takes_one_of_them():
    for device in ("cpu", "cuda", "mps"):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            name = choose_profile("auto", torch.device(device), dtype).name
            assert name not in ("graphs", "compile")


@pytest.mark.parametrize("profile", ["graphs", "compile"])
def test_two_seconds_of_push_unless_asked(profile):
    assert choose_push(profile, None, 86.13) == round(PUSH_SECONDS * 86.13)
    assert choose_push(profile, None, 0.1) == 1
    assert choose_push(profile, 7, 86.13) == 7


@pytest.mark.parametrize("change", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_work_after_optimize(change, compiler):
    model, x = smallest(), nw.noise(1, 1, 90)
    dac_rocm.optimize(model, "compile", push=9)
    wanted = model.encode(x)
    again = change(model)
    assert torch.equal(again.encode(x), wanted)
    assert isinstance(again.network("encoder"), FixedRunner)
    network = model.network("encoder")
    dac_rocm.optimize(model, "compile", push=9)
    assert model.network("encoder") is network
    dac_rocm.optimize(model, "compile", push=10)
    assert model.network("encoder") is not network


@pytest.mark.parametrize("profile", ["compile", "plain", "auto"])
def test_an_overflow_is_run_again_in_float32_without_compiling(profile, compiler, monkeypatch):
    model = smallest()
    first, level, *_ = model.get_submodule("decoder").model
    first.weight.mul_(1000)
    level.block[1].weight.mul_(1000)
    codes = nw.frames(model, 1, 20)
    expected = model.decode(codes)
    model.half()
    dac_rocm.optimize(model, profile, push=10 if profile == "compile" else None)
    profiles = []
    run = DAC._run
    watch = lambda self, *args: profiles.append(self.profile) or run(self, *args)  # noqa: E731
    monkeypatch.setattr(DAC, "_run", watch)
    with pytest.warns(RuntimeWarning, match="overflowed; it was computed again in float32"):
        y = model.decode(codes)
    assert y.isfinite().all() and y.dtype == torch.float32
    assert profiles == [profile, "plain" if profile == "plain" else "auto"]
    assert y.shape == expected.shape and (y - expected).abs().max() < 0.1


def test_miopen_is_told_before_the_first_convolution_wherever_the_model_comes_from(monkeypatch):
    """A model that was loaded on the CPU and moved later, too."""
    told = []
    monkeypatch.setattr("dac_rocm.codec.prepare_miopen", told.append)
    model = nw.build("even")
    model.encode(nw.noise(1, 1, 99))
    assert told == [torch.device("cpu")]


@pytest.mark.parametrize("device, hints", [("cuda", 1), ("cpu", 0)])
def test_the_hint_is_for_the_first_run_on_a_gpu(device, hints, monkeypatch):
    monkeypatch.setattr(backends, "_begun", set())
    opened = []
    monkeypatch.setattr(backends, "hint_when_silent", lambda: opened.append(1) or nullcontext())
    for _ in range(3):
        with backends.hint_at_first(torch.device(device)):
            pass
    assert len(opened) == hints


def test_a_first_run_that_failed_was_none(monkeypatch):
    monkeypatch.setattr(backends, "_begun", set())
    with pytest.raises(ZeroDivisionError), backends.hint_at_first(torch.device("cuda")):
        raise ZeroDivisionError
    assert not backends._begun


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_deterministic_codes_do_not_depend_on_the_batch(dtype):
    model = nw.build("even", dtype=dtype)
    x = nw.noise(4, 1, 1501)
    together = model.encode(x, deterministic=True)
    ragged = model.encode_many([x[0], x[1, :, :700], x[2]], deterministic=True)
    for i in range(4):
        assert torch.equal(together[i : i + 1], model.encode(x[i : i + 1], deterministic=True))
    assert torch.equal(ragged[0], together[0]) and torch.equal(ragged[2], together[2])
    wide = copy.deepcopy(model).float()
    sure = nw.sure(nw.gaps(wide, wide.encode_z(x)), CODES_GAP)
    assert torch.equal(together[sure], wide.encode(x)[sure])
    assert model.dtype == dtype and not torch.are_deterministic_algorithms_enabled()
    assert model.encode(x, n_codebooks=2, deterministic=True).shape[1] == 2
    with pytest.raises(ShapeError, match="44100 Hz found"):
        model.encode(x, sample_rate=44100, deterministic=True)
