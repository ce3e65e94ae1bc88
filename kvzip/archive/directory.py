"""The archive's frame: containers one behind the other, and what they are.

    archive    magic 89 4B 56 50 0D 0A 1A 0A | container ... | directory | trailer
    directory  version varint, 1 | count varint, then for each container
               name bytes | size varint, of the file | offset varint | length varint
               draft varint: 0 none, else 1 + the number of an earlier one, whose file is this one's draft
               tokens varint: 0 all of the draft, else only its first ones
    trailer    offset of the directory u64 | XXH3-64 of the directory u64 | "KVP-END\\n"

Numbers are as in containers; each container is one by itself, with offsets of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import xxhash

from kvzip.container.records import ARCHIVE_MAGIC
from kvzip.container.structures import MAX_NAME
from kvzip.errors import ContainerError, UnsupportedError
from kvzip.wire import Cursor, put_bytes, put_varint

VERSION = 1
END_MAGIC = b"KVP-END\n"
TRAILER = 24
MOST_ENTRIES = 1 << 24
MOST_BYTES = 1 << 30  # of a directory


@dataclass(frozen=True)
class Entry:
    """One container. ``draft`` is the number of an earlier one, None for none, ``tokens`` how many of it, 0 all."""

    name: str
    size: int
    offset: int
    length: int
    draft: int | None = None
    tokens: int = 0


def write_directory(out: BinaryIO, entries: list[Entry], offset: int) -> int:
    """Append directory and trailer at ``offset``; return their bytes."""
    data = bytearray()
    put_varint(data, VERSION)
    put_varint(data, len(entries))
    for entry in entries:
        put_bytes(data, entry.name.encode())
        for number in (entry.size, entry.offset, entry.length):
            put_varint(data, number)
        put_varint(data, 0 if entry.draft is None else entry.draft + 1)
        put_varint(data, entry.tokens)
    trailer = offset.to_bytes(8, "little") + xxhash.xxh3_64_intdigest(data).to_bytes(8, "little") + END_MAGIC
    out.write(bytes(data) + trailer)
    return len(data) + len(trailer)


def read_directory(file: BinaryIO, where: str) -> list[Entry]:
    """The entries of an archive in a seekable file. ContainerError if it is none, or damaged."""
    file.seek(0)
    if file.read(len(ARCHIVE_MAGIC)) != ARCHIVE_MAGIC:
        raise ContainerError(f"{where}: is no archive; give one made by `kvzip pack`")
    size = file.seek(0, 2)
    file.seek(max(len(ARCHIVE_MAGIC), size - TRAILER))
    trailer = file.read(TRAILER)
    at = int.from_bytes(trailer[:8], "little")
    length = size - TRAILER - at
    if trailer[16:] != END_MAGIC or not 0 < length <= MOST_BYTES or at < len(ARCHIVE_MAGIC):
        raise ContainerError(f"{where}: has no directory at its end; it was cut short, get a whole copy")
    file.seek(at)
    data = file.read(length)
    if xxhash.xxh3_64_intdigest(data).to_bytes(8, "little") != trailer[8:16]:
        raise ContainerError(f"{where}: the directory fails its check; the archive is damaged, get another copy")
    return _entries(Cursor(data, f"{where}: the directory"), at)


def _entries(cursor: Cursor, end: int) -> list[Entry]:
    """All entries; containers follow each other from the magic to ``end``."""
    version = cursor.varint()
    if version != VERSION:
        raise UnsupportedError(f"{cursor.where} has version {version}, unknown here; use a newer kvzip")
    entries: list[Entry] = []
    at = len(ARCHIVE_MAGIC)
    names = set()
    for number in range(cursor.varint(MOST_ENTRIES)):
        try:
            name = cursor.bytes(MAX_NAME).decode()
        except UnicodeDecodeError:
            raise cursor.damaged("holds a name that is no UTF-8") from None
        size, offset, length = (cursor.varint(1 << 62) for _ in range(3))
        draft, tokens = cursor.varint(number), cursor.varint(1 << 32)
        if offset != at or name in names:
            raise cursor.damaged("does not add up")
        at += length
        names.add(name)
        entries.append(Entry(name, size, offset, length, draft - 1 if draft else None, tokens))
    cursor.finish()
    if at != end:
        raise cursor.damaged("does not add up")
    return entries


def needed(entries: list[Entry], numbers: list[int]) -> list[int]:
    """Some entries and all that they are coded relative to, the earliest first."""
    wanted: set[int] = set()
    for number in numbers:
        at: int | None = number
        while at is not None and at not in wanted:
            wanted.add(at)
            at = entries[at].draft
    return sorted(wanted)
