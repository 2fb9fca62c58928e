"""`dac-rocm encode IN [-o OUT]`: an audio file, or stdin, to `.dacz` or `.dac`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

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
    parser = subparsers.add_parser("encode", help="compress audio files")
    parser.add_argument("input", metavar="IN", help="an audio file, or - for stdin")
    parser.add_argument("-o", "--output", metavar="OUT", help="default: IN with the new suffix")
    parser.add_argument("--format", choices=("dacz", "dac"), help="default: by suffix, else dacz")
    parser.add_argument("--n-codebooks", type=int, metavar="K", help="codebooks to use")
    parser.add_argument("--no-loudness", action="store_true", help="leave the level as it is")
    parser.add_argument("--gain-db", type=float, metavar="DB", help="this gain, not a measured one")
    parser.add_argument("--latents-dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--chunk-seconds", type=float, metavar="S", help="audio per engine push")
    raw = parser.add_argument_group("raw samples on stdin (else wav)")
    raw.add_argument("--rate", type=int, metavar="HZ")
    raw.add_argument("--channels", type=int)
    raw.add_argument("--sample-format", choices=("s16", "s24", "s32", "f32"))
    add_model_flags(parser)
    add_output_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Encode one file or a stream."""
    from dac_rocm.cli.main import say
    from dac_rocm.pipeline import encode_file

    if args.input == "-":
        return _stream(args)
    target = args.output or str(Path(args.input).with_suffix(f".{args.format or 'dacz'}"))
    model = load_model(args, parts="encoder")
    summary = encode_file(
        model,
        args.input,
        target,
        format=args.format,
        overwrite=args.force,
        n_codebooks=args.n_codebooks,
        loudness=not args.no_loudness,
        gain_db=args.gain_db,
        latents_dtype=args.latents_dtype,
        tile=tile_of(args.chunk_seconds, model.config.frame_rate, model.hop_length),
    )
    if args.json:
        print_json(asdict(summary))
    say(
        f"{summary.source} -> {summary.target}: {summary.seconds:.2f} s, "
        f"{summary.file_bytes} bytes, {summary.kbps:.2f} kbps, "
        f"{summary.seconds / summary.elapsed:.1f}x real time"
    )
    return 0


def _stream(args: argparse.Namespace) -> int:
    """Encode stdin in one pass: the loudness cannot be measured first."""
    from dac_rocm.audio.stream import open_stream
    from dac_rocm.cli.main import say
    from dac_rocm.pipeline.encode import Options, encode_reader
    from dac_rocm.pipeline.level import fixed_gain

    gain = args.gain_db if args.gain_db is not None else 0.0
    if args.gain_db is None:
        say("stdin is read once, so its loudness cannot be measured: gain 0 dB (see --gain-db)")
    model = load_model(args, parts="encoder")
    options = Options(
        n_codebooks=args.n_codebooks,
        latents_dtype=args.latents_dtype,
        tile=tile_of(args.chunk_seconds, model.config.frame_rate, model.hop_length),
    )
    reader = open_stream(
        sys.stdin.buffer,
        sample_rate=args.rate,
        channels=args.channels,
        sample_format=args.sample_format,
    )
    with opened_output(args.output or "-", args.force) as file:
        encode_reader(model, reader, file, fixed_gain(gain, reader.channels), options)
    return 0
