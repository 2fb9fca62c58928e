"""A pipe that is slow: audio is out before the codes end."""

from __future__ import annotations

import io
import sys

import networks as nw
import pytest

from dac_rocm.cli.main import main
from dac_rocm.container import write_encoded
from dac_rocm.pipeline import encode_audio


class Slow(io.RawIOBase):
    """A pipe that gives a little at a time, and notes what was out before each part."""

    def __init__(self, data, out):
        self.left, self.out, self.seen = data, out, []

    def readable(self):
        return True

    def readinto(self, buffer):
        n = min(len(buffer), 300, len(self.left))
        buffer[:n], self.left = self.left[:n], self.left[n:]
        if n:
            self.seen.append(len(self.out.getvalue()))
        return n


@pytest.mark.parametrize("flags", [["--raw"], []])
def test_audio_is_out_before_the_codes_end(flags, tmp_path, monkeypatch):
    model, length = nw.shared("even"), 20 * 256 * 32
    write_encoded(tmp_path / "x.dacz", encode_audio(model, nw.noise(length).numpy(), 16000))
    monkeypatch.setattr("dac_rocm.cli.decode.load_model", lambda *_, **__: model)
    out = io.BytesIO()
    pipe = Slow((tmp_path / "x.dacz").read_bytes(), out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(pipe, 300)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    assert main(["decode", "-", "-o", "-", "--model", "even", *flags]) == 0
    header = 0 if flags else out.getvalue().index(b"data") + 8
    samples = out.getvalue()[header:]
    assert len(samples) == 4 * length  # float32, as the array was
    middle, last = pipe.seen[len(pipe.seen) // 2], pipe.seen[-1]
    assert middle > 0.35 * len(samples)
    assert last > 0.8 * len(samples)
