"""A folder at a time: which files there are, where each goes, and what became of it.

One bad file never ends a run; it is listed. This room must not know the network or a container's
bytes: each file goes through `pipeline`, as if it were alone.
"""

from dac_rocm.batch.decode import Decoding
from dac_rocm.batch.encode import Encoding
from dac_rocm.batch.outputs import claimed
from dac_rocm.batch.paths import AUDIO_SUFFIXES, ENCODED_SUFFIXES, Found, Pair, find, pair
from dac_rocm.batch.result import Result
from dac_rocm.batch.run import run

__all__ = [
    "AUDIO_SUFFIXES",
    "ENCODED_SUFFIXES",
    "Decoding",
    "Encoding",
    "Found",
    "Pair",
    "Result",
    "claimed",
    "find",
    "pair",
    "run",
]
