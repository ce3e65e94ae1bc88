"""Finds the records of a damaged container: what still passes its own check, wherever it is.

    magic | record record record ....gap.... record record ...gap... record | trailer
            <------- run ------->            <-- run -->             <run>

A record with a bad check mostly has a good length, so that the next one follows it; else the next record is searched
byte by byte. Only what no container of ours can hold there is passed over, lest garbage be hashed again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import numpy as np
import xxhash

from kvzip.container import records
from kvzip.container.records import END_MAGIC, MAGIC, MAX_PAYLOAD, OVERHEAD, PIECE, TRAILER
from kvzip.container.structures import MAX_EXTENTS, MAX_NAME, OTHER_FILE, Start
from kvzip.errors import ContainerError, KvzipError
from kvzip.wire import Cursor

WINDOW = 1 << 20  # bytes that are searched at once
HEAD = 5  # bytes before a payload
LOOK = 256  # bytes of a payload that tell whether it can be one
LONGEST_SEARCHED = {  # bytes of a payload; longer ones are found where the record before them is whole
    records.START: 1 << 12,
    records.MEMBER: 1 << 26,
    records.BLOCK: 1 << 24,  # or twice what START says
    records.MEMBER_END: 16,
    records.INDEX: MAX_PAYLOAD,
    records.SHARED: 1 << 24,
    records.UNIT: 1 << 12,
}


class Found(NamedTuple):
    """A record that passes its check, by its place in the file."""

    type: int
    offset: int
    length: int  # of the payload

    @property
    def stop(self) -> int:
        """The byte behind it."""
        return self.offset + OVERHEAD + self.length


@dataclass
class Scan:
    """What is left of a container: runs of neighbouring records, in file order, and the gaps between them."""

    size: int
    runs: list[list[Found]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)  # first byte, byte behind the last
    trailer: int | None = None  # the offset that the trailer gives for the index

    @property
    def faults(self) -> int:
        """Places that are damaged."""
        cut = self.trailer is None and not (self.gaps and self.gaps[-1][1] == self.size)
        return len(self.gaps) + cut


class Scanner:
    """Scans a seekable file once, front to back."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, 2)
        self.longest = dict(LONGEST_SEARCHED)

    def scan(self) -> Scan:
        """Everything that is found."""
        out = Scan(self.size)
        self._read_trailer(out)
        end = self.size if out.trailer is None else self.size - TRAILER
        at = len(MAGIC) if self._read(0, len(MAGIC)) == MAGIC else 0
        run: list[Found] = []
        while at < end:
            record = self.record(at, end)
            if record is not None:
                self._note(record)
                run.append(record)
                at = record.stop
                continue
            after = self._after(at, end)
            out.gaps.append((at, after))
            if run:
                out.runs.append(run)
                run = []
            at = after
        if run:
            out.runs.append(run)
        return out

    def payload(self, record: Found) -> bytes:
        """A record's payload, read again."""
        return self._read(record.offset + HEAD, record.length)

    def record(self, at: int, end: int, searching: bool = False) -> Found | None:
        """The record at an offset, if there is one that passes its check and ends by ``end``."""
        head = self._read(at, HEAD + LOOK)
        if len(head) < HEAD or not records.START <= head[0] <= records.UNIT:
            return None
        found = Found(head[0], at, int.from_bytes(head[1:HEAD], "little"))
        most = self.longest[found.type] if searching else MAX_PAYLOAD
        if found.length > most or found.stop > end or (searching and not self._can_be(found, head[HEAD:])):
            return None
        state = xxhash.xxh3_64(head[:HEAD])
        self.file.seek(at + HEAD)
        for piece in self._pieces(found.length):
            state.update(piece)
        check = (state.intdigest() & 0xFFFFFFFF).to_bytes(4, "little")
        return found if self.file.read(4) == check else None

    def _pieces(self, length: int) -> Iterator[bytes]:
        while length:
            piece = self.file.read(min(length, PIECE))
            if not piece:
                return
            yield piece
            length -= len(piece)

    def _after(self, at: int, end: int) -> int:
        """Where the records go on behind a damaged one."""
        head = self._read(at, HEAD)
        if len(head) == HEAD and records.START <= head[0] <= records.UNIT:
            stop = Found(head[0], at, int.from_bytes(head[1:], "little")).stop
            if stop == end or (stop < end and self.record(stop, end) is not None):
                return stop
        for candidate in self._candidates(at + 1, end):
            if self.record(candidate, end, searching=True) is not None:
                return candidate
        return end

    def _candidates(self, at: int, end: int) -> Iterator[int]:
        """Offsets where the five bytes of a record's head could be."""
        while at < end:
            data = np.frombuffer(self._read(at, min(WINDOW, end - at) + HEAD - 1), np.uint8)
            if len(data) < HEAD:
                return
            count = len(data) - HEAD + 1
            length = sum(data[1 + k : 1 + k + count].astype(np.int64) << 8 * k for k in range(4))
            longest = np.zeros(256, np.int64) - 1
            for kind, most in self.longest.items():
                longest[kind] = most
            fits = (length <= longest[data[:count]]) & (length + OVERHEAD + np.arange(at, at + count) <= end)
            for place in np.flatnonzero(fits).tolist():
                yield at + place
            at += count

    def _note(self, record: Found) -> None:
        """How long blocks may be, once it is known."""
        if record.type == records.START:
            with suppress(KvzipError):
                start = Start.from_bytes(memoryview(self.payload(record)), "")
                self.longest[records.BLOCK] = max(self.longest[records.BLOCK], 2 << start.block_log2)

    def _can_be(self, found: Found, start: bytes) -> bool:
        """Whether a payload that starts so can be one of its type."""
        cursor = Cursor(start[: found.length], "")
        try:
            if found.type == records.BLOCK:
                return cursor.varint(MAX_EXTENTS) >= 0 and cursor.varint() >= 0 and cursor.u64() >= 0
            if found.type == records.MEMBER:
                return _starts_member(cursor, found.length > len(start))
            if found.type == records.SHARED:
                return 1 <= cursor.u8() <= 4
            if found.type == records.INDEX:
                return found.stop >= self.size - TRAILER
            return found.type != records.MEMBER_END or found.length == self.longest[records.MEMBER_END]
        except (ContainerError, UnicodeDecodeError):
            return False

    def _read_trailer(self, out: Scan) -> None:
        data = self._read(max(0, self.size - TRAILER), TRAILER)
        if data[8:] == END_MAGIC:
            out.trailer = int.from_bytes(data[:8], "little")

    def _read(self, at: int, count: int) -> bytes:
        self.file.seek(at)
        return b"".join(self._pieces(count))


def _starts_member(cursor: Cursor, longer: bool) -> bool:
    """Whether a file's record can start so: its name, ``longer`` than what is there or whole, and what follows."""
    name = cursor.varint(MAX_NAME)
    there = bytes(cursor.take(min(name, cursor.left)))
    if name > len(there):
        return longer and there.decode("utf-8", "ignore").encode() in (there, *(there[:-cut] for cut in (1, 2, 3)))
    there.decode()
    return cursor.u8() <= OTHER_FILE and cursor.varint(1 << 62) >= 0 and cursor.u8() <= 1
