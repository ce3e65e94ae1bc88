"""container -> range coder -> windows -> planes -> (layer, head) streams -> tensors -> dump.

Every block's values are checked before they are handed on, every member's digest before it is called whole.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import xxhash

from kvzip.container import records
from kvzip.container.records import Record, RecordReader
from kvzip.container.shared import Shared, holds_draft, holds_prior
from kvzip.container.structures import SINGLE, Index, Member, Start
from kvzip.container.unit import Unit
from kvzip.pipeline.decode_extent import Decoded, ExtentDecoder, drain
from kvzip.pipeline.decode_unit import OpenUnits
from kvzip.pipeline.options import Progress, in_flight_budget
from kvzip.pipeline.report import ChainRecord, Report
from kvzip.pipeline.schedule import ChainPool
from kvzip.pipeline.sink import Sink
from kvzip.predict.prior import Prior
from kvzip.streams.extent import Extent

if TYPE_CHECKING:
    from kvzip.pipeline.draft import Draft

Create = Callable[[Member, int], AbstractContextManager[BinaryIO | None]]
"""Opens the place where a member's bytes go: called with the member and its number."""


@dataclass
class Opening:
    """A container whose first record is read, and that of its prior: what it says of itself before it is decoded."""

    reader: RecordReader
    start: Start
    shared: Shared
    embedded: list[int] = field(default_factory=list)  # the offsets of the prior's record and the draft's
    ahead: Record | None = None  # a record that was read to see whether it is one of these

    @classmethod
    def of(
        cls,
        file: BinaryIO,
        where: str,
        prior: Prior | None = None,
        draft: Draft | None = None,
    ) -> Opening:
        """Read the magic, the first record, the prior and what the draft must be.

        PriorError if it needs a prior and ``prior`` is not it; DraftError likewise.
        """
        reader = RecordReader(file, where)
        record = reader.next()
        if record.type != records.START:
            raise reader.damaged(record.offset, "should be the first one")
        start = Start.from_bytes(record.payload, where)
        opening = cls(reader, start, Shared(needs=start.needs))
        if start.needs:
            opening._find_prior(prior)
        if start.version > 1:
            opening._find_draft()
        opening.shared.begun = True
        opening.shared.take_draft(draft, where)
        return opening

    def next(self) -> Record:
        """The next record."""
        record, self.ahead = self.ahead, None
        return record or self.reader.next()

    def _find_draft(self) -> None:
        record = self.next()
        if record.type == records.SHARED and holds_draft(record.payload):
            self.shared.add(record.payload, self.reader.where)
            self.embedded.append(record.offset)
        else:
            self.ahead = record

    def _find_prior(self, prior: Prior | None) -> None:
        record = self.reader.next()
        if record.type == records.SHARED and holds_prior(record.payload):
            self.shared.add(record.payload, self.reader.where)
            self.embedded.append(record.offset)
            return
        self.shared.take_prior(prior, self.reader.where)
        self.ahead = record


@dataclass
class Decompressor:
    """Reads a container from front to back."""

    opening: Opening
    create: Create
    progress: Progress | None = None
    observe: bool = False
    report: Report = field(default_factory=Report)
    index: Index = field(default_factory=Index)
    united: OpenUnits = field(default_factory=OpenUnits)

    def run(self, threads: int) -> Report:
        """Decode every member; check index and trailer."""
        reader = self.opening.reader
        digests = xxhash.xxh3_128()
        self.index.shared += self.opening.embedded
        with ChainPool[Decoded](threads, in_flight_budget(threads, self.opening.start.block_log2)) as pool:
            record = self.opening.next()
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
        with self.create(member, self.report.members) as out:
            sink = Sink(out, self.report, self.progress, lambda: reader.offset)
            sink.write(member.header)
            number = 0
            while number < len(member.extents):
                record = self._next(reader)
                if record.type == records.UNIT and self.opening.start.version > 1:
                    number += self._unit(number, member, record, pool, sink)
                else:
                    self._extent(number, member.extents[number], record, pool, sink)
                    number += 1
            drain(pool, sink.write, everything=True)
            end = reader.next()
            if end.type != records.MEMBER_END or bytes(end.payload) != sink.digest.digest():
                raise reader.damaged(end.offset, "does not match the file that was restored")
        self.report.members += 1
        whole: bytes = sink.digest.digest()
        return whole

    def _next(self, reader: RecordReader) -> Record:
        """The next record that is not a SHARED one; those are taken in."""
        record = reader.next()
        while record.type == records.SHARED and self.opening.start.version > 1:
            self.opening.shared.add(record.payload, reader.where)
            self.index.shared.append(record.offset)
            record = reader.next()
        return record

    def _extent(self, number: int, extent: Extent, first: Record, pool: ChainPool[Decoded], sink: Sink) -> None:
        reader = self.opening.reader
        decoder = ExtentDecoder(extent, self.opening.start, reader.where, self.opening.shared, self.observe)
        decoder.next_record = self._next
        for count, offset in enumerate(decoder.read(reader, number, pool, first)):
            if count == 0:
                self.index.members[-1][1].append(offset)
            drain(pool, sink.write)
        if self.observe:
            seen = (ChainRecord(self.report.members, number, extent, *opened) for opened in decoder.opened)
            self.report.chains.extend(seen)

    def _unit(self, number: int, member: Member, record: Record, pool: ChainPool[Decoded], sink: Sink) -> int:
        """Hand the blocks of a unit to the pool; return how many extents it has."""
        reader = self.opening.reader
        unit = Unit.from_bytes(record.payload, reader.where)
        if unit.first != number:
            raise reader.damaged(record.offset, "is out of order")
        self.united.observe = self.observe
        decoder = self.united.open(unit, member, self.opening.start, self.opening.shared, reader.where)
        if self.observe:
            for extent, seen in enumerate(decoder.coder.records(), number):
                self.report.chains.append(ChainRecord(self.report.members, extent, *seen))
        self.index.units.append(record.offset)
        self.index.members[-1][1].extend([record.offset] * unit.count)
        pool.budget = max(pool.budget, decoder.nbytes)  # payloads of about two units, for one to follow the other
        for _ in decoder.read(reader, pool, self._next):
            drain(pool, sink.write)
        return unit.count


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
