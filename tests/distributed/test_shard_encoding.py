"""Items to recordings: as alone, in their order, whatever is read ahead or batched."""

import numpy as np
import pytest
import torch
from corpora import check_codes, content, is_broken, samples, wav
from networks import build, shared

import dac_rocm
from dac_rocm.batch import clips
from dac_rocm.distributed import encode
from dac_rocm.distributed.encode import MEMORY, encode_items, fix_pushes
from dac_rocm.distributed.items import Item, open_bytes
from dac_rocm.distributed.worker import Settings, options_for
from dac_rocm.errors import OutputError
from dac_rocm.runtime import tiles


def item(i):
    return Item(f"{i}", lambda: open_bytes(f"{i}", content(i)))


def encoded(model, numbers, *, settings=None, **options):
    chosen = options_for(model, settings or Settings())
    return list(encode_items(model, map(item, numbers), chosen, **options))


@pytest.mark.parametrize("batch, readers", [(1, 1), (1, 3), (4, 1), (4, 2)])
def test_codes_are_those_of_encode(batch, readers):
    model = shared("even")
    found = encoded(model, range(17), batch=batch, readers=readers)
    assert [name for name, _ in found] == [f"{i}" for i in range(17)]
    for i, (_, outcome) in enumerate(found):
        if is_broken(i):
            assert isinstance(outcome, str) and "cannot be decoded" in outcome
        else:
            check_codes(model, outcome, i)
            assert outcome.length == len(samples(i)) and outcome.source_subtype == "FLOAT"


def test_reading_ahead_changes_no_bit():
    model = shared("even")
    for batch in (1, 4):
        one, many = (encoded(model, range(20), batch=batch, readers=n) for n in (1, 4))
        for (_, a), (_, b) in zip(one, many, strict=True):
            assert a == b if isinstance(a, str) else np.array_equal(a.codes, b.codes)


def test_batches_are_no_larger_than_asked(monkeypatch):
    sizes = []
    real = encode.encode_clips
    monkeypatch.setattr(
        encode, "encode_clips", lambda m, c, o: sizes.append(len(c)) or real(m, c, o)
    )
    encoded(shared("even"), [0, 5, 10, 15, 20, 25, 30], batch=3)
    assert sizes == [3, 3, 1]


def test_long_recordings_go_through_alone(monkeypatch):
    monkeypatch.setattr(clips, "CLIP_VALUES", 3900)
    model = shared("even")
    for i, (_, outcome) in enumerate(encoded(model, range(5), batch=4)):
        check_codes(model, outcome, i)


def test_a_long_recording_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(clips, "CLIP_VALUES", 10)
    (name, outcome) = encoded(shared("even"), [207])[0]  # its last samples are NaN
    assert name == "207" and "NaN or infinity" in outcome


def test_latents_are_those_of_encode_file(tmp_path):
    model = shared("meta")
    settings = Settings(latents_dtype="float16")
    (tmp_path / "3.wav").write_bytes(wav(3))
    alone = dac_rocm.encode_file(model, tmp_path / "3.wav")
    for _, outcome in encoded(model, [3, 3, 3], batch=2, settings=settings):
        assert outcome.latents.dtype == np.float16
        np.testing.assert_allclose(outcome.latents, alone.latents, atol=2e-3)


def test_a_batch_that_fails_is_done_one_by_one(monkeypatch):
    model = shared("even")

    def out_of_memory(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(type(model), "encode_many", out_of_memory)
    for i, (_, outcome) in zip((0, 5, 10), encoded(model, (0, 5, 10), batch=3), strict=True):
        check_codes(model, outcome, i)


def test_one_bad_clip_of_a_batch_is_named(monkeypatch):
    """Stereo models refuse some channel counts, which is known only when the batch is made."""
    model = shared("oobleck")
    settings = Settings(gain_db=999.0)
    outcomes = [o for _, o in encoded(model, [0, 5], batch=2, settings=settings)]
    assert all("a gain of 999.0 dB found" in outcome for outcome in outcomes)


def test_a_full_disk_ends_the_run():
    def fail():
        raise OutputError("no room")

    with pytest.raises(OutputError, match="no room"):
        list(
            encode_items(shared("even"), [Item("a", fail)], options_for(shared("even"), Settings()))
        )


def test_free_memory_chooses_no_push(monkeypatch):
    model = build("even")
    free = []
    monkeypatch.setattr(tiles, "free_memory", lambda _: free.append(1) or 1 << 12)
    small, _ = model.choose_tile("encoder", 2)
    fix_pushes(model)
    assert model.choose_tile("encoder", 2)[0] > small
    assert len(free) == 1
    assert options_for(model, Settings()).max_memory == MEMORY
