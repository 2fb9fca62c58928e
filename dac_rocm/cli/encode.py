"""`dac-rocm encode IN… [-o OUT]`: audio files, a folder of them or stdin, to `.dacz` or `.dac`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

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
    from dac_rocm.audio.reader import AudioReader
    from dac_rocm.codec import Codec
    from dac_rocm.pipeline.encoding import Options
    from dac_rocm.pipeline.level import Leveling

GPU_BATCH = 16
"""Short clips at once on a GPU, which one clip cannot fill; a CPU is full with one."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("encode", help="compress audio files")
    parser.add_argument("input", metavar="IN", nargs="+", help="audio file, folder, or - for stdin")
    parser.add_argument("-o", "--output", metavar="OUT", help="default: IN with the new suffix")
    parser.add_argument("--format", choices=("dacz", "dac"), help="default: by suffix, else dacz")
    parser.add_argument("--n-codebooks", type=int, metavar="K", help="codebooks to use")
    parser.add_argument("--no-loudness", action="store_true", help="leave the level as it is")
    parser.add_argument("--gain-db", type=float, metavar="DB", help="this gain, not a measured one")
    parser.add_argument("--latents-dtype", choices=("float32", "float16"), default="float32")
    add_chunk_flags(parser)
    raw = parser.add_argument_group("raw samples on stdin (else wav)")
    raw.add_argument("--rate", type=int, metavar="HZ")
    raw.add_argument("--channels", type=int)
    raw.add_argument("--sample-format", choices=("s16", "s24", "s32", "f32"))
    add_model_flags(parser)
    add_output_flags(parser)
    add_batch_flags(parser).add_argument(
        "--batch", type=int, metavar="N", help=f"short clips at once; default: {GPU_BATCH} on a GPU"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Encode a file, a folder or a stream."""
    from dac_rocm.cli.main import say
    from dac_rocm.pipeline import encode_file

    if is_batch(args.input):
        return _batch(args)
    (args.input,) = args.input
    if "-" in (args.input, args.output):
        return _stream(args)
    target = args.output or default_target(args.input, f".{args.format or 'dacz'}")
    model = load_model(args, parts="encoder")
    summary = encode_file(
        model,
        args.input,
        target,
        format=args.format,
        overwrite=args.force,
        **_options(args, model),
    )
    if args.json:
        print_json({**asdict(summary), "kbps": summary.kbps})
    say(
        f"{summary.source} -> {summary.target}: {summary.seconds:.2f} s, "
        f"{summary.file_bytes} bytes, {summary.kbps:.2f} kbps, "
        f"{summary.seconds / summary.elapsed:.1f}x real time"
    )
    return 0


def _options(args: argparse.Namespace, model: Codec) -> dict[str, Any]:
    return {
        "n_codebooks": args.n_codebooks,
        "loudness": not args.no_loudness,
        "gain_db": args.gain_db,
        "latents_dtype": args.latents_dtype,
        **chunk_options(args, model, "encoder"),
    }


def _batch(args: argparse.Namespace) -> int:
    """Encode what lies in a folder."""
    from dac_rocm.batch import AUDIO_SUFFIXES, Encoding
    from dac_rocm.pipeline.encoding import Options

    work = find_work(args, AUDIO_SUFFIXES, f".{args.format or 'dacz'}")
    if isinstance(work, int):
        return work
    model = load_model(args, parts="encoder")
    encoding = Encoding(
        model=model,
        options=Options(**_options(args, model)),
        overwrite=args.force,
        skip_existing=args.skip_existing,
    )
    on_cpu = model.device.type == "cpu"
    return run_batch(args, encoding, model, *work, group=args.batch or (1 if on_cpu else GPU_BATCH))


def _stream(args: argparse.Namespace) -> int:
    """Encode from or to a pipe, as `.dacz`."""
    from dac_rocm.errors import UnknownContainerError
    from dac_rocm.pipeline.encode import encode_reader
    from dac_rocm.pipeline.encoding import Options

    if "dac" in (args.format, (args.output or "")[-4:].lower().lstrip(".")):
        raise UnknownContainerError(
            "`.dac` asked of a stream found; `.dacz` is expected, since `.dac` stores what is only "
            "known at the end. Encode a file, or write .dacz."
        )
    model = load_model(args, parts="encoder")
    options = Options(**_options(args, model))
    with (
        _opened_input(args, model, options) as (reader, leveling),
        opened_output(args.output or "-", args.force) as file,
    ):
        encode_reader(model, reader, file, leveling, options)
    return 0


@contextmanager
def _opened_input(
    args: argparse.Namespace, model: Codec, options: Options
) -> Iterator[tuple[AudioReader, Leveling]]:
    """Open the audio and choose its gain: a file is measured first, stdin cannot be."""
    from dac_rocm.audio.files import open_audio
    from dac_rocm.audio.stream import open_stream
    from dac_rocm.cli.main import say
    from dac_rocm.pipeline.encoding import choose_level
    from dac_rocm.pipeline.level import fixed_gain

    if args.input != "-":
        leveling = choose_level(model, lambda: open_audio(args.input), options)
        with open_audio(args.input) as reader:
            yield reader, leveling
        return
    if args.gain_db is None:
        say("stdin is read once, so its loudness cannot be measured: gain 0 dB (see --gain-db)")
    reader = open_stream(
        sys.stdin.buffer,
        sample_rate=args.rate,
        channels=args.channels,
        sample_format=args.sample_format,
    )
    yield reader, fixed_gain(args.gain_db or 0.0, reader.channels)
