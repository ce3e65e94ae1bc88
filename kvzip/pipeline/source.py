"""A file to compress: read once from front to back, some of it ahead where a choice needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from kvzip.errors import DumpError

MOST_AHEAD = 192 << 20  # bytes of a file's data that are held to look at what comes later


@dataclass
class MemberInput:
    """A file to compress: its bytes from the start, how to name it, and its size where the header does not say."""

    file: BinaryIO
    where: str  # for messages
    name: str = ""  # in the container
    size: int | None = None
    is_dump: bool = True

    def read(self, count: int) -> memoryview:
        """Exactly ``count`` bytes; DumpError if the file ends before."""
        view = memoryview(np.empty(count, np.uint8).data)  # not filled with zeros first
        got = 0
        while got < count:
            step = self.file.readinto(view[got:])  # type: ignore[attr-defined]
            if not step:
                raise DumpError(
                    f"{self.where}: ends {count - got} bytes early; the dump is incomplete, fetch it again"
                )
            got += step
        return view

    def look(self, start: int, stop: int) -> memoryview | None:
        """The bytes from ``start`` to ``stop``, counted from here, without taking any; None if they are too many.

        A file is sought in; of a pipe all up to ``stop`` is read, held and given again.
        """
        can_seek = getattr(self.file, "seekable", None)
        if can_seek is None or not can_seek():
            if stop > MOST_AHEAD:
                return None
            ahead = self.read(stop)
            self.file = Prefixed(ahead, self.file)  # type: ignore[assignment]
            return ahead[start:]
        if stop - start > MOST_AHEAD:
            return None
        here = self.file.tell()
        self.file.seek(here + start)
        data = self.read(stop - start)
        self.file.seek(here)
        return data


class Prefixed:
    """A file whose first bytes were read already."""

    def __init__(self, prefix: memoryview, file: BinaryIO) -> None:
        self.prefix, self.file = prefix, file

    def readinto(self, buffer: memoryview) -> int:
        """Fill some of ``buffer``; return how much."""
        if not len(self.prefix):
            return self.file.readinto(buffer)  # type: ignore[attr-defined,no-any-return]
        count = min(len(buffer), len(self.prefix))
        buffer[:count] = self.prefix[:count]
        self.prefix = self.prefix[count:]
        return count

    def read(self, count: int) -> bytes:
        """Up to ``count`` bytes."""
        if not len(self.prefix):
            return self.file.read(count)
        out = bytes(self.prefix[:count])
        self.prefix = self.prefix[count:]
        return out
