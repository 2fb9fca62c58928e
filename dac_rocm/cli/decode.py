"""`dac-rocm decode IN… [-o OUT]`: `.dacz` or `.dac`, a folder of them or stdin, to audio."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from io import BufferedReader
from typing import TYPE_CHECKING, cast

from dac_rocm.cli.batch import add_batch_flags, find_work, is_batch, run_batch
from dac_rocm.cli.options import (
    add_chunk_flags,
    add_model_flags,
    add_output_flags,
    chunk_options,
    default_target,
    load_model,
    opened_output,
    print_json,
)

if TYPE_CHECKING:
    from dac_rocm.batch import Pair
    from dac_rocm.container import LostBlock
    from dac_rocm.encoded import EncodedAudio
    from dac_rocm.pipeline.stored import Stored


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("decode", help="restore audio files")
    parser.add_argument(
        "input", metavar="IN", nargs="+", help=".dacz or .dac file, folder, or - for stdin"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="default: IN with .wav")
    parser.add_argument("--subtype", choices=("pcm16", "pcm24", "float32"), help="default: as was")
    parser.add_argument("--raw", action="store_true", help="raw samples instead of wav on stdout")
    parser.add_argument("--start", type=float, metavar="S", help="second to begin at")
    parser.add_argument("--stop", type=float, metavar="S", help="second to end at")
    add_chunk_flags(parser)
    parser.add_argument("--any-model", action="store_true", help="decode another model's codes")
    parser.add_argument("--salvage", action="store_true", help="decode what is whole of a .dacz")
    add_model_flags(parser)
    add_output_flags(parser)
    add_batch_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Decode a file, a folder or a stream."""
    from dac_rocm.cli.main import say
    from dac_rocm.pipeline import decode_file

    if is_batch(args.input):
        return _batch(args)
    (args.input,) = args.input
    if args.input == "-" or args.output == "-":
        return _stream(args)
    target = args.output or default_target(args.input, ".wav")
    model = load_model(args, parts="decoder", default=_default(args, _made_by(args.input)))
    summary = decode_file(
        model,
        args.input,
        target,
        subtype=args.subtype,
        start=args.start,
        stop=args.stop,
        overwrite=args.force,
        any_model=args.any_model,
        salvage=args.salvage,
        **chunk_options(args, model, "decoder"),
    )
    if summary.clipped:
        say(
            f"warning: {summary.clipped} samples beyond full scale were clipped (peak "
            f"{summary.peak:.3f}); --subtype float32 keeps them"
        )
    _say_lost(summary.lost)
    if args.json:
        print_json(asdict(summary))
    say(
        f"{summary.source} -> {summary.target}: {summary.seconds:.2f} s, {summary.subtype}, "
        f"{summary.seconds / summary.elapsed:.1f}x real time"
    )
    return 1 if summary.lost else 0


def _made_by(path: str) -> str:
    """Name of the model that a file says made it; the file may be cut short."""
    from dac_rocm.pipeline.stored import opened

    with opened(path, []) as stored:
        return stored.about.model.name


def _default(args: argparse.Namespace, name: str) -> str:
    return args.model or _recorded(name)


def _recorded(name: str) -> str:
    """Name of the model that a file says made it, if that can be loaded by name.

    Raises:
        SourceError: The file names a model that is not known by name.
    """
    from dac_rocm.errors import SourceError
    from dac_rocm.presets import is_known

    if name and not is_known(name):
        raise SourceError(
            f"a file made by model {name!r} found, which is not known by name; a model is "
            "expected. Say which with --model (a folder, file or Hub id)."
        )
    return name or "tiny"


def _batch(args: argparse.Namespace) -> int:
    """Decode what lies in a folder, with one model."""
    from dac_rocm.batch import ENCODED_SUFFIXES, Decoding
    from dac_rocm.cli.main import say

    if args.raw or args.start is not None or args.stop is not None:
        say("error: --raw, --start or --stop found with a folder; they are for one file")
        return 2
    work = find_work(args, ENCODED_SUFFIXES, ".wav")
    if isinstance(work, int):
        return work
    found, pairs = work
    model = load_model(args, parts="decoder", default=args.model or _first_recorded(pairs))
    decoding = Decoding(
        model=model,
        subtype=args.subtype,
        any_model=args.any_model,
        salvage=args.salvage,
        overwrite=args.force,
        skip_existing=args.skip_existing,
        tile=chunk_options(args, model, "decoder")["tile"],
    )
    return run_batch(args, decoding, model, found, pairs)


def _first_recorded(pairs: Sequence[Pair]) -> str:
    """Name of the model that the first readable file says made it, if there is one."""
    from dac_rocm.container import read_info
    from dac_rocm.errors import DacError

    for job in pairs:
        with suppress(DacError):
            if name := read_info(job.source).model.name:
                return _recorded(name)
    return "tiny"


def _stream(args: argparse.Namespace) -> int:
    """Decode from or to a pipe: audio comes out before the codes end."""
    from dac_rocm.audio.writer import create_stream
    from dac_rocm.pipeline.decode import decode_blocks, subtype_of

    lost: list[LostBlock] | None = [] if args.salvage else None
    with _opened(args, lost) as stored, opened_output(args.output or "-", args.force) as file:
        about = stored.about
        model = load_model(args, parts="decoder", default=_default(args, about.model.name))
        _say_level(about)
        whole = args.start is None and args.stop is None
        blocks = decode_blocks(
            model,
            stored,
            part=None if whole else (args.start, args.stop),
            any_model=args.any_model,
            live=True,
            tile=chunk_options(args, model, "decoder")["tile"],
        )
        writer = create_stream(
            file,
            about.sample_rate,
            about.channels,
            subtype=args.subtype or subtype_of(about),
            raw=args.raw,
        )
        for block in blocks:
            writer.write(block)
            file.flush()
    _say_lost(lost or ())
    return 1 if lost else 0


def _opened(
    args: argparse.Namespace, lost: list[LostBlock] | None
) -> AbstractContextManager[Stored]:
    from dac_rocm.pipeline.stored import opened, opened_stream

    if args.input == "-":
        return opened_stream(cast("BufferedReader", sys.stdin.buffer), lost)
    return opened(args.input, lost)


def _say_level(about: EncodedAudio) -> None:
    from dac_rocm.cli.main import say
    from dac_rocm.encoded import Loudness

    if isinstance(about.level, Loudness):
        say(
            "a stream cannot wait for the loudness of the whole: the gain before encoding is undone"
        )


def _say_lost(lost: Sequence[LostBlock]) -> None:
    from dac_rocm.cli.main import say

    for block in lost:
        say(f"lost: block {block.block}, frames {block.start_frame} to {block.stop_frame}")
