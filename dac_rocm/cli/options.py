"""Flags that several sub-commands share, and the model that they describe."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dac_rocm.errors import ShapeError, SourceError

if TYPE_CHECKING:
    from dac_rocm.codec import Codec
    from dac_rocm.dac import DAC
    from dac_rocm.dacvae import DACVAE


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add what chooses a model, its device and its numbers."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        default=None,
        help="bundled name, preset (see `dac-rocm models`), Hub id, folder or file; default: tiny",
    )
    add_source_flags(group)
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    group.add_argument("--dtype", default="auto", help="auto, float32, float16 or bfloat16")
    group.add_argument("--snake", default="auto", help="auto, eager, torchscript, compile, triton")
    group.add_argument(
        "--conv-backend", default="auto", help="auto, library, miopen, cudnn, native or cpu"
    )


def add_source_flags(parser: argparse._ActionsContainer) -> None:
    """Add what says where a checkpoint is, beyond its name."""
    parser.add_argument("--subfolder", help="folder inside the Hub repository or folder")
    parser.add_argument("--revision", help="branch, tag or commit on the Hub")
    parser.add_argument("--offline", action="store_true", help="make no network call")
    parser.add_argument(
        "--model-rate", type=int, metavar="HZ", help="rate, where the checkpoint does not say"
    )


def source_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_source_flags` read, by the names of `load`."""
    return {
        "subfolder": args.subfolder,
        "revision": args.revision,
        "offline": args.offline,
        "sample_rate": args.model_rate,
    }


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Add what every command that writes files takes."""
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what was chosen, and why")


def add_chunk_flags(parser: argparse.ArgumentParser) -> None:
    """Add what bounds a push of the engine; neither changes the result."""
    parser.add_argument("--chunk-seconds", type=float, metavar="S", help="audio per engine push")
    parser.add_argument(
        "--max-memory", type=float, metavar="MB", help="memory for activations; default: by itself"
    )


def chunk_options(args: argparse.Namespace, model: Codec, half: str) -> dict[str, int | None]:
    """Return `tile` and `max_memory` as the flags say, and tell what was chosen if asked to."""
    unit = model.hop_length if half == "encoder" else 1
    tile = tile_of(args.chunk_seconds, model.config.frame_rate, unit)
    memory = None
    if args.max_memory is not None:
        _check_positive("--max-memory", args.max_memory)
        memory = int(args.max_memory * 1e6)
    if getattr(args, "verbose", False):
        chosen, choice = model.choose_tile(half, 1, max_memory=memory)
        reason = "--chunk-seconds" if tile else choice.reason
        seconds = (tile or chosen) / unit / model.config.frame_rate
        print(f"chunk of {seconds:.2f} s per channel: {reason}", file=sys.stderr)
    return {"tile": tile, "max_memory": memory}


def load_model(
    args: argparse.Namespace, *, parts: str = "all", default: str = "tiny"
) -> DAC | DACVAE:
    """Load the model that the flags describe, or `default` where they name none."""
    from dac_rocm.model import load

    model = load(
        args.model or default,
        parts=parts,
        **source_options(args),
        device=args.device,
        dtype=args.dtype,
        snake=args.snake,
    )
    if getattr(args, "verbose", False):
        for choice in model.choices:
            print(f"{choice.name}: {choice.reason}", file=sys.stderr)
    return model


def codebook_counts(text: str) -> list[int]:
    """Read numbers of codebooks with commas between; none where there is no text.

    Raises:
        ShapeError: Something else stands there.
    """
    try:
        return [int(n) for n in text.split(",") if n]
    except ValueError:
        raise ShapeError(
            f"--n-codebooks {text} found; numbers with commas between are expected, as 1,2,4."
        ) from None


def print_json(data: Any) -> None:
    """Print a value as JSON on stdout."""
    import json

    print(json.dumps(data, indent=2, ensure_ascii=False, default=str))


@contextmanager
def opened_output(path: str, force: bool) -> Iterator[BinaryIO]:
    """Open a target for writing: `-` is stdout, anything else appears whole or not at all."""
    from dac_rocm.atomic import atomic_write

    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with atomic_write(path, overwrite=force) as file:
            yield file


def default_target(source: str, suffix: str) -> str:
    """Name the target of a source: the same path with another suffix.

    Raises:
        SourceError: The source is no name of a file.
    """
    path = Path(source)
    if not path.name:
        raise SourceError(f"{source!r} found; the name of a file is expected. Give one.")
    return str(path.with_suffix(suffix))


def tile_of(seconds: float | None, frame_rate: float, unit: int = 1) -> int | None:
    """Turn `--chunk-seconds` into inputs per push: whole frames of `unit` inputs each."""
    if seconds is None:
        return None
    _check_positive("--chunk-seconds", seconds)
    return max(1, round(seconds * frame_rate)) * unit


def _check_positive(flag: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ShapeError(
            f"{flag} {value} found; a positive number is expected. Leave it out to let the model "
            "choose."
        )
