"""`dac-rocm bench`: how fast a model is on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dac_rocm.cli.options import add_source_flags

if TYPE_CHECKING:
    from dac_rocm.bench import Accuracy, Report, Speed


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("bench", help="measure how fast a model is on this machine")
    parser.add_argument("--model", default="tiny", help="as for encode; default: tiny")
    add_source_flags(parser)
    parser.add_argument(
        "--device",
        action="append",
        metavar="NAME",
        help="cpu, cuda, cuda:N or mps; may be repeated; default: all that are there",
    )
    parser.add_argument(
        "--dtype",
        action="append",
        choices=("float32", "float16", "bfloat16"),
        help="may be repeated; default: those that the device computes in",
    )
    parser.add_argument(
        "--chunk-seconds",
        action="append",
        type=float,
        metavar="S",
        help="audio per push, beside the whole signal; may be repeated; default: 0.1 and 1",
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="length of the audio; default: 5"
    )
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, and print what was found."""
    from dac_rocm.bench import PUSHES, measure
    from dac_rocm.cli.main import say
    from dac_rocm.cli.options import print_json, source_options

    report = measure(
        args.model,
        devices=args.device,
        dtypes=args.dtype,
        pushes=args.chunk_seconds or PUSHES,
        seconds=args.seconds,
        **source_options(args),
    )
    if args.json:
        print_json(_as_data(report))
    else:
        print("\n".join(_as_text(report)))
    for finding in report.findings:
        say(f"warning: {finding}")
    return 0


def _as_data(report: Report) -> dict[str, Any]:
    return {
        "model": report.model,
        "seconds": report.seconds,
        "devices": dict(report.devices),
        "choices": {name: choice._asdict() for name, choice in report.choices.items()},
        "times_real_time": [asdict(speed) for speed in report.speeds],
        "beside_float32_on_the_cpu": [asdict(accuracy) for accuracy in report.accuracies],
        "findings": list(report.findings),
    }


def _as_text(report: Report) -> Iterator[str]:
    yield f"{report.model}, {report.seconds:g} s of noise"
    for name, words in report.devices.items():
        yield f"  {name}: {words}"
    yield "choices"
    for name, choice in report.choices.items():
        yield f"  {name}: {choice.name} ({choice.reason})"
    yield f"{'times real time':<22}{'push':<10}{'encode':>10}{'decode':>10}{'both':>10}"
    yield from (_speed_line(speed) for speed in report.speeds)
    if report.accuracies:
        yield "beside float32 on the CPU"
    yield from (_accuracy_line(accuracy) for accuracy in report.accuracies)


def _speed_line(speed: Speed) -> str:
    push = "whole" if speed.push_seconds is None else f"{speed.push_seconds:g} s"
    numbers = (speed.encode, speed.decode, speed.round_trip)
    return f"  {speed.device + ', ' + speed.dtype:<20}{push:<10}" + "".join(
        f"{number:>10.3g}" for number in numbers
    )


def _accuracy_line(accuracy: Accuracy) -> str:
    if accuracy.equal_codes is not None:
        encoded = f"{accuracy.equal_codes:.1%} of the codes equal"
    else:
        encoded = f"latents {accuracy.latents_db:.1f} dB"
    where = f"{accuracy.device}, {accuracy.dtype}"
    return f"  {where:<20}{encoded}; decoded audio {accuracy.audio_db:.1f} dB above its error"
