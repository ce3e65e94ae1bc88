"""What the blocks of each extent take, by the index: no block is read.

Records follow each other without a gap, so an extent's blocks take what lies between its offset in the index and the
next one, but for the SHARED records among them; and the number of blocks, which each have a head, is the plan's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from kvzip.container import records
from kvzip.container.records import OVERHEAD, RecordReader
from kvzip.container.structures import BlockHead, Index, Member, Start
from kvzip.container.unit import Unit
from kvzip.errors import ContainerError
from kvzip.streams.plan import blocks_of, slabs

END_BYTES = OVERHEAD + 16  # of a MEMBER_END


@dataclass
class Spans:
    """Bytes of the payloads of a file's blocks by the first extent they are for, and the units among these."""

    packed: dict[int, int] = field(default_factory=dict)
    units: dict[int, Unit] = field(default_factory=dict)


def spans_of(file: BinaryIO, where: str, start: Start, index: Index, members: list[Member]) -> list[Spans]:
    """The spans of each file. ContainerError if the index does not fit."""
    end = index.offset
    found: list[Spans] = []
    shared = {offset: _length(file, where, offset) for offset in index.shared}
    for number in reversed(range(len(members))):
        at, offsets = index.members[number]
        if len(offsets) != len(members[number].extents):
            raise _misfit(where)
        found.append(_Measured(file, where, start, set(index.units), shared).member(members[number], offsets, end))
        end = at
    return found[::-1]


def _length(file: BinaryIO, where: str, offset: int) -> int:
    return OVERHEAD + len(RecordReader.at(file, where, offset).next().payload)


def _misfit(where: str) -> ContainerError:
    return ContainerError(f"{where}: the index does not fit the records; the container is damaged, get another copy")


@dataclass
class _Measured:
    file: BinaryIO
    where: str
    start: Start
    units: set[int]
    shared: dict[int, int]  # sizes by offset

    def member(self, member: Member, offsets: list[int], end: int) -> Spans:
        """One file, whose MEMBER_END ends at ``end``."""
        out = Spans()
        first = 0
        while first < len(offsets):
            after = first + 1
            while after < len(offsets) and offsets[after] == offsets[first]:
                after += 1
            stop = offsets[after] if after < len(offsets) else end - END_BYTES
            out.packed[first] = self._payloads(member, first, offsets[first], stop, out)
            first = after
        return out

    def _payloads(self, member: Member, extent: int, at: int, stop: int, out: Spans) -> int:
        size = stop - at - sum(length for offset, length in self.shared.items() if at <= offset < stop)
        heads: Iterator[int]
        if at in self.units:
            record = RecordReader.at(self.file, self.where, at).next()
            if record.type != records.UNIT:
                raise _misfit(self.where)
            unit = out.units[extent] = Unit.from_bytes(record.payload, self.where)
            size -= OVERHEAD + len(record.payload)
            heads = iter(range(-(-member.extents[extent].tokens // unit.step)))
        else:
            heads = self._blocks(member, extent)
        for number in heads:
            size -= OVERHEAD + len(BlockHead(extent, number, 0).to_bytes())
            if size < 0:
                raise _misfit(self.where)
        return size

    def _blocks(self, member: Member, extent: int) -> Iterator[int]:
        number = 0
        for slab in slabs(member.extents[extent], 1 << self.start.block_log2):
            for _ in blocks_of(member.extents[extent], slab):
                yield number
                number += 1
