"""What a container holds, by the index at its end: nothing between is read, however long it is."""

from __future__ import annotations

from typing import BinaryIO

from kvzip.container import records
from kvzip.container.records import END_MAGIC, TRAILER, RecordReader
from kvzip.container.structures import Index, Member, Start
from kvzip.errors import ContainerError


def read_index(file: BinaryIO, where: str, version: int) -> Index:
    """The index of a container of format ``version`` in a seekable file; ContainerError if it has none."""
    size = file.seek(0, 2)
    file.seek(max(0, size - TRAILER))
    trailer = file.read(TRAILER)
    at = int.from_bytes(trailer[:8], "little")
    if trailer[8:] != END_MAGIC or at >= size:
        raise ContainerError(f"{where}: has no index at its end; it was cut short, get a whole copy")
    record = RecordReader.at(file, where, at).next()
    if record.type != records.INDEX:
        raise ContainerError(f"{where}: the trailer points to no index; the container is damaged")
    index = Index.from_bytes(record.payload, where, version)
    index.offset = at
    return index


def read_members(file: BinaryIO, where: str, index: Index) -> list[Member]:
    """The files that an index names."""
    return [_member(file, where, offset) for offset, _ in index.members]


def held_by(file: BinaryIO, where: str) -> tuple[Start, list[Member]]:
    """How a container begins and which files it holds; ``file`` is seekable and at its start."""
    start = Start.from_bytes(RecordReader(file, where).next().payload, where)
    return start, read_members(file, where, read_index(file, where, start.version))


def _member(file: BinaryIO, where: str, offset: int) -> Member:
    reader = RecordReader.at(file, where, offset)
    record = reader.next()
    if record.type != records.MEMBER:
        raise reader.damaged(offset, "should be a file's")
    return Member.from_bytes(record.payload, where)
