"""N samples in, N samples out: every shape of network, every N, any channels and rates."""

from __future__ import annotations

import networks as nw
import numpy as np
import pytest
import soundfile
import torch

from dac_rocm.errors import ShapeError
from dac_rocm.geometry import encoded_frames, output_length
from dac_rocm.lowering import lower_decoder, lower_encoder
from dac_rocm.nn.gaussian import Gaussian
from dac_rocm.pipeline import decode_audio, decode_file, encode_audio, encode_file

RVQ_AND_VAE = ("odd", "meta", "oobleck")


def data_of(result):
    return result.mean if isinstance(result, Gaussian) else result


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_frames_of_every_length(shape):
    """2,000 lengths by geometry: ceil(N / hop) frames, and a decoder that can reach N."""
    config = nw.CONFIGS[shape]
    hop, steps = config.hop_length, lower_decoder(config)
    for n in range(1, 2001):
        frames = encoded_frames(config, n)
        if shape != "meta_odd":  # its floor padding loses one, see the next test
            assert frames == -(-n // hop)
        made = output_length(steps, frames)
        assert frames * hop - 8 <= made <= frames * hop or frames == 0


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_every_length_in_is_the_length_out(shape):
    """Real runs at the lengths where something changes."""
    model = nw.shared(shape)
    hop, channels = model.hop_length, model.config.audio_channels
    lengths = {1, 2, 3, hop - 1, hop, hop + 1, 2 * hop - 1, 2 * hop, 5 * hop + 7}
    lengths |= set(range(1, 2001, 197)) | set(range(10 * hop - 9, 10 * hop + 1)) | {1999, 2000}
    for n in sorted(lengths):
        x = nw.noise(1, channels, n)
        audio = model.decode(data_of(model.encode(x)), length=n)
        assert audio.shape == (1, channels, n)
        assert torch.isfinite(audio).all()


@pytest.mark.parametrize("n", [*range(313, 321), *range(633, 641), 10_000])
def test_lengths_that_users_reported(n):
    """descript-audio-codec#37, #67, #80: reshape errors and changed durations."""
    model = nw.shared("odd")
    codes = model.encode(nw.noise(1, 1, n))
    assert model.decode(codes, length=n).shape[-1] == n
    assert model.decode(codes).shape[-1] == codes.shape[-1] * model.hop_length - 8


@pytest.mark.parametrize("shape", (*nw.CODES, "mova", "meta", "oobleck"))
def test_what_lies_beyond_the_network_is_zeros(shape):
    model = nw.shared(shape)
    data = nw.frames(model, 1, 5)
    bare, full = model.decode(data), model.decode(data, length=5 * model.hop_length)
    assert torch.equal(full[..., : bare.shape[-1]], bare)
    assert full[..., bare.shape[-1] :].eq(0).all()
    cut = model.decode(data, length=7)
    assert torch.equal(cut, bare[..., :7])
    assert model.decode(data, length=0).shape[-1] == 0
    for bad in (5 * model.hop_length + 1, -1, True, 7.0):
        with pytest.raises(ShapeError, match="length="):
            model.decode(data, length=bad)


def test_codes_and_z_decode_alike():
    """decode(codes) and decode_z(from_codes(codes)), equal bits: transformers#43819."""
    model = nw.shared("even")
    codes = model.encode(nw.noise(1, 1, 500))
    assert torch.equal(model.decode(codes), model.decode_z(model.from_codes(codes)))
    quantized = model.quantize(model.encode_z(nw.noise(1, 1, 500)))
    again = model.from_latents(quantized.latents)
    assert torch.equal(again.codes, quantized.codes)
    assert torch.equal(model.decode_z(again.z), model.decode(quantized.codes))


@pytest.mark.parametrize("n_codebooks", (1, 2, 4))
def test_number_of_codebooks(n_codebooks):
    """A prefix of the codes of all, without eval(): descript-audio-codec#40."""
    model = nw.build("even")
    x = nw.noise(1, 1, 700)
    codes = model.encode(x, n_codebooks=n_codebooks)
    assert codes.shape[1] == n_codebooks
    assert torch.equal(codes, model.encode(x)[:, :n_codebooks])
    assert not model.training


@pytest.mark.parametrize("channels", (1, 2, 6))
@pytest.mark.parametrize("shape", ("odd", "mova"))
def test_files(shape, channels, tmp_path):
    """1, 2 and 6 channels: exact length, rate and order of the channels."""
    model = nw.shared(shape)
    rate = 8000
    for n in (1, 999, 4001):
        audio = nw.noise(channels, n).numpy()
        soundfile.write(tmp_path / "in.wav", audio.T, rate, subtype="FLOAT")
        encode_file(model, tmp_path / "in.wav", tmp_path / "x.dacz", overwrite=True)
        decode_file(model, tmp_path / "x.dacz", tmp_path / "out.wav", overwrite=True)
        out, out_rate = soundfile.read(tmp_path / "out.wav", always_2d=True, dtype="float32")
        assert (out.shape, out_rate) == ((n, channels), rate)
    encoded = encode_audio(model, audio, rate, gain_db=0.0)
    for i in range(channels):  # channel i is what it would be alone
        alone = encode_audio(model, audio[i], rate, gain_db=0.0)
        same = encoded.data[i] == alone.data[0]
        assert (
            same.mean() > 0.99
            if encoded.is_codes
            else np.allclose(encoded.data[i], alone.data[0], atol=1e-4)
        )


@pytest.mark.parametrize("shape", RVQ_AND_VAE)
@pytest.mark.parametrize("rate", (8000, 16000, 22050, 44100, 48000))
def test_arrays_of_any_rate(shape, rate):
    model = nw.shared(shape)
    for n in (rate // 50 + 1, 3 * rate // 100):
        mono = nw.noise(n).numpy()
        audio, out_rate = decode_audio(model, encode_audio(model, mono, rate))
        assert (audio.shape, audio.dtype, out_rate) == ((1, n), np.float32, rate)
        stereo = torch.from_numpy(np.stack([mono, -mono]))
        encoded = encode_audio(model, stereo, rate)
        assert decode_audio(model, encoded)[0].shape == (2, n)
        assert (encoded.channels, encoded.length, encoded.sample_rate) == (2, n, rate)
        plain = encode_audio(model, stereo.numpy(), rate)
        assert np.array_equal(plain.data, encoded.data)


def test_stereo_models_take_mono_and_two():
    model = nw.shared("oobleck")
    mono = nw.noise(1500).numpy()
    twice = encode_audio(model, np.stack([mono, mono]), 44100)
    once = encode_audio(model, mono, 44100)
    assert once.data.shape[0] == 1
    assert np.array_equal(once.data, twice.data)
    left, right = decode_audio(model, twice)[0]
    averaged = decode_audio(model, once)[0]
    np.testing.assert_allclose(averaged[0], (left + right) / 2, atol=1e-6)
    with pytest.raises(ShapeError, match=r"3 channels found; this model takes 2.*1"):
        encode_audio(model, nw.noise(3, 999).numpy(), 44100)
    with pytest.raises(ShapeError, match=r"1 channels found; this model takes 2"):
        model.encode(nw.noise(1, 1, 999))


def test_integers_are_refused_whoever_holds_them():
    """An int16 array is 32,768 times too loud: numpy or torch, it must not pass."""
    for audio in (np.ones(900, np.int16), torch.ones(900, dtype=torch.int16)):
        with pytest.raises(ShapeError, match="a float array"):
            encode_audio(nw.shared("even"), audio, 16000)


def test_encoded_frames_of_the_steps():
    for config in nw.CONFIGS.values():
        for n in (1, 77, 1000):
            padded = -(-n // config.hop_length) * config.hop_length
            assert encoded_frames(config, n) == output_length(lower_encoder(config), padded)
