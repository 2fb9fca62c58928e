#!/usr/bin/env python3
"""Our package beside descript-audio-codec, transformers, ONNX Runtime and OpenVINO on a CPU.

Same weights (random, but scaled so that they behave), same real audio; each package in its own venv
and process, runs taken in turns; the error beside every time, and no time where it is too large.
`scripts/peers descript transformers onnx openvino` makes the venvs; a package without one is left
out. Sections:

  table      encode and decode of every package, with error and peak memory
  lengths    ours on a clip of 1 s and on a long one, beside the usual length
  streaming  ours live, in pushes of 1 to 32 frames, beside the whole run
  cold       ours from a cold process to the first codes
  rate       ours as a share of the machine's best convolution rate
  gains      other networks of the family, plain beside optimized
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peers import report as page
from peers.session import Row, compare, environment, python_of

SECTIONS = ("table", "lengths", "streaming", "cold", "rate", "gains")
PEERS = tuple(page.NAMES)
NEEDED = {
    "descript": "descript",
    "transformers": "transformers",
    "onnx": "onnx",
    "openvino": "onnx",
}
"""Package to the folder that `prepare` or `export` writes for it."""
ALIASES = {"mova": "mova-360p"}
RELATIVES = ("dac-16khz", "dac-24khz", "dac-44khz-16kbps", "mova", "dacvae")


def main() -> int:
    args = parser().parse_args()
    with folder_of(args.folder) as name:
        found = bench(Path(name), args)
    if args.keep and args.json and args.json.exists():
        found = {**json.loads(args.json.read_text()), **found}
    text = page.markdown(found)
    print(text, end="")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    if args.markdown:
        page.write_part(args.markdown, text)
    tables = [found[key] for key in ("table",) if key in found] + found.get("gains", [])
    ours = [row for table in tables for row in table["rows"] if row["name"].startswith("ours")]
    return int(any(half["problem"] for row in ours for half in row["halves"].values()))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--model", default="dac-44khz", help="shape of the network: a known name")
    made.add_argument("--seconds", type=float, default=10.0, help="of audio; default: 10")
    made.add_argument("--rounds", type=int, default=5, help="counted runs of each; default: 5")
    made.add_argument("--threads", type=int, default=2, help="for arithmetic; default: 2")
    made.add_argument("--peers", type=listed(PEERS), default=PEERS, metavar="A,B", help="of "
                      + ", ".join(PEERS))  # fmt: skip
    made.add_argument(
        "--dtype", choices=("float32", "bfloat16", "all"), default="all", help="rows to run"
    )
    made.add_argument("--only", type=listed(SECTIONS), default=SECTIONS, metavar="A,B")
    made.add_argument("--long", type=float, default=600.0, help="seconds of the long clip")
    made.add_argument("--frames", type=int, nargs="+", default=[1, 2, 4, 8, 32], help="per push")
    made.add_argument(
        "--relatives", nargs="*", default=RELATIVES, help="networks of the section gains"
    )
    made.add_argument("--relative-seconds", type=float, default=4.0, help="their audio; default: 4")
    made.add_argument("--folder", type=Path, help="keep weights and true results here")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    made.add_argument("--keep", action="store_true", help="keep that file's other sections")
    made.add_argument(
        "--markdown", type=Path, metavar="FILE",
        help=f"put the tables between {page.START} and {page.END} of this page",
    )  # fmt: skip
    return made


def listed(known: Sequence[str]) -> Any:
    """Make a type of argument: words of `known`, with commas between."""

    def words(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(
                f"{', '.join(sorted(unknown))} found; some of {', '.join(known)} expected"
            )
        return chosen

    return words


def folder_of(path: Path | None) -> Any:
    return nullcontext(path) if path else tempfile.TemporaryDirectory()


def bench(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Measure the sections that were asked for."""
    found: dict[str, Any] = {"machine": page.machine(), "threads": args.threads}
    model = ALIASES.get(args.model, args.model)
    main_folder = folder / model
    if set(args.only) - {"gains"}:
        prepare(main_folder, model, args.seconds, args)
    if "table" in args.only:
        names = peers_of(args)
        if any(NEEDED.get(name.removesuffix("-bfloat16")) == "onnx" for name in names):
            export(main_folder, args.threads)
        found["table"] = table(main_folder, names, args)
    for section in ("lengths", "streaming"):
        if section in args.only:
            found[section] = extra(section, main_folder, args)
    if "cold" in args.only:
        found["cold"] = cold(main_folder, args)
    if "rate" in args.only:
        dtypes = ("float32", "bfloat16") if args.dtype == "all" else (args.dtype,)
        found["rate"] = [extra("rate", main_folder, args, "--dtype", each) for each in dtypes]
    if "gains" in args.only:
        found["gains"] = [gain(folder, ALIASES.get(n, n), args) for n in args.relatives]
    return found


