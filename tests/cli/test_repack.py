import json

import pytest
from networks import noise, shared

import dac_rocm
from dac_rocm.cli.main import main
from dac_rocm.container import read_info


@pytest.fixture
def encoded(tmp_path, monkeypatch):
    """A `.dacz`, and a command that loads one model whatever its flags say."""
    model = shared("even")
    monkeypatch.setattr("dac_rocm.cli.repack.load_model", lambda *_, **__: model)
    audio = dac_rocm.encode_audio(model, noise(1, 9000).numpy(), 16000)
    dac_rocm.write_encoded(tmp_path / "a.dacz", audio)
    return tmp_path / "a.dacz"


def test_drops_codebooks(encoded, capsys):
    target = encoded.with_name("b.dacz")
    assert main(["repack", str(encoded), str(target), "--n-codebooks", "2"]) == 0
    assert "4 -> 2 codebooks" in capsys.readouterr().err
    assert read_info(target).width == 2


def test_reports(encoded, capsys):
    target = encoded.with_name("b.dac")
    assert main(["repack", str(encoded), str(target), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["file_bytes"] == target.stat().st_size


def test_a_dac_does_not_tell_its_model(encoded, capsys):
    dac, dacz = encoded.with_name("b.dac"), encoded.with_name("c.dacz")
    assert main(["repack", str(encoded), str(dac)]) == 0
    assert main(["repack", str(dac), str(dacz)]) == 1
    assert "--model" in capsys.readouterr().err
    assert main(["repack", str(dac), str(dacz), "--model", "any"]) == 0
    assert dacz.exists()


def test_an_existing_target(encoded, capsys):
    assert main(["repack", str(encoded), str(encoded)]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["repack", str(encoded), str(encoded), "--force"]) == 0
