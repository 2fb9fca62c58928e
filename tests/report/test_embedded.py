"""What a page embeds: pictures that decode to their pixels, and audio without loss."""

import base64
import io

import numpy as np
import pytest
import soundfile
from PIL import Image

from dac_rocm.report import png, sound


def payload(uri, kind):
    head, data = uri.split(",")
    assert head == f"data:{kind};base64"
    return io.BytesIO(base64.b64decode(data))


def test_a_picture_is_what_was_drawn():
    unit = np.linspace(0, 1, 12).reshape(3, 4)
    palette = png.level_colours()
    image = Image.open(payload(png.picture_uri(unit, palette), "image/png")).convert("RGBA")
    expected = palette[np.rint(unit[::-1] * 255).astype(int)]
    assert np.array_equal(np.asarray(image), expected)


def test_levels_only_grow_brighter():
    brightness = png.level_colours()[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(brightness) > -1).all() and brightness[-1] - brightness[0] > 150


def test_equal_is_clear_and_more_differs_from_less():
    colours = png.difference_colours().astype(int)
    assert colours[127:129, 3].max() <= 1
    assert colours[0, 3] == colours[-1, 3] == 255
    assert colours[0, 2] > colours[0, 0] and colours[-1, 0] > colours[-1, 2]


@pytest.mark.parametrize("bits, kind", [(16, "flac"), (24, "flac"), (32, "wav")])
def test_audio_comes_back_exactly(bits, kind):
    audio = np.random.default_rng(0).uniform(-1, 1, (2, 5000)).astype(np.float32)
    if bits < 32:
        steps = np.rint(audio * 2 ** (bits - 1)).clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        audio = (steps / 2 ** (bits - 1)).astype(np.float32)
    assert sound.exact_bits(audio) == bits
    file = payload(sound.sound_uri(audio, 44100, bits), f"audio/{kind}")
    again, rate = soundfile.read(file, dtype="float32", always_2d=True)
    assert rate == 44100 and np.array_equal(again.T, audio)


def test_beyond_full_scale_needs_floats():
    audio = np.array([[0.5, 1.25]], np.float32)
    assert sound.exact_bits(audio) == 32


def test_rounded_audio_is_clipped_never_wrapped():
    audio = np.array([[1.5, -1.5, 0.25]], np.float32)
    again, _ = soundfile.read(payload(sound.sound_uri(audio, 8000, 16), "audio/flac"))
    assert again == pytest.approx([1.0, -1.0, 0.25], abs=2**-15)


def test_a_rate_that_flac_cannot_say_becomes_wav():
    audio = np.zeros((1, 100), np.float32)
    again, rate = soundfile.read(payload(sound.sound_uri(audio, 768_000, 16), "audio/wav"))
    assert rate == 768_000 and not again.any()
