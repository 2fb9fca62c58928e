"""Live streams give what the whole call gives, and say exactly how late they are."""

from __future__ import annotations

import threading

import networks as nw
import pytest
import torch
from tolerances import LAW

from dac_rocm.errors import AudioError, BackendError, ShapeError
from dac_rocm.nn.gaussian import Gaussian
from dac_rocm.streaming import StreamDecoder, StreamEncoder, stream_decoder, stream_encoder


def joined(parts):
    """Codes, or a Gaussian, of all pushes."""
    if isinstance(parts[0], Gaussian):
        return torch.cat([torch.cat((g.mean, g.std), 1) for g in parts], -1)
    return torch.cat(parts, -1)


def whole(result):
    return torch.cat((result.mean, result.std), 1) if isinstance(result, Gaussian) else result


def cut(x, sizes):
    start, i = 0, 0
    while start < x.shape[-1]:
        yield x[..., start : start + sizes[i % len(sizes)]]
        start, i = start + sizes[i % len(sizes)], i + 1


def assert_same(found, wanted):
    assert found.shape == wanted.shape
    if found.is_floating_point():
        worst = (found - wanted).abs().max() if found.numel() else 0
        assert worst <= LAW[torch.float64]
    else:
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_encoder(shape):
    model = nw.shared(shape, torch.float64)
    hop, channels = model.hop_length, model.config.audio_channels
    for n, sizes in ((20 * hop, [hop]), (17 * hop + 1, [hop + 1, 0, 3]), (19 * hop - 1, [7 * hop])):
        x = nw.noise(2, channels, n, dtype=torch.float64)
        stream = stream_encoder(model)
        parts = [stream.push(part) for part in cut(x, sizes)]
        assert_same(joined([*parts, stream.flush()]), whole(model.encode(x)))


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_the_last_samples_may_come_with_the_flush(shape):
    model = nw.shared(shape, torch.float64)
    hop, channels = model.hop_length, model.config.audio_channels
    for before, n in ((0, 9 * hop), (8 * hop, hop // 2), (8 * hop, 0), (3, 5), (hop + 1, 20 * hop)):
        x = nw.noise(2, channels, before + n, dtype=torch.float64)
        stream = stream_encoder(model)
        parts = [stream.push(x[..., :before])] if before else []
        assert_same(joined([*parts, stream.flush(x[..., before:])]), whole(model.encode(x)))


def test_a_flush_that_is_refused_changes_nothing():
    model = nw.shared("even", torch.float64)
    x = nw.noise(2, 1, 9 * model.hop_length, dtype=torch.float64)
    stream = stream_encoder(model)
    first = stream.push(x[..., :100])
    for wrong, error in ((x[:1], ShapeError), (x[0], ShapeError), (x * torch.nan, AudioError)):
        with pytest.raises(error):
            stream.flush(wrong)
    assert_same(joined([first, stream.flush(x[..., 100:])]), whole(model.encode(x)))


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_decoder(shape):
    model = nw.shared(shape, torch.float64)
    data = nw.frames(model, 2, 45)
    for sizes in ([1], [3, 0, 7], [45], [44, 1], [100]):
        stream = stream_decoder(model)
        parts = [stream.push(part) for part in cut(data, sizes)]
        assert_same(torch.cat([*parts, stream.flush()], -1), model.decode(data))


@pytest.mark.parametrize("shape", ("meta", "meta_odd", "mova"))
def test_the_end_is_filled_as_the_family_does(shape):
    """Reflection, also from samples of earlier pushes; zeros where the clip is too short."""
    model = nw.shared(shape, torch.float64)
    hop = model.hop_length
    for n in (1, 2, hop // 2, hop // 2 + 1, hop - 1, hop, hop + 1, 2 * hop - 1, 3 * hop + 1):
        x = nw.noise(1, 1, n, dtype=torch.float64)
        for size in (1, 3, hop, n):
            stream = stream_encoder(model)
            parts = [stream.push(part) for part in cut(x, [size])]
            assert_same(joined([*parts, stream.flush()]), whole(model.encode(x)))


def test_reflection_in_numbers():
    model = nw.shared("meta")
    hop = model.hop_length
    x = torch.arange(1.0, hop + 4).reshape(1, 1, -1)
    padded = model.pad(x)
    assert padded.shape[-1] == 2 * hop
    torch.testing.assert_close(padded, torch.nn.functional.pad(x, (0, hop - 3), mode="reflect"))
    short = torch.ones(1, 1, hop // 2)  # no longer than the pad: zeros
    assert model.pad(short)[0, 0, hop // 2 :].eq(0).all()
    barely = torch.arange(1.0, hop // 2 + 2).reshape(1, 1, -1)
    assert model.pad(barely).shape[-1] == hop
    assert model.pad(barely)[0, 0, hop // 2 + 1 :].ne(0).all()


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_encoder_latency_is_exact(shape):
    """Frame f is there once latency samples follow its last one, and not one sample earlier."""
    model = nw.shared(shape)
    hop, channels = model.hop_length, model.config.audio_channels
    stream = stream_encoder(model)
    lag = stream.latency
    assert lag.seconds == lag.samples / model.sample_rate
    x = nw.noise(1, channels, lag.samples + 4 * hop)
    for f in range(3):
        first = stream.push(
            x[..., : (f + 1) * hop + lag.samples - 1] if f == 0 else x[..., : hop - 1]
        )
        assert whole(first).shape[-1] == 0
        assert whole(stream.push(x[..., :1])).shape[-1] == 1
    assert stream.latency == lag


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_decoder_latency_is_exact(shape):
    """All samples of frame f are there once latency frames follow, and not one frame earlier."""
    model = nw.shared(shape)
    hop = model.hop_length
    stream = stream_decoder(model)
    lag = stream.latency
    assert lag.samples % hop == 0
    later = lag.samples // hop
    data = nw.frames(model, 1, later + 6)
    given = stream.push(data[..., :later]).shape[-1]
    assert given < hop
    for f in range(1, 6):
        given += stream.push(data[..., :1]).shape[-1]
        assert f * hop <= given < (f + 1) * hop
    assert stream.latency == lag


def test_published_latency():
    """44.1 kHz model: ten frames, as the halo that users measured. Source: user_demands.md."""
    from dac_rocm.geometry import lookahead
    from dac_rocm.lowering import lower_decoder, lower_encoder
    from dac_rocm.presets import preset

    config = preset("dac-44khz").config
    assert lookahead(lower_decoder(config)) == 10
    assert lookahead(lower_encoder(config)) == 3733


@pytest.mark.parametrize("shape", ("odd", "meta", "oobleck"))
def test_streams_on_one_model(shape):
    """Interleaved encoders and decoders, and a whole call between, touch neither each other."""
    model = nw.shared(shape, torch.float64)
    hop, channels = model.hop_length, model.config.audio_channels
    inputs = [nw.noise(1, channels, 20 * hop + i, seed=i, dtype=torch.float64) for i in range(2)]
    data = nw.frames(model, 1, 40)
    wanted = [whole(model.encode(x)) for x in inputs], model.decode(data)
    streams, decoder = [stream_encoder(model), stream_encoder(model)], stream_decoder(model)
    parts, audio = [[], []], []
    for i in range(10):
        for j in range(2):
            end = None if i == 9 else 2 * hop * (i + 1)
            parts[j].append(streams[j].push(inputs[j][..., 2 * hop * i : end]))
        audio.append(decoder.push(data[..., 4 * i : 4 * i + 4]))
        model.encode(inputs[0])
    for j in range(2):
        assert_same(joined([*parts[j], streams[j].flush()]), wanted[0][j])
    assert_same(torch.cat([*audio, decoder.flush()], -1), wanted[1])


def test_one_thread_streams_while_another_runs_the_whole():
    model = nw.build("even", dtype=torch.float64)
    x = nw.noise(1, 1, 100 * model.hop_length + 5, dtype=torch.float64)
    data = nw.frames(model, 1, 100)
    expected = model.encode(x), model.decode(data)
    failures = []

    def stream():
        for _ in range(3):
            encoder, decoder = stream_encoder(model), stream_decoder(model)
            codes = joined([*map(encoder.push, cut(x, [333])), encoder.flush()])
            audio = torch.cat([*map(decoder.push, cut(data, [7])), decoder.flush()], -1)
            if not torch.equal(codes, expected[0]) or (audio - expected[1]).abs().max() > 1e-12:
                failures.append("stream")

    def run():
        for _ in range(6):
            codes, audio = model.encode(x), model.decode(data)
            if not torch.equal(codes, expected[0]) or (audio - expected[1]).abs().max() > 1e-12:
                failures.append("whole")

    threads = [threading.Thread(target=f) for f in (stream, run, stream)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("where", ("network", "bottleneck"))
@pytest.mark.parametrize("shape", ("even", "mova"))
def test_an_exception_in_a_push_loses_nothing(shape, where, monkeypatch):
    """Whatever stops a push, the same push again goes on as if nothing had been."""
    model = nw.build(shape, dtype=torch.float64)
    hop = model.hop_length
    x = nw.noise(1, 1, 40 * hop + 3, dtype=torch.float64)
    wanted = whole(model.encode(x))
    stream = stream_encoder(model)
    parts = [stream.push(x[..., : 20 * hop])]
    with monkeypatch.context() as patch:
        if where == "network":
            kernel = [k for k in stream.network.kernels if k is not None][-1]
            object.__setattr__(kernel, "convolve", _raise)
        else:
            patch.setattr(model.quantizer, "forward", _raise)
        with pytest.raises(ZeroDivisionError):
            stream.push(x[..., 20 * hop : 30 * hop])
        if where == "network":
            object.__delattr__(kernel, "convolve")
    parts += [stream.push(x[..., 20 * hop : 30 * hop]), stream.push(x[..., 30 * hop :])]
    assert_same(joined([*parts, stream.flush()]), wanted)


def _raise(*_args):
    raise ZeroDivisionError


def test_a_refused_push_changes_nothing():
    model = nw.shared("even", torch.float64)
    hop = model.hop_length
    x = nw.noise(1, 1, 30 * hop, dtype=torch.float64)
    stream = stream_encoder(model)
    parts = [stream.push(x[..., : 10 * hop])]
    with pytest.raises(AudioError, match="NaN"):
        stream.push(torch.full((1, 1, 5), float("nan")))
    with pytest.raises(ShapeError, match="2 items found; the stream began with 1"):
        stream.push(x[..., :5].expand(2, 1, 5))
    with pytest.raises(ShapeError, match="2 channels found"):
        stream.push(x[..., :5].expand(1, 2, 5))
    parts += [stream.push(x[..., 10 * hop :]), stream.flush()]
    assert_same(joined(parts), model.encode(x))


def test_a_refused_first_push_fixes_no_batch(monkeypatch):
    model = nw.build("even")
    stream = stream_decoder(model)
    kernel = next(k for k in stream.network.kernels if k is not None)
    object.__setattr__(kernel, "convolve", _raise)
    with pytest.raises(ZeroDivisionError):
        stream.push(nw.frames(model, 1, 30))
    object.__delattr__(kernel, "convolve")
    assert stream.push(nw.frames(model, 2, 30)).shape[0] == 2


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_the_end_of_a_stream(shape):
    model = nw.shared(shape)
    channels = model.config.audio_channels
    for stream, data in (
        (stream_encoder(model), nw.noise(1, channels, 99)),
        (stream_decoder(model), nw.frames(model, 1, 5)),
    ):
        stream.push(data)
        stream.flush()
        with pytest.raises(BackendError, match=r"push after the end found.*reset"):
            stream.flush()
        with pytest.raises(BackendError, match="push after the end found"):
            stream.push(data)
        stream.reset()
        again = stream.push(data.expand(2, *data.shape[1:]))  # another batch is welcome
        assert whole(again).shape[0] == 2


@pytest.mark.parametrize("shape", nw.SHAPES)
def test_empty_pushes(shape):
    """The same types as ever, with a time axis of 0, never None."""
    model = nw.shared(shape)
    channels = model.config.audio_channels
    like = whole(model.encode(nw.noise(1, channels, 99)))
    encoder, decoder = stream_encoder(model), stream_decoder(model)
    empty = whole(encoder.push(torch.zeros(1, channels, 0)))
    assert empty.shape == (*like.shape[:2], 0)
    assert empty.dtype == like.dtype
    assert decoder.push(nw.frames(model, 1, 0)).shape == (1, channels, 0)
    assert whole(encoder.flush()).shape == (*like.shape[:2], 0)
    assert decoder.flush().shape == (1, channels, 0)
    assert stream_decoder(model).flush().shape == (1, channels, 0)


def test_context_manager():
    model = nw.shared("odd")
    x = nw.noise(1, 1, 999)
    with stream_encoder(model, n_codebooks=2) as stream:
        codes = torch.cat([stream.push(x), stream.flush()], -1)
    assert torch.equal(codes, model.encode(x, n_codebooks=2))
    with pytest.raises(RuntimeError, match="mine"), stream_decoder(model) as stream:
        stream.push(codes)
        raise RuntimeError("mine")
    with stream_encoder(model) as stream:
        assert stream.push(x).shape[1] == 3


def test_who_may_open_a_stream():
    assert isinstance(stream_decoder(nw.shared("even")), StreamDecoder)
    assert isinstance(stream_encoder(nw.shared("meta")), StreamEncoder)
    for bad in (0, 5, -1, True, 2.0):
        with pytest.raises(ShapeError, match="n_codebooks="):
            stream_encoder(nw.shared("even"), n_codebooks=bad)
    with pytest.raises(ShapeError, match="a continuous model has none"):
        stream_encoder(nw.shared("meta"), n_codebooks=1)


def test_results_can_enter_training():
    model = nw.shared("mova")
    stream = stream_decoder(model)
    y = torch.cat([stream.push(nw.frames(model, 1, 30)), stream.flush()], -1)
    assert not y.is_inference()
    weight = torch.ones((), requires_grad=True)
    (weight * y).square().sum().backward()
    assert weight.grad > 0
