"""What was measured, as Markdown, and its place in a page between two markers."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

START, END = "<!-- bench:start -->", "<!-- bench:end -->"
NAMES = {
    "ours": "dac_rocm",
    "ours-plain": "dac_rocm, `optimize=False`",
    "ours-bfloat16": "dac_rocm, bfloat16",
    "descript": "descript-audio-codec",
    "transformers": "transformers `DacModel`",
    "onnx": "ONNX Runtime",
    "openvino": "OpenVINO",
    "openvino-bfloat16": "OpenVINO, bfloat16",
}
HALVES = ("encode", "decode")

Row = Mapping[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
    """Return the sections that there are, one after another."""
    makers = {
        "table": _table,
        "lengths": _lengths,
        "streaming": _streaming,
        "cold": _cold,
        "rate": _rate,
        "gains": _gains,
    }
    parts = [make(report[key], report) for key, make in makers.items() if key in report]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def write_part(path: Path, text: str) -> None:
    """Put text between the markers of a page."""
    page = path.read_text(encoding="utf-8")
    pattern = re.compile(f"({re.escape(START)}\n).*?({re.escape(END)})", re.S)
    if not pattern.search(page):
        sys.exit(f"{path}: no lines {START} and {END} found; both are expected. Add them.")
    path.write_text(pattern.sub(lambda m: m[1] + text + m[2], page), encoding="utf-8")


def machine() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _table(table: Mapping[str, Any], report: Mapping[str, Any]) -> Iterable[str]:
    facts, rows = table["facts"], table["rows"]
    yield (
        f"{facts['seconds']:.3g} s of audio through the network of `{facts['model']}` (random "
        f"weights, the same for all): {report['machine']}, {report['threads']} threads, medians of "
        f"{facts['rounds']} rounds taken in turns. × is the time over that of the first line; "
        "errors are against the readable modules in float64; memory is the peak of the process "
        "and, after the plus, by how much that is over what it held once loaded."
    )
    yield ""
    yield from _head(
        "package", "encode, s", "×", "decode, s", "×", "equal codes" if facts["kind"] == "codes"
        else "latent error", "audio error", "SNR, dB", "encode, MB", "decode, MB",
    )  # fmt: skip
    first = {half: rows[0]["halves"][half]["seconds"] for half in HALVES}
    for row in rows:
        yield _line(_title(row), *_cells(row, first))


def _cells(row: Row, first: Mapping[str, float | None]) -> Iterable[str]:
    halves = row["halves"]
    for half in HALVES:
        seconds, base = halves[half]["seconds"], first[half]
        yield f"{seconds:.2f}" if seconds else f"not shown: {halves[half]['problem']}"
        yield f"{seconds / base:.2f}" if seconds and base else "-"
    encode, decode = halves["encode"], halves["decode"]
    yield f"{encode['share']:.2%}" if encode["share"] is not None else _small(encode["error"])
    yield _small(decode["error"])
    yield f"{decode['snr_db']:.0f}" if decode["snr_db"] is not None else "-"
    for half in HALVES:
        peak = halves[half]["peak"]
        yield f"{peak / 1e6:.0f} (+{max(0, peak - row['loaded']) / 1e6:.0f})" if peak else "-"


def _title(row: Row) -> str:
    name, comma, more = NAMES[row["name"]].partition(",")
    version = "" if row["name"].startswith("ours") else f" {row['version']}".rstrip()
    return f"{name}{version}{comma}{more}"


def _lengths(found: Mapping[str, Any], report: Mapping[str, Any]) -> Iterable[str]:
    rows = found["seconds_per_second"]
    base = rows[found["base"]]
    yield f"Seconds of work per second of audio, over that at {found['base']} s; and peak memory:"
    yield ""
    yield from _head("clip, s", "encode, ×", "decode, ×", "encode, MB", "decode, MB")
    for seconds, row in rows.items():
        shares = (f"{row[half] / base[half]:.2f}" for half in HALVES)
        yield _line(seconds, *shares, *(f"{row[half + '_peak'] / 1e6:.0f}" for half in HALVES))


def _streaming(found: Mapping[str, Any], report: Mapping[str, Any]) -> Iterable[str]:
    times = found["seconds"]
    yield "Live decoding in pushes of a few frames, beside the whole run:"
    yield ""
    yield from _head("frames per push", "time over the whole run's", "× real time", "error")
    for frames, seconds in times.items():
        speed = f"{found['audio_seconds'] / seconds:.2f}"
        error = _small(found["errors"].get(frames))
        yield _line(frames, f"{seconds / times['whole']:.2f}", speed, error)


def _cold(found: Mapping[str, float], report: Mapping[str, Any]) -> Iterable[str]:
    added = found["load"] + found["first_encode"] - found["read_weights"]
    yield (
        f"A cold process: importing torch takes {found['import_torch']:.2f} s and reading the "
        f"weights {found['read_weights']:.2f} s; `load` ({found['load']:.2f} s) and the first "
        f"encode of 1 s of audio ({found['first_encode']:.2f} s) add {added:.2f} s to them."
    )


def _rate(found: Sequence[Mapping[str, Any]], report: Mapping[str, Any]) -> Iterable[str]:
    yield "Share of the best rate of oneDNN's convolutions on this network's own shapes:"
    yield ""
    yield from _head("type", "best, GFLOP/s", "at channels x dilation", "encode", "decode")
    for row in found:
        shapes = row["by_channels_and_dilation"]
        at = max(shapes, key=shapes.get)
        ours = (f"{row['ours'][h] / 1e9:.0f} ({row['ours'][h] / row['best']:.0%})" for h in HALVES)
        yield _line(row["dtype"], f"{row['best'] / 1e9:.0f}", at, *ours)


def _gains(found: Sequence[Mapping[str, Any]], report: Mapping[str, Any]) -> Iterable[str]:
    yield "Other networks of the family, plain and optimized:"
    yield ""
    yield from _head(
        "network", "audio, s", "encode, s", "decode, s", "encode, plain ×", "decode, plain ×",
        "audio error",
    )  # fmt: skip
    for table in found:
        fast, plain = (row["halves"] for row in table["rows"])
        cells = [_fixed(fast[half]["seconds"]) for half in HALVES]
        for half in HALVES:
            a, b = plain[half]["seconds"], fast[half]["seconds"]
            cells.append(_fixed(a / b if a and b else None))
        facts = table["facts"]
        yield _line(
            f"`{facts['model']}`",
            f"{facts['seconds']:.3g}",
            *cells,
            _small(fast["decode"]["error"]),
        )


def _head(*titles: str) -> Iterable[str]:
    yield _line(*titles)
    yield "|---|" + "---:|" * (len(titles) - 1)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def _fixed(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
