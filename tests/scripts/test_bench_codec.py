"""The bench of the codec: its input, its judgement, its count of work, its page, a small run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import networks
import numpy as np
import pytest
import torch
from kits import COPIES, load
from torch.utils.flop_counter import FlopCounterMode

import dac_rocm
from dac_rocm.lowering import lower_decoder, lower_encoder
from dac_rocm.presets import preset

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "scripts/bench"
sys.path.insert(0, str(BENCH))

from peers import extras, prepare, rate, report, session  # noqa: E402
from peers.session import Half, Row, judge  # noqa: E402

SECONDS = 0.3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Weights, input and truth of a small network that every peer can express."""
    path = tmp_path_factory.mktemp("bench")
    prepare.prepare(path, "kit", load(COPIES / "descript/even/weights.pth").config, SECONDS)
    return path


def test_the_network_is_sane_and_the_truth_is_true(folder):
    facts = json.loads((folder / "facts.json").read_text())
    assert facts["spread_of_codes"] > 0.3 and 0.2 < facts["audio_peak"] <= 1.0
    model = dac_rocm.load(folder / "canonical", optimize=False)
    audio = torch.from_numpy(np.load(folder / "input.npy"))
    assert audio.shape[-1] % model.hop_length == 0
    assert 0.02 < audio.std() < 0.5
    codes, heard = np.load(folder / "true_data.npy"), np.load(folder / "true_audio.npy")
    assert heard.dtype == np.float64
    assert np.mean(model.encode(audio).numpy() == codes) > 0.99
    np.testing.assert_allclose(model.decode(torch.from_numpy(codes)), heard, rtol=0, atol=1e-4)
    assert 0.1 < model.encode_z(audio).std() < 3


def test_a_vae_has_latents_and_no_other_readers(tmp_path):
    prepare.prepare(tmp_path, "meta", networks.CONFIGS["meta"], 0.05)
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["kind"] == "latents" and "spread_of_codes" not in facts
    assert np.load(tmp_path / "true_data.npy").dtype == np.float64
    assert not (tmp_path / "descript").exists()


def test_an_unknown_model_is_refused():
    assert prepare.config_of("dac-44khz") == preset("dac-44khz").config
    assert prepare.config_of("tiny").sample_rate == 16000
    with pytest.raises(SystemExit, match="nothing"):
        prepare.config_of("nothing")


@pytest.mark.parametrize("name", ["even", "odd", "meta_odd"])
def test_work_is_what_torch_counts(name):
    model = networks.shared(name)
    audio = torch.zeros(1, model.config.audio_channels, 7 * model.hop_length)
    z = torch.zeros(1, model.config.decoder.in_channels, 7)
    for half, x in (("encoder", audio), ("decoder", z)):
        with FlopCounterMode(display=False) as counter:
            model.get_submodule(half)(x)
        assert 2 * rate.multiply_adds(model.steps(half), x.shape[-1]) == counter.get_total_flops()


