"""Geometry is arithmetic on the steps: held against the modules, and against brute force."""

from __future__ import annotations

import math

import networks as nw
import pytest
import torch
from kits import ROOTS

from dac_rocm import geometry
from dac_rocm.config import CodecConfig, RVQConfig
from dac_rocm.errors import ShapeError
from dac_rocm.lowering import Conv, Transposed, lower_decoder, lower_encoder, tensor_shapes
from dac_rocm.presets import list_presets, preset
from dac_rocm.runtime.tiles import GPU_ELEMENTS
from dac_rocm.weights import load_checkpoint


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_lengths_are_those_of_the_modules(shape):
    model = nw.shared(shape)
    enc, dec = model.steps("encoder"), model.steps("decoder")
    for n in range(2 * model.hop_length, 4 * model.hop_length, 7):
        made = model.encoder(nw.noise(1, model.config.audio_channels, n)).shape[-1]
        assert geometry.output_length(enc, n) == made
    for frames in range(1, 9):
        z = nw.noise(1, model.config.decoder.in_channels, frames)
        assert geometry.output_length(dec, frames) == model.decoder(z).shape[-1]
    assert geometry.output_length(enc, 0) == 0


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_shapes_are_those_of_the_modules(shape):
    model = nw.shared(shape)
    found = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert found == tensor_shapes(model.config)


@pytest.mark.parametrize(
    ("name", "tensors", "values"),
    [
        ("dac-44khz", 223, 76_620_777),
        ("dac-24khz", 338, 74_653_857),
        ("dac-16khz", 238, 74_141_697),
        ("dac-44khz-16kbps", 268, 64_189_873),
        ("ibm-dac-speech-1.5kbps", 188, 73_885_617),
        ("mova-360p", 224, 371_539_137),
    ],
)
def test_counts_of_published_models(name, tensors, values):
    shapes = tensor_shapes(preset(name).config)
    assert len(shapes) == tensors
    assert sum(math.prod(shape) for shape in shapes.values()) == values


@pytest.mark.parametrize(
    ("name", "encoder", "decoder"),
    [("dac-44khz", 3733, 10), ("dac-24khz", 2493, 10), ("dac-16khz", 2493, 10)],
)
def test_lookahead_of_published_models(name, encoder, decoder):
    config = preset(name).config
    assert geometry.lookahead(lower_encoder(config)) == encoder
    assert geometry.lookahead(lower_decoder(config)) == decoder


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_lookahead_is_the_smallest_that_suffices(shape):
    config = nw.CONFIGS[shape]
    for steps in (lower_encoder(config), lower_decoder(config)):
        down, up = geometry.ratio(steps)
        ahead = geometry.lookahead(steps)
        for k in range(1, 5):
            known = geometry.known_length(steps, k * down + ahead)
            assert known >= k * up
            assert geometry.known_length(steps, k * down + ahead - 1) < k * up


@pytest.mark.parametrize("shape", ["odd", "mova", "meta_odd", "oobleck"])
@pytest.mark.parametrize("half", ["encoder", "decoder"])
def test_input_range_by_touching_inputs(shape, half):
    """Change one input; exactly the outputs whose range holds it may change."""
    model = nw.build(shape, dtype=torch.float64)
    for module in model.modules():  # no dead taps: what can change must change
        if isinstance(module, torch.nn.Conv1d | torch.nn.ConvTranspose1d):
            module.weight.abs_().add_(0.05)
    steps, whole = model.steps(half), getattr(model, half)
    layers = whole.block if half == "encoder" else whole.model
    net = torch.nn.Sequential(*(m for m in layers if not isinstance(m, torch.nn.Tanh)))
    n = 60 if half == "decoder" else 30 * model.hop_length
    channels = (
        model.config.decoder.in_channels if half == "decoder" else (model.config.audio_channels)
    )
    x = 0.1 * nw.noise(1, channels, n, dtype=torch.float64)
    touched = x.clone()
    at = n // 2
    touched[..., at] += 0.1
    changed = (net(x) != net(touched)).any(1)[0].nonzero().flatten().tolist()
    total = geometry.output_length(steps, n)
    reach = [
        o
        for o in range(total)
        if geometry.input_range(steps, o, o + 1)[0] <= at < geometry.input_range(steps, o, o + 1)[1]
    ]
    assert set(changed) <= set(reach)
    assert (changed[0], changed[-1]) == (reach[0], reach[-1])


