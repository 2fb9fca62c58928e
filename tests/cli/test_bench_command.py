"""`dac-rocm bench` measures every way there is, and says what a type of number costs."""

from __future__ import annotations

import json
import math

import networks
import pytest
import torch

from dac_rocm import bench as room
from dac_rocm.bench import Speed, measure, snr_db
from dac_rocm.cli.main import main
from dac_rocm.errors import BackendError, ShapeError

SHAPES = {"codes": "even", "latents": "meta"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    for kind, shape in SHAPES.items():
        made[kind] = tmp_path_factory.mktemp(kind)
        networks.build(shape).save_pretrained(made[kind])
    return made


@pytest.fixture(autouse=True)
def one_run(monkeypatch):
    monkeypatch.setattr(room, "MOST_RUNS", 1)
    monkeypatch.setattr(room.platform, "cpu_has_bfloat16", lambda: True)


@pytest.mark.parametrize("kind", SHAPES)
def test_every_way_is_measured(folders, kind):
    report = measure(folders[kind], devices=["cpu"], pushes=[0.01, 9.0], seconds=0.1)
    ways = [(s.device, s.dtype, s.push_seconds) for s in report.speeds]
    assert ways == [("cpu", d, p) for d in ("float32", "bfloat16") for p in (None, 0.01)]
    assert all(s.encode > 0 and s.decode > 0 for s in report.speeds)
    assert set(report.devices) == {"cpu"}
    (accuracy,) = report.accuracies
    assert accuracy.dtype == "bfloat16" and 10 < accuracy.audio_db < 60
    if kind == "codes":
        assert 0 < accuracy.equal_codes <= 1 and accuracy.latents_db is None
    else:
        assert accuracy.equal_codes is None and 10 < accuracy.latents_db < 60
    for name in ("device", "network on cpu in bfloat16", "decoder push on cpu in float32"):
        assert report.choices[name].reason


def test_pieces_give_what_the_whole_gives(folders):
    model = room.load(folders["codes"], device="cpu")
    audio, data, heard = room._reference(model, 0.1)
    assert torch.equal(room._data(room._encode(model, audio, 0.01)), data)
    torch.testing.assert_close(room._decode(model, data, 0.01), heard, atol=1e-5, rtol=0)


def test_a_push_is_timed_on_few_of_them(folders, monkeypatch):
    model = room.load(folders["codes"], device="cpu")
    audio, data, _ = room._reference(model, 2.0)
    lengths = []
    monkeypatch.setattr(room, "_decode", lambda _, data, push: lengths.append(data.shape[-1]))
    monkeypatch.setattr(room, "_encode", lambda _, audio, push: audio)
    speed = room._speed(model, ("cpu", "float32"), 0.02, audio, data)
    assert max(lengths) == round(20 * 0.02 * model.config.frame_rate) + 1 < data.shape[-1]
    assert speed.push_seconds == 0.02


def test_a_slow_call_is_not_repeated(monkeypatch):
    monkeypatch.setattr(room, "SLOW_SECONDS", 0.0)
    calls = []
    assert room._seconds_of(lambda: calls.append(1)) > 0
    assert len(calls) == 1


def test_snr():
    truth = torch.ones(100)
    assert snr_db(truth, truth) == math.inf
    assert snr_db(1.1 * truth, truth) == pytest.approx(20.0, abs=1e-4)


def test_what_a_user_should_know():
    speeds = [
        Speed("cpu", "float32", None, 4.0, 4.0),
        Speed("cpu", "bfloat16", None, 2.0, 4.0),
        Speed("cpu", "bfloat16", 0.1, 2.0, 0.5),
        Speed("cuda:0", "bfloat16", None, 2.0, 2.0),
    ]
    assert speeds[0].round_trip == 2.0
    slower, stutters = room._findings(speeds)
    assert slower.startswith("bfloat16 is slower than float32 on cpu (1.33 to 2.00 times")
    assert "0.1 s per push, is slower than real time (0.50)" in stutters
    assert room._findings(speeds[:1]) == []


@pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"seconds": math.nan}, {"pushes": [-1.0]}])
def test_lengths_are_checked(wrong):
    with pytest.raises(ShapeError, match="a positive length is expected"):
        measure("tiny", **wrong)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(BackendError, match="toaster"):
        measure("tiny", devices=["toaster"])


def test_the_command(folders, capsys):
    flags = ["--device", "cpu", "--seconds", "0.1", "--chunk-seconds", "0.02"]
    arguments = ["bench", "--model", str(folders["codes"]), *flags]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "network on cpu in float32: cpu (" in text
    assert "cpu, bfloat16       0.02 s" in text and "of the codes equal" in text
    assert main([*arguments, "--dtype", "float32", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [way["push_seconds"] for way in data["times_real_time"]] == [None, 0.02]
    assert data["beside_float32_on_the_cpu"] == [] and data["choices"]["dtype"]["name"]


def test_latents_and_warnings_in_words(folders, capsys, monkeypatch):
    monkeypatch.setattr(room, "_findings", lambda speeds: ["something is slow"])
    flags = ["--device", "cpu", "--dtype", "bfloat16", "--seconds", "0.1"]
    assert main(["bench", "--model", str(folders["latents"]), *flags]) == 0
    captured = capsys.readouterr()
    assert "latents " in captured.out and "warning: something is slow" in captured.err
