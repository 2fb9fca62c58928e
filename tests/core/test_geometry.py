"""Length arithmetic against the modules, brute force, and numbers that others measured."""

from __future__ import annotations

from dataclasses import replace

import networks as nw
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kits import ROOTS

from dac_rocm.config import CodecConfig
from dac_rocm.errors import ShapeError
from dac_rocm.geometry import (
    decoder_short,
    descript_frames,
    encoded_frames,
    frames_for,
    input_range,
    known_length,
    lookahead,
    lost_frames,
    output_length,
    ratio,
    step_length,
    tile_length,
    unpadded_length,
    widest,
)
from dac_rocm.lowering import Close, Conv, Tanh, Transposed, lower_decoder, lower_encoder
from dac_rocm.presets import list_presets, preset
from dac_rocm.weights import load_checkpoint

HALVES = ("encoder", "decoder")


def kits() -> dict[str, CodecConfig]:
    """Config of every checkpoint of the reference kits that is here."""
    found = {}
    for root in ROOTS:
        for path in sorted(root.glob("*/*/weights.pth")):
            found[f"{path.parts[-3]}-{path.parts[-2]}"] = load_checkpoint(path).config
    return found


CONFIGS = {**nw.CONFIGS, **kits()}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_lengths_of_the_modules(shape, half):
    """All lengths 1..300 (frames: 1..30), on a skeleton of one channel that runs fast."""
    model = nw.shared(shape)
    steps = model.steps(half)
    channels = steps[0].in_channels
    for n in range(1, 301) if half == "encoder" else range(1, 31):
        wanted = output_length(steps, n)
        if wanted == 0:
            continue
        assert getattr(model, half)(torch.zeros(1, channels, n)).shape[-1] == wanted


@pytest.mark.parametrize("name", CONFIGS)
def test_lengths_of_the_formulas(name):
    """torch's own formulas for the lengths of convolutions, for every kit and 1..300."""
    config = CONFIGS[name]
    for steps in (lower_encoder(config), lower_decoder(config)):
        for n in range(1, 301):
            length = n
            for step in steps:
                if isinstance(step, Conv):
                    pads = step.pad_left + step.pad_right
                    spare = length + pads - step.dilation * (step.kernel - 1) - 1
                    length = spare // step.stride + 1 if length else 0
                elif isinstance(step, Transposed) and length:
                    length = (length - 1) * step.stride + step.kernel
                    length -= step.trim_left + step.trim_right
                length = max(0, length)
            assert output_length(steps, n) == length


