import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dac_rocm.container.bits import pack, packed_size, unpack


@given(st.integers(1, 16), st.data())
def test_round_trip(width, data):
    values = data.draw(st.lists(st.integers(0, 2**width - 1), max_size=200))
    packed = pack(np.array(values, np.uint16), width)
    assert len(packed) == packed_size(len(values), width)
    assert unpack(packed, width, len(values)).tolist() == values


@given(st.integers(1, 16), st.data())
def test_is_the_number_written_in_binary(width, data):
    values = data.draw(st.lists(st.integers(0, 2**width - 1), min_size=1, max_size=40))
    text = "".join(format(value, f"0{width}b") for value in values)
    text = text.ljust(-(-len(text) // 8) * 8, "0")
    assert pack(np.array(values), width) == int(text, 2).to_bytes(len(text) // 8, "big")


def test_bytes():
    assert pack(np.array([[1, 2], [3, 1023]]), 10) == bytes([0, 0x40, 0x20, 0x0F, 0xFF])
    assert unpack(bytes([0, 0x40, 0x20, 0x0F, 0xFF]), 10, 4).tolist() == [1, 2, 3, 1023]


def test_takes_no_more_values_than_asked():
    assert unpack(b"\xff\xff", 3, 2).tolist() == [7, 7]


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint32])
def test_any_integer_type(dtype):
    assert pack(np.array([1, 0, 1], dtype), 1) == b"\xa0"
