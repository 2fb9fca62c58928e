#!/usr/bin/env python3
"""Train the models in the wheel: `vae` first, then `rvq` from its weights.

Start it again with the same arguments to go on where it stopped. See docs/models for what was run.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path

ALLOCATOR = {
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Keep glibc from returning memory after every step: half the time of a step otherwise."""

if __name__ == "__main__" and os.environ.get("MALLOC_TRIM_THRESHOLD_") is None:
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]

import torch  # noqa: E402
from training.codebooks import start_codebooks  # noqa: E402
from training.data import Corpus  # noqa: E402
from training.loop import Plan, Trainer  # noqa: E402
from training.network import Codec, make_config, start_as_transform, start_gaussian, start_weights  # noqa: E402


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("vae", "rvq"))
    parser.add_argument("--data", type=Path, default=Path("training"))
    parser.add_argument("--run", type=Path, required=True, help="folder of checkpoint and log")
    parser.add_argument("--start", type=Path, help="checkpoint of another run to start from")
    parser.add_argument("--threads", type=int, default=1)
    for field in fields(Plan):
        if field.name == "kind":
            continue
        name = "--" + field.name.replace("_", "-")
        if str(field.type) == "bool":
            parser.add_argument(name, action="store_true")
        else:
            kind = {"int": int, "float": float}[str(field.type)]
            needed = field.name == "steps"
            parser.add_argument(name, type=kind, required=needed, default=field.default)
    return parser.parse_args()


def starting_net(args: argparse.Namespace, corpus: Corpus) -> Codec:
    """Build the network, from a transform or from the smoothed weights of another run."""
    net = Codec(make_config(args.kind))
    start_weights(net, args.seed)
    if args.start is None:
        x = torch.from_numpy(corpus.batch(args.seed + 2, 0, 128, 2 * args.length))
        print(f"energy lost by the transform: {start_as_transform(net, x):.4f}", flush=True)
    else:
        state = torch.load(args.start, weights_only=True)
        if state["plan"]["kind"] == args.kind:
            net.load_state_dict(state["smooth"])
            return net
        halves = {n: t for n, t in state["smooth"].items() if not n.startswith("quantizer")}
        net.load_state_dict(halves, strict=False)
    z = latents(net, corpus, args.seed)
    if args.kind == "vae":
        start_gaussian(net, z)
    else:
        left = start_codebooks(net.quantizer, z, args.seed)
        print("variance left by each codebook:", *(f"{v:.4f}" for v in left), flush=True)
    return net


@torch.no_grad()
def latents(net: Codec, corpus: Corpus, seed: int, batches: int = 250) -> torch.Tensor:
    """Encode training segments: [n, D], 100,000 frames."""
    found = []
    for i in range(batches):
        z = net.encoder(torch.from_numpy(corpus.batch(seed + 1, i, 8, 16000)))
        found.append(z.transpose(1, 2).reshape(-1, z.shape[1]))
    return torch.cat(found)


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    plan = Plan(**{f.name: getattr(args, f.name) for f in fields(Plan)})
    corpus = Corpus.read(args.data)
    checkpoint = args.run / "checkpoint.pt"
    args.run.mkdir(parents=True, exist_ok=True)
    going_on = checkpoint.exists()
    net = Codec(make_config(args.kind)) if going_on else starting_net(args, corpus)

    def draw(step: int):
        return corpus.batch(plan.seed, step, plan.batch, plan.length)

    trainer = Trainer(net, plan, draw, args.run)
    if going_on:
        trainer.load(checkpoint)
    print(f"from step {trainer.step} to {plan.steps}", flush=True)
    trainer.train()


if __name__ == "__main__":
    main()
