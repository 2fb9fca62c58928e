"""Parts of a recording: which frames they need, by brute force."""

from __future__ import annotations

import networks as nw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dac_rocm.errors import ShapeError
from dac_rocm.geometry import input_range
from dac_rocm.lowering import lower_decoder
from dac_rocm.pipeline.window import RESAMPLER_MARGIN, samples_between, window


@pytest.mark.parametrize(
    ("start", "stop", "wanted"),
    [
        (None, None, (0, 8000)),
        (0.0, 1.0, (0, 8000)),
        (0.5, None, (4000, 8000)),
        (None, 0.25, (0, 2000)),
        (0.25, 99.0, (2000, 8000)),
        (0.25, float("inf"), (2000, 8000)),
        (0.0, 0.0001, (0, 1)),
        (0.9999, None, (7999, 8000)),
    ],
)
def test_seconds(start, stop, wanted):
    assert samples_between(start, stop, 8000, 8000) == wanted


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (1.0, None),
        (2.0, 3.0),
        (-0.1, None),
        (None, 0.0),
        (None, -1.0),
        (0.5, 0.5),
        (0.6, 0.5),
        (float("nan"), None),
        (None, float("nan")),
        (float("inf"), None),
        (0.0, 0.00001),
    ],
)
def test_seconds_that_are_refused(start, stop):
    with pytest.raises(ShapeError, match=r"a part from .* found; a part within 0 to 1\.000 s"):
        samples_between(start, stop, 8000, 8000)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    shape=st.sampled_from(nw.SHAPES),
    rate=st.sampled_from([8000, 16000, 44056, 44100, 48000]),
    first=st.integers(0, 200_000),
    n=st.integers(1, 50_000),
)
def test_a_window_holds_all_that_its_part_depends_on(shape, rate, first, n):
    config = nw.CONFIGS[shape]
    steps, hop, model_rate = lower_decoder(config), config.hop_length, config.sample_rate
    total = first + n + 1000
    frames = -(-total * model_rate // rate // hop) + 1
    plan = window(
        steps, samples=(first, first + n), frames=frames, hop_length=hop, rates=(model_rate, rate)
    )
    assert 0 <= plan.start_frame < plan.stop_frame <= frames
    assert plan.skip >= 0
    assert plan.skip_resampled >= 0
    assert plan.length == n
    begin = plan.start_frame * hop + plan.skip  # first sample given to the resampler
    resampled = begin * rate // model_rate
    assert begin * rate % model_rate == 0, "the resampler must start in phase"
    assert resampled + plan.skip_resampled == first
    low, high = input_range(steps, begin, -(-(first + n) * model_rate // rate))
    assert plan.start_frame <= max(0, low)
    assert plan.stop_frame >= min(frames, high)
    if rate != model_rate and begin > 0:
        assert first * model_rate // rate - begin >= RESAMPLER_MARGIN


def test_a_window_is_small():
    config = nw.CONFIGS["even"]
    plan = window(
        lower_decoder(config),
        samples=(1_000_000, 1_000_032),
        frames=100_000,
        hop_length=32,
        rates=(16000, 16000),
    )
    assert plan.stop_frame - plan.start_frame < 45