@pytest.mark.parametrize(
    ("name", "windows"),
    [
        ("dac-44khz", {44544: 28522, 220672: 204650}),
        ("dac-24khz", {24000: 13346, 120000: 109346}),
        ("dac-16khz", {16000: 5346, 80000: 69346}),
    ],
)
def test_steps_of_descripts_windows(name, windows):
    config = preset(name).config
    for window, step in windows.items():
        assert geometry.unpadded_length(config, window) == step


def test_what_decoders_fall_short_of():
    assert geometry.decoder_short(preset("dac-44khz").config) == 0
    assert geometry.decoder_short(preset("dac-16khz").config) == 8
    assert geometry.decoder_short(nw.CONFIGS["mova"]) == 0
    assert geometry.lost_frames(nw.CONFIGS["meta_odd"]) == 1
    assert all(geometry.lost_frames(p.config) == 0 for p in list_presets())


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 24000, 44100, 48000])
def test_descript_frames_are_the_fewest_that_suffice(rate):
    for known in list_presets():
        config = known.config
        if not isinstance(config.bottleneck, RVQConfig):
            continue
        hop, short = config.hop_length, geometry.decoder_short(config)
        for length in (1, 37, rate // 2, rate, rate + 1, 10 * rate):
            frames = geometry.descript_frames(config, length, rate)

            def made(f, hop=hop, short=short, config=config):
                return (f * hop - short) * rate // config.sample_rate

            assert made(frames) >= length > made(frames - 1)


def test_tiles_stay_under_their_limits():
    config = preset("dac-44khz").config
    for steps in (lower_encoder(config), lower_decoder(config)):
        down, _ = geometry.ratio(steps)
        for batch in (1, 2, 16):
            tile = geometry.tile_length(steps, batch, max_elements=1 << 28)
            assert tile % down == 0
            elements, _ = geometry.widest(steps)
            assert tile == down or tile * batch * elements <= 1 << 28
    tile = geometry.tile_length(lower_decoder(config), 1, max_elements=1 << 40, max_positions=65535)
    assert tile * 512 < 65536
    assert geometry.tile_length(lower_decoder(config), 1, max_elements=1) == 1


def test_frames_for():
    config = nw.CONFIGS["even"]
    assert [geometry.frames_for(config, n) for n in (1, 32, 33)] == [1, 1, 2]
    with pytest.raises(ShapeError, match="at least 1 is expected"):
        geometry.frames_for(config, 0)


def kits() -> dict[str, CodecConfig]:
    """Config of every checkpoint of the reference kits that is here."""
    found = {}
    for root in ROOTS:
        for path in sorted(root.glob("*/*/weights.pth")):
            found[f"{path.parts[-3]}-{path.parts[-2]}"] = load_checkpoint(path).config
    return found


CONFIGS = {**nw.CONFIGS, **kits()}


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
            assert geometry.output_length(steps, n) == length


@pytest.mark.parametrize("half", ("encoder", "decoder"))
@pytest.mark.parametrize("name", CONFIGS)
def test_latency_by_brute_force(name, half):
    """The smallest lag with which the outputs of the first n inputs are known, for all n."""
    config = CONFIGS[name]
    steps = (lower_encoder if half == "encoder" else lower_decoder)(config)
    down, up = geometry.ratio(steps)
    lag = geometry.lookahead(steps)
    for i in range(1, 40):
        assert geometry.known_length(steps, i * down + lag) >= i * up
        assert geometry.known_length(steps, i * down + lag - 1) < i * up


@pytest.mark.parametrize("name", CONFIGS)
def test_known_outputs(name):
    """Known outputs do not depend on what follows: those of a longer input agree in number."""
    config = CONFIGS[name]
    for steps in (lower_encoder(config), lower_decoder(config)):
        known = [geometry.known_length(steps, n) for n in range(400)]
        assert known[0] == 0
        assert known == sorted(known)
        assert all(k <= geometry.output_length(steps, n) for n, k in enumerate(known) if n)


def test_unpadded_length_of_nothing():
    """get_output_length(0) of the original. Source: checkpoint_layouts.md section 1.5."""
    for name, wanted in (("dac-44khz", -16022), ("dac-24khz", -10654), ("dac-16khz", -10654)):
        assert geometry.unpadded_length(preset(name).config, 0) == wanted


@pytest.mark.parametrize("name", CONFIGS)
def test_frames(name):
    config = CONFIGS[name]
    hop = config.hop_length
    lost = geometry.lost_frames(config)
    for n in range(1, 2001):
        assert geometry.frames_for(config, n) == -(-n // hop)
        assert geometry.encoded_frames(config, n) == geometry.frames_for(config, n) - lost
    assert lost == (1 if "meta_odd" in name or "dacvae-odd" in name else 0)
    for bad in (0, -1):
        with pytest.raises(ShapeError, match=f"{bad} samples found"):
            geometry.frames_for(config, bad)


def test_whole_seconds_that_the_original_cannot_open():
    """12,000 samples at 24 kHz: 37.5 hops, 38 frames; 32,000 at 16 kHz need one frame more."""
    assert geometry.descript_frames(preset("dac-24khz").config, 32_000, 24_000) == 101
    assert geometry.descript_frames(preset("dac-16khz").config, 16_000, 16_000) == 51
    assert geometry.descript_frames(preset("dac-44khz").config, 512, 44_100) == 1


@pytest.mark.parametrize("half", ("encoder", "decoder"))
@pytest.mark.parametrize(
    "name", ["dac-44khz", "dac-16khz", "dacvae", "mova-360p", "stable-audio-open"]
)
def test_tiles_of_published_models(name, half):
    """20 minutes of stereo in a batch of 8 never reach 2^31 elements; user demand 51."""
    config = preset(name).config
    steps = (lower_encoder if half == "encoder" else lower_decoder)(config)
    down, _ = geometry.ratio(steps)
    elements, positions = geometry.widest(steps)
    for batch in (1, 16):
        tile = geometry.tile_length(steps, batch, max_elements=GPU_ELEMENTS)
        reach = geometry.lookahead(steps)
        assert tile % down == 0
        assert (tile + reach) * elements * batch < 1 << 31
        tile = geometry.tile_length(steps, batch, max_elements=1 << 28, max_positions=65_535)
        assert (tile + reach) * positions < 65_536 or tile == down


@pytest.mark.parametrize("batch", (2, 6, 8))
def test_a_batch_keeps_a_useful_tile(batch):
    """A batch shares the budget; it must not fall to one frame per push."""
    steps = lower_decoder(preset("dac-44khz").config)
    alone = geometry.tile_length(steps, 1, max_elements=1 << 22)
    assert geometry.tile_length(steps, batch, max_elements=1 << 22) >= alone // (2 * batch)


def test_widest_by_hand():
    """44.1 kHz: 96 channels at full rate in the decoder, 64 in the encoder (user_demands.md)."""
    config = preset("dac-44khz").config
    assert geometry.widest(lower_decoder(config)) == (512 * 96, 512)
    assert geometry.widest(lower_encoder(config)) == (64, 1)


@pytest.mark.parametrize("name", CONFIGS)
def test_stages_have_one_rate_each(name):
    config = CONFIGS[name]
    for steps in (lower_encoder(config), lower_decoder(config)):
        found = geometry.stages(steps)
        assert sum(found, ()) == steps
        for stage in found:
            inside = stage[1:] if isinstance(stage[0], Transposed) else stage[:-1]
            assert not any(isinstance(step, Transposed) for step in inside)
            assert all(step.stride == 1 for step in inside if isinstance(step, Conv))


@pytest.mark.parametrize("name", CONFIGS)
def test_parts_of_a_stage_are_as_long_as_fits(name):
    config = CONFIGS[name]
    for steps in (lower_encoder(config), lower_decoder(config)):
        for stage in geometry.stages(steps):
            down, _ = geometry.ratio(stage)
            elements, _ = geometry.widest(stage)
            for batch, most in ((1, 1 << 20), (3, 1 << 17), (2, 1)):
                part = geometry.part_length(stage, batch, most)
                count, rest = divmod(part, down)
                assert rest == 0
                assert count & (count - 1) == 0
                assert part == down or part * elements * batch <= most
                assert 2 * part * elements * batch > most


def test_few_digits_is_the_next_such_number_below_or_above():
    few = sorted({m << low for m in range(16) for low in range(10)})
    for n in range(1, 4096):
        assert geometry.few_digits(n) == max(m for m in few if m <= n)
        assert -geometry.few_digits(-n) == min(m for m in few if m >= n)
