"""One package in its own process: it loads once, then does what it is told, line by line.

A request is `encode`, `decode` or `save FILE` (the last result). The answer is one line of JSON:
`seconds` and `peak` (the largest resident memory of that call), or `error`. The first line comes
once all is loaded: `version`, and the resident `memory`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TextIO

import numpy as np

from peers import adapters
from peers.memory import give_back, memory, reset_peak

PACKAGES: dict[str, Callable[[Path, int], adapters.Pair]] = {
    "ours": adapters.ours,
    "ours-plain": lambda *where: adapters.ours(*where, optimize=False),
    "ours-bfloat16": lambda *where: adapters.ours(*where, dtype="bfloat16"),
    "descript": adapters.descript,
    "transformers": adapters.transformers,
    "onnx": adapters.onnx,
    "openvino": adapters.openvino,
    "openvino-bfloat16": lambda *where: adapters.openvino(*where, precision="bf16"),
}
DISTRIBUTIONS = {"descript": "descript-audio-codec", "onnx": "onnxruntime"}
"""Package to the name it is distributed under, where that is another one."""


class Worker:
    """What answers requests.

    Args:
        name: Key of `PACKAGES`.
        folder: What `prepare` wrote.
        threads: For arithmetic.
    """

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        data = np.load(folder / "true_data.npy")
        self.inputs = {
            "encode": np.load(folder / "input.npy"),
            "decode": data if data.dtype == np.int64 else data.astype(np.float32),
        }
        self.runs = dict(zip(("encode", "decode"), PACKAGES[name](folder, threads), strict=True))
        self.result = np.zeros(0)

    def answer(self, request: list[str]) -> dict[str, float]:
        """Do what a request says."""
        if request[0] == "save":
            np.save(request[1], self.result)
            return {}
        reset_peak()
        run, x = self.runs[request[0]], self.inputs[request[0]]
        start = time.perf_counter()
        self.result = run(x)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "peak": memory("VmHWM")}


def version_of(name: str) -> str:
    """Return the version of a package; empty where it does not tell."""
    name = name.removesuffix("-bfloat16")
    with suppress(PackageNotFoundError):
        return version("dac_rocm" if name.startswith("ours") else DISTRIBUTIONS.get(name, name))
    return ""


def serve(worker: Worker, about: dict[str, str], replies: TextIO) -> None:
    """Answer requests until there are no more."""
    give_back()
    print(json.dumps({**about, "memory": memory("VmRSS")}), file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.answer(line.strip().split(maxsplit=1))), file=replies, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PACKAGES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("threads", type=int)
    options = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints must not be taken for an answer
    try:
        worker = Worker(options.name, options.folder, options.threads)
        serve(worker, {"version": version_of(options.name)}, replies)
    except Exception as error:
        traceback.print_exc()
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps({"error": words}), file=replies, flush=True)


if __name__ == "__main__":
    main()
