"""Section 1 of docs/format.md: numbers and strings, and the two ways in which a container can be refused."""

from __future__ import annotations


class DamagedError(ValueError):
    """The container is not what the format says."""


class UnsupportedError(DamagedError):
    """The container uses an id or a version that the format page does not have."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise DamagedError(what)


class Bytes:
    """A byte string read from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        require(self.at + count <= len(self.data), "ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def signed(self) -> int:
        return int.from_bytes(self.take(1), "little", signed=True)

    def numbers(self, size: int, count: int) -> list[int]:
        data = self.take(size * count)
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    def varint(self, low: int = 0, high: int = (1 << 64) - 1) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            require(shift < 70, "a varint of more than 10 bytes")
        require(byte or not shift, "a varint with a superfluous byte")
        require(low <= value <= high, f"{value} is not in {low}..{high}")
        return value

    def flag(self) -> int:
        value = self.number(1)
        require(value < 2, f"{value} where only 0 and 1 may be")
        return value

    def string(self, longest: int) -> bytes:
        return self.take(self.varint(0, longest))

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def finish(self) -> None:
        require(self.at == len(self.data), "bytes left over")


def packed_size(count: int, width: int) -> int:
    return (count * width + 7) // 8


def unpack(data: bytes, width: int, count: int) -> list[int]:
    """``count`` symbols of packed(width)."""
    require(len(data) == packed_size(count, width), "packed symbols of another length")
    string = int.from_bytes(data, "little")
    require(string >> (count * width) == 0, "padding that is not zero")
    if width == 8:
        return list(data)
    bits = bin(string | 1 << (count * width))[3:]  # most significant first; symbol 0 stands at the end
    return [int(bits[at - width : at], 2) for at in range(count * width, 0, -width)]
