"""A pickle reader that can only build data.

Python's own unpickler is a machine that imports, calls and allocates as the file says. This one
knows the few opcodes that data needs. A global is looked up in a table of the caller's and never
imported; what stands in the table is all that a file can call. This room must not import what a
file names.
"""

from __future__ import annotations

import io
import pickletools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dac_rocm.errors import ContainerError, DacError, TruncatedFileError, UnsafeFileError

MAX_OPCODES = 4096  # a `.dac` file has about 120; each can cost 100 bytes or so
_NUMBERS = ["BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"]
_STRINGS = ["BINUNICODE", "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES"]

Known = Mapping[tuple[str, str], Callable[..., object]]


class StandIn(ABC):
    """What a pickle may build instead of the object it names."""

    @abstractmethod
    def build(self, state: Any) -> None:
        """Take the state that the pickle gives; it may be anything.

        Args:
            state: Whatever the file says.
        """


@dataclass(frozen=True)
class _Global:
    make: Callable[..., object]


def read_pickle(file: io.BytesIO, known: Known) -> Any:
    """Build the data of one pickle, and leave `file` behind it.

    Args:
        file: The pickle, of protocol 2 to 4.
        known: What a file may name, as (module, name), and what is called in its place.

    Returns:
        Numbers, text, bytes, tuples, lists, dicts with text as keys, and what `known` makes. It
        may be deeply nested and refer to itself: compare no more of it than needed, and print none.

    Raises:
        UnsafeFileError: The pickle names or does something else.
        TruncatedFileError: It ends too early.
        ContainerError: It is no pickle.
    """
    try:
        return _run(file, known)
    except DacError:
        raise
    except Exception as error:  # every way in which a hostile file can trip the machine
        if file.read(1):
            raise ContainerError(
                f"a broken pickle found ({type(error).__name__}); the data of a `.dac` file is "
                "expected. Fetch the file again."
            ) from error
        raise TruncatedFileError(
            "a file that ends within its data found; more bytes are expected. Fetch it again."
        ) from error


def _run(file: io.BytesIO, known: Known) -> Any:
    machine = _Machine(known)
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if count == MAX_OPCODES:
            raise UnsafeFileError(_unsafe(f"a pickle of more than {MAX_OPCODES} steps"))
        if opcode.name == "STOP":
            break
        action = _ACTIONS.get(opcode.name)
        if action is None:
            raise UnsafeFileError(_unsafe(f"pickle step {opcode.name}"))
        action(machine, argument)
    return machine.stack.pop()


class _Machine:
    """The stack, the stacks below its marks, and the memo."""

    def __init__(self, known: Known) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.known = known

    def push(self, value: object) -> None:
        self.stack.append(value)

    def mark(self, _: object) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def remember(self, slot: int | None) -> None:
        self.memo[len(self.memo) if slot is None else slot] = self.stack[-1]

    def recall(self, slot: int) -> None:
        self.push(self.memo[slot])

    def look_up(self, module: object, name: object) -> None:
        if not (isinstance(module, str) and isinstance(name, str)):
            raise UnsafeFileError(_unsafe("a global without a name"))
        if (module, name) not in self.known:
            raise UnsafeFileError(_unsafe(f"a call of {ascii(f'{module}.{name}')[:80]}"))
        self.push(_Global(self.known[module, name]))

    def look_up_stack(self, _: object) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.look_up(module, name)

    def call(self, _: object) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, _Global) or not isinstance(arguments, tuple):
            raise UnsafeFileError(_unsafe("a call of something that is no function"))
        self.push(function.make(*arguments))

    def build(self, _: object) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], StandIn):
            raise UnsafeFileError(_unsafe("a change of something that has no state"))
        self.stack[-1].build(state)

    def pop(self, count: int) -> list[Any]:
        return [self.stack.pop() for _ in range(count)][::-1]

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise UnsafeFileError(_unsafe("an append to something that is no list"))
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        keys = items[::2]
        if type(self.stack[-1]) is not dict or not all(type(key) is str for key in keys):
            raise UnsafeFileError(_unsafe("an entry of something that is no dict of names"))
        self.stack[-1].update(zip(keys, items[1::2], strict=True))


def _unsafe(what: str) -> str:
    return (
        f"{what} found; a `.dac` file of plain data is expected. Nothing of it was run: "
        "do not trust the file."
    )


_Action = Callable[[_Machine, Any], None]
_ACTIONS: dict[str, _Action] = {
    **dict.fromkeys([*_NUMBERS, *_STRINGS], _Machine.push),
    **dict.fromkeys(["PROTO", "FRAME", "BINPERSID"], lambda machine, argument: None),
    **dict.fromkeys(["BINPUT", "LONG_BINPUT", "MEMOIZE"], _Machine.remember),
    **dict.fromkeys(["BINGET", "LONG_BINGET"], _Machine.recall),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "MARK": _Machine.mark,
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.push(tuple(machine.pop(1))),
    "TUPLE2": lambda machine, _: machine.push(tuple(machine.pop(2))),
    "TUPLE3": lambda machine, _: machine.push(tuple(machine.pop(3))),
    "APPEND": lambda machine, _: machine.extend(machine.pop(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.update(machine.pop(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.since_mark()),
    "GLOBAL": lambda machine, names: machine.look_up(*names.split(" ", 1)),
    "STACK_GLOBAL": _Machine.look_up_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
}
