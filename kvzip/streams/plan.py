"""How an extent is cut: the same plan for encoder and decoder, derived from the extent and the block size alone.

A *slab* is a run of the extent's bytes that is a box in its axes: full inside some axis, a range along it, one index
outside of it. A slab holds tokens of one or more streams; groups of neighbouring streams in it are *blocks*, each
coded by itself. The blocks that hold the same streams at successive tokens form a *chain*; they share windows and are
coded in order, while chains are independent of each other.

    (head 8) (token 32768) (channel 128)         slabs of 8192 tokens of one head, 4 in a chain, 8 chains
    (token 32768) (head 8) (channel 128)         slabs of 1024 tokens of 8 heads, one block a head, 32 in a chain
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, overload

from kvzip.streams.extent import OPAQUE_ROW, Extent

if TYPE_CHECKING:
    from numpy.typing import NDArray

Axes = tuple[tuple[str, int], ...]
GROUP_BYTES = 1 << 20  # a slab is shared out among blocks of about this size or larger
CHAINED_GROUP_BYTES = 1 << 18  # the same where chains have several blocks: more chains, for more threads
MOST_REMEMBERED = 256  # blocks of a slab that are kept for the next tensor of the same shape
GROUP_STREAMS = 128  # and of at most so many streams, since each has windows of its own


@dataclass(frozen=True)
class Slab:
    """``nbytes`` of the extent from byte ``start``: a box of ``shape`` (the axes' sizes inside the slab)."""

    start: int
    nbytes: int
    shape: tuple[int, ...]
    first_stream: int
    full_tokens: int  # tokens in the longest slab of its chains
    last_of_chain: bool


@dataclass(frozen=True)
class Block:
    """Streams ``first .. first + len(names) - 1`` of a slab: an array (streams, tokens, channels).

    ``names`` are the streams' numbers in the order of ``Extent.stream_names``; the first of them names the chain.
    """

    first: int
    names: tuple[int, ...]
    tokens: int
    channels: int
    last_of_chain: bool

    @property
    def chain(self) -> int:
        """What the blocks of a chain have in common."""
        return self.names[0]

    @property
    def streams(self) -> int:
        """Number of streams."""
        return len(self.names)


def slabs(extent: Extent, block_bytes: int) -> Iterator[Slab]:
    """The slabs in file order; together they are the extent."""
    if extent.opaque:
        yield from _opaque_slabs(extent, block_bytes)
        return
    if extent.nbytes <= block_bytes:
        yield _whole(extent)
        return
    sizes = [size for _, size in extent.axes]
    cut, inside = _cut_axis(sizes, extent.itemsize, block_bytes)
    step = max(1, block_bytes // inside)
    labels = [label for label, _ in extent.axes]
    token = labels.index("token")
    full = min(step, sizes[cut]) if cut == token else 1 if cut > token else sizes[token]
    at = 0
    for outer in product(*map(range, sizes[:cut])):
        for low in range(0, sizes[cut], step):
            count = min(step, sizes[cut] - low)
            shape = (*(1 for _ in outer), count, *sizes[cut + 1 :])
            index = (*outer, low, *(0 for _ in sizes[cut + 1 :]))
            last = index[token] + shape[token] == sizes[token]
            yield Slab(at, count * inside, shape, _stream_index(labels, sizes, index), full, last)
            at += count * inside


def _opaque_slabs(extent: Extent, block_bytes: int) -> Iterator[Slab]:
    """Whole rows of 256 elements, then what is left as a row of its own."""
    whole = extent.elements - extent.elements % OPAQUE_ROW
    step = max(1, block_bytes // (extent.itemsize * OPAQUE_ROW)) * OPAQUE_ROW
    for at in range(0, whole, step):
        count = min(step, whole - at)
        last = at + count == whole
        yield Slab(at * extent.itemsize, count * extent.itemsize, (count // OPAQUE_ROW, OPAQUE_ROW), 0, step, last)
    left = extent.elements - whole
    if left:
        yield Slab(whole * extent.itemsize, left * extent.itemsize, (1, left), 1, 1, True)


def _cut_axis(sizes: list[int], itemsize: int, block_bytes: int) -> tuple[int, int]:
    """The axis along which slabs are ranges, and the bytes of one step of it; never the channel axis."""
    cut, inside = len(sizes) - 2, sizes[-1] * itemsize
    while cut > 0 and inside * sizes[cut] <= block_bytes:
        inside *= sizes[cut]
        cut -= 1
    return cut, inside


def _stream_index(labels: list[str], sizes: list[int], index: tuple[int, ...]) -> int:
    """Number of the stream at ``index`` in the order of ``Extent.stream_names``."""
    number = 0
    for label, size, at in zip(labels, sizes, index, strict=True):
        if label not in ("token", "channel"):
            number = number * size + at
    return number


def blocks_of(extent: Extent, slab: Slab) -> Sequence[Block]:
    """The blocks of a slab: its streams in equal shares, the same share in every slab of a chain."""
    if extent.opaque:
        tokens, channels = slab.shape
        return [Block(0, (slab.first_stream,), tokens, channels, slab.last_of_chain)]
    return _shares(extent.axes, extent.itemsize, slab)


@lru_cache(maxsize=256)
def _shares(axes: Axes, itemsize: int, slab: Slab) -> _Shares:
    return _Shares(axes, itemsize, slab)


class _Shares(Sequence[Block]):
    """The blocks of a slab, made as they are asked for: a container may say that there are millions."""

    def __init__(self, axes: Axes, itemsize: int, slab: Slab) -> None:
        labels = [label for label, _ in axes]
        self.slab = slab
        self.tokens, self.channels = slab.shape[labels.index("token")], slab.shape[-1]
        self.steps = _stream_steps(axes, slab)
        self.streams = prod(size for size, _ in self.steps)
        whole = slab.full_tokens == axes[labels.index("token")][1]
        group = GROUP_BYTES if whole else CHAINED_GROUP_BYTES
        self.share = max(1, min(GROUP_STREAMS, group // (slab.full_tokens * self.channels * itemsize)))
        self.made: dict[int, Block] = {}

    def __len__(self) -> int:
        return -(-self.streams // self.share)

    @overload
    def __getitem__(self, number: int) -> Block: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Block]: ...
    def __getitem__(self, number: int | slice) -> Block | Sequence[Block]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        first = range(0, self.streams, self.share)[number]
        block = self.made.get(first)
        if block is None:
            names = tuple(map(self._name, range(first, min(first + self.share, self.streams))))
            block = Block(first, names, self.tokens, self.channels, self.slab.last_of_chain)
            if len(self) <= MOST_REMEMBERED:
                self.made[first] = block
        return block

    def _name(self, at: int) -> int:
        """The number of the slab's stream ``at`` among the extent's."""
        number = self.slab.first_stream
        for size, step in self.steps:
            at, index = divmod(at, size)
            number += index * step
        return number


def _stream_steps(axes: Axes, slab: Slab) -> list[tuple[int, int]]:
    """For each stream axis, the innermost first: its size in the slab, and what an index of it adds to a number."""
    steps, scale = [], 1
    for (label, size), inside in reversed(list(zip(axes, slab.shape, strict=True))):
        if label not in ("token", "channel"):
            steps.append((inside, scale))
            scale *= size
    return steps


def gather(extent: Extent, slab: Slab, data: Any) -> NDArray[Any]:
    """The slab's values as (streams, tokens, channels), contiguous; opaque data is one stream of rows."""
    import numpy as np  # here: whoever lists a container counts its blocks and needs no arrays

    values = np.frombuffer(data, f"<u{extent.itemsize}")
    if extent.opaque:
        return values.reshape(1, *slab.shape)
    box = values.reshape(slab.shape).transpose(_stream_major(extent.axes))
    return np.ascontiguousarray(box.reshape(-1, box.shape[-2], box.shape[-1]))


def gather_whole(extent: Extent, data: Any) -> NDArray[Any]:
    """All of an extent's ``data`` as (streams, tokens, channels)."""
    return gather(extent, _whole(extent), data)


def scatter(extent: Extent, slab: Slab, streams: NDArray[Any]) -> memoryview:
    """The inverse of ``gather``: the slab's bytes."""
    if extent.opaque:
        return _bytes(streams.reshape(-1))
    order = _stream_major(extent.axes)
    box = streams.reshape([slab.shape[axis] for axis in order])
    back = [order.index(axis) for axis in range(len(order))]
    import numpy as np

    return _bytes(np.ascontiguousarray(box.transpose(back)).reshape(-1))


def scatter_whole(extent: Extent, streams: NDArray[Any]) -> memoryview:
    """The inverse of ``gather_whole``."""
    return scatter(extent, _whole(extent), streams)


def _whole(extent: Extent) -> Slab:
    sizes = tuple(size for _, size in extent.axes)
    return Slab(0, extent.nbytes, sizes, 0, extent.tokens, True)


def _bytes(values: NDArray[Any]) -> memoryview:
    """Flat contiguous values as bytes, not copied."""
    return memoryview(values.view("u1").data)


@lru_cache(maxsize=256)
def _stream_major(axes: Axes) -> list[int]:
    labels = [label for label, _ in axes]
    streams = [i for i, label in enumerate(labels) if label not in ("token", "channel")]
    return [*streams, labels.index("token"), labels.index("channel")]
