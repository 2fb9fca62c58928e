"""Corpora: many recordings on many machines, to shards that training code reads, and back.

A plan divides a source into shards; a job makes one shard, and is a pure function of the plan, the
model and the settings; an engine (this machine, or Ray) only decides who does which job when. This
room must not change what `pipeline` makes of one recording.
"""

from dac_rocm.distributed.actors import DecodeActor, EncodeActor
from dac_rocm.distributed.dataset import ShardDataset
from dac_rocm.distributed.engines import Engine, Local
from dac_rocm.distributed.manifest import Report
from dac_rocm.distributed.plan import Plan, Shard, Span, make_plan
from dac_rocm.distributed.ray_engine import OnRay
from dac_rocm.distributed.run import Summary, detokenize, tokenize
from dac_rocm.distributed.shards import read_shard
from dac_rocm.distributed.worker import Settings

__all__ = [
    "DecodeActor",
    "EncodeActor",
    "Engine",
    "Local",
    "OnRay",
    "Plan",
    "Report",
    "Settings",
    "Shard",
    "ShardDataset",
    "Span",
    "Summary",
    "detokenize",
    "make_plan",
    "read_shard",
    "tokenize",
]
