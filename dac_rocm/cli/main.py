"""Entry point: parse, run, and turn every error into one line and an exit code.

Exit 0: all done. 1: something failed, and was named. 2: wrong usage. 130 and 143: stopped by
Ctrl-C or SIGTERM, with nothing half-written.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import FrameType
from typing import NoReturn

from dac_rocm import __version__
from dac_rocm.errors import DacError

COMMANDS = (
    "encode",
    "decode",
    "repack",
    "info",
    "evaluate",
    "models",
    "inspect",
    "convert",
    "plot",
    "report",
    "doctor",
    "bench",
    "tokenize",
    "detokenize",
)
"""Sub-commands in the order of `--help`; each is a module of this package."""


class _Terminated(BaseException):
    """SIGTERM, as an exception, so that temporary files are removed on the way out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Arguments; default: those of the process.

    Returns:
        The exit code.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    said: set[str] = set()
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _show_warning(message, said)
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    previous = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        with _convolving(args):
            return int(args.run(args))
    except DacError as error:
        say(f"error: {_one_line(error)}")
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing was left half-written")
        return 130
    except _Terminated:
        say("terminated; nothing was left half-written")
        return 143
    except BrokenPipeError:
        _silence_stdout()
        return 1
    finally:
        signal.signal(signal.SIGTERM, previous)


def _convolving(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Return the context that `--conv-backend` asks for."""
    if getattr(args, "conv_backend", "auto") == "auto":
        return nullcontext()
    from dac_rocm.runtime.backends import conv_backend

    return conv_backend(args.conv_backend)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dac-rocm", description="Encode and decode audio with the Descript Audio Codec family."
    )
    parser.add_argument("--version", action="version", version=f"dac-rocm {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"dac_rocm.cli.{name}").add_parser(subparsers)
    return parser


def say(text: str) -> None:
    """Write a line to stderr."""
    print(text, file=sys.stderr, flush=True)


def _one_line(error: DacError) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())


def _show_warning(message: Warning | str, said: set[str]) -> None:
    """Say a warning as one line, and only once: files are read twice."""
    text = " ".join(str(message).split())
    if text not in said:
        said.add(text)
        say(f"warning: {text}")


def _on_sigterm(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated


def _silence_stdout() -> None:
    """Keep the interpreter from failing once more when it flushes a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
