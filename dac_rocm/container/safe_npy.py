"""Descript's `.dac` as plain data: an NPY file of one pickled dict, read without running anything.

What the pickle names is built as stand-ins that hold bytes, a type and a shape; they become numpy
arrays only when asked. This room must import neither torch nor, to read, numpy.
"""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from dac_rocm.container.safe_pickle import Known, StandIn, read_pickle
from dac_rocm.errors import ContainerError, TruncatedFileError, UnsupportedVersionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

NPY_MAGIC = b"\x93NUMPY"
NPY_HEADER = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"  # as `np.save` writes it
MAX_FILE_SIZE = 1 << 30  # bytes, all of it read at once: 3 days of stereo at 8 kbps
MAX_STORAGE_SIZE = 4096  # bytes of a pickled torch tensor: one number takes 255
MAX_AXES = 8

_FORMATS = {  # numpy's names of number types, and struct's
    **{"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"},
    **{"i8": "q", "u8": "Q", "f2": "e", "f4": "f", "f8": "d"},
}
_ORDERS = {"<": "<", "|": "<", "=": "<", ">": ">"}


@dataclass
class DType(StandIn):
    """Stands for `numpy.dtype`."""

    code: object = ""
    order: object = "<"

    def build(self, state: Any) -> None:
        """Take (version, byte order, ...)."""
        self.order = state[1]

    @property
    def format(self) -> str:
        """Format of one value for `struct`.

        Raises:
            ContainerError: It is no number.
        """
        if not (isinstance(self.code, str) and isinstance(self.order, str)):
            raise _broken("a type without a name")
        if self.code not in _FORMATS or self.order not in _ORDERS:
            raise _broken("an array of something that is no number")
        return _ORDERS[self.order] + _FORMATS[self.code]


@dataclass
class Array(StandIn):
    """Stands for `numpy.ndarray`, numpy scalars and torch tensors; checked only when used."""

    shape: Any = ()
    dtype: Any = field(default_factory=DType)
    is_fortran: Any = False
    data: Any = b""

    def build(self, state: Any) -> None:
        """Take (version, shape, dtype, whether in Fortran order, data)."""
        _, self.shape, self.dtype, self.is_fortran, self.data = state

    def check(self) -> None:
        """Hold shape, type and bytes against each other.

        Raises:
            ContainerError: They do not fit.
        """
        shape, data = self.shape, self.data
        if type(shape) is not tuple or len(shape) > MAX_AXES or type(self.is_fortran) is not bool:
            raise _broken("an array without a shape")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise _broken("an array with a wrong axis")
        if not isinstance(self.dtype, DType) or type(data) is not bytes:
            raise _broken("an array of something that is no number")
        if math.prod(shape) * struct.calcsize(self.dtype.format) != len(data):
            raise _broken(f"an array of {len(data)} bytes that do not fill its shape")

    def to_numpy(self) -> NDArray[Any]:
        """Make the array, in this machine's byte order.

        Raises:
            ContainerError: Shape, type and bytes do not fit.
        """
        import numpy as np

        self.check()
        values = np.frombuffer(self.data, np.dtype(self.dtype.format))
        values = values.astype(values.dtype.newbyteorder("="))
        return values.reshape(self.shape, order="F" if self.is_fortran else "C")


def read_object(file: BinaryIO) -> Any:
    """Read the object in an NPY file.

    Args:
        file: A binary file open for reading, at its start.

    Returns:
        Plain data and stand-ins; see `read_pickle`.

    Raises:
        ContainerError: Not a file that `np.save` made of one object.
        UnsafeFileError: A pickle that asks for more than data.
    """
    data = file.read(MAX_FILE_SIZE + 1)
    if len(data) > MAX_FILE_SIZE:
        raise ContainerError(
            f"a `.dac` file of more than {MAX_FILE_SIZE} bytes found; less is expected, since it "
            "is read at once. Store long recordings as `.dacz`."
        )
    outer = read_pickle(io.BytesIO(_payload(data)), KNOWN)
    if not isinstance(outer, Array) or type(outer.data) is not list or len(outer.data) != 1:
        raise _broken("something other than one object")
    return outer.data[0]


def plain(value: object) -> Any:
    """Take the number out of an array of one value; leave everything else as it is."""
    if not isinstance(value, Array):
        return value
    value.check()
    if math.prod(value.shape) != 1:
        return value
    (number,) = struct.unpack(value.dtype.format, value.data)
    return number


def _payload(data: bytes) -> bytes:
    """What follows the NPY header."""
    if len(data) < 10:
        raise TruncatedFileError(
            f"an NPY file of {len(data)} bytes found; a header is expected. Fetch it again."
        )
    major, minor, size = struct.unpack("<BBH", data[6:10])
    if not data.startswith(NPY_MAGIC) or (major, minor) != (1, 0):
        raise UnsupportedVersionError(
            f"NPY version {major}.{minor} found; 1.0 is expected, as in every `.dac`. Check what "
            "the file is."
        )
    header, payload = data[10 : 10 + size], data[10 + size :]
    if header.rstrip() != NPY_HEADER:
        raise _broken("an NPY file of another kind")
    return payload


def _broken(what: str) -> ContainerError:
    return ContainerError(
        f"{what} found; the data of a `.dac` file is expected. Check where the file comes from."
    )


def _dtype(code: object, *_: object) -> DType:
    return DType(code)


def _reconstruct(*_: object) -> Array:
    return Array()


def _scalar(dtype: object, data: object) -> Array:
    return Array((), dtype, False, data)


def _refuse(*_: object) -> object:
    raise _broken("a call of a type")


def _torch_storage(data: object) -> Array:
    """Read a storage as torch pickled it before its zip format.

    Five pickles (magic, version, system, the storage's description, its keys), the count as int64,
    the values.

    Source: `torch.serialization._legacy_save`.
    """
    if not isinstance(data, bytes) or len(data) > MAX_STORAGE_SIZE:
        raise _broken("a tensor that is no single number")
    file = io.BytesIO(data)
    parts = [read_pickle(file, _STORAGES) for _ in range(5)]
    (_, storage, _, _, count, *_) = parts[3]
    file.seek(8, io.SEEK_CUR)
    return Array((count,), storage.make(), False, file.read())


def _torch_tensor(storage: object, offset: object, size: object, *_: object) -> Array:
    if not isinstance(storage, Array) or offset != 0:
        raise _broken("a tensor that is no single number")
    return Array(size, storage.dtype, False, storage.data)


_STORAGES: Known = {
    ("torch", "HalfStorage"): partial(DType, "f2"),
    ("torch", "FloatStorage"): partial(DType, "f4"),
    ("torch", "DoubleStorage"): partial(DType, "f8"),
}
KNOWN: Known = {
    **{
        (f"numpy.{core}.multiarray", name): make
        for core in ("core", "_core")
        for name, make in (("_reconstruct", _reconstruct), ("scalar", _scalar))
    },
    ("numpy", "ndarray"): _refuse,
    ("numpy", "dtype"): _dtype,
    ("torch._utils", "_rebuild_tensor_v2"): _torch_tensor,
    ("torch.storage", "_load_from_bytes"): _torch_storage,
    ("collections", "OrderedDict"): dict,
}
