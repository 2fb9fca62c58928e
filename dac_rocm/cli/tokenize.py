"""`dac-rocm tokenize SRC DST`: a corpus to Parquet or WebDataset shards, here or on Ray."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dac_rocm.cli.options import add_model_flags, print_json, source_options

if TYPE_CHECKING:
    from dac_rocm.distributed import Engine, Summary

LISTED = 20
"""Failures that are listed; all of them are in a file."""
LOG_SECONDS = 30.0
"""Between two lines of progress."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("tokenize", help="encode a corpus into shards for training")
    parser.add_argument(
        "source",
        metavar="SRC",
        help="folder of audio, .parquet, WebDataset .tar or saved datasets, in any mixture",
    )
    parser.add_argument("target", metavar="DST", help="folder of the shards; a run goes on there")
    parser.add_argument("--format", choices=("parquet", "webdataset"), default="parquet")
    parser.add_argument("--shard-size", type=int, metavar="N", help="items; default: 1000")
    parser.add_argument("--n-codebooks", type=int, metavar="K", help="codebooks to use")
    parser.add_argument("--no-loudness", action="store_true", help="leave the level as it is")
    parser.add_argument("--gain-db", type=float, metavar="DB", help="this gain, not a measured one")
    parser.add_argument("--latents-dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--audio-column", default="audio", metavar="NAME", help="of tables")
    parser.add_argument(
        "--batch", type=int, default=1, metavar="N", help="clips at once; 16 or so on a GPU"
    )
    parser.add_argument(
        "--readers", type=int, default=1, metavar="N", help="reading threads of each worker"
    )
    parser.add_argument(
        "--max-failures", type=int, metavar="N", help="stop where more items fail; default: never"
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="make the shards with failures again"
    )
    add_engine_flags(parser)
    add_model_flags(parser)
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.set_defaults(run=run)


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add what chooses who works."""
    group = parser.add_argument_group("engine; it changes no byte")
    group.add_argument("--engine", choices=("local", "ray"), default="local")
    group.add_argument(
        "--workers", type=int, metavar="N", help="default: as many as fit, one on a local GPU"
    )
    group.add_argument(
        "--threads", type=int, default=1, metavar="N", help="cores of each worker; default: 1"
    )
    group.add_argument(
        "--address", metavar="HOST:PORT", help="of a Ray cluster; default: start one"
    )
    group.add_argument(
        "--num-gpus", type=float, default=0.0, metavar="G", help="GPUs of each worker on Ray"
    )


def run(args: argparse.Namespace) -> int:
    """Tokenize a corpus."""
    from dac_rocm.distributed import Settings, tokenize
    from dac_rocm.distributed.plan import SHARD_SIZE

    settings = Settings(
        format=args.format,
        n_codebooks=args.n_codebooks,
        loudness=not args.no_loudness,
        gain_db=args.gain_db,
        latents_dtype=args.latents_dtype,
        dtype=args.dtype,
        batch=max(1, args.batch),
        threads=max(1, args.threads),
        audio_column=args.audio_column,
    )
    with redirect_stdout(sys.stderr):  # where Ray prints what its nodes say
        summary = tokenize(
            args.source,
            args.target,
            load=load_options(args, args.model or "tiny"),
            settings=settings,
            shard_size=SHARD_SIZE if args.shard_size is None else args.shard_size,
            engine=make_engine(args),
            readers=args.readers,
            convolve=args.conv_backend,
            max_failures=args.max_failures,
            retry_failed=args.retry_failed,
            tell=Progress(),
        )
    return finish(args, summary)


def load_options(args: argparse.Namespace, source: str) -> dict[str, Any]:
    """Return what a worker hands to `load`; a path becomes one that holds in every folder."""
    from dac_rocm.presets import is_known

    path = Path(source)
    return {
        "source": str(path.absolute()) if path.exists() and not is_known(source) else source,
        **source_options(args),
        "device": args.device,
        "snake": args.snake,
    }


def make_engine(args: argparse.Namespace) -> Engine:
    """Make the engine that the flags describe."""
    from dac_rocm.distributed import Local, OnRay

    threads = max(1, args.threads)
    if args.engine == "local":
        return Local(args.workers or _processes(args.device, threads))
    return OnRay(args.workers, threads=threads, gpus=args.num_gpus, address=args.address)


def _processes(device: str, threads: int) -> int:
    """Choose how many processes share this machine: one where a GPU computes."""
    import torch

    from dac_rocm.runtime.select import choose_device

    name = choose_device().name if device == "auto" else device
    return max(1, torch.get_num_threads() // threads) if name == "cpu" else 1


class Progress:
    """Says every `LOG_SECONDS` how far a run is."""

    def __init__(self) -> None:
        self._said = time.perf_counter()

    def __call__(self, summary: Summary) -> None:
        """Say how far it is, if it is time."""
        if time.perf_counter() - self._said < LOG_SECONDS:
            return
        self._said = time.perf_counter()
        ended = summary.made + summary.skipped
        left = summary.elapsed / summary.made * (summary.shards - ended)
        print(
            f"{ended} of {summary.shards} shards, {len(summary.failures)} failed items, "
            f"{summary.speed:.1f} hours of audio per hour, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def finish(args: argparse.Namespace, summary: Summary) -> int:
    """Say what was done, and return the exit code."""
    from dac_rocm.cli.main import say

    for text in summary.warnings[:LISTED]:
        say(f"warning: {text}")
    for name, why in summary.failures[:LISTED]:
        say(f"failed: {name}: {why}")
    if len(summary.failures) > LISTED:
        say(f"and {len(summary.failures) - LISTED} more")
    say(
        f"{summary.done} done, {len(summary.failures)} failed of {summary.items} items; "
        f"{summary.made} shards made, {summary.skipped} there before, of {summary.shards}"
    )
    if speeds := summary.speeds:
        say(
            f"{summary.seconds / 3600:.3f} hours of audio in {summary.elapsed:.1f} s: "
            f"{summary.speed:.1f} hours per hour; {len(speeds)} workers, "
            f"{min(speeds.values()):.1f} to {max(speeds.values()):.1f} each while at work"
        )
    if summary.stopped:
        say(f"stopped: more failures than --max-failures {args.max_failures}; run again to go on")
    if args.json:
        print_json({**asdict(summary), "speed": summary.speed, "speeds": speeds})
    return 1 if summary.failures else 0
