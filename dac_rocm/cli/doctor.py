"""`dac-rocm doctor`: what this machine is, what was chosen, and whether it computes rightly."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dac_rocm.doctor import Check, Report


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "doctor", help="say what this machine is, and check that it computes rightly"
    )
    parser.add_argument(
        "--device",
        action="append",
        metavar="NAME",
        help="cpu, cuda, cuda:N or mps; may be repeated; default: all that are there",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Examine the machine; 0 where all checks are right, else 1."""
    from dac_rocm.cli.options import print_json
    from dac_rocm.doctor import diagnose

    report = diagnose(args.device)
    if args.json:
        print_json(_as_data(report))
    else:
        print("\n".join(_as_text(report)))
    return 0 if report.ok else 1


def _as_data(report: Report) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "facts": report.facts,
        "choices": {name: choice._asdict() for name, choice in report.choices.items()},
        "checks": [
            {**vars(check), "error": check.error if check.ran else None, "ok": check.ok}
            for check in report.checks
        ],
    }


def _as_text(report: Report) -> list[str]:
    wrong = sum(not check.ok for check in report.checks)
    return [
        "machine",
        *(f"  {name}: {fact}" for name, fact in report.facts.items()),
        "choices",
        *(f"  {name}: {choice.name} ({choice.reason})" for name, choice in report.choices.items()),
        "checks: largest error against float64 on the CPU, and what is allowed",
        *(_line(check) for check in report.checks),
        f"{wrong} of {len(report.checks)} checks are wrong" if wrong else "all is well",
    ]


def _line(check: Check) -> str:
    mark = "ok   " if check.ok else "WRONG"
    where = f"{check.device} {check.dtype}"
    text = f"  {mark} {where:<16} {check.name:<16} {check.error:.1e} of {check.limit:.0e}"
    return f"{text}  {check.finding}".rstrip()
