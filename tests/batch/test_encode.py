import errno
import os

import numpy as np
import pytest
import soundfile
import torch
from networks import gaps, shared, sure

import dac_rocm
from dac_rocm.audio.files import open_audio
from dac_rocm.batch import Encoding, Pair, clips, run
from dac_rocm.batch.clips import alike, encode_clips, read_clip
from dac_rocm.batch.run import Stopped, Watch
from dac_rocm.errors import OutputError
from dac_rocm.pipeline.encoding import Options

GAP = 1e-4
"""Distance between the two nearest entries under which float32 may choose either."""


def write(folder, name, length, rate=16000, channels=1, seed=0):
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, (length, channels))
    soundfile.write(folder / name, noise, rate)
    return folder / name


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "a.wav", 4000)
    write(tmp_path, "b.wav", 9000, rate=22050, channels=2, seed=1)
    write(tmp_path, "c.flac", 4100, seed=2)
    write(tmp_path, "d.wav", 1, rate=48000)
    write(tmp_path, "e.wav", 4050, seed=3)
    return tmp_path


def pairs(folder, suffix="dacz"):
    sources = sorted(p for p in folder.iterdir() if p.suffix in (".wav", ".flac"))
    return [Pair(p, folder / "out" / f"{p.stem}.{suffix}") for p in sources]


def encode(folder, *, group=1, suffix="dacz", model="even", **options):
    jobs = pairs(folder, suffix)
    results = list(run(Encoding(model=shared(model), **options), jobs, jobs=2, group=group))
    assert {r.status for r in results} == {"done"}
    return {job.target.stem: job.target for job in jobs}


@pytest.mark.parametrize("limit", [0, clips.CLIP_VALUES], ids=["long", "short"])
@pytest.mark.parametrize("suffix", ["dacz", "dac"])
def test_bytes_are_those_of_encode_file(folder, monkeypatch, suffix, limit):
    monkeypatch.setattr(clips, "CLIP_VALUES", limit)
    for stem, path in encode(folder, suffix=suffix).items():
        alone = folder / f"alone.{suffix}"
        (source,) = (p for p in folder.glob(f"{stem}.*"))
        dac_rocm.encode_file(shared("even"), source, alone, overwrite=True)
        assert path.read_bytes() == alone.read_bytes()


@pytest.mark.parametrize("model", ["mova", "oobleck"])
def test_latents_in_batches(folder, model):
    for stem, path in encode(folder, group=5, model=model).items():
        (source,) = folder.glob(f"{stem}.*")
        alone = dac_rocm.encode_file(shared(model), source)
        found = dac_rocm.read_encoded(path)
        np.testing.assert_allclose(found.latents, alone.latents, atol=2e-5)
        assert (found.sample_rate, found.length) == (alone.sample_rate, alone.length)


def test_codes_in_batches_are_those_alone(folder):
    """The law: equal but for near ties."""
    model = shared("even")
    for stem, path in encode(folder, group=5).items():
        (source,) = folder.glob(f"{stem}.*")
        alone, found = dac_rocm.encode_file(model, source), dac_rocm.read_encoded(path)
        assert found.level == alone.level and found.codes.shape == alone.codes.shape
        audio = _leveled(model, source, alone)
        gap = gaps(model, model.encode_z(audio))
        certain = sure(gap, GAP).numpy()
        assert certain.mean() > 0.9
        np.testing.assert_array_equal(found.codes[certain], alone.codes[certain])


def _leveled(model, source, encoded):
    clip = read_clip(model, open_audio(source))
    audio = clip.audio if clip else np.zeros((1, 1), np.float32)
    factor = np.float32(10 ** (encoded.level.db / 20))
    return torch.from_numpy(audio * factor)[:, None]


def test_after_a_resume_too(folder):
    """A batch whose other members are done gives what it gives alone: the law needs no more."""
    whole = {s: p.read_bytes() for s, p in encode(folder, group=5).items()}
    (folder / "out/e.dacz").unlink()
    jobs = pairs(folder)
    encoding = Encoding(model=shared("even"), skip_existing=True)
    statuses = {r.source: r.status for r in run(encoding, jobs, group=5)}
    assert sorted(statuses.values()) == ["done", *["skipped"] * 4]
    assert statuses[str(folder / "e.wav")] == "done"
    assert len((folder / "out/e.dacz").read_bytes()) == len(whole["e"])


def test_one_bad_file_of_a_batch(folder):
    (folder / "bad.wav").write_bytes(b"no audio")
    results = {r.source: r for r in run(Encoding(model=shared("even")), pairs(folder), group=9)}
    assert [r.status for r in results.values()].count("done") == 5
    assert "cannot be decoded" in results[str(folder / "bad.wav")].error


def test_a_batch_that_fails_is_done_one_by_one(folder, monkeypatch):
    def out_of_memory(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(type(shared("even")), "encode_many", out_of_memory)
    encode(folder, group=5)


def test_batches_hold_little_padding():
    lengths = [100, 5, 104, 300, 99, 310, 6]
    batches = list(alike(lengths))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert sum(lengths[i] for i in batch) >= 0.9 * longest * len(batch)
    assert [4, 0, 2] in batches
    assert list(alike([])) == []


def test_long_audio_is_no_clip(folder, monkeypatch):
    monkeypatch.setattr(clips, "CLIP_VALUES", 4099)
    model = shared("even")
    assert read_clip(model, open_audio(folder / "a.wav")).length == 4000
    assert read_clip(model, open_audio(folder / "c.flac")) is None
    assert read_clip(model, open_audio(folder / "d.wav")) is None


def test_options_reach_the_codes(folder):
    clip = read_clip(shared("even"), open_audio(folder / "a.wav"))
    for number in (1, 2):
        for encoded in encode_clips(shared("even"), [clip] * number, Options(n_codebooks=2)):
            assert encoded.codes.shape[1] == 2
            assert encoded.source_subtype == "PCM_16"


def test_a_full_disk_ends_the_run(folder, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        list(run(Encoding(model=shared("even")), pairs(folder)))
    assert not list((folder / "out").iterdir())


@pytest.mark.parametrize("suffix", ["dacz", "dac"])
def test_stops_between_blocks(folder, monkeypatch, suffix):
    monkeypatch.setattr(clips, "CLIP_VALUES", 0)
    watch = Watch()
    watch.stop()
    with pytest.raises(Stopped):
        list(Encoding(model=shared("even"))(pairs(folder, suffix)[:1], watch))
    assert not (folder / "out").exists() or not list((folder / "out").iterdir())
