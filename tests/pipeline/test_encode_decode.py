"""Files and arrays through a model: level, rate, channels, parts, other models, faults."""

from __future__ import annotations

import dataclasses

import networks as nw
import numpy as np
import pytest
import torch
from tolerances import CODES_GAP_RESAMPLED, CUT, GAIN_DB, PCM16

import dac_rocm
from dac_rocm.audio.files import read_audio
from dac_rocm.audio.loudness import MAX_GAIN_DB, loudness
from dac_rocm.audio.writer import create_audio
from dac_rocm.encoded import Gain, Loudness
from dac_rocm.errors import AudioError, ContainerError, OutputError, ShapeError
from dac_rocm.pipeline import encode, encoding
from dac_rocm.pipeline.level import descript, normalizing


def sound(rate, seconds=1.0, channels=1, level=0.1, seed=0):
    """Coloured noise [C, T] that swells, float32."""
    rng = np.random.default_rng(seed)
    n = round(rate * seconds)
    noise = rng.standard_normal((channels, n)).cumsum(1)
    noise -= noise.mean(1, keepdims=True)
    noise = noise / np.abs(noise).max() + 0.3 * rng.standard_normal((channels, n))
    return (level * noise * (0.5 + 0.5 * np.sin(np.linspace(0, 9, n)))).astype(np.float32)


def write(path, audio, rate, subtype="float32"):
    with create_audio(path, rate, audio.shape[0], subtype=subtype) as writer:
        writer.write(audio)
    return path


@pytest.mark.parametrize("shape", ["odd", "meta", "oobleck"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 44100, 44056])
def test_files_arrays_and_containers_agree(shape, channels, rate, tmp_path):
    model, audio = nw.shared(shape), sound(rate, 0.7, channels)
    source = write(tmp_path / "in.wav", audio, rate)
    kept = dac_rocm.encode_file(model, source)
    array = dac_rocm.encode_audio(model, torch.from_numpy(audio), rate)
    np.testing.assert_array_equal(kept.data, array.data)
    assert kept.level == array.level
    summary = dac_rocm.encode_file(model, source, tmp_path / "out.dacz")
    stored = dac_rocm.read_encoded(tmp_path / "out.dacz")
    np.testing.assert_array_equal(stored.data, kept.data)
    assert stored.length == audio.shape[1] and stored.source_subtype == "FLOAT"
    assert summary.file_bytes == (tmp_path / "out.dacz").stat().st_size
    assert summary.kbps == pytest.approx(8e-3 * summary.file_bytes / 0.7, rel=1e-3)
    done = dac_rocm.decode_file(model, tmp_path / "out.dacz", tmp_path / "out.wav")
    decoded, out_rate = dac_rocm.decode_audio(model, stored)
    written, _ = read_audio(tmp_path / "out.wav")
    assert out_rate == rate and decoded.shape == audio.shape
    assert done.subtype == "float32" and done.peak == pytest.approx(np.abs(written).max())
    np.testing.assert_allclose(written, decoded, atol=CUT)


def test_one_dimension_is_mono_and_integers_are_refused():
    model = nw.shared("even")
    audio = sound(16000, 0.2)
    flat = dac_rocm.encode_audio(model, audio[0], 16000)
    np.testing.assert_array_equal(flat.data, dac_rocm.encode_audio(model, audio, 16000).data)
    for bad in (np.zeros(99, np.int16), torch.zeros(99, dtype=torch.int16), np.zeros((1, 1, 9))):
        with pytest.raises(ShapeError, match="a float array"):
            dac_rocm.encode_audio(model, bad, 16000)


