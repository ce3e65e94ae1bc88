"""Framing: a container is a magic, records, and a trailer that says where the last record starts.

    magic     8 bytes   89 4B 56 5A 0D 0A 1A 0A
    record    type u8 | length u32 | payload | check u32     check: low half of XXH3-64 of what precedes it
    trailer  16 bytes   offset of the INDEX record u64 | "KVZ-END\\n"

Numbers are little-endian. Reading never allocates for a length before the bytes for it have come.
"""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

import xxhash

from kvzip.errors import ContainerError, UnsupportedError

MAGIC = b"\x89KVZ\r\n\x1a\n"
END_MAGIC = b"KVZ-END\n"
ARCHIVE_MAGIC = b"\x89KVP\r\n\x1a\n"  # of several containers in one file
TRAILER = 16
START, MEMBER, BLOCK, MEMBER_END, INDEX, SHARED, UNIT = 1, 2, 3, 4, 5, 6, 7
MAX_PAYLOAD = 1 << 28
OVERHEAD = 9
PIECE = 1 << 20


def starts_container(file: Any) -> bool:
    """Whether a file that can peek starts with the magic; nothing is taken from it."""
    return bool(file.peek(len(MAGIC))[: len(MAGIC)] == MAGIC)


def starts_archive(file: Any) -> bool:
    """The same for an archive's magic."""
    return bool(file.peek(len(MAGIC))[: len(MAGIC)] == ARCHIVE_MAGIC)


class Record(NamedTuple):
    """One record; ``offset`` is where it starts, counted from the magic."""

    type: int
    payload: memoryview
    offset: int


def _check(head: bytes, *payload: bytes | memoryview) -> bytes:
    state = xxhash.xxh3_64(head)
    for part in payload:
        state.update(part)
    return (state.intdigest() & 0xFFFFFFFF).to_bytes(4, "little")


class RecordWriter:
    """Appends records to a binary file without seeking; ``offset`` counts what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.offset = 0
        self._write(MAGIC)

    def record(self, kind: int, *payload: bytes) -> int:
        """Write one record, its payload in parts; return its offset."""
        at = self.offset
        head = bytes((kind,)) + sum(map(len, payload)).to_bytes(4, "little")
        for part in (head, *payload, _check(head, *payload)):
            self._write(part)
        return at

    def close(self, index_offset: int) -> None:
        """Write the trailer; the file stays open."""
        self._write(index_offset.to_bytes(8, "little") + END_MAGIC)

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self.offset += len(data)


class RecordReader:
    """Reads records in order; every fault is a ContainerError that names the file and the byte."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file, self.where = file, where
        self.offset = 0
        magic = self._some(len(MAGIC))
        if magic == ARCHIVE_MAGIC:
            raise ContainerError(f"{where}: is an archive of several dumps; `kvzip unpack` restores them")
        if magic != MAGIC:
            raise ContainerError(
                f"{where}: not a .kvz file (it starts with {bytes(magic)!r}); "
                "give a container made by `kvzip compress`"
            )

    @classmethod
    def at(cls, file: BinaryIO, where: str, offset: int) -> RecordReader:
        """A reader placed at a record's offset in a seekable file whose magic was checked before."""
        reader = cls.__new__(cls)
        reader.file, reader.where, reader.offset = file, where, offset
        file.seek(offset)
        return reader

    def next(self) -> Record:
        """The next record."""
        at = self.offset
        head = self._exactly(5)
        length = int.from_bytes(head[1:], "little")
        if not START <= head[0] <= UNIT:
            raise UnsupportedError(
                f"{self.where}: record type {head[0]} at byte {at} is unknown; "
                "the container is damaged or needs a newer kvzip"
            )
        if length > MAX_PAYLOAD:
            raise self.damaged(at, "has an impossible length")
        payload = self._exactly(length)
        if self._exactly(4) != _check(head, payload):
            raise self.damaged(at, "fails its check")
        return Record(head[0], memoryview(payload), at)

    def finish(self, index_offset: int) -> None:
        """Read the trailer and require the end of the file."""
        at = self.offset
        if self._exactly(TRAILER) != index_offset.to_bytes(8, "little") + END_MAGIC:
            raise self.damaged(at, "is no trailer")
        if self.file.read(1):
            raise ContainerError(
                f"{self.where}: bytes after the end of the container; cut them off or get another copy"
            )

    def damaged(self, at: int, what: str) -> ContainerError:
        """The error for a record that cannot be right."""
        return ContainerError(
            f"{self.where}: the record at byte {at} {what}; the container is damaged, get another copy"
        )

    def _exactly(self, count: int) -> bytes:
        data = self._some(count)
        if len(data) != count:
            raise ContainerError(
                f"{self.where}: ends at byte {self.offset} in the middle of the container; "
                "it was cut short, get a whole copy"
            )
        return bytes(data)

    def _some(self, count: int) -> bytes | bytearray:
        """Up to ``count`` bytes, fewer only at the end; grows as they come."""
        data = self.file.read(min(count, PIECE)) or b""
        if len(data) == count:
            self.offset += count
            return data
        grown = bytearray(data)
        while len(grown) < count:
            piece = self.file.read(min(count - len(grown), PIECE))
            if not piece:
                break
            grown += piece
        self.offset += len(grown)
        return grown