def test_steps_that_keep_the_length():
    for step in (Close(0), Tanh()):
        assert step_length(step, 7) == 7
    conv = Conv(
        name="x", snake=None, in_channels=1, out_channels=1, kernel=7, pad_left=3, pad_right=3
    )
    assert step_length(conv, 0) == 0
    assert output_length((conv,), -1) <= 0


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("shape", nw.SHAPES)
def test_reach_by_brute_force(shape, half):
    """Change one input: exactly the outputs whose range holds it may change, and both ends do."""
    model = nw.shared(shape, torch.float64)
    steps = model.steps(half)
    down, _ = ratio(steps)
    n = 100 * down
    x = nw.noise(1, steps[0].in_channels, n, dtype=torch.float64)
    base = getattr(model, half)(x)
    total = base.shape[-1]
    for start, stop in ((total // 2, total // 2 + 1), (total // 2, total // 2 + 3)):
        low, high = input_range(steps, start, stop)
        for index in (low - 1, low, high - 1, high):
            changed = x.clone()
            changed[..., index] += 1.0
            y = getattr(model, half)(changed)
            moved = ((y - base)[..., start:stop].abs().max() > 0).item()
            assert moved == (low <= index < high), (index, low, high)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", CONFIGS)
def test_latency_by_brute_force(name, half):
    """The smallest lag with which the outputs of the first n inputs are known, for all n."""
    config = CONFIGS[name]
    steps = (lower_encoder if half == "encoder" else lower_decoder)(config)
    down, up = ratio(steps)
    lag = lookahead(steps)
    for i in range(1, 40):
        assert known_length(steps, i * down + lag) >= i * up
        assert known_length(steps, i * down + lag - 1) < i * up


@pytest.mark.parametrize("name", CONFIGS)
def test_known_outputs(name):
    """Known outputs do not depend on what follows: those of a longer input agree in number."""
    config = CONFIGS[name]
    for steps in (lower_encoder(config), lower_decoder(config)):
        known = [known_length(steps, n) for n in range(400)]
        assert known[0] == 0
        assert known == sorted(known)
        assert all(k <= output_length(steps, n) for n, k in enumerate(known) if n)


@pytest.mark.parametrize(
    ("name", "samples", "step", "frames"),
    [
        ("dac-44khz", 44544, 28522, 72),
        ("dac-44khz", 220672, 204650, 416),
        ("dac-44khz-16kbps", 44544, 28522, 72),
        ("dac-24khz", 24000, 13346, 59),
        ("dac-24khz", 120000, 109346, 359),
        ("dac-16khz", 16000, 5346, 34),
        ("dac-16khz", 80000, 69346, 234),
    ],
)
def test_descripts_windows(name, samples, step, frames):
    """Source: checkpoint_layouts.md section 1.5."""
    config = preset(name).config
    assert unpadded_length(config, samples) == step
    assert output_length(lower_encoder(config, padded=False), samples) == frames
    assert output_length(lower_decoder(config, padded=False), frames) == step


def test_unpadded_length_of_nothing():
    """get_output_length(0) of the original. Source: checkpoint_layouts.md section 1.5."""
    for name, wanted in (("dac-44khz", -16022), ("dac-24khz", -10654), ("dac-16khz", -10654)):
        assert unpadded_length(preset(name).config, 0) == wanted


@pytest.mark.parametrize(
    ("name", "short"),
    [("dac-44khz", 0), ("dac-24khz", 8), ("dac-16khz", 8), ("mova-360p", 0), ("dacvae", 0)],
)
def test_how_much_the_decoder_falls_short(name, short):
    config = preset(name).config
    assert decoder_short(config) == short
    for frames in (1, 3, 100):
        made = output_length(lower_decoder(config), frames)
        assert made == frames * config.hop_length - short


@pytest.mark.parametrize("name", CONFIGS)
def test_frames(name):
    config = CONFIGS[name]
    hop = config.hop_length
    lost = lost_frames(config)
    for n in range(1, 2001):
        assert frames_for(config, n) == -(-n // hop)
        assert encoded_frames(config, n) == frames_for(config, n) - lost
    assert lost == (1 if "meta_odd" in name or "dacvae-odd" in name else 0)
    for bad in (0, -1):
        with pytest.raises(ShapeError, match=f"{bad} samples found"):
            frames_for(config, bad)


def test_no_published_model_loses_a_frame():
    assert {known.name for known in list_presets() if lost_frames(known.config)} == set()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(["dac-16khz", "dac-24khz", "dac-44khz"]),
    rate=st.sampled_from([8000, 16000, 22050, 24000, 44056, 44100, 48000]),
    length=st.integers(1, 300_000) | st.integers(1, 30).map(lambda s: s * 48000),
)
def test_descript_frames_are_enough_and_no_more(name, rate, length):
    """Descript's decoder makes floor((F · hop - short) · rate / model rate) samples."""
    config = preset(name).config
    short, hop = decoder_short(config), config.hop_length
    frames = descript_frames(config, length, rate)

    def made(frames):
        return (frames * hop - short) * rate // config.sample_rate

    assert made(frames) >= length
    assert made(frames - 1) < length


def test_whole_seconds_that_the_original_cannot_open():
    """12,000 samples at 24 kHz: 37.5 hops, 38 frames; 32,000 at 16 kHz need one frame more."""
    assert descript_frames(preset("dac-24khz").config, 32_000, 24_000) == 101
    assert descript_frames(preset("dac-16khz").config, 16_000, 16_000) == 51
    assert descript_frames(preset("dac-44khz").config, 512, 44_100) == 1


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    "name", ["dac-44khz", "dac-16khz", "dacvae", "mova-360p", "stable-audio-open"]
)
def test_tiles_of_published_models(name, half):
    """20 minutes of stereo in a batch of 8 never reach 2^31 elements; user demand 51."""
    config = preset(name).config
    steps = (lower_encoder if half == "encoder" else lower_decoder)(config)
    down, _ = ratio(steps)
    elements, positions = widest(steps)
    for batch in (1, 16):
        tile = tile_length(steps, batch, max_elements=1 << 31)
        reach = lookahead(steps)
        assert tile % down == 0
        assert (tile + reach) * elements * batch < 1 << 31
        tile = tile_length(steps, batch, max_elements=1 << 28, max_positions=65_535)
        assert (tile + reach) * positions < 65_536 or tile == down


def test_a_tile_never_vanishes():
    steps = lower_decoder(preset("dac-44khz").config)
    assert tile_length(steps, 8, max_elements=1) == 1
    steps = lower_encoder(preset("dac-44khz").config)
    assert tile_length(steps, 8, max_elements=1) == 512


@pytest.mark.parametrize("batch", (2, 6, 8))
def test_a_batch_keeps_a_useful_tile(batch):
    """A batch shares the budget; it must not fall to one frame per push."""
    steps = lower_decoder(preset("dac-44khz").config)
    alone = tile_length(steps, 1, max_elements=1 << 22)
    assert tile_length(steps, batch, max_elements=1 << 22) >= alone // (2 * batch)


def test_widest_by_hand():
    """44.1 kHz: 96 channels at full rate in the decoder, 64 in the encoder (user_demands.md)."""
    config = preset("dac-44khz").config
    assert widest(lower_decoder(config)) == (512 * 96, 512)
    assert widest(lower_encoder(config)) == (64, 1)


def test_the_fields_of_a_config_reach_the_steps():
    config = nw.CONFIGS["mova"]
    levels = tuple(replace(level, output_padding=0) for level in config.decoder.levels)
    bare = replace(config, decoder=replace(config.decoder, levels=levels))
    assert decoder_short(config) == 0
    assert decoder_short(bare) == 8  # one at stride 5, · 3 · 2; one at stride 3, · 2