def test_the_gain_rule():
    model = nw.shared("even")
    quiet, silent = sound(16000, level=1e-5), np.zeros((1, 8000), np.float32)
    normal = dac_rocm.encode_audio(model, sound(16000), 16000).level
    assert normal.db == pytest.approx(-16 - loudness(sound(16000), 16000), abs=0.01)
    assert dac_rocm.encode_audio(model, quiet, 16000).level.db <= MAX_GAIN_DB
    assert dac_rocm.encode_audio(model, silent, 16000).level == Gain(0.0)
    assert dac_rocm.encode_audio(model, sound(16000), 16000, loudness=False).level == Gain(0.0)
    assert dac_rocm.encode_audio(model, sound(16000), 16000, gain_db=-3.0).level == Gain(-3.0)
    assert dac_rocm.encode_audio(nw.shared("mova"), sound(48000), 48000).level == Gain(0.0)


def test_the_gain_is_undone():
    """Two gains, the same codes: the audio differs by the gains."""
    model, audio = nw.shared("even"), sound(16000)
    a = dac_rocm.encode_audio(model, audio, 16000, gain_db=0.0)
    b = dataclasses.replace(a, level=Gain(6.0))
    x, y = (dac_rocm.decode_audio(model, e)[0] for e in (a, b))
    ratio_db = 20 * np.log10(np.abs(x).sum() / np.abs(y).sum())
    assert ratio_db == pytest.approx(6.0, abs=GAIN_DB)


def test_channels_keep_their_balance_before_the_encoder():
    """One gain for all channels: left at 0 dB, right at −20 dB, or silent."""
    left = sound(16000, channels=1)
    for ratio in (0.1, 0.0):
        leveling = normalizing([np.concatenate([left, ratio * left])], 16000, 2)
        assert leveling.factor[0] == leveling.factor[1]
    peaky = np.concatenate([0.2 * left, left])
    peaky[0, 100] = 1.0
    scaled = descript([peaky], 16000, 2)
    assert np.abs(peaky * scaled.factor).max() <= 1 + 1e-6
    assert isinstance(scaled.level, Loudness)


def test_six_channels_in_order(tmp_path):
    model = nw.shared("even")
    audio = np.concatenate([sound(16000, 0.3, seed=i) for i in range(6)])
    encoded = dac_rocm.encode_audio(model, audio, 16000, loudness=False)
    assert encoded.data.shape[0] == 6
    alone = dac_rocm.encode_audio(model, audio[4], 16000, loudness=False)
    assert (encoded.data[4] == alone.data[0]).mean() > 0.99
    decoded, _ = dac_rocm.decode_audio(model, encoded)
    assert decoded.shape == audio.shape


def test_channels_that_a_stereo_model_does_not_take():
    model = nw.shared("oobleck")
    with pytest.raises(ShapeError, match=r"3 channels found; this model takes 2"):
        dac_rocm.encode_audio(model, sound(44100, 0.1, 3), 44100)
    mono = dac_rocm.encode_audio(model, sound(44100, 0.1), 44100)
    assert mono.data.shape[0] == 1 and mono.channels == 1
    assert dac_rocm.decode_audio(model, mono)[0].shape == (1, 4410)


@pytest.mark.parametrize("shape", ["odd", "mova"])
@pytest.mark.parametrize("rate", [24000, 44100, 44056])
def test_a_part_equals_the_cut_of_the_whole(shape, rate, tmp_path):
    model = nw.shared(shape)
    source = write(tmp_path / "in.wav", sound(rate, 3.0, 2), rate)
    dac_rocm.encode_file(model, source, tmp_path / "x.dacz")
    dac_rocm.decode_file(model, tmp_path / "x.dacz", tmp_path / "all.wav", subtype="float32")
    whole, _ = read_audio(tmp_path / "all.wav")
    for start, stop in ((0.0, 0.5), (1.234, 1.9), (2.5, None), (None, 0.01), (1.0, 99.0)):
        dac_rocm.decode_file(
            model,
            tmp_path / "x.dacz",
            tmp_path / "part.wav",
            start=start,
            stop=stop,
            subtype="float32",
            overwrite=True,
        )
        part, _ = read_audio(tmp_path / "part.wav")
        a = round((start or 0) * rate)
        b = whole.shape[1] if stop is None else min(whole.shape[1], round(stop * rate))
        assert part.shape[1] == b - a
        np.testing.assert_allclose(part, whole[:, a:b], atol=CUT)