def peers_of(args: argparse.Namespace) -> list[str]:
    """Return the packages that were asked for and are there; ours first."""
    chosen = []
    for name in args.peers:
        if args.dtype != "all" and name.endswith("bfloat16") != (args.dtype == "bfloat16"):
            continue
        if not Path(python_of(name)).exists():
            say(f"{name}: not run, its venv is absent; scripts/peers makes it")
            continue
        chosen.append(name)
    return chosen


def prepare(folder: Path, model: str, seconds: float, args: argparse.Namespace) -> None:
    """Make weights, input and truth, unless the folder has them."""
    facts = folder / "facts.json"
    wanted = {"model": model, "asked_seconds": seconds}
    if facts.exists() and wanted.items() <= json.loads(facts.read_text()).items():
        return
    say(f"{model}: weights, and the truth in float64")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("onnx/*.onnx"):
        old.unlink()
    call("prepare", folder, model, seconds, args.threads, threads=args.threads)


def export(folder: Path, threads: int) -> None:
    """Write the ONNX graphs, unless they are there or the venv is not."""
    if (folder / "onnx" / "decode.onnx").exists() or not Path(python_of("onnx")).exists():
        return
    say("ONNX graphs")
    call("export", folder, python=python_of("onnx"), threads=threads)


def table(folder: Path, names: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """Run packages side by side."""
    there = [n for n in names if (folder / NEEDED.get(base(n), "canonical")).is_dir()]
    say(f"{folder.name}: {', '.join(there)}")
    for name in set(names) - set(there):
        say(f"{name}: not run, it cannot express this network")
    rows = compare(folder, there, args.rounds, args.threads)
    facts = {**facts_of(folder), "rounds": args.rounds}
    return {"facts": facts, "rows": [as_data(row) for row in rows]}


def base(name: str) -> str:
    return name.removesuffix("-bfloat16")


def facts_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "facts.json").read_text())


def as_data(row: Row) -> dict[str, Any]:
    data = asdict(row)
    for half, found in row.halves.items():
        data["halves"][half]["seconds"] = found.seconds
    return data


def extra(section: str, folder: Path, args: argparse.Namespace, *more: object) -> Any:
    """Run a section in a process of its own."""
    say(f"{folder.name}: {section} {' '.join(map(str, more))}")
    command = [section, folder, "--rounds", args.rounds]
    command += ["--threads", args.threads, "--long", args.long, "--frames", *args.frames, *more]
    return json.loads(call("extras", *command, threads=args.threads))


def cold(folder: Path, args: argparse.Namespace) -> dict[str, float]:
    """Take the median of cold starts."""
    say(f"{folder.name}: cold")
    command = ("cold", folder, args.threads)
    runs = [json.loads(call(*command, threads=args.threads)) for _ in range(args.rounds)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def gain(folder: Path, model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Compare a network of ours, plain and optimized."""
    place = folder / f"{model}-gain"
    prepare(place, model, args.relative_seconds, args)
    return table(place, ("ours", "ours-plain"), args)


def call(module: str, *words: object, threads: int, python: str = sys.executable) -> str:
    """Run a module of `peers` in a process of its own; returns what it prints."""
    command = [python, "-W", "ignore", "-m", f"peers.{module}", *map(str, words)]
    return subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, env=environment(threads)
    ).stdout


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
