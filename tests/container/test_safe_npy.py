import io
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dac_rocm.container.safe_npy import KNOWN, Array, DType, plain, read_object
from dac_rocm.container.safe_pickle import MAX_OPCODES, read_pickle
from dac_rocm.errors import (
    ContainerError,
    TruncatedFileError,
    UnsafeFileError,
    UnsupportedVersionError,
)


def saved(value):
    file = io.BytesIO()
    np.save(file, value, allow_pickle=True)
    return file.getvalue()


def read(value):
    return read_object(io.BytesIO(saved(value)))


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**100)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.lists(inner, max_size=4).map(tuple)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_plain_data_is_what_numpy_reads(value):
    assert read({"value": value}) == {"value": value}


@given(PLAIN, st.sampled_from([3, 4]))
def test_pickles_of_both_protocols(value, protocol):
    assert read_pickle(io.BytesIO(pickle.dumps(value, protocol)), {}) == value


@pytest.mark.parametrize(
    "code", ["?", "i1", "<u2", ">u2", "<i4", ">i8", "<f2", "<f4", ">f8", "=u8"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(code, order):
    array = np.arange(24).reshape(2, 3, 4).astype(code, order=order)
    found = read({"a": array})["a"].to_numpy()
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    "value",
    [np.float32(1.5), np.int64(-7), np.array([2.5]), np.array(True), np.array([[3]], ">u2")],
)
def test_one_value_is_a_number(value):
    assert plain(read({"a": value})["a"]) == value.item()


def test_several_values_are_none():
    assert isinstance(plain(read({"a": np.zeros(2)})["a"]), Array)


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (Array((2,), DType("u2"), False, b"123"), "do not fill"),
        (Array((2**40, 2**40), DType("u2"), False, b""), "do not fill"),
        (Array((-1, -1), DType("u1"), False, b"1"), "wrong axis"),
        (Array((True,), DType("u1"), False, b"1"), "wrong axis"),
        (Array((1,) * 9, DType("u1"), False, b"1"), "without a shape"),
        (Array([1], DType("u1"), False, b"1"), "without a shape"),
        (Array((1,), DType("u1"), 0, b"1"), "without a shape"),
        (Array((1,), DType("O8"), False, b"12345678"), "no number"),
        (Array((1,), DType("u1", "?"), False, b"1"), "no number"),
        (Array((1,), DType(("u1",)), False, b"1"), "without a name"),
        (Array((1,), "u1", False, b"1"), "no number"),
        (Array((1,), DType("u1"), False, [1]), "no number"),
    ],
)
def test_arrays_that_do_not_fit(array, match):
    with pytest.raises(ContainerError, match=match):
        array.to_numpy()


PROTO = b"\x80\x03"


