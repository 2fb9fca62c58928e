import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from networks import shared

from dac_rocm.batch import clips
from dac_rocm.cli.batch import share_out
from dac_rocm.cli.main import main
from dac_rocm.container import read_encoded
from dac_rocm.pipeline import encode_reader

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def one_model(monkeypatch):
    loaded = []

    def load(*_, **__):
        loaded.append(1)
        return shared("even")

    monkeypatch.setattr("dac_rocm.cli.encode.load_model", load)
    monkeypatch.setattr("dac_rocm.cli.decode.load_model", load)
    return loaded


def write(path, length=2000):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(length).uniform(-0.3, 0.3, length)
    soundfile.write(path, noise, 16000)
    return path


@pytest.fixture
def source(tmp_path):
    """The folder of bug report 34: case, collisions, a folder with a suffix."""
    folder = tmp_path / "in"
    for i, name in enumerate(("A.WAV", "a.wav", "a.flac", "deep/ünï côdé.wav", "x.wav/y.wav")):
        write(folder / name, 2000 + i)
    (folder / "notes.txt").write_text("no audio")
    (folder / "empty").mkdir()
    return folder


def encode(source, *flags):
    return main(["encode", str(source), "-o", str(source.with_name("out")), *flags])


def tree(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


WANTED = {"A.dacz", "a.wav.dacz", "a.flac.dacz", "deep/ünï côdé.dacz", "x.wav/y.dacz"}


def test_there_and_back(source, one_model, capsys):
    assert encode(source) == 0
    assert tree(source.with_name("out")) == WANTED
    assert one_model == [1]
    captured = capsys.readouterr()
    assert "5 done, 0 skipped, 0 failed of 5" in captured.err
    assert "1 files of other kinds" in captured.err
    assert captured.out == ""
    back = source.with_name("back")
    assert main(["decode", str(source.with_name("out")), "-o", str(back)]) == 0
    assert soundfile.info(back / "x.wav/y.wav").frames == 2004
    assert len(tree(back)) == 5


@pytest.mark.parametrize("flags", [["--jobs", "1"], ["--jobs", "3", "--batch", "4"]])
def test_the_number_of_jobs_changes_nothing(source, flags):
    assert encode(source, *flags) == 0
    assert tree(source.with_name("out")) == WANTED


def test_one_bad_file_is_listed(source, capsys):
    (source / "bad.wav").write_bytes(b"no audio")
    report = source.with_name("report.jsonl")
    assert encode(source, "--report", str(report)) == 1
    captured = capsys.readouterr()
    assert captured.err.count("failed: ") == 1 and f"failed: {source / 'bad.wav'}: " in captured.err
    assert tree(source.with_name("out")) == WANTED
    lines = {line["source"]: line for line in map(json.loads, report.read_text().splitlines())}
    assert len(lines) == 6
    good, bad = lines[str(source / "a.wav")], lines[str(source / "bad.wav")]
    assert good["bytes"] == (source.with_name("out") / "a.wav.dacz").stat().st_size
    assert (good["seconds"], good["status"]) == (2001 / 16000, "done") and good["elapsed"] > 0
    assert bad["status"] == "failed" and "cannot be decoded" in bad["error"]


def test_goes_on_where_it_was_stopped(source, capsys):
    assert encode(source) == 0
    before = {p: p.stat().st_mtime_ns for p in source.with_name("out").rglob("*.dacz")}
    (source.with_name("out") / "A.dacz").unlink()
    assert encode(source) == 1
    assert "4 of 5 targets" in capsys.readouterr().err
    assert encode(source, "--skip-existing", "--json") == 0
    captured = capsys.readouterr()
    assert "1 done, 4 skipped" in captured.err
    assert json.loads(captured.out)["skipped"] == 4
    after = {p: p.stat().st_mtime_ns for p in source.with_name("out").rglob("*.dacz")}
    assert sum(before[p] == after[p] for p in before) == 4
    assert encode(source, "--force") == 0


def test_dry_run(source, one_model, capsys):
    assert encode(source, "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and any(line.endswith("out/deep/ünï côdé.dacz") for line in lines)
    assert not source.with_name("out").exists() and not one_model
    assert encode(source) == 0
    for flag, word in (("--force", "overwritten"), ("--skip-existing", "skipped")):
        assert encode(source, "--dry-run", flag) == 0
        assert capsys.readouterr().out.count(f"(exists: {word})") == 5


@pytest.mark.parametrize("flags", [["--jobs", "0"], ["-o", "-"]])
def test_wrong_usage(source, flags):
    assert encode(source, *flags) == 2
    assert main(["encode", str(source)]) == 2
    assert main(["decode", str(source), "-o", "x", "--start", "1"]) == 2


def test_nothing_to_do(source, capsys):
    assert encode(source / "empty") == 2
    assert main(["decode", str(source), "-o", str(source / "out")]) == 2
    assert "6 files found" in capsys.readouterr().err


def test_several_files(source):
    inputs = [str(source / "A.WAV"), str(source / "x.wav")]
    assert main(["encode", "-o", str(source.with_name("out")), *inputs]) == 0
    assert tree(source.with_name("out")) == {"A.dacz", "x.wav/y.dacz"}


def test_a_folder_that_cannot_be_listed(source, monkeypatch, capsys):
    listed = Path.iterdir

    def refuse(path):
        if path.name == "deep":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert encode(source) == 1
    assert f"failed: {source / 'deep'}: a folder found that cannot be listed" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("number, word", [(signal.SIGINT, "stopped"), (signal.SIGTERM, "termin")])
def test_stopped_in_the_middle_of_a_file(source, monkeypatch, capsys, number, word):
    monkeypatch.setattr(clips, "CLIP_VALUES", 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    parts = []

    def interrupted(model, reader, file, *rest):
        parts.extend(source.with_name("out").rglob("*.part"))
        os.kill(os.getpid(), number)
        assert reader.source._watch._event.wait(10)
        return encode_reader(model, reader, file, *rest)

    monkeypatch.setattr("dac_rocm.batch.encode.encode_reader", interrupted)
    assert encode(source, "--jobs", "1") == 128 + number
    err = capsys.readouterr().err
    assert word in err and "0 done" in err
    assert len(parts) == 1 and not tree(source.with_name("out"))


def test_a_full_disk(source, monkeypatch, capsys):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert encode(source) == 1
    err = capsys.readouterr().err
    assert err.count("No space left") == 1 and "Free some space" in err
    assert not tree(source.with_name("out"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_small_disk(source, capsys):
    disk = source.with_name("out")
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        assert encode(source, "--jobs", "1") == 1
        assert "No space left" in capsys.readouterr().err
        assert all(read_encoded(path).length for path in disk.rglob("*.dacz"))
        assert not list(disk.rglob("*.part"))
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_report_that_cannot_be_written(source, capsys):
    assert encode(source, "--report", str(source)) == 1
    assert "a path for the report is expected" in capsys.readouterr().err


def test_threads_are_as_before(source):
    before = torch.get_num_threads()
    assert encode(source, "--jobs", "1") == 0
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    "jobs, files, device, expected",
    [
        (None, 100, "cpu", (8, 1)),
        (None, 3, "cpu", (3, 2)),
        (2, 100, "cpu", (2, 4)),
        (16, 100, "cpu", (16, 1)),
        (None, 0, "cpu", (1, 8)),
        (None, 100, "cuda", (4, 2)),
    ],
)
def test_cores_are_shared_out(monkeypatch, jobs, files, device, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert share_out(jobs, files, device) == expected


class Terminal:
    """A stderr that says it is a terminal."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def isatty(self):
        return True


def test_a_bar_on_a_terminal(source, monkeypatch, capsys):
    (source / "cut.wav").write_bytes((source / "a.wav").read_bytes()[:-100])
    monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    assert encode(source) == 0
    err = capsys.readouterr().err
    assert "6/6" in err and "x real time" in err
    assert "warning: found" in err  # above the bar


def test_lines_in_a_log(source, monkeypatch, capsys):
    monkeypatch.setattr("dac_rocm.cli.tally.LOG_SECONDS", 0)
    assert encode(source) == 0
    assert "5 of 5 files, 0 failed" in capsys.readouterr().err


def command(*arguments):
    return [sys.executable, "-m", "dac_rocm", *map(str, arguments)]


def test_two_processes_on_one_folder(tmp_path):
    for i in range(30):
        write(tmp_path / f"in/{i:02}.wav", 1600 + i)
    arguments = command("encode", tmp_path / "in", "-o", tmp_path / "out", "--skip-existing")
    both = [subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate(timeout=120)[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert tree(tmp_path / "out") == {f"{i:02}.dacz" for i in range(30)}
    for i in range(30):
        assert read_encoded(tmp_path / f"out/{i:02}.dacz").length == 1600 + i


def test_soak():
    """A hundred files, and a SIGKILL; scripts/soak alone does two thousand, and three."""
    soak = [sys.executable, ROOT / "scripts/soak.py", "--files", "100", "--kills", "1"]
    done = subprocess.run(soak, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "95 good files once and whole, 5 bad ones listed, nothing else" in done.stdout
