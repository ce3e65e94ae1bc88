"""container -> range coder -> windows -> planes -> (layer, head) streams -> tensors -> dump.

Every block's values are checked before they are handed on, every member's digest before it is called whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.blocks.codec import Around, Chain
from kvzip.container import records
from kvzip.container.records import Record, RecordReader
from kvzip.container.shared import Shared
from kvzip.container.structures import SINGLE, BlockHead, Index, Member, Start
from kvzip.errors import ContainerError
from kvzip.pipeline.compress import ChainRecord, Report
from kvzip.pipeline.options import Progress, in_flight_budget
from kvzip.pipeline.schedule import ChainPool
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block, Slab, blocks_of, scatter, slabs

Create = Callable[[Member, int], AbstractContextManager[BinaryIO | None]]
"""Opens the place where a member's bytes go: called with the member and its number."""


@dataclass
class Decoded:
    """A block's checked values."""

    decoder: ExtentDecoder
    slab: Slab
    blocks: int  # how many blocks its slab has
    values: NDArray[Any]


@dataclass
class _Decode:
    """The work of one block: runs on a pool thread."""

    decoder: ExtentDecoder
    chain: Chain
    payload: memoryview
    head: BlockHead
    slab: Slab
    blocks: int
    block: Block
    where: str

    def __call__(self) -> Decoded:
        values = self.chain.decode(self.payload, self.block, self.where)
        if xxhash.xxh3_64_intdigest(np.ascontiguousarray(values).data) != self.head.check:
            raise ContainerError(f"{self.where} fails its check; the container is damaged, get another copy")
        return Decoded(self.decoder, self.slab, self.blocks, values)


class ExtentDecoder:
    """Decodes the blocks of one extent, given in order, into the extent's slabs of bytes, in order."""

    def __init__(
        self, extent: Extent, start: Start, where: str, shared: Shared, observe: bool = False
    ) -> None:
        self.extent, self.start, self.where, self.observe = extent, start, where, observe
        self.shared = shared
        self.shared_met: Callable[[Record], None] | None = None  # what to do with a SHARED record between blocks
        self.chains: dict[int, Chain] = {}
        self.opened: list[tuple[Block, Chain]] = []
        self.parts: list[NDArray[Any]] = []

    def plan(self) -> Iterator[tuple[Slab, int, Block]]:
        """Every block with its slab and the number of blocks in it."""
        for slab in slabs(self.extent, 1 << self.start.block_log2):
            blocks = blocks_of(self.extent, slab)
            for block in blocks:
                yield slab, len(blocks), block

    def read(self, reader: RecordReader, number: int, pool: ChainPool[Decoded]) -> Iterator[int]:
        """Read the extent's blocks and hand them to the pool; yield each block's offset once it is queued."""
        for count, (slab, blocks, block) in enumerate(self.plan()):
            record = reader.next()
            while record.type == records.SHARED and self.shared_met is not None:
                self.shared_met(record)
                record = reader.next()
            if record.type != records.BLOCK:
                raise reader.damaged(record.offset, "should be a block")
            head, payload = BlockHead.split(record.payload, reader.where)
            if (head.extent, head.number) != (number, count):
                raise reader.damaged(record.offset, "is out of order")
            work = self.work(head, payload, slab, blocks, block)
            pool.submit((id(self), block.chain), work.chain.cost(block), work, block.last_of_chain)
            yield record.offset

    def work(self, head: BlockHead, payload: memoryview, slab: Slab, blocks: int, block: Block) -> _Decode:
        """The job of one block."""
        chain = self.chains.get(block.chain)
        if chain is None:
            around = Around(self.extent.kinds(block.names), self.shared.ropes, self.shared.tokens)
            chain = self.chains[block.chain] = Chain(self.extent, self.start.parameters, self.observe, around)
            self.opened.append((block, chain))
        if block.last_of_chain:
            del self.chains[block.chain]
        where = f"{self.where}: block {head.number} of extent {head.extent}"
        return _Decode(self, chain, payload, head, slab, blocks, block, where)

    def slab_bytes(self, decoded: Decoded) -> memoryview | None:
        """The bytes of a slab, once its last block is given."""
        self.parts.append(decoded.values)
        if len(self.parts) < decoded.blocks:
            return None
        parts, self.parts = self.parts, []
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return scatter(self.extent, decoded.slab, values)


