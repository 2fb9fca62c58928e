"""A reader written from `docs/dacz.md` alone: it must share nothing with the package."""

import json
import math
import struct
import zlib

import numpy as np
import pytest

from dac_rocm.container import write_encoded
from dac_rocm.encoded import EncodedAudio, Gain


def read_dacz(data):
    """Return the header, the values [rows, width, frames], and the length."""

    def check(part, crc):
        assert struct.unpack("<I", crc)[0] == zlib.crc32(part)

    assert data[:8] == bytes.fromhex("894441435A0D0A01")
    (size,) = struct.unpack("<I", data[8:12])
    start = 12 + size + 4
    check(data[: start - 4], data[start - 4 : start])
    header = json.loads(data[12 : 12 + size])
    end = data[-28:]
    assert end[:8] == b"DACZEND\n"
    check(end[:24], end[24:])
    frames, length = struct.unpack("<QQ", end[8:24])

    is_codes = header["kind"] == "codes"
    width = header["codebooks" if is_codes else "width"]
    item_bits = 8 * {"float16": 2, "float32": 4}.get(header.get("dtype"), 0)
    if is_codes:
        item_bits = max(1, math.ceil(math.log2(header["codebook_size"])))
    values, position = [], start
    for block in range(math.ceil(frames / header["block_frames"])):
        count = min(header["block_frames"], frames - block * header["block_frames"])
        items = count * header["rows"] * width
        nbytes = math.ceil(items * item_bits / 8)
        payload = data[position : position + nbytes]
        check(struct.pack("<I", block) + payload, data[position + nbytes : position + nbytes + 4])
        if is_codes:
            bits = "".join(format(byte, "08b") for byte in payload)
            values += [int(bits[i * item_bits :][:item_bits], 2) for i in range(items)]
        else:
            values += struct.unpack(f"<{items}{'e' if item_bits == 16 else 'f'}", payload)
        position += nbytes + 4
    assert position == len(data) - 28
    values = np.array(values).reshape(frames, header["rows"], width)
    return header, values.transpose(1, 2, 0), length


@pytest.mark.parametrize("size", [1, 2, 5, 1024, 65536])
@pytest.mark.parametrize("frames", [0, 1, 300])
def test_codes(tmp_path, size, frames):
    data = np.random.default_rng(0).integers(0, size, (2, 3, frames)).astype(np.uint16)
    check(tmp_path / "a.dacz", data, codebook_size=size)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_latents(tmp_path, dtype):
    check(tmp_path / "a.dacz", np.random.default_rng(0).normal(size=(2, 8, 300)).astype(dtype))


def check(path, data, codebook_size=None):
    shape = {"sample_rate": 8000, "model_rate": 16000, "hop_length": 320, "channels": 2}
    length = data.shape[-1] * 160
    encoded = EncodedAudio(
        data=data, length=length, codebook_size=codebook_size, level=Gain(2.5), **shape
    )
    write_encoded(path, encoded)
    header, values, found_length = read_dacz(path.read_bytes())
    np.testing.assert_array_equal(values, data)
    assert found_length == length
    assert {key: header[key] for key in shape} == shape
    assert header["gain_db"] == 2.5
