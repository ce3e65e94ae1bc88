"""Writes a container in one pass: start, members with their blocks, index, trailer."""

from __future__ import annotations

from io import BytesIO
from typing import Any, BinaryIO

import xxhash

from kvzip.container import records
from kvzip.container.records import RecordWriter
from kvzip.container.structures import BlockHead, Index, Member, Start
from kvzip.container.unit import Unit


class Nowhere(BytesIO):
    """An output that takes every byte and keeps none."""

    def write(self, data: Any) -> int:
        """Count ``data``."""
        return len(data)


class ContainerWriter:
    """Call ``member``, ``block`` for each block in plan order, ``end_member``; repeat; then ``close``."""

    def __init__(self, file: BinaryIO, start: Start) -> None:
        self.records = RecordWriter(file)
        self.index = Index()
        self.digests = xxhash.xxh3_128()
        self.records.record(records.START, start.to_bytes())

    @property
    def written(self) -> int:
        """Bytes written so far."""
        return self.records.offset

    def member(self, member: Member) -> None:
        """Begin a file."""
        payload = member.to_bytes()
        self.index.members.append((self.records.record(records.MEMBER, payload), []))

    def shared(self, payload: bytes) -> None:
        """Append what the blocks that follow may refer to."""
        self.index.shared.append(self.records.record(records.SHARED, payload))

    def unit(self, unit: Unit) -> None:
        """Begin a unit; its blocks follow."""
        offset = self.records.record(records.UNIT, unit.to_bytes())
        self.index.units.append(offset)
        self.index.members[-1][1].extend([offset] * unit.count)

    def block(self, head: BlockHead, payload: bytes, united: bool = False) -> None:
        """Append the next block of the file, of a unit or of an extent by itself."""
        offset = self.records.record(records.BLOCK, head.to_bytes(), payload)
        if head.number == 0 and not united:
            self.index.members[-1][1].append(offset)

    def end_member(self, digest: bytes) -> None:
        """End the file with the XXH3-128 of all its bytes."""
        self.records.record(records.MEMBER_END, digest)
        self.digests.update(digest)

    def close(self) -> None:
        """Write index and trailer."""
        self.index.digest = self.digests.digest()
        self.records.close(self.records.record(records.INDEX, self.index.to_bytes()))
