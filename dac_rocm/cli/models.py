"""`dac-rocm models`: the models that are known by name."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser("models", help="list the models that are known by name")
    parser.add_argument("--json", action="store_true", help="report as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line per model."""
    from dac_rocm.cli.options import print_json
    from dac_rocm.presets import list_models

    models = list_models()
    if args.json:
        print_json(models)
        return 0
    width = 2 + max(len(m["name"]) for m in models)
    row = f"{{:<{width}}}{{:<8}}{{:>6}}{{:>7}}  {{:<28}}{{}}"
    print(row.format("name", "kind", "Hz", "kbps", "licence", "from"))
    for m in models:
        kbps = f"{m['kbps']:.2f}" if m["kbps"] is not None else "-"
        licence = m["license"] or "see its card"
        print(row.format(m["name"], m["kind"], m["sample_rate"], kbps, licence, m["origin"]))
        if m["note"]:
            print(f"{'':<{width}}{m['note']}")
    return 0