@pytest.mark.parametrize(
    "part", [(-1.0, 1.0), (2.0, 1.0), (0.5, 0.5), (9.0, None), (float("nan"), 1)]
)
def test_parts_that_are_none(part, tmp_path):
    model = nw.shared("even")
    source = write(tmp_path / "in.wav", sound(16000), 16000)
    dac_rocm.encode_file(model, source, tmp_path / "x.dacz")
    with pytest.raises(ShapeError, match="Mend start and stop"):
        dac_rocm.decode_file(
            model, tmp_path / "x.dacz", tmp_path / "y.wav", start=part[0], stop=part[1]
        )
    assert not (tmp_path / "y.wav").exists()


def test_a_part_of_a_dac_file_has_the_level_of_the_whole(tmp_path):
    model = nw.shared("even")
    source = write(tmp_path / "in.wav", sound(16000, 2.0), 16000)
    dac_rocm.encode_file(model, source, tmp_path / "x.dac")
    whole, _ = dac_rocm.decode_audio(model, dac_rocm.read_encoded(tmp_path / "x.dac"))
    dac_rocm.decode_file(
        model, tmp_path / "x.dac", tmp_path / "y.wav", start=0.5, stop=1.0, subtype="float32"
    )
    part, _ = read_audio(tmp_path / "y.wav")
    np.testing.assert_allclose(part, whole[:, 8000:16000], atol=CUT)
    assert loudness(whole, 16000) == pytest.approx(loudness(read_audio(source)[0], 16000), abs=0.05)


def test_the_size_of_a_push_changes_nothing(tmp_path):
    model = nw.shared("even")
    source = write(tmp_path / "in.wav", sound(44100, 2.0, 2), 44100)
    wanted = dac_rocm.encode_file(model, source)
    for tile in (model.hop_length, 1000, 7 * model.hop_length):
        found = dac_rocm.encode_file(model, source, tile=tile)
        assert (found.data == wanted.data).mean() > 1 - CODES_GAP_RESAMPLED
    small = dac_rocm.encode_file(model, source, max_memory=100_000)
    assert (small.data == wanted.data).mean() > 1 - CODES_GAP_RESAMPLED


def test_samples_that_reach_the_engine_are_equal_bits(monkeypatch):
    model, audio = nw.shared("even"), sound(44100, 1.0)
    seen = []

    class Recording(encoding.StreamEncoder):
        def push(self, x):
            seen[-1].append(x.clone())
            return super().push(x)

        def flush(self, x):
            seen[-1].append(x.clone())
            return super().flush(x)

    monkeypatch.setattr(encoding, "StreamEncoder", Recording)
    for tile in (None, 160, 1111):
        seen.append([])
        options = encoding.Options(tile=tile)
        encode.encode_whole(model, lambda: encode.array_reader(audio, 44100), options)
    joined = [torch.cat(parts, -1) for parts in seen]
    assert torch.equal(joined[0], joined[1]) and torch.equal(joined[0], joined[2])


def test_another_model_is_refused(tmp_path):
    model, other, vae = nw.shared("even"), nw.build("even", seed=3), nw.shared("mova")
    encoded = dac_rocm.encode_audio(model, sound(16000, 0.3), 16000)
    with pytest.raises(ContainerError, match=r"'even-0' found, .* 'even-3'"):
        dac_rocm.decode_audio(other, encoded)
    assert dac_rocm.decode_audio(other, encoded, any_model=True)[0].shape == (1, 4800)
    with pytest.raises(ContainerError, match="decodes latents"):
        dac_rocm.decode_audio(vae, encoded, any_model=True)
    odd = nw.shared("odd")
    with pytest.raises(ContainerError, match="rate 16000"):
        dac_rocm.decode_audio(odd, encoded)
    unknown = dataclasses.replace(
        encoded, model=dataclasses.replace(encoded.model, name="other", fingerprints={})
    )
    with pytest.warns(UserWarning, match="cannot be compared"):
        dac_rocm.decode_audio(model, unknown)
    rows = dataclasses.replace(encoded, channels=2)
    with pytest.raises(ContainerError, match="rows"):
        dac_rocm.decode_audio(model, rows)


