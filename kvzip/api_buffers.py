"""The Python interface for servers: from one buffer into another, of a size that is known before.

    target = bytearray(kvzip.bound(len(dump)))
    size = kvzip.compress_into(dump, target)
    kvzip.decompress_into(memoryview(target)[:size], dump)

Nothing is allocated that is as large as the buffers, nothing is written past them, and no lock is held while values
are coded: several threads may do it at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, BinaryIO, cast

from kvzip.api import opened_draft, source_input, trained
from kvzip.container.indexed import held_by
from kvzip.container.structures import SINGLE, Member
from kvzip.errors import OptionError, TargetError
from kvzip.pipeline.compress import compress_members
from kvzip.pipeline.decompress import Opening, decompress_members
from kvzip.pipeline.draft import DraftGiven
from kvzip.pipeline.options import Options
from kvzip.pipeline.prior_file import PriorSource, read_prior
from kvzip.pipeline.source import MemberInput

Buffer = Any
"""Whatever has memory in one piece: bytes, bytearray, memoryview, an array, mmap."""

FIXED, SHIFT = 1024, 16


def bound(size: int) -> int:
    """The most bytes that ``compress_into`` needs for a dump of ``size`` bytes, whatever is in it and at every level.

    It is size + size / 2^16 + 1024. A dump that comes out larger is stored as it is, in blocks of 2 MiB: each adds at
    most 32 bytes (9 of its record, 22 of its head, 1 of its method), as much as size / 2^16 allows for 2 MiB. The
    last two, which may be shorter, and the records START, MEMBER, MEMBER_END, INDEX and the trailer take below 1024.
    """
    return size + (size >> SHIFT) + FIXED


def compress_into(
    source: Buffer,
    target: Buffer,
    *,
    level: int = 3,
    threads: int = 0,
    draft: DraftGiven | None = None,
    **options: Any,
) -> int:
    """Compress the dump in ``source`` into ``target``, a buffer that can be written; return the container's bytes.

    options: those of ``compress``. With ``bound(len(source))`` bytes of room it never fails for want of it; with less
    it may, with a TargetError. DumpError if ``source`` is no dump.
    """
    data = _bytes_of(source)
    room = _room_of(target)
    with opened_draft(draft, threads, trained(options)) as drafts:
        chosen = Options.make(level, threads, draft=drafts, **options)
        limited = _Room(room[: bound(len(data))])
        try:
            compress_members([source_input(data)], cast(BinaryIO, limited), chosen)
            return limited.used
        except _FullError:
            stored = _Room(room)
    try:
        member = MemberInput(io.BytesIO(data), "input", size=len(data), is_dump=False)
        compress_members([nullcontext(member)], cast(BinaryIO, stored), Options.make(1, threads))
    except _FullError:
        raise TargetError(
            f"the buffer is too small: {len(room)} bytes for a dump of {len(data)}; give it {bound(len(data))}"
        ) from None
    return stored.used


def decompress_into(
    source: Buffer,
    target: Buffer,
    *,
    threads: int = 0,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> int:
    """Restore the container in ``source`` into ``target``, a buffer that can be written; return the dump's bytes.

    prior, draft: see ``decompress``. ``decompressed_size`` tells how much room it takes; with less there is a
    TargetError, and nothing is written. ContainerError if the container is damaged: ``target`` then holds what was
    restored before that was found.
    """
    data, room = _bytes_of(source), _room_of(target)
    known = None if prior is None else read_prior(prior)
    with opened_draft(draft, threads, known) as drafts:
        opening = Opening.of(cast(BinaryIO, _reader(data)), "input", known, drafts)
        if opening.start.source != SINGLE:
            raise OptionError("input: holds a directory; restore it with decompress")
        return decompress_members(opening, _opener(room), threads).source_bytes


def decompressed_size(source: Buffer) -> int:
    """Bytes of what the container in ``source`` holds, all files together; ContainerError if it is not whole."""
    _, members = held_by(cast(BinaryIO, _reader(_bytes_of(source))), "input")
    return sum(member.size for member in members)


def _opener(room: memoryview) -> Callable[[Member, int], Any]:
    def create(member: Member, number: int) -> Any:
        if member.size > len(room):
            raise TargetError(f"the buffer is too small: {len(room)} bytes for a dump of {member.size}")
        return nullcontext(_Room(room))

    return create


def _bytes_of(source: Buffer) -> memoryview:
    return memoryview(source).cast("B")


def _room_of(target: Buffer) -> memoryview:
    room = memoryview(target)
    if room.readonly or not room.c_contiguous:
        raise TargetError("the target buffer cannot be written in one piece; give a bytearray, or an array like it")
    return room.cast("B")


def _reader(data: memoryview) -> io.BufferedReader:
    return io.BufferedReader(_Reads(data), 1 << 20)


class _FullError(Exception):
    """There is no room for what comes."""


class _Room:
    """A buffer as a file that is written from front to back."""

    def __init__(self, room: memoryview) -> None:
        self.room, self.used = room, 0

    def write(self, data: Any) -> int:
        """Take ``data``, or nothing and raise."""
        view = memoryview(data).cast("B")
        if len(view) > len(self.room) - self.used:
            raise _FullError
        self.room[self.used : self.used + len(view)] = view
        self.used += len(view)
        return len(view)


class _Reads(io.RawIOBase):
    """A buffer as a file that is read, without a copy of all of it."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, len(self._data))[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        part = self._data[self._at : self._at + len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)
