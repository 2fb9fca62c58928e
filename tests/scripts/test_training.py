"""Training of the bundled models, on a small network and synthetic sound; no data needed."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from training import codebooks, data, export, loop, losses, network  # noqa: E402

from dac_rocm.config import CodecConfig  # noqa: E402

SHAPE = {"widths": (8, 8, 16), "strides": (5, 4), "z": 16, "codebooks": 3, "entries": 16}
LENGTH = 1600


def sound(seconds=4):
    t = np.arange(seconds * 16_000) / 16_000
    tone = np.sin(2 * np.pi * 200 * t) * (1 + np.sin(2 * np.pi * 3 * t))
    noise = np.random.default_rng(3).standard_normal(len(t))
    return (4000 * (tone + 0.1 * noise)).astype(np.int16)


def corpus():
    x = sound()
    return data.Corpus({"speech": [data.Recording(x, data.loud_gain(x / 32768))]})


def trainer(kind, run=None, **changes):
    net = network.Codec(network.make_config(kind, **SHAPE))
    network.start_weights(net, 0)
    some = corpus()
    network.start_as_transform(net, torch.from_numpy(some.batch(9, 0, 8, 2 * LENGTH)))
    z = net.encoder(torch.from_numpy(some.batch(9, 1, 16, LENGTH))).detach()
    points = z.transpose(1, 2).reshape(-1, z.shape[1])
    if kind == "rvq":
        codebooks.start_codebooks(net.quantizer, points, 0, rounds=2)
    else:
        network.start_gaussian(net, points)
    wanted = {"dropout_from": 5, "warmup_steps": 3, "log_every": 5, "decay_steps": 4}
    wanted = {"steps": 20, "batch": 2, "length": LENGTH, **wanted, **changes}
    plan = loop.Plan(kind=kind, **wanted)
    return loop.Trainer(net, plan, lambda step: some.batch(0, step, 2, LENGTH), run)


@pytest.fixture
def fetch():
    pytest.importorskip("soxr")
    import fetch_training_audio

    return fetch_training_audio


def test_test_clips_are_left_out_by_path(fetch, tmp_path):
    head = "source package\tsource file\n"
    (tmp_path / "MANIFEST.tsv").write_text(head + "songs 1-2\tusr/a.ogg + usr/b.ogg\n")
    given = fetch.given_sources(tmp_path / "MANIFEST.tsv")
    assert {("songs", "usr/a.ogg"), ("songs", "usr/b.ogg")} <= given
    package = next(iter(fetch.PACKAGES))
    for name in ("usr/a.ogg", "usr/c.ogg", "usr/silence/d.ogg", "usr/e.txt"):
        (tmp_path / package / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / package / name).touch()
    found = [inside for _, inside, _ in fetch.recordings(tmp_path, {(package, "usr/a.ogg")})]
    assert found == ["usr/c.ogg"]


def test_test_clips_are_left_out_by_content(fetch):
    import soxr

    rng = np.random.default_rng(0)
    envelope = np.repeat(rng.random(60), 2205)
    clip = np.cumsum(rng.standard_normal(len(envelope))) * 0.01 * envelope
    clip = (clip - np.convolve(clip, np.ones(99) / 99, "same")).astype(np.float32)
    prints = fetch.excerpts(clip, 44_100)
    longer = np.concatenate([rng.standard_normal(30_000) * 0.1, -0.3 * clip])
    again = soxr.resample(longer.astype(np.float32), 44_100, 24_000)
    assert fetch.likeness(again, 24_000, prints) > max(fetch.SAME_RECORDING.values())
    other = rng.standard_normal(len(clip)).astype(np.float32)
    assert fetch.likeness(other, 44_100, prints) < min(fetch.SAME_RECORDING.values()) / 2


def test_a_batch_depends_on_seed_and_step_alone():
    some = corpus()
    x = some.batch(1, 2, 3, LENGTH)
    assert x.shape == (3, 1, LENGTH) and x.dtype == np.float32
    assert np.array_equal(x, corpus().batch(1, 2, 3, LENGTH))
    assert not np.array_equal(x, some.batch(1, 3, 3, LENGTH))
    assert np.abs(x).max() <= 1.0


def test_the_adjoint_inverts_the_mdct():
    x = torch.randn(1, 1, 80, generator=torch.Generator().manual_seed(0))
    basis = network.mdct(4)[:, None]
    bands = torch.nn.functional.conv1d(x, basis, stride=4, padding=2)
    back = torch.nn.functional.conv_transpose1d(bands, basis, stride=4, padding=2)
    assert torch.allclose(back[..., 8:-8], x[..., 8:-8], atol=1e-5)


def test_a_new_network_is_a_transform_codec():
    made = trainer("vae")
    x = torch.from_numpy(corpus().batch(4, 0, 4, 2 * LENGTH))
    with torch.no_grad():
        assert losses.snr_loss(x, made.net(x)).mean() < -0.8  # 8 dB before any training


def test_each_codebook_leaves_less():
    net = network.Codec(network.make_config("rvq", **SHAPE))
    width = net.quantizer.quantizers[0].in_proj.in_channels
    z = torch.randn(500, width, generator=torch.Generator().manual_seed(0))
    left = codebooks.start_codebooks(net.quantizer, z, 0)
    assert left == sorted(left, reverse=True) and left[-1] < 0.6


def test_dead_entries_are_restarted():
    made = trainer("rvq")
    averages = made.averages
    asked, index = torch.ones(50, network.ENTRY_DIM), torch.zeros(50, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    before = averages.perplexity()[0]
    for _ in range(3000):
        averages.update([(asked, index)], generator, restart=False)
    assert averages.perplexity()[0] < 2 < before
    averages.update([(asked, index)], generator, restart=True)
    assert float(averages.use[0].min()) > 0.2


@pytest.mark.parametrize("kind", ["vae", "rvq"])
def test_a_run_twice_gives_equal_losses(kind):
    assert trainer(kind).train(until=6) == trainer(kind).train(until=6)


@pytest.mark.parametrize("kind", ["vae", "rvq"])
def test_stop_and_resume_equals_unbroken(kind, tmp_path):
    unbroken = trainer(kind).train()
    first = trainer(kind, tmp_path).train(until=11)
    resumed = trainer(kind, tmp_path)
    resumed.load(tmp_path / "checkpoint.pt")
    assert first + resumed.train() == unbroken
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 4


def test_training_lowers_the_loss():
    """Of the autoencoder; codebooks start at the best linear transform."""
    losses_seen = trainer("vae", steps=40, learning_rate=1e-3).train()
    assert np.mean(losses_seen[-8:]) < np.mean(losses_seen[:8])


def test_a_checkpoint_is_exported_as_the_package_reads_it(tmp_path):
    import json

    from safetensors.torch import load_file

    from dac_rocm.lowering import tensor_shapes

    made = trainer("rvq", tmp_path)
    made.train(until=2)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    digest = export.export(state, "tiny", tmp_path)
    fields = json.loads((tmp_path / "tiny.json").read_text())
    config = CodecConfig.from_dict(fields["config"])
    tensors = load_file(tmp_path / "tiny.safetensors")
    assert {n: tuple(t.shape) for n, t in tensors.items()} == tensor_shapes(config)
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert fields["license"] == "CC-BY-SA-4.0" and len(digest) == 64


def test_the_bundled_shapes_fit():
    for kind in ("rvq", "vae"):
        config = network.make_config(kind)
        net = network.Codec(config)
        assert 2 * sum(p.numel() for p in net.parameters()) < 4_000_000
        assert config.frame_rate == 50
    assert network.make_config("rvq").bitrate == 8000


def test_settings_are_written_with_a_checkpoint(tmp_path):
    made = trainer("vae", tmp_path)
    made.save(tmp_path / "checkpoint.pt")
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert loop.Plan(**state["plan"]) == made.plan
    assert dataclasses.replace(made.plan, seed=1) != made.plan


def test_tilt_keeps_power_and_dulls():
    x = np.random.default_rng(1).standard_normal(4000).astype(np.float32)
    y = data.tilt(x, 0.8)
    assert np.mean(y**2) == pytest.approx(np.mean(x**2), rel=1e-4)
    power = np.abs(np.fft.rfft(y)) ** 2
    assert power[:1000].sum() > 10 * power[1000:].sum()
    assert not data.tilt(np.zeros(10, np.float32), 0.5).any()


def test_the_intelligibility_loss_is_one_minus_stoi():
    pystoi = pytest.importorskip("pystoi")
    clean = sound(3).astype(np.float32) / 32768
    noise = np.random.default_rng(2).standard_normal(len(clean)).astype(np.float32)
    for level in (0.01, 0.05):
        x, y = (torch.from_numpy(s)[None, None] for s in (clean, clean + level * noise))
        ours = 1 - float(losses.intelligibility_loss(x, y, 16_000))
        assert ours == pytest.approx(pystoi.stoi(clean, clean + level * noise, 16_000), abs=0.05)
    assert float(losses.intelligibility_loss(x, x, 16_000)) < 0.01


def test_the_decoder_alone_is_trained():
    made = trainer("rvq", freeze_encoder=True)
    before = {n: p.detach().clone() for n, p in made.net.named_parameters()}
    made.train(until=3)
    moved = {n for n, p in made.net.named_parameters() if not torch.equal(p, before[n])}
    assert moved and all(n.startswith("decoder") for n in moved)


def test_the_use_of_entries_is_counted():
    from training import usage

    import dac_rocm

    shares = usage.shares(dac_rocm.load("tiny", device="cpu"), corpus(), 1)
    assert len(shares) == 16 and all(0 < share <= 1600 / 1024 for share in shares)
    assert shares[0] < 1  # 64 s of one sound
