"""What an encoder finds out about a dump before it codes it: which tokens repeat, and how keys are rotated.

Tokens are read off the values of the lowest layer, which need not come first in the file: up to ``MOST_AHEAD`` bytes
are read ahead, from a pipe too (``pipeline.source``). Only choices depend on what is found, and all of them are
written into the container.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.container.shared import MAX_TOKENS
from kvzip.predict.grid import Grid, grid_of
from kvzip.predict.model import numbers_of
from kvzip.predict.rope import Rope, from_spec
from kvzip.predict.rope_search import HINT_TOKENS, agreeing, find
from kvzip.predict.tokens import Ints, identify
from kvzip.streams.extent import Extent
from kvzip.streams.plan import gather_whole

LEAST_TOKENS = 16
TOKENS_AT_ONCE = 1024
BYTES_SAMPLE = 1 << 18
LEAN_OF_E5M2 = 1.45  # between 1 and 2
LEAST_REPEATED = 1 / 32  # of the tokens, for a record of them to pay
SAMPLE_TOKENS, SAMPLE_STREAMS = 256, 2  # of keys, to find their rotation


def type_of_bytes(sample: NDArray[np.uint8]) -> str:
    """What the bytes of a U8 cache are: F8_E4M3, F8_E5M2, or U8 if they look like whole numbers.

    Floats are as often positive as negative, by the top bit; whole numbers mirror around 0 or 128. And below their
    scale floats of one exponent are evenly spread: where the upper half of each eight codes is about twice as common
    as the lower one, the exponent reaches one bit further down.
    """
    counts = np.bincount(sample.reshape(-1), minlength=256).astype(np.float64)
    codes = np.arange(256)
    as_floats = np.abs(counts - counts[codes ^ 128]).sum()
    as_numbers = np.abs(counts - counts[-codes & 255]).sum()
    if as_floats > as_numbers:
        return "U8"
    sizes = (counts[:128] + counts[128:]).reshape(16, 8)
    below = np.cumsum(sizes.sum(1)) <= sizes.sum() / 2
    below[0] = False  # zeros and denormals
    lower, upper = sizes[below, :4].sum(), sizes[below, 4:].sum()
    return "F8_E5M2" if upper > LEAN_OF_E5M2 * lower > 0 else "F8_E4M3"


def token_source(extents: tuple[Extent, ...]) -> int | None:
    """The number of the extent that tells the tokens: values of the lowest layer; None if there is none."""
    found: tuple[int, int] | None = None
    for number, extent in enumerate(extents):
        if extent.opaque or grid_of(extent.dtype) is None or _batches(extent) > 1:
            continue
        if not LEAST_TOKENS <= extent.tokens <= MAX_TOKENS:
            continue
        labels = [label for label, _ in extent.axes]
        layer = 0 if "layer" in labels else extent.layer
        if layer >= 0 and (extent.kind == "value" or "kind" in labels) and (found is None or layer < found[0]):
            found = layer, number
    return found[1] if found else None


def tokens_of(extent: Extent, data: memoryview) -> tuple[Ints | None, bool]:
    """The ids of the tokens by the values of the lowest layer in an extent's ``data``, None if hardly any repeats;
    and whether these values are all that the extent holds."""
    names = list(extent.stream_names())
    lowest = min(name.layer for name in names)
    chosen = [i for i, name in enumerate(names) if name.layer == lowest and name.kind == "value"]
    values = gather_whole(extent, data)
    values = values if len(chosen) == len(names) else values[chosen]
    ids = identify(_rows(values))
    worth = len(ids) - int(ids.max(initial=-1) + 1) >= LEAST_REPEATED * len(ids)
    return (ids if worth else None), len(chosen) == len(names)


def _rows(values: NDArray[Any]) -> Iterator[bytes]:
    """Each token's row of all streams of (streams, tokens, channels), a few tokens at a time."""
    for start in range(0, values.shape[1], TOKENS_AT_ONCE):
        part = np.ascontiguousarray(values[:, start : start + TOKENS_AT_ONCE].transpose(1, 0, 2))
        for row in part.reshape(part.shape[0], -1):
            yield row.tobytes()


def accepts_tokens(extent: Extent, count: int) -> bool:
    """Whether an extent's rows can be the tokens of a record of ``count``."""
    return not extent.opaque and extent.tokens == count and _batches(extent) == 1


def rope_of(extent: Extent, streams: NDArray[Any], kinds: tuple[str, ...], hints: list[Rope]) -> Rope | None:
    """How the keys among ``streams`` (streams, tokens, channels) are rotated, as far as their first tokens tell."""
    grid = grid_of(extent.dtype)
    keys = [i for i, kind in enumerate(kinds) if kind != "value"][:SAMPLE_STREAMS]
    if grid is None or not keys:
        return None
    if hints:
        found = agreeing(_numbers(extent, grid, streams[keys[:1], :HINT_TOKENS]), hints)
        if found:
            return found
    return find(_numbers(extent, grid, streams[keys, :SAMPLE_TOKENS]))


def _numbers(extent: Extent, grid: Grid, sample: NDArray[Any]) -> NDArray[np.float32]:
    return numbers_of(sample if 8 * extent.itemsize == grid.bits else sample >> 16, grid)


def rope_given(text: str, extent: Extent) -> Rope | None:
    """The user's rope for an extent's rows."""
    return from_spec(text, extent.axes[-1][1])


def _batches(extent: Extent) -> int:
    return prod(size for label, size in extent.axes if label == "batch")
