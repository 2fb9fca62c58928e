"""`dac-rocm inspect`, `convert` and `evaluate`, and `push_to_hub`."""

from __future__ import annotations

import json
from pathlib import Path

import networks as nw
import pytest
import torch

import dac_rocm
from dac_rocm.cli.main import main

KIT = Path(__file__).parents[1] / "data/reference/descript/odd/weights.pth"
CLIP = Path(__file__).parents[1] / "data/audio/choir_44k.flac"


def test_inspect(capsys):
    assert main(["inspect", str(KIT), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layout"], found["weight_norm"]) == ("descript", "legacy")
    assert (found["sample_rate"], found["hop_length"]) == (24000, 40)
    assert found["config"]["bottleneck"]["codebook_size"] == 32
    assert main(["inspect", str(KIT)]) == 0
    assert "encoder, decoder" in capsys.readouterr().out


def test_convert_there_and_back(tmp_path, capsys):
    there, back = tmp_path / "there", tmp_path / "back"
    assert main(["convert", str(KIT), str(there), "--to", "transformers"]) == 0
    assert main(["convert", str(there), str(back)]) == 0
    a, b = dac_rocm.load(KIT), dac_rocm.load(back)
    for name, tensor in a.state_dict().items():
        assert torch.equal(tensor, b.state_dict()[name]), name
    assert "tensors" in capsys.readouterr().err
    assert main(["convert", str(KIT), str(there), "--to", "transformers"]) == 1
    assert "exists already" in capsys.readouterr().err


def test_a_missing_checkpoint_is_one_line(capsys):
    assert main(["inspect", "no/such/folder/at/all"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_evaluate_a_model_and_a_pair(tmp_path, capsys):
    assert main(["evaluate", str(CLIP), "--model", str(KIT), "--n-codebooks", "1,4", "--json"]) == 0
    one, four = json.loads(capsys.readouterr().out)
    assert (one["n_codebooks"], four["n_codebooks"]) == (1, 4)
    assert four["kbps"] == pytest.approx(2 * 600 * 4 * 5 / 1000)
    assert one["si_sdr_db"] < 60
    assert main(["evaluate", str(CLIP), str(CLIP)]) == 0
    out = capsys.readouterr().out
    assert "si_sdr" in out and str(CLIP)[-20:] in out
    assert main(["evaluate", str(CLIP), str(CLIP), "--model", str(KIT)]) == 0
    assert "mean" in capsys.readouterr().out
    assert main(["evaluate", str(CLIP)]) == 1
    assert "ORIGINAL and DECODED" in capsys.readouterr().err
    assert main(["evaluate", str(CLIP), "--model", str(KIT), "--n-codebooks", "1;4"]) == 1
    assert "numbers with commas" in capsys.readouterr().err


def test_models_become_checkpoints_again(monkeypatch):
    model = nw.build("mova")
    held = model.to_checkpoint()
    assert held.parts == ("encoder", "decoder")
    again = type(model).from_checkpoint(held, device="cpu")
    x = nw.noise(1, 1, 500)
    torch.testing.assert_close(again.encode(x).mean, model.encode(x).mean, atol=2e-5, rtol=0)
    calls = []
    monkeypatch.setattr(
        "dac_rocm.pretrained.push_checkpoint",
        lambda *args, **options: calls.append((args, options)) or "address",
    )
    assert model.push_to_hub("me/mine", private=True) == "address"
    (checkpoint, repo), options = calls[0]
    assert (repo, options["private"], checkpoint.config) == ("me/mine", True, model.config)
