"""What an encoder finds out about a dump before it codes it: which tokens repeat, and how keys are rotated.

Tokens are read off the values of the lowest layer, which need not come first in the file: up to ``MOST_AHEAD`` bytes
are read ahead, from a pipe too, and given back by ``Prefixed``. Only choices depend on what is found, and all of
them are written into the container.
"""

from __future__ import annotations

from math import prod
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kvzip.predict.grid import grid_of
from kvzip.predict.model import numbers_of
from kvzip.predict.rope import Rope, from_spec
from kvzip.predict.rope_search import find
from kvzip.predict.tokens import Ints, identify
from kvzip.streams.extent import Extent
from kvzip.streams.plan import gather_whole

MOST_AHEAD = 192 << 20
LEAST_TOKENS = 16
LEAST_REPEATED = 1 / 32  # of the tokens, for a record of them to pay
SAMPLE_TOKENS, SAMPLE_STREAMS = 256, 4  # of keys, to find their rotation


class Prefixed:
    """A file whose first bytes were read already."""

    def __init__(self, prefix: bytearray, file: BinaryIO) -> None:
        self.prefix, self.file = memoryview(prefix), file

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of ``buffer``; return how much."""
        if not len(self.prefix):
            return self.file.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
        count = min(len(buffer), len(self.prefix))
        buffer[:count] = self.prefix[:count]
        self.prefix = self.prefix[count:]
        return count

    def read(self, count: int) -> bytes:
        """Up to ``count`` bytes."""
        if not len(self.prefix):
            return self.file.read(count)
        out = bytes(self.prefix[:count])
        self.prefix = self.prefix[count:]
        return out


def token_source(extents: tuple[Extent, ...]) -> int | None:
    """The number of the extent that tells the tokens: values of the lowest layer; None if there is none."""
    found: tuple[int, int] | None = None
    for number, extent in enumerate(extents):
        if extent.opaque or grid_of(extent.dtype) is None or extent.tokens < LEAST_TOKENS or _batches(extent) > 1:
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
    values = gather_whole(extent, data)[chosen]
    rows = np.ascontiguousarray(values.transpose(1, 0, 2)).reshape(extent.tokens, -1)
    ids = identify(rows.view(np.uint8))
    worth = len(ids) - int(ids.max(initial=-1) + 1) >= LEAST_REPEATED * len(ids)
    return (ids if worth else None), len(chosen) == len(names)


def accepts_tokens(extent: Extent, count: int) -> bool:
    """Whether an extent's rows can be the tokens of a record of ``count``."""
    return not extent.opaque and extent.tokens == count and _batches(extent) == 1


def rope_of(extent: Extent, streams: NDArray[Any], kinds: tuple[str, ...], hints: list[Rope]) -> Rope | None:
    """How the keys among ``streams`` (streams, tokens, channels) are rotated, as far as their first tokens tell."""
    grid = grid_of(extent.dtype)
    keys = [i for i, kind in enumerate(kinds) if kind != "value"][:SAMPLE_STREAMS]
    if grid is None or not keys:
        return None
    sample = streams[keys, :SAMPLE_TOKENS]
    if 8 * extent.itemsize != grid.bits:
        sample = sample >> 16
    channels = sample.shape[-1]
    fitting = [hint for hint in hints if max(*hint.first, *hint.second, 0) < channels]
    return find(numbers_of(sample, grid).astype(np.float32), fitting)


def rope_given(text: str, extent: Extent) -> Rope | None:
    """The user's rope for an extent's rows."""
    return from_spec(text, extent.axes[-1][1])


def _batches(extent: Extent) -> int:
    return prod(size for label, size in extent.axes if label == "batch")
