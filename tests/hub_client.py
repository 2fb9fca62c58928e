"""The real client in a process of its own, since it reads HF_ENDPOINT when it is imported.

Takes one JSON object a line, loads or pushes, and answers with one.
"""

from __future__ import annotations

import json
import sys

from dac_rocm.errors import DacError
from dac_rocm.weights import load_checkpoint, push_checkpoint


def answer(task: dict) -> dict:
    push = task.pop("push", None)
    try:
        checkpoint = load_checkpoint(**task)
        url = push and push_checkpoint(checkpoint, push.pop("repo"), **push)
    except DacError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {
        "layout": checkpoint.layout,
        "sample_rate": checkpoint.config.sample_rate,
        "fingerprints": dict(checkpoint.stamp.fingerprints),
        "name": checkpoint.stamp.name,
        "license": checkpoint.license,
        "notes": list(checkpoint.notes),
        "url": url,
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
