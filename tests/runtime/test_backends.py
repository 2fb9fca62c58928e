"""Contexts put every flag back; MIOpen is told once; results are finite."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from torch.nn import functional as F

from dac_rocm.errors import AudioError, BackendError
from dac_rocm.ops import platform
from dac_rocm.runtime import backends
from dac_rocm.runtime.backends import (
    CONV_BACKENDS,
    FIND_MODE,
    conv_backend,
    deterministic,
    finite_or_retry,
    hint_when_silent,
    prepare_miopen,
)

PLACES = (
    (torch.backends.cudnn, ("enabled", "benchmark", "deterministic")),
    (
        torch.backends.mkldnn,
        ("enabled",),
    ),
)


def state():
    """Every flag and variable that a context here may touch."""
    flags = [getattr(place, name) for place, names in PLACES for name in names]
    modes = torch.are_deterministic_algorithms_enabled(), torch.get_default_dtype()
    variables = [os.environ.get(name) for name in ("CUBLAS_WORKSPACE_CONFIG", FIND_MODE)]
    return flags, modes, variables


CONTEXTS = {name: lambda name=name: conv_backend(name) for name in ("library", "native", "cpu")}
CONTEXTS |= {"auto": conv_backend, "deterministic": deterministic}


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("benchmark", [True, False])
def test_every_flag_is_put_back_also_after_an_exception(name, benchmark, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", benchmark)
    before = state()
    with CONTEXTS[name]():
        pass
    assert state() == before
    with pytest.raises(ZeroDivisionError), CONTEXTS[name]():
        F.conv1d(torch.ones(1, 1, 9), torch.ones(1, 1, 3))
        raise ZeroDivisionError
    assert state() == before


@pytest.mark.parametrize("name, enabled", [("library", True), ("native", False)])
def test_the_library_is_used_or_not(name, enabled, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with conv_backend(name):
        assert torch.backends.cudnn.enabled is enabled
        assert torch.backends.mkldnn.enabled is enabled
        assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize("hip, own, other", [("7.1", "miopen", "cudnn"), (None, "cudnn", "miopen")])
def test_the_library_of_the_other_build_is_refused(hip, own, other, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", hip)
    with conv_backend(own):
        assert torch.backends.cudnn.enabled
    with pytest.raises(BackendError, match=f"{other}' found; this torch was built with {own}"):
        conv_backend(other).__enter__()


def test_an_unknown_backend_is_refused():
    with pytest.raises(BackendError, match=r"'fast' found; one of .* is expected"):
        conv_backend("fast").__enter__()
    assert "auto" in CONV_BACKENDS


class Elsewhere(torch.Tensor):
    """A tensor that notes how it was brought to the CPU."""

    moves = 0

    def cpu(self):
        Elsewhere.moves += 1
        return self.as_subclass(torch.Tensor)


def test_cpu_moves_convolutions_and_nothing_else():
    x, w = torch.randn(1, 2, 9).as_subclass(Elsewhere), torch.randn(3, 2, 3)
    expected = F.conv1d(x.as_subclass(torch.Tensor), w)
    with conv_backend("cpu"):
        assert torch.equal(F.conv1d(x, w), expected)
        assert Elsewhere.moves == 1
        assert torch.equal(F.conv1d(x, weight=w), expected)
        F.relu(x)
        torch.nn.Conv1d(2, 3, 3)(x)
    F.conv1d(x, w)
    assert Elsewhere.moves == 3


def test_deterministic_is_on_inside():
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cudnn.deterministic
        assert "CUBLAS_WORKSPACE_CONFIG" in os.environ


def test_a_workspace_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with deterministic():
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


@pytest.mark.parametrize(
    "hip, device, users, expected",
    [
        ("7.1", "cuda", None, "FAST"),
        ("7.1", "cuda:1", None, "FAST"),
        ("7.1", "cuda", "NORMAL", "NORMAL"),
        ("7.1", "cpu", None, None),
        (None, "cuda", None, None),
    ],
)
def test_miopen_searches_fast_unless_the_user_says(hip, device, users, expected, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(os, "environ", {} if users is None else {FIND_MODE: users})
    assert prepare_miopen(device) is (users is None and expected is not None)
    assert os.environ.get(FIND_MODE) == expected
    assert not prepare_miopen(device)


@pytest.mark.parametrize("hip, words", [("7.1", "MIOPEN_FIND_MODE=unset"), (None, "building")])
def test_a_silent_convolution_is_explained(hip, words, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.delenv(FIND_MODE, raising=False)
    said, done = [], threading.Event()

    def tell(text):
        said.append(text)
        done.set()

    with hint_when_silent(0.01, tell):
        assert done.wait(10)
    assert len(said) == 1 and words in said[0] and "conv_backend('native')" in said[0]


def test_a_quick_convolution_is_not():
    said = []
    with hint_when_silent(60, said.append):
        pass
    assert not said
    timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)


def test_the_hint_goes_to_stderr(capsys):
    backends._tell("so it is")
    assert capsys.readouterr().err == "dac_rocm: so it is\n"
    assert not platform.is_rocm()


def test_finite_results_pass():
    x = torch.ones(3)
    assert finite_or_retry(x, None, "audio") is x


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_overflow_is_computed_again_or_refused(bad):
    x = torch.tensor([1.0, bad], dtype=torch.float16)
    with pytest.warns(RuntimeWarning, match=r"audio in torch.float16 overflowed"):
        assert torch.equal(finite_or_retry(x, lambda: torch.ones(2), "audio"), torch.ones(2))
    with pytest.raises(AudioError, match=r"NaN or infinite values in audio.*expected.*doctor"):
        finite_or_retry(x, None, "audio")
    with pytest.warns(RuntimeWarning), pytest.raises(AudioError):
        finite_or_retry(x, x.float, "audio")
