"""What the package promises: its names, and the signatures of everything they lead to.

`public_api.txt` is the promise as text. A change of it is a change for users: run this file as a
script to write it again, and say so in CHANGELOG.md.
"""

import inspect
import re
from pathlib import Path

import dac_rocm

PROMISE = Path(__file__).with_name("public_api.txt")


def lines():
    """Yield a line per public function, class, method and property."""
    for name in dac_rocm.__all__:
        value = getattr(dac_rocm, name)
        yield f"{name}{signature(value)}"
        if inspect.isclass(value):
            yield from sorted(members(value, name))


def members(cls, name):
    for key in dir(cls):
        home = next(base for base in cls.__mro__ if key in vars(base))
        if key.startswith("_") or not home.__module__.startswith("dac_rocm."):
            continue
        value = vars(home)[key]
        if isinstance(value, property):
            yield f"{name}.{key} -> {value.fget.__annotations__['return']}"
        elif callable(value) or isinstance(value, classmethod):
            yield f"{name}.{key}{signature(getattr(value, '__func__', value))}"


def signature(value):
    if inspect.isclass(value) and issubclass(value, Exception):
        return "(message)"
    text = str(inspect.signature(value))
    return re.sub(r"(: |-> )([\"'])(.*?)\2", r"\1\3", text)  # annotations are kept as strings


def test_names_are_what_is_visible():
    assert dac_rocm.__all__ == sorted(dac_rocm.__all__)
    assert dir(dac_rocm) == sorted([*dac_rocm.__all__, "__version__"])


def test_names_come_from_the_package():
    for name in dac_rocm.__all__:
        assert getattr(dac_rocm, name).__module__.startswith("dac_rocm."), name


def test_unknown_names_are_refused():
    assert not hasattr(dac_rocm, "dac_vae")


def test_type_checkers_see_the_same_names():
    source = Path(dac_rocm.__file__).read_text()
    for name in dac_rocm.__all__:
        assert f"import {name} as {name}\n" in source


def test_signatures():
    assert "\n".join(lines()) == PROMISE.read_text().rstrip("\n")


if __name__ == "__main__":
    PROMISE.write_text("\n".join(lines()) + "\n")
