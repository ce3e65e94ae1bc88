"""The blocks of one extent by itself, back into bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.blocks.codec import Around, Chain
from kvzip.blocks.draft import DraftRows
from kvzip.container import records
from kvzip.container.records import Record, RecordReader
from kvzip.container.shared import Met, Shared
from kvzip.container.structures import BlockHead, Start
from kvzip.errors import ContainerError
from kvzip.pipeline.schedule import ChainPool
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block, Slab, blocks_of, scatter, slabs


class Assembler(Protocol):
    """What puts blocks together again."""

    def take(self, decoded: Decoded) -> list[memoryview]:
        """The bytes that a block completes, in order; none if others are missing."""


@dataclass
class Decoded:
    """A block's checked values."""

    decoder: Assembler
    slab: Slab | None
    blocks: int  # how many blocks its slab has
    values: NDArray[Any]


def read_block(reader: RecordReader, record: Record, extent: int, number: int) -> tuple[BlockHead, memoryview]:
    """Head and payload of a record that must be block ``number`` of an extent, or of the unit that begins there."""
    if record.type != records.BLOCK:
        raise reader.damaged(record.offset, "should be a block")
    head, payload = BlockHead.split(record.payload, reader.where)
    if (head.extent, head.number) != (extent, number):
        raise reader.damaged(record.offset, "is out of order")
    return head, payload


def require_check(values: NDArray[Any], head: BlockHead, where: str) -> None:
    """ContainerError unless contiguous ``values`` are those that were coded."""
    if xxhash.xxh3_64_intdigest(values.data) != head.check:
        raise ContainerError(f"{where} fails its check; the container is damaged, get another copy")


@dataclass
class DecodeBlock:
    """The work of one block: runs on a pool thread. An empty ``payload`` fails."""

    decoder: ExtentDecoder
    chain: Chain
    payload: memoryview
    head: BlockHead
    slab: Slab
    blocks: int
    block: Block
    where: str

    def __call__(self) -> Decoded:
        """Decode it. ContainerError if its values are not those that were coded."""
        values = self.chain.decode(self.payload, self.block, self.where)
        require_check(np.ascontiguousarray(values), self.head, self.where)
        return Decoded(self.decoder, self.slab, self.blocks, values)

    def give_up(self) -> Decoded:
        """Zeros in place of the block's values."""
        shape = (self.block.streams, self.block.tokens, self.block.channels)
        return Decoded(self.decoder, self.slab, self.blocks, np.zeros(shape, f"<u{self.decoder.extent.itemsize}"))


class ExtentDecoder:
    """Decodes the blocks of one extent, given in order, into the extent's slabs of bytes, in order."""

    def __init__(self, extent: Extent, start: Start, where: str, shared: Shared, observe: bool = False) -> None:
        self.extent, self.start, self.where, self.observe = extent, start, where, observe
        self.shared = shared
        self.draft: DraftRows | None = None
        self.next_record: Callable[[RecordReader], Record] = RecordReader.next
        self.chains: dict[int, Chain] = {}
        self.opened: list[tuple[Block, Chain]] = []
        self.parts: list[NDArray[Any]] = []

    def plan(self) -> Iterator[tuple[Slab, int, Block]]:
        """Every block with its slab and the number of blocks in it."""
        for slab in slabs(self.extent, 1 << self.start.block_log2):
            blocks = blocks_of(self.extent, slab)
            for block in blocks:
                yield slab, len(blocks), block

    def read(
        self, reader: RecordReader, number: int, pool: ChainPool[Decoded], first: Record | None = None
    ) -> Iterator[int]:
        """Read the extent's blocks and hand them to the pool; yield each block's offset once it is queued.

        ``first`` is the record of the first one, if it was read already.
        """
        for count, (slab, blocks, block) in enumerate(self.plan()):
            record = first if first is not None and count == 0 else self.next_record(reader)
            head, payload = read_block(reader, record, number, count)
            work = self.work(head, payload, slab, blocks, block)
            pool.submit((id(self), block.chain), work.chain.cost(block), work, block.last_of_chain)
            yield record.offset

    def work(self, head: BlockHead, payload: memoryview, slab: Slab, blocks: int, block: Block) -> DecodeBlock:
        """The job of one block."""
        chain = self.chains.get(block.chain)
        if chain is None:
            shared = self.shared
            if self.draft is None and shared.drafts is not None:
                self.draft = shared.drafts.rows(self.extent)
            around = Around(
                self.extent.kinds(block.names), Met(shared.ropes), Met(shared.tokens), shared.prior,
                self.draft.of(block.names) if self.draft else None,
            )  # fmt: skip  # those met so far
            chain = self.chains[block.chain] = Chain(self.extent, self.start.parameters, self.observe, around)
            self.opened.append((block, chain))
        if block.last_of_chain:
            del self.chains[block.chain]
        where = f"{self.where}: block {head.number} of extent {head.extent}"
        return DecodeBlock(self, chain, payload, head, slab, blocks, block, where)

    def take(self, decoded: Decoded) -> list[memoryview]:
        """The bytes of a slab, once its last block is given."""
        assert decoded.slab is not None
        self.parts.append(decoded.values)
        if len(self.parts) < decoded.blocks:
            return []
        parts, self.parts = self.parts, []
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return [scatter(self.extent, decoded.slab, values)]


def drain(pool: ChainPool[Decoded], write: Callable[[memoryview], Any], everything: bool = False) -> None:
    """Write what is done: blocks come in order, so those of an extent come together."""
    for decoded in pool.results(everything):
        for data in decoded.decoder.take(decoded):
            write(data)