@pytest.mark.parametrize(
    ("pickled", "match"),
    [
        (b"cos\nsystem\nX\x02\x00\x00\x00ls\x85R.", "os.system"),
        (b"cbuiltins\neval\n.", "builtins.eval"),
        (b"cnumpy.core\nmultiarray._reconstruct\n.", "a call of"),
        (b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.", "os.system"),
        (b"}K\x01\x93.", "without a name"),
        (b"cnumpy\ndtype\n)\x81.", "NEWOBJ"),
        (b"(ios\nsystem\n.", "INST"),
        (b"\x82\x01.", "EXT1"),
        (b"K\x01K\x02\x85R.", "no function"),
        (b"cnumpy\ndtype\n]R.", "no function"),
        (b"}}b.", "no state"),
        (b"cnumpy\ndtype\n}b.", "no state"),
        (b")K\x01a.", "no list"),
        (b"]K\x01K\x02s.", "no dict"),
        (b"}K\x01K\x02s.", "no dict of names"),
        (b"0" * 3 + b".", "POP"),
        (b"]" * (MAX_OPCODES + 1) + b".", "steps"),
    ],
)
def test_unsafe_pickles(pickled, match):
    with pytest.raises(UnsafeFileError, match=match):
        read_pickle(io.BytesIO(PROTO + pickled), KNOWN)


@pytest.mark.parametrize(
    "pickled",
    [
        b"h\x07. ",  # a memo that was never written
        b". ",  # nothing to return
        b"t. ",  # no mark
        b"(X\x01\x00\x00\x00au. ",
        b"}(X\x01\x00\x00\x00au. ",  # a key without a value
        b"\xff. ",
        b"X\x01\x00\x00\x00\xff. ",  # not UTF-8
        b"cnumpy\ndtype\n)R. ",
        b"cnumpy\ndtype\nX\x02\x00\x00\x00u2\x85R)b. ",  # a state without an order
        b"cnumpy\nndarray\n)R. ",
    ],
)
def test_broken_pickles(pickled):
    with pytest.raises(ContainerError, match="found"):
        read_pickle(io.BytesIO(PROTO + pickled), KNOWN)


@pytest.mark.parametrize(
    "pickled",
    [b"", b"B\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 7 + b"\x7f1", b"\x8b\xff\xff\xff\x7f"],
)
def test_declared_sizes_beyond_the_file(pickled):
    with pytest.raises(TruncatedFileError, match="more bytes"):
        read_pickle(io.BytesIO(PROTO + pickled), {})


def test_a_memo_of_any_number_costs_nothing():
    assert read_pickle(io.BytesIO(b"K\x05r\xff\xff\xff\xff."), {}) == 5


def tensor(storage, offset=0, size=(1,)):
    items = (storage, offset, size, (1,), False)
    return _Call("torch._utils", "_rebuild_tensor_v2", items)


class _Call:
    """Pickles as a call of something that need not be there."""

    def __init__(self, module, name, arguments):
        self.parts = module, name, arguments

    def opcodes(self):
        module, name, arguments = self.parts
        inner = b"".join(
            a.opcodes() if isinstance(a, _Call) else pickle.dumps(a, 3)[2:-1] for a in arguments
        )
        return f"c{module}\n{name}\n(".encode() + inner + b"tR"


def storage_bytes(kind="FloatStorage", count=1, values=b"\x00\x00\xb4\xc1"):
    described = b"\x80\x02(X\x07\x00\x00\x00storage" + f"ctorch\n{kind}\n".encode()
    described += pickle.dumps("1", 2)[2:-1] + pickle.dumps("cpu", 2)[2:-1]
    described += pickle.dumps(count, 2)[2:-1] + b"NtQ."
    parts = [pickle.dumps(1, 2), pickle.dumps(1001, 2), pickle.dumps({}, 2), described]
    return b"".join(parts) + pickle.dumps(["1"], 2) + struct.pack("<q", 1) + values


def torch_value(data=None, **changes):
    storage = _Call(
        "torch.storage", "_load_from_bytes", (storage_bytes() if data is None else data,)
    )
    return plain(read_pickle(io.BytesIO(tensor(storage, **changes).opcodes() + b". "), KNOWN))


def test_torch_tensors_of_one_number():
    assert torch_value() == -22.5
    assert torch_value(size=()) == -22.5
    assert torch_value(storage_bytes("DoubleStorage", values=struct.pack("<d", 1.25))) == 1.25
    assert torch_value(storage_bytes("HalfStorage", values=struct.pack("<e", 0.5))) == 0.5


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        (b"", {}),
        (b"x" * 5000, {}),
        (7, {}),
        (storage_bytes("ComplexStorage"), {}),
        (storage_bytes(values=b""), {}),
        (storage_bytes(), {"offset": 1}),
        (storage_bytes(), {"size": (2,)}),
        (storage_bytes(), {"size": "ab"}),
    ],
)
def test_torch_tensors_that_are_none(data, changes):
    with pytest.raises(ContainerError, match="found"):
        torch_value(data, **changes)


def test_other_npy_files():
    good = saved({"a": 1})
    with pytest.raises(UnsupportedVersionError, match=r"NPY version 2\.0"):
        read_object(io.BytesIO(good[:6] + b"\x02" + good[7:]))
    with pytest.raises(ContainerError, match="another kind"):
        read_object(io.BytesIO(saved(np.zeros(3))))
    with pytest.raises(ContainerError, match="another kind"):
        read_object(io.BytesIO(saved(np.array([{}, {}], object))))
    with pytest.raises(TruncatedFileError):
        read_object(io.BytesIO(good[:9]))
    with pytest.raises(ContainerError, match="one object"):
        read_object(io.BytesIO(good[:128] + pickle.dumps({"a": 1})))


def test_a_file_too_large_to_be_read_at_once(monkeypatch):
    monkeypatch.setattr("dac_rocm.container.safe_npy.MAX_FILE_SIZE", 100)
    with pytest.raises(ContainerError, match="more than 100 bytes"):
        read({"a": 1})