def test_work_of_the_44khz_network():
    config = preset("dac-44khz").config
    encode = 2 * rate.multiply_adds(lower_encoder(config), 44100)
    decode = 2 * rate.multiply_adds(lower_decoder(config), 44100 // 512)
    assert encode == pytest.approx(60e9, rel=0.03) and decode == pytest.approx(138e9, rel=0.03)
    shapes = rate.unit_shapes((*lower_encoder(config), *lower_decoder(config)))
    assert {dilation for _, dilation in shapes} == {1, 3, 9} and (768, 9) in shapes


def test_the_best_rate_is_a_rate():
    assert 1e7 < rate.best_rate(16, 3, torch.float32) < 1e13


CODES = np.arange(200).reshape(1, 2, 100)
SOUND = np.sin(np.arange(100.0)).reshape(1, 1, -1)


def test_codes_are_judged():
    found = Half()
    judge(found, CODES, CODES, "float32")
    assert found.share == 1.0 and not found.problem
    found = Half()
    judge(found, np.where(CODES < 3, 9, CODES), CODES, "float32")
    assert found.share == 0.985 and found.problem == "98.5% of the codes are right"
    found = Half()
    judge(found, np.where(CODES < 3, 9, CODES), CODES, "bfloat16")
    assert not found.problem


@pytest.mark.parametrize("dtype, small, large", [("float32", 5e-5, 5e-4), ("bfloat16", 0.1, 0.3)])
def test_audio_is_judged(dtype, small, large):
    peak = np.abs(SOUND).max()
    for error, is_wrong in ((small, False), (large, True), (np.nan, True)):
        found = Half()
        judge(found, SOUND + error * peak, SOUND, dtype)
        assert bool(found.problem) is is_wrong
    found = Half()
    judge(found, 1.01 * SOUND, SOUND, "bfloat16")
    assert found.snr_db == pytest.approx(40.0) and found.error == pytest.approx(0.01)


def test_another_length_is_wrong():
    found = Half()
    judge(found, SOUND[..., 1:], SOUND, "float32")
    assert found.problem == "shape (1, 1, 99) found, (1, 1, 100) expected"


def test_packages_side_by_side(folder, monkeypatch):
    python_of = session.python_of
    absent = str(folder / "no_python")
    monkeypatch.setattr(
        session, "python_of", lambda name: absent if name == "onnx" else python_of(name)
    )
    ours, lost, broken = session.compare(folder, ["ours", "onnx", "ours-unknown"], 2, 1)
    for half in ("encode", "decode"):
        found = ours.halves[half]
        assert len(found.times) == 2 and found.seconds > 0 and not found.problem
        assert found.peak >= ours.loaded > 1e7
        assert "No such file" in lost.halves[half].problem and lost.halves[half].seconds is None
        assert broken.halves[half].problem == "the process ended"
    assert ours.halves["encode"].share > 0.99 and ours.halves["decode"].error < 1e-4
    assert ours.version == dac_rocm.__version__


def test_what_only_ours_is_asked(folder, monkeypatch, capsys):
    flags = ["--rounds", "1", "--threads", "1", "--long", "0.6", "--frames", "2", "5"]
    found = {}
    for section in ("lengths", "streaming", "rate"):
        monkeypatch.setattr(sys, "argv", ["extras", section, str(folder), *flags])
        extras.main()
        found[section] = json.loads(capsys.readouterr().out)
    assert set(found["lengths"]["seconds_per_second"]) == {"1", found["lengths"]["base"], "0.6"}
    streaming = found["streaming"]
    assert set(streaming["seconds"]) == {"whole", "2", "5"}
    assert all(error < 1e-4 for error in streaming["errors"].values())
    rates = found["rate"]
    assert rates["best"] == max(rates["by_channels_and_dilation"].values())
    assert 0 < rates["ours"]["decode"] < rates["best"]
    data = {"machine": "a processor", "threads": 1, "rate": [rates]}
    text = report.markdown({**data, "lengths": found["lengths"], "streaming": streaming})
    assert "| 0.6 |" in text and "| whole | 1.00 |" in text and "GFLOP/s" in text


def row_of(name, seconds, problem=""):
    half = {"seconds": seconds, "share": 1.0, "error": 2e-6, "snr_db": 110.0, "problem": problem}
    return {
        "name": name,
        "version": "1.2",
        "loaded": 10**8,
        "halves": {h: {**half, "peak": 3 * 10**8} for h in ("encode", "decode")},
    }


def test_no_time_is_shown_where_the_result_is_wrong(tmp_path):
    facts = {"model": "dac-44khz", "seconds": 10.0, "kind": "codes", "rounds": 3}
    rows = [row_of("ours", 2.0), row_of("onnx", 5.0), row_of("descript", None, "error of 1.0e+00")]
    data = {"machine": "a processor", "threads": 2}
    data |= {"table": {"facts": facts, "rows": rows}}
    data |= {"gains": [{"facts": facts, "rows": [row_of("ours", 2.0), row_of("ours-plain", 6.0)]}]}
    data |= {"cold": {"import_torch": 2.0, "read_weights": 0.5, "load": 1.0, "first_encode": 0.7}}
    text = report.markdown(data)
    onnx, descript = (next(x for x in text.splitlines() if n in x) for n in ("ONNX", "descript"))
    assert onnx.startswith("| ONNX Runtime 1.2 | 5.00 | 2.50 | 5.00 | 2.50 | 100.00% | 2.0e-06 |")
    assert onnx.endswith("| 300 (+200) | 300 (+200) |")
    assert "not shown: error of 1.0e+00 | - |" in descript
    assert "| `dac-44khz` | 10 | 2.00 | 2.00 | 3.00 | 3.00 |" in text
    assert "add 1.20 s to them" in text
    path = tmp_path / "page.md"
    path.write_text(f"before\n{report.START}\nold\n{report.END}\nafter\n")
    report.write_part(path, text)
    report.write_part(path, text)
    assert path.read_text() == f"before\n{report.START}\n{text}{report.END}\nafter\n"
    path.write_text("nothing")
    with pytest.raises(SystemExit, match="bench:start"):
        report.write_part(path, text)


def test_the_script(folder, tmp_path):
    place = tmp_path / "kit"
    place.symlink_to(folder)
    facts = json.loads((folder / "facts.json").read_text())
    assert facts["asked_seconds"] == SECONDS
    flags = ["--model", "kit", "--seconds", str(SECONDS), "--threads", "1", "--rounds", "1"]
    (tmp_path / "found.json").write_text('{"threads": 9, "rate": []}')
    flags += [
        "--keep",
        "--only",
        "table,cold",
        "--peers",
        "ours,ours-bfloat16",
        "--dtype",
        "float32",
    ]
    done = subprocess.run(
        [BENCH / "codec.py", *flags, "--folder", tmp_path, "--json", tmp_path / "found.json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| dac_rocm | " in done.stdout and "bfloat16" not in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rate"] == [] and found["threads"] == 1
    (row,) = found["table"]["rows"]
    assert row["halves"]["encode"]["seconds"] > 0 and found["cold"]["load"] > 0


@pytest.mark.parametrize("flag", ["--only", "--peers"])
def test_an_unknown_word_is_refused(flag):
    command = [BENCH / "codec.py", flag, "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "nothing found; some of" in done.stderr


@pytest.mark.peers
@pytest.mark.parametrize("name", ["descript", "transformers", "onnx", "openvino"])
def test_others_compute_the_same(folder, name):
    if not Path(session.python_of(name)).exists():
        pytest.skip("scripts/peers has not made the environment")
    if name in ("onnx", "openvino"):
        if not Path(session.python_of("onnx")).exists():
            pytest.skip("scripts/peers has not made the environment of onnx")
        subprocess.run(
            [session.python_of("onnx"), "-W", "ignore", "-m", "peers.export", folder],
            check=True,
            env=session.environment(1),
        )
    (row,) = session.compare(folder, [name], 1, 1)
    assert not any(half.problem for half in row.halves.values()), row
    assert row.halves["encode"].share > 0.99 and row.halves["decode"].error < 1e-4
    assert row.version


def test_rows_know_their_type():
    assert Row("openvino-bfloat16").dtype == "bfloat16" and Row("ours-plain").dtype == "float32"
