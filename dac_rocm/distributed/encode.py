"""Items to codes or latents, in batches of almost equal lengths; what fails is named.

The result is a function of the items and the options: neither free memory, nor other processes, nor
how many threads read changes it. This file must not know where items come from or go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

from dac_rocm.batch.clips import Clip, alike, encode_clips, read_clip
from dac_rocm.batch.paths import Pair
from dac_rocm.batch.result import failure
from dac_rocm.codec import Codec
from dac_rocm.dac import DAC
from dac_rocm.dacvae import DACVAE
from dac_rocm.distributed.items import Item, without_temporary_paths
from dac_rocm.encoded import EncodedAudio
from dac_rocm.errors import OutputError
from dac_rocm.pipeline.encode import encode_whole
from dac_rocm.pipeline.encoding import Options

WINDOW = 4
"""Batches whose clips are sorted by length together."""
AHEAD = 4
"""Clips per reading thread that may wait for the model."""
MEMORY = 1 << 40
"""Bytes that are said to be free, so that the real number never chooses a push."""

Outcome = EncodedAudio | str
"""What an item became, or why it failed."""


def fix_pushes(model: Codec) -> None:
    """Let the size of the engine's pushes depend on shapes alone, not on the free memory."""
    model.choose_tile = partial(model.choose_tile, max_memory=MEMORY)  # type: ignore[method-assign]


def encode_items(
    model: DAC | DACVAE,
    items: Iterable[Item],
    options: Options,
    *,
    batch: int = 1,
    readers: int = 1,
) -> Iterator[tuple[str, Outcome]]:
    """Encode items, and yield id and outcome in their order.

    Args:
        model: With an encoder.
        items: What to encode.
        options: See `pipeline.encoding.Options`; its pushes should be fixed.
        batch: Clips at once; more than one only pays on a GPU.
        readers: Threads that read and resample ahead of the model.

    Raises:
        OutputError: There is no room for temporary files.
    """
    read = _read_ahead(model, items, readers)
    while window := list(islice(read, batch * WINDOW if batch > 1 else 1)):
        ids = [item.id for item, _ in window]
        yield from zip(ids, _encode_window(model, window, options, batch), strict=True)


def _read(model: DAC | DACVAE, item: Item) -> Clip | str | None:
    """Read a short recording; None for a long one, and what is wrong with a broken one."""
    try:
        return read_clip(model, item.open())
    except Exception as error:
        return _reason(item, error)


def _read_ahead(
    model: DAC | DACVAE, items: Iterable[Item], readers: int
) -> Iterator[tuple[Item, Clip | str | None]]:
    if readers <= 1:
        for item in items:
            yield item, _read(model, item)
        return
    waiting: deque[tuple[Item, Future[Clip | str | None]]] = deque()
    with ThreadPoolExecutor(readers) as pool:
        for item in items:
            waiting.append((item, pool.submit(_read, model, item)))
            if len(waiting) > AHEAD * readers:
                first, clip = waiting.popleft()
                yield first, clip.result()
        for first, clip in waiting:
            yield first, clip.result()


def _encode_window(
    model: DAC | DACVAE,
    window: Sequence[tuple[Item, Clip | str | None]],
    options: Options,
    batch: int,
) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}
    clips: dict[int, Clip] = {}
    for i, (item, read) in enumerate(window):
        if isinstance(read, Clip):
            clips[i] = read
        elif read is None:
            outcomes[i] = _encode_long(model, item, options)
        else:
            outcomes[i] = read
    numbers = list(clips)
    for group in alike([clips[i].length for i in numbers]):
        for first in range(0, len(group), batch):
            part = [numbers[j] for j in group[first : first + batch]]
            encoded = _encode_batch(model, [(window[i][0], clips[i]) for i in part], options)
            outcomes.update(zip(part, encoded, strict=True))
    return [outcomes[i] for i in range(len(window))]


def _encode_batch(
    model: DAC | DACVAE, clips: Sequence[tuple[Item, Clip]], options: Options
) -> list[Outcome]:
    try:
        return [*encode_clips(model, [clip for _, clip in clips], options)]
    except Exception as error:  # of one clip, or memory: then each by itself
        if len(clips) == 1:
            return [_reason(clips[0][0], error)]
        return [_encode_batch(model, [clip], options)[0] for clip in clips]


def _encode_long(model: DAC | DACVAE, item: Item, options: Options) -> Outcome:
    try:
        return encode_whole(model, item.open, options)
    except Exception as error:
        return _reason(item, error)


def _reason(item: Item, error: Exception) -> str:
    """Say why an item failed; what would fail every item is raised again."""
    if isinstance(error, OutputError):
        raise error
    place = Path(item.id)
    return without_temporary_paths(failure(Pair(place, place), error).error or "")
