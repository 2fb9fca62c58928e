"""`dac-rocm tokenize` and `detokenize`, as one calls them."""

import argparse
import json

import pytest
import torch
from corpora import wav, write_folder

from dac_rocm.cli import tokenize as command
from dac_rocm.cli.main import main
from dac_rocm.distributed import Local, OnRay, Summary


@pytest.fixture
def source(tmp_path):
    return write_folder(tmp_path / "in", 9)


def call(*argv):
    return main([str(part) for part in argv])


def test_there_and_back(source, saved, tmp_path, capsys):
    flags = ["--model", saved, "--shard-size", 4, "--device", "cpu", "--workers", 1]
    assert call("tokenize", source, tmp_path / "out", *flags, "--json") == 1
    output = capsys.readouterr()
    report = json.loads(output.out)
    assert (report["done"], report["made"], report["skipped"]) == (8, 3, 0)
    assert "failed: 00/00007.wav: found audio that cannot be decoded" in output.err
    assert "8 done, 1 failed of 9 items; 3 shards made, 0 there before, of 3" in output.err
    assert "hours per hour; 1 workers" in output.err
    assert call("tokenize", source, tmp_path / "out", *flags) == 1
    assert "0 shards made, 3 there before" in capsys.readouterr().err

    back = ["detokenize", tmp_path / "out", tmp_path / "back", "--workers", 1]
    assert call(*back) == 0
    assert len(list((tmp_path / "back").rglob("*.wav"))) == 8
    assert call(*back) == 1  # nothing is overwritten
    assert call(*back, "--skip-existing") == 0
    (tmp_path / "out/shard-000000.parquet").unlink()
    capsys.readouterr()
    assert call(*back, "--force") == 0
    assert "1 of 3 shards are not there yet" in capsys.readouterr().err


def test_another_plan_is_refused(source, saved, tmp_path, capsys):
    flags = ["--model", saved, "--workers", 1]
    call("tokenize", source, tmp_path / "out", *flags)
    capsys.readouterr()
    assert call("tokenize", source, tmp_path / "out", *flags, "--n-codebooks", 2) == 1
    assert "n_codebooks was None, and is 2" in capsys.readouterr().err


def test_a_limit_stops_and_says_so(tmp_path, saved, capsys):
    for i in range(50):
        (tmp_path / f"{i}.wav").write_bytes(b"broken")
    flags = ["--model", saved, "--workers", 1, "--shard-size", 30, "--max-failures", 29]
    assert call("tokenize", tmp_path, tmp_path / "out", *flags) == 1
    output = capsys.readouterr().err
    assert "stopped: more failures than --max-failures 29" in output
    assert output.count("failed: ") == command.LISTED and "and 10 more" in output


def test_shards_lie_inside_their_source(tmp_path, saved):
    """A run goes on there, and does not take its own shards for items."""
    (tmp_path / "a.wav").write_bytes(wav(0))
    argv = ["tokenize", tmp_path, tmp_path / "tokens", "--model", saved, "--workers", 1]
    assert call(*argv) == call(*argv) == 0


def arguments(*argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    command.add_engine_flags(parser)
    return parser.parse_args(argv)


def test_flags_choose_the_engine():
    assert command.make_engine(arguments("--workers", "3")).workers == 3
    engine = command.make_engine(
        arguments("--engine", "ray", "--address", "a:1", "--num-gpus", "0.5", "--threads", "2")
    )
    assert isinstance(engine, OnRay)
    assert (engine.workers, engine.threads, engine.gpus) == (None, 2, 0.5)
    assert engine.address == "a:1"


@pytest.mark.parametrize("device, workers", [("cpu", 4), ("auto", 4), ("cuda", 1)])
def test_a_machine_is_filled_by_processes_or_by_one_gpu(monkeypatch, device, workers):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    engine = command.make_engine(arguments("--device", device, "--threads", "2"))
    assert isinstance(engine, Local) and engine.workers == workers


def test_names_stay_names_and_paths_become_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "tiny").mkdir()
    args = argparse.Namespace(
        subfolder=None, revision=None, offline=False, model_rate=None, device="cpu", snake="auto"
    )
    sources = [command.load_options(args, name)["source"] for name in ("tiny", "model", "org/x")]
    assert sources == ["tiny", str(tmp_path / "model"), "org/x"]


def test_progress_is_said_now_and_then(monkeypatch, capsys):
    summary = Summary(shards=4, items=40, skipped=1, made=1, seconds=7200.0, elapsed=10.0)
    progress = command.Progress()
    progress(summary)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(command, "LOG_SECONDS", 0.0)
    progress(summary)
    assert capsys.readouterr().err == (
        "2 of 4 shards, 0 failed items, 720.0 hours of audio per hour, 20 s left\n"
    )
