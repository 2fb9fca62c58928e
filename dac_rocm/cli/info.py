"""`dac-rocm info FILE…`: what encoded files say about themselves; needs neither torch nor numpy."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dac_rocm.container import FileInfo


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("info", help="say what an encoded file holds")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a .dacz or .dac file")
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the facts of each file; go on after a bad one."""
    from dac_rocm.cli.main import say
    from dac_rocm.cli.options import print_json
    from dac_rocm.container import read_info
    from dac_rocm.errors import DacError

    reports, failed = [], 0
    for name in args.files:
        try:
            info = read_info(name)
        except DacError as error:
            say(f"error: {name}: {error}")
            failed = 1
            continue
        reports.append({"file": name, **facts(info)})
        if not args.json:
            print(name)
            for key, value in facts(info).items():
                print(f"  {key:<16}{value}")
    if args.json:
        print_json(reports)
    return failed


def facts(info: FileInfo) -> dict[str, Any]:
    """Return the facts of one file that are known, in the order in which people ask for them."""
    known = {k: v for k, v in asdict(info).items() if v is not None and k not in ("model", "level")}
    known["model"] = info.model.name or "unknown"
    if info.model.fingerprints:
        known["fingerprints"] = dict(info.model.fingerprints)
    known["level"] = f"{type(info.level).__name__.lower()} {info.level.db:.2f} dB"
    if info.kbps is not None:
        known["kbps"] = round(info.kbps, 3)
    return known
