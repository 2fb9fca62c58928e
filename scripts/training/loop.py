"""One stage of training: steps, averages of the weights, log, checkpoints, exact resume.

Everything random in a step is drawn from (seed, step), so a checkpoint needs no generator state.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from training.codebooks import Averages
from training.losses import intelligibility_loss, mel_loss, pre_emphasise, snr_loss
from training.network import RATE, Codec, straight_through

Draw = Callable[[int], np.ndarray]
"""From a step to its batch [B, 1, T]."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of one stage.

    Args:
        kind: `vae` or `rvq`.
        steps: Length of the stage.
        decay_steps: The learning rate falls to nothing over the last ones.
        rate_nats: Information per frame that the VAE is steered to.
        dropout_from: First step with quantizer dropout.
        encoder_rate: Learning rate of encoder and projections, as a share of the decoder's.
        freeze_encoder: The encoder and the codebooks stay as they are; the decoder learns.
    """

    kind: str
    steps: int
    seed: int = 0
    learning_rate: float = 1e-3
    warmup_steps: int = 200
    decay_steps: int = 1000
    batch: int = 8
    length: int = 8000
    snr_weight: float = 1.0
    mel_weight: float = 1.0
    stoi_weight: float = 0.0
    commit_weight: float = 0.25
    rate_nats: float = 180.0
    dropout_from: int = 1 << 30
    average: float = 0.999
    log_every: int = 20
    save_every_s: float = 300.0
    compiled: bool = False
    encoder_rate: float = 0.1
    freeze_encoder: bool = False


class Trainer:
    """A network in training.

    Args:
        net: Network, trained in place.
        plan: Settings.
        draw: Batches.
        run: Folder for `checkpoint.pt` and `log.jsonl`, or None to write nothing.
    """

    def __init__(self, net: Codec, plan: Plan, draw: Draw, run: Path | None) -> None:
        self.net, self.plan, self.draw, self.run = net, plan, draw, run
        self.step, self.beta, self.seconds = 0, 1e-3, 0.0
        self.averages = Averages(net.quantizer) if plan.kind == "rvq" else None
        if plan.freeze_encoder:
            net.encoder.requires_grad_(False)
            net.quantizer.requires_grad_(False)
        self.weights = {
            n: p for n, p in net.named_parameters() if "codebook" not in n and p.requires_grad
        }
        groups = [
            {
                "params": [p for n, p in self.weights.items() if n.startswith("decoder")],
                "scale": 1.0,
            },
            {
                "params": [p for n, p in self.weights.items() if not n.startswith("decoder")],
                "scale": plan.encoder_rate,
            },
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), weight_decay=1e-3)
        self.smooth = {n: p.detach().clone() for n, p in net.named_parameters()}
        self.encoder: nn.Module | Callable[..., Tensor] = net.encoder
        self.decoder: nn.Module | Callable[..., Tensor] = net.decoder
        if plan.compiled:
            self.encoder, self.decoder = torch.compile(net.encoder), torch.compile(net.decoder)
        self.recent: list[dict[str, float]] = []

    def train(self, until: int | None = None) -> list[float]:
        """Run to step `until` (default: the end of the plan); return the loss of each step."""
        losses, saved = [], time.monotonic()
        while self.step < (self.plan.steps if until is None else until):
            started = time.monotonic()
            losses.append(self._one_step())
            self.seconds += time.monotonic() - started
            if self.run is not None and self.step % self.plan.log_every == 0:
                self._log()
            if self.run is not None and time.monotonic() - saved > self.plan.save_every_s:
                self.save(self.run / "checkpoint.pt")
                saved = time.monotonic()
        if self.run is not None:
            self.save(self.run / "checkpoint.pt")
        return losses

    def rate(self) -> float:
        """Return the learning rate of the present step."""
        left = (self.plan.steps - self.step) / max(1, self.plan.decay_steps)
        warm = (self.step + 1) / max(1, self.plan.warmup_steps)
        return self.plan.learning_rate * min(1.0, warm, max(0.0, left))

    def _one_step(self) -> float:
        for group in self.optimizer.param_groups:
            group["lr"] = group["scale"] * self.rate()
        generator = torch.Generator().manual_seed(self.plan.seed * 1_000_003 + self.step)
        x = torch.from_numpy(self.draw(self.step))
        y, extra, notes, seen = self._forward(x, generator)
        loss, parts = self._loss(x, y)
        loss = loss + extra
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = float(nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0))
        if math.isfinite(norm):
            self.optimizer.step()
            if self.averages is not None and not self.plan.freeze_encoder:
                restart = self.step < self.plan.steps - self.plan.decay_steps
                self.averages.update(seen, generator, restart=restart)
        self.step += 1
        self._smooth()
        self.recent.append({"loss": float(loss.detach()), "norm": norm, **parts, **notes})
        return float(loss.detach())

    def _forward(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Any, Any, Any]:
        """Return the decoded audio, the bottleneck's loss, numbers to log, and latents."""
        z = self.encoder(x)
        if self.plan.kind == "vae":
            gaussian = self.net.quantizer(z)
            kl = gaussian.kl().mean() / z.shape[2]
            latents = gaussian.sample(generator=generator)
            y = self.decoder(self.net.quantizer.decode(latents))
            cost = self.beta * kl
            off = max(-1.0, min(1.0, float(kl.detach()) / self.plan.rate_nats - 1.0))
            self.beta = min(0.05, max(1e-7, self.beta * math.exp(0.01 * off)))
            return y, cost, {"kl": float(kl.detach()), "beta": self.beta}, []
        used = self._codebooks_used(len(x), generator)
        quantized, commit, seen = straight_through(self.net.quantizer, z, used)
        cost = self.plan.commit_weight * commit
        return self.decoder(quantized), cost, {"commit": float(commit.detach())}, seen

    def _codebooks_used(self, items: int, generator: torch.Generator) -> Tensor:
        """Half the items use all codebooks, the others any number, once dropout has begun."""
        n = len(self.net.quantizer.quantizers)
        if self.step < self.plan.dropout_from:
            return torch.full((items,), n)
        drawn = 2.0 ** (torch.rand(items, generator=generator) * math.log2(n + 0.99))
        dropped = torch.rand(items, generator=generator) < 0.5
        return torch.where(dropped, drawn.long().clamp(1, n), n)

    def _loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, float]]:
        flat = snr_loss(x, y).mean()
        lifted = snr_loss(pre_emphasise(x), pre_emphasise(y)).mean()
        mel = mel_loss(x, y, RATE)
        unclear = intelligibility_loss(x, y, RATE) if self.plan.stoi_weight else mel.new_zeros(())
        loss = (
            self.plan.snr_weight * 0.5 * (flat + lifted)
            + self.plan.mel_weight * mel
            + self.plan.stoi_weight * unclear
        )
        parts = {
            "snr_db": -10 * flat,
            "lifted_snr_db": -10 * lifted,
            "mel": mel,
            "stoi": 1 - unclear,
        }
        return loss, {name: float(value.detach()) for name, value in parts.items()}

    @torch.no_grad()
    def _smooth(self) -> None:
        keep = min(self.plan.average, (1 + self.step) / (10 + self.step))
        live = dict(self.net.named_parameters())
        torch._foreach_lerp_(list(self.smooth.values()), [live[n] for n in self.smooth], 1 - keep)

    def _log(self) -> None:
        means = {k: round(float(np.mean([r[k] for r in self.recent])), 5) for k in self.recent[0]}
        line: dict[str, Any] = {"step": self.step, "hours": round(self.seconds / 3600, 4), **means}
        line["s_per_step"] = round(self.seconds / self.step, 4)
        line["lr"] = round(self.rate(), 7)
        if self.averages is not None:
            line["perplexity"] = [round(p) for p in self.averages.perplexity()]
        self.recent = []
        with (self.run / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all."""
        state = {
            "step": self.step,
            "beta": self.beta,
            "seconds": self.seconds,
            "plan": asdict(self.plan),
            "config": self.net.config.to_dict(),
            "net": dict(self.net.named_parameters()),
            "smooth": self.smooth,
            "optimizer": self.optimizer.state_dict(),
            "averages": None if self.averages is None else self.averages.state(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def load(self, path: Path) -> None:
        """Go on where a checkpoint was written."""
        state = torch.load(path, weights_only=True)
        self.net.load_state_dict(state["net"])
        self.smooth = {n: t.clone() for n, t in state["smooth"].items()}
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.beta, self.seconds = state["step"], state["beta"], state["seconds"]
        if self.averages is not None:
            self.averages.load(state["averages"])
