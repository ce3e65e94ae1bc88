"""Raw streams that count their bytes and turn OSErrors into one-line errors.

They lie below the standard library's buffers, so that a full disk met while *writing* and a bad sector met
while *reading* are told apart where they happen, and so that a failed buffer can be dropped: closing the
guarded stream makes the buffer above it forget what it still holds, where closing the buffer would write it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Protocol

from kvzip.errors import TargetError
from kvzip.files.faults import reading, writing

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

BUFFER = 1 << 20  # bytes; larger reads and writes pass the buffer by


class Writable(Protocol):
    """What a target needs of a stream."""

    def write(self, data: bytes, /) -> int | None:
        """Take all or the first bytes of ``data`` and say how many."""


class GuardedWriter(io.RawIOBase):
    """Append-only: an output that may be a pipe gets no other treatment than a file.

    close: closes the stream below; None if it is not ours.
    partial: what was written cannot be taken back, as error lines then say.
    """

    def __init__(
        self, stream: Writable, where: str, *, close: Callable[[], None] | None = None, partial: bool = False
    ) -> None:
        super().__init__()
        self.count = 0
        self._stream = stream
        self._where = where
        self._close = close
        self._partial = partial

    def writable(self) -> bool:  # noqa: D102
        return True

    def write(self, data: ReadableBuffer, /) -> int:  # noqa: D102
        with writing(self._where, partial=self._partial):
            count = self._stream.write(data)  # type: ignore[arg-type]
        if count is None:
            raise TargetError(f"the output would block: {self._where}; give a blocking pipe or a file")
        self.count += count
        return count

    def tell(self) -> int:  # noqa: D102
        return self.count

    def close(self) -> None:
        """Close the stream below, if it is ours to close."""
        if not self.closed:
            super().close()
            if self._close is not None:
                with writing(self._where, partial=self._partial):
                    self._close()


class GuardedReader(io.RawIOBase):
    """``position`` is the offset of the next byte, also in pipes; ``ended`` once the end has been met."""

    def __init__(self, stream: BinaryIO, where: str, *, position: int | None, owned: bool) -> None:
        super().__init__()
        self.count = 0
        self.ended = False
        self.position = position or 0
        self._seekable = position is not None
        self._stream = stream
        self._where = where
        self._owned = owned

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return self._seekable

    def readinto(self, buffer: WriteableBuffer, /) -> int:  # noqa: D102
        view = memoryview(buffer).cast("B")
        with reading(f"{self._where} at byte {self.position}"):
            count: int | None = self._stream.readinto(view)  # type: ignore[attr-defined]
            if count is None:
                raise BlockingIOError("it has no bytes at present")
        self.ended = count == 0 and len(view) > 0
        self.count += count
        self.position += count
        return count

    def readall(self) -> bytes:
        """The rest, in larger pieces than the standard library's."""
        return b"".join(iter(lambda: self.read(BUFFER) or b"", b""))

    def seek(self, offset: int, whence: int = 0, /) -> int:  # noqa: D102
        if not self._seekable:
            raise io.UnsupportedOperation("seek")
        with reading(self._where):
            self.position = self._stream.seek(offset, whence)
        return self.position

    def tell(self) -> int:  # noqa: D102
        return self.position

    def fileno(self) -> int:  # noqa: D102
        return self._stream.fileno()

    def close(self) -> None:
        """Close the stream below, if it is ours to close; a failure then takes no byte from what was read."""
        if not self.closed:
            super().close()
            if self._owned:
                with suppress(OSError):
                    self._stream.close()
