"""What scripts/fuzz runs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = ROOT / "tests/hostile"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus")
    args = parser.parse_args()
    fuzz(args.seconds, args.corpus or tempfile.mkdtemp(prefix="dac_rocm-fuzz-"))


def fuzz(seconds: int, corpus: str) -> None:
    import atheris

    sys.path[:0] = [str(ROOT), str(HOSTILE)]
    with atheris.instrument_imports(include=["dac_rocm.container", "dac_rocm.encoded"]):
        from reader_check import check
    flags = [
        f"-max_total_time={seconds}",
        "-max_len=8192",
        "-timeout=10",  # seconds for one input
        "-rss_limit_mb=512",
        f"-artifact_prefix={corpus}/found-",
        "-print_final_stats=1",
    ]
    seeds = [str(HOSTILE / "seeds"), str(ROOT / "tests/data/descript_files")]
    atheris.Setup([sys.argv[0], *flags, corpus, *seeds], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