def test_what_comes_out_as_nan_is_not_written(tmp_path):
    model = nw.build("mova")
    source = write(tmp_path / "in.wav", sound(48000, 0.2), 48000)
    dac_rocm.encode_file(model, source, tmp_path / "x.dacz")
    model.decoder.model[0].bias.fill_(float("nan"))
    with pytest.raises(AudioError, match="came out of the decoder"):
        dac_rocm.decode_file(model, tmp_path / "x.dacz", tmp_path / "y.wav")
    model.encoder.block[0].bias.fill_(float("nan"))
    with pytest.raises(AudioError, match="NaN or infinite values in z"):
        dac_rocm.encode_file(model, source, tmp_path / "z.dacz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.wav", "x.dacz"]


def test_nothing_is_overwritten(tmp_path):
    model = nw.shared("even")
    source = write(tmp_path / "in.wav", sound(16000, 0.2), 16000)
    target = tmp_path / "x.dacz"
    target.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        dac_rocm.encode_file(model, source, target)
    assert target.read_text() == "mine"
    dac_rocm.encode_file(model, source, target, overwrite=True)
    with pytest.raises(OutputError, match="exists already"):
        dac_rocm.decode_file(model, target, source)


def test_subtypes(tmp_path):
    model = nw.shared("even")
    for subtype, wanted in (("pcm16", "pcm16"), ("pcm24", "pcm24"), ("float32", "float32")):
        source = write(tmp_path / f"{subtype}.wav", sound(16000, 0.2), 16000, subtype)
        dac_rocm.encode_file(model, source, tmp_path / f"{subtype}.dacz")
        target = tmp_path / f"{subtype}.out.wav"
        done = dac_rocm.decode_file(model, tmp_path / f"{subtype}.dacz", target)
        assert done.subtype == wanted
    loud = dac_rocm.encode_audio(model, sound(16000, 0.2), 16000, gain_db=0.0)
    dac_rocm.write_encoded(tmp_path / "l.dacz", dataclasses.replace(loud, level=Gain(-60.0)))
    done = dac_rocm.decode_file(model, tmp_path / "l.dacz", tmp_path / "l.wav", subtype="pcm16")
    assert done.clipped > 0 and done.peak > 1
    assert np.abs(read_audio(tmp_path / "l.wav")[0]).max() <= 1 + PCM16


def test_less_than_one_sample_at_the_models_rate(tmp_path):
    model = nw.shared("even")
    encoded = dac_rocm.encode_audio(model, np.full((1, 1), 0.1, np.float32), 44100)
    assert encoded.frames == 1 and encoded.length == 1
    assert dac_rocm.decode_audio(model, encoded)[0].shape == (1, 1)


def test_dac_has_its_own_level(tmp_path):
    model = nw.shared("even")
    source = write(tmp_path / "in.wav", sound(16000, 0.2), 16000)
    for options in ({"gain_db": 1.0}, {"loudness": False}):
        with pytest.raises(ShapeError, match="its own rule of level"):
            dac_rocm.encode_file(model, source, tmp_path / "x.dac", **options)
    with pytest.raises(ContainerError, match="dacz"):
        dac_rocm.encode_file(nw.shared("mova"), source, tmp_path / "x.dac")


def test_latents_in_halves(tmp_path):
    model = nw.shared("mova")
    full = dac_rocm.encode_audio(model, sound(48000, 0.2), 48000)
    half = dac_rocm.encode_audio(model, sound(48000, 0.2), 48000, latents_dtype="float16")
    assert half.data.dtype == np.float16
    np.testing.assert_allclose(half.data, full.data, rtol=1e-3, atol=1e-3)