@dataclass
class Opening:
    """A container whose first record is read: what it says of itself before anything is decoded."""

    reader: RecordReader
    start: Start

    @classmethod
    def of(cls, file: BinaryIO, where: str) -> Opening:
        """Read the magic and the first record."""
        reader = RecordReader(file, where)
        record = reader.next()
        if record.type != records.START:
            raise reader.damaged(record.offset, "should be the first one")
        return cls(reader, Start.from_bytes(record.payload, where))


@dataclass
class Decompressor:
    """Reads a container from front to back."""

    opening: Opening
    create: Create
    progress: Progress | None = None
    observe: bool = False
    report: Report = field(default_factory=Report)
    index: Index = field(default_factory=Index)
    shared: Shared = field(default_factory=Shared)

    def run(self, threads: int) -> Report:
        """Decode every member; check index and trailer."""
        reader = self.opening.reader
        digests = xxhash.xxh3_128()
        with ChainPool[Decoded](threads, in_flight_budget(threads, self.opening.start.block_log2)) as pool:
            record = reader.next()
            while record.type == records.MEMBER:
                digests.update(self._member(record, pool))
                record = reader.next()
        if record.type != records.INDEX:
            raise reader.damaged(record.offset, "is out of place")
        if self.opening.start.source == SINGLE and self.report.members != 1:
            raise reader.damaged(record.offset, "ends the container before its file")
        self.index.digest = digests.digest()
        if bytes(record.payload) != self.index.to_bytes(self.opening.start.version):
            raise reader.damaged(record.offset, "does not match what came before it")
        reader.finish(record.offset)
        self.report.container_bytes = reader.offset
        return self.report

    def _member(self, record: Record, pool: ChainPool[Decoded]) -> bytes:
        """Restore one file; return its digest."""
        reader = self.opening.reader
        member = Member.from_bytes(record.payload, reader.where)
        if self.opening.start.source == SINGLE and self.report.members:
            raise reader.damaged(record.offset, "begins a second file where there must be one")
        self.index.members.append((record.offset, []))
        digest = xxhash.xxh3_128()
        with self.create(member, self.report.members) as out:
            sink = _Sink(out, digest, self)
            sink.write(member.header)
            for number, extent in enumerate(member.extents):
                self._extent(number, extent, pool, sink)
            drain(pool, sink.write, everything=True)
            end = reader.next()
            if end.type != records.MEMBER_END or bytes(end.payload) != digest.digest():
                raise reader.damaged(end.offset, "does not match the file that was restored")
        self.report.members += 1
        return digest.digest()

    def _meet(self, record: Record) -> None:
        self.shared.add(record.payload, self.opening.reader.where)
        self.index.shared.append(record.offset)

    def _extent(self, number: int, extent: Extent, pool: ChainPool[Decoded], sink: _Sink) -> None:
        reader = self.opening.reader
        decoder = ExtentDecoder(extent, self.opening.start, reader.where, self.shared, self.observe)
        decoder.shared_met = self._meet if self.opening.start.version > 1 else None
        for count, offset in enumerate(decoder.read(reader, number, pool)):
            if count == 0:
                self.index.members[-1][1].append(offset)
            drain(pool, sink.write)
        if self.observe:
            seen = (ChainRecord(self.report.members, number, extent, *opened) for opened in decoder.opened)
            self.report.chains.extend(seen)


def drain(pool: ChainPool[Decoded], write: Callable[[memoryview], Any], everything: bool = False) -> None:
    """Write what is done: blocks come in order, so those of an extent come together."""
    for decoded in pool.results(everything):
        data = decoded.decoder.slab_bytes(decoded)
        if data is not None:
            write(data)


@dataclass
class _Sink:
    """Where a member's bytes go: its digest, the report, and the file if there is one."""

    out: BinaryIO | None
    digest: Any
    owner: Decompressor

    def write(self, data: bytes | memoryview) -> None:
        self.digest.update(data)
        if self.out is not None:
            self.out.write(data)
        report = self.owner.report
        report.source_bytes += len(data)
        if self.owner.progress:
            self.owner.progress(report.source_bytes, self.owner.opening.reader.offset)


def decompress_members(
    opening: Opening,
    create: Create,
    threads: int = 0,
    *,
    progress: Progress | None = None,
    observe: bool = False,
) -> Report:
    """Restore every member of a container into what ``create`` opens for it, in one pass."""
    return Decompressor(opening, create, progress, observe).run(threads)
