"""A part of a seekable file as a file of its own."""

from __future__ import annotations

import io
from typing import Any, BinaryIO


class _Window(io.RawIOBase):
    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")[: max(0, self._size - self._at)]
        self._file.seek(self._start + self._at)
        data = self._file.read(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def window(file: BinaryIO, start: int, size: int) -> io.BufferedReader:
    """``size`` bytes of a file from ``start`` on; nothing else may read the file meanwhile."""
    return io.BufferedReader(_Window(file, start, size), 1 << 20)
