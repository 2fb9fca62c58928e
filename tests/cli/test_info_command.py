"""`dac-rocm info`, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import networks as nw
import pytest

from dac_rocm.cli.main import main
from dac_rocm.container import write_encoded
from dac_rocm.pipeline import encode_audio

DAC = Path(__file__).parents[1] / "data" / "descript_files" / "mono_chunked_nq2.dac"


@pytest.fixture
def path(tmp_path):
    model = nw.shared("even")
    write_encoded(tmp_path / "x.dacz", encode_audio(model, nw.noise(2, 8000).numpy(), 16000))
    return tmp_path / "x.dacz"


def test_all_facts(path, capsys):
    assert main(["info", "--json", str(path)]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    model = nw.shared("even")
    assert facts["file"] == str(path)
    assert facts["model"] == "even-0"
    assert facts["fingerprints"] == dict(model.stamp.fingerprints)
    wanted = {
        "container": "dacz",
        "kind": "codes",
        "model_rate": 16000,
        "sample_rate": 16000,
        "hop_length": 32,
        "channels": 2,
        "rows": 2,
        "width": 4,
        "codebook_size": 32,
        "frames": 250,
        "length": 8000,
        "seconds": 0.5,
        "file_bytes": path.stat().st_size,
        "source_subtype": "FLOAT",
    }
    assert {k: facts[k] for k in wanted} == wanted
    assert facts["kbps"] == pytest.approx(8e-3 * path.stat().st_size / 0.5, abs=1e-3)
    assert facts["level"].startswith("gain ")


def test_descripts_file(capsys):
    assert main(["info", "--json", str(DAC)]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert (facts["container"], facts["version"], facts["model"]) == ("dac", "1.0.0", "unknown")
    assert facts["chunk_frames"] == 58
    assert facts["level"] == "loudness -16.56 dB"
    assert "hop_length" not in facts


def test_for_people(path, capsys):
    assert main(["info", str(path), str(DAC)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == str(path)
    assert str(DAC) in out
    assert "  model           even-0" in out


def test_goes_on_after_a_bad_file(path, tmp_path, capsys):
    (tmp_path / "bad").write_bytes(b"12345678" * 9)
    assert main(["info", str(tmp_path / "no"), str(tmp_path / "bad"), str(path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == str(path)
    assert [line.split(":")[0] for line in err.splitlines()] == ["error", "error"]
    assert main(["info", "--json", str(tmp_path / "no"), str(path)]) == 1
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_names_a_missing_file_once(tmp_path, capsys):
    assert main(["info", str(tmp_path / "no")]) == 1
    assert capsys.readouterr().err.count("no such") <= 1
