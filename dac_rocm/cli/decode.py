"""`dac-rocm decode IN [-o OUT]`: `.dacz` or `.dac`, or stdin, to audio."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from io import BufferedReader
from pathlib import Path
from typing import cast

from dac_rocm.cli.options import (
    add_model_flags,
    add_output_flags,
    load_model,
    opened_output,
    print_json,
    tile_of,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("decode", help="restore audio files")
    parser.add_argument("input", metavar="IN", help="a .dacz or .dac file, or - for stdin")
    parser.add_argument("-o", "--output", metavar="OUT", help="default: IN with .wav")
    parser.add_argument("--subtype", choices=("pcm16", "pcm24", "float32"), help="default: as was")
    parser.add_argument("--raw", action="store_true", help="raw samples instead of wav on stdout")
    parser.add_argument("--start", type=float, metavar="S", help="second to begin at")
    parser.add_argument("--stop", type=float, metavar="S", help="second to end at")
    parser.add_argument("--chunk-seconds", type=float, metavar="S", help="audio per engine push")
    parser.add_argument("--any-model", action="store_true", help="decode another model's codes")
    parser.add_argument("--salvage", action="store_true", help="decode what is whole of a .dacz")
    add_model_flags(parser)
    add_output_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Decode one file or a stream."""
    from dac_rocm.cli.main import say
    from dac_rocm.container import read_info
    from dac_rocm.pipeline import decode_file

    if args.input == "-" or args.output == "-":
        return _stream(args)
    target = args.output or str(Path(args.input).with_suffix(".wav"))
    model = load_model(args, parts="decoder", default=_recorded(read_info(args.input).model.name))
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
        tile=tile_of(args.chunk_seconds, model.config.frame_rate),
    )
    if summary.clipped:
        say(
            f"warning: {summary.clipped} samples beyond full scale were clipped (peak "
            f"{summary.peak:.3f}); --subtype float32 keeps them"
        )
    for block in summary.lost:
        say(f"lost: block {block.block}, frames {block.start_frame} to {block.stop_frame}")
    if args.json:
        print_json(asdict(summary))
    say(
        f"{summary.source} -> {summary.target}: {summary.seconds:.2f} s, {summary.subtype}, "
        f"{summary.seconds / summary.elapsed:.1f}x real time"
    )
    return 1 if summary.lost else 0


def _recorded(name: str) -> str:
    """Name of the model that a file says made it, if that can be loaded by name."""
    from dac_rocm.presets import is_known

    return name if is_known(name) else "tiny"


def _stream(args: argparse.Namespace) -> int:
    """Decode from or to a pipe: audio comes out before the codes end."""
    from dac_rocm.audio.writer import create_stream
    from dac_rocm.pipeline.decode import decode_blocks, subtype_of
    from dac_rocm.pipeline.stored import opened, opened_stream

    source = (
        opened_stream(cast("BufferedReader", sys.stdin.buffer))
        if args.input == "-"
        else opened(args.input)
    )
    with source as stored, opened_output(args.output or "-", args.force) as file:
        about = stored.about
        model = load_model(args, parts="decoder", default=_recorded(about.model.name))
        part = (args.start, args.stop) if args.start or args.stop else None
        blocks = decode_blocks(
            model,
            stored,
            part=part,
            any_model=args.any_model,
            live=True,
            tile=tile_of(args.chunk_seconds, model.config.frame_rate),
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
    return 0
