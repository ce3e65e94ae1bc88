"""The two ways numbers and strings are written into a container, read back without trusting a single length.

varint   unsigned LEB128, 7 bits a byte, least significant first, at most 64 bits, no superfluous zero byte
bytes    varint length, then the bytes
"""

from __future__ import annotations

from kvzip.errors import ContainerError


def put_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (0 <= value < 2^64)."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_bytes(out: bytearray, data: bytes) -> None:
    """Append a length-prefixed byte string."""
    put_varint(out, len(data))
    out += data


class Cursor:
    """Reads a record's payload from front to back; every short read is a ContainerError naming ``where``."""

    def __init__(self, data: bytes | memoryview, where: str) -> None:
        self.data = memoryview(data)
        self.where = where
        self.at = 0

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes."""
        if count > len(self.data) - self.at:
            raise self.damaged("ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def u8(self) -> int:
        """One byte."""
        at = self.at
        if at >= len(self.data):
            raise self.damaged("ends early")
        self.at = at + 1
        return self.data[at]

    def u64(self) -> int:
        """Eight bytes, little-endian."""
        return int.from_bytes(self.take(8), "little")

    def varint(self, ceiling: int = (1 << 64) - 1) -> int:
        """A varint not above ``ceiling``."""
        (value,) = self.varints(1)
        if value > ceiling:
            raise self.damaged(f"holds a number out of range ({value})")
        return value

    def varints(self, count: int) -> list[int]:
        """``count`` varints."""
        values: list[int] = []
        value = shift = used = 0
        for byte in self.data[self.at :] if count else b"":
            used += 1
            value |= (byte & 0x7F) << shift
            if byte >= 0x80:
                shift += 7
                if shift > 63:
                    raise self.damaged("holds an overlong number")
                continue
            if byte == 0 and shift:
                raise self.damaged(f"holds a number out of range ({value})")
            values.append(value)
            if len(values) == count:
                break
            value = shift = 0
        if len(values) < count:
            raise self.damaged("ends early")
        self.at += used
        return values

    def bytes(self, ceiling: int) -> bytes:
        """A length-prefixed byte string of at most ``ceiling`` bytes."""
        return bytes(self.take(self.varint(ceiling)))

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.at

    def finish(self) -> None:
        """Refuse bytes left over."""
        if self.left:
            raise self.damaged(f"has {self.left} bytes too many")

    def damaged(self, what: str) -> ContainerError:
        """The error for something wrong at this place."""
        return ContainerError(f"{self.where} {what}; the container is damaged, get another copy")
