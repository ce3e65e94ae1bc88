"""Section 10 of docs/format.md: SHARED records, and the assets, as far as a container has shown them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import xxhash

from .draft import Draft
from .reading import Bytes, DamagedError, UnsupportedError, require

ROPE, TOKENS, PRIOR, DRAFT = 1, 2, 3, 4
GRIDS = (2, 3, 7, 10)
PRIOR_MAGIC = bytes.fromhex("89 4B 56 50 0D 0A 1A 0A")


def contexts_of(mantissa: int) -> int:
    return 2 * mantissa + 3 + 4 * 11


@dataclass
class Rope:
    pairs: list[tuple[int, int]]
    cos: list[float]
    sin: list[float]

    @classmethod
    def read(cls, data: Bytes) -> Rope:
        rope = cls([], [], [])
        for _ in range(data.varint(0, 1 << 15)):
            rope.pairs.append((data.varint(0, 65535), data.varint(0, 65535)))
            c, s = struct.unpack("<2d", data.take(16))
            require(abs(c * c + s * s - 1) <= 1e-6, "a pair that turns by no angle")
            rope.cos.append(c)
            rope.sin.append(s)
        data.finish()
        channels = {channel for pair in rope.pairs for channel in pair}
        require(len(channels) == 2 * len(rope.pairs), "a channel that turns twice")
        return rope

    @property
    def channels(self) -> int:
        """How many a row has at least."""
        return 1 + max((channel for pair in self.pairs for channel in pair), default=-1)


@dataclass
class Occurrence:
    """Of a token: its slot, -1 if it never repeats, how often it was there before; the same of the pair; its id."""

    slot: int
    times: int
    pair: int
    pair_times: int
    name: int = 0


def read_tokens(data: Bytes) -> list[Occurrence]:
    count, deflated, length = data.varint(0, 1 << 22), data.flag(), data.varint(0, 1 << 28)
    require(length >= count, "fewer bytes than tokens")
    inner = Bytes(inflated(data, deflated, length))
    ids: list[int] = []
    known = 0
    for _ in range(count):
        said = inner.varint(0, known)
        ids.append(said - 1 if said else known)
        known += not said
    inner.finish()
    return occurrences(ids)


def occurrences(ids: list[int]) -> list[Occurrence]:
    """Section 10.2, from ids."""
    pairs = list(zip([-1, *ids], ids, strict=False))
    return [Occurrence(*a, *b, name) for a, b, name in zip(_places(ids), _places(pairs), ids, strict=True)]


def _places(keys: list) -> list[tuple[int, int]]:  # type: ignore[type-arg]
    counts: dict[object, int] = {}
    times = []
    for key in keys:
        times.append(counts.get(key, 0))
        counts[key] = times[-1] + 1
    slots = {key: slot for slot, key in enumerate(counts) if counts[key] > 1}
    return [(slots.get(key, -1), before) for key, before in zip(keys, times, strict=True)]


def inflated(data: Bytes, deflated: int, length: int) -> bytes:
    """The rest, inflated if it is deflated; exactly ``length`` bytes."""
    inner = data.rest()
    if deflated:
        machine = zlib.decompressobj()
        try:
            inner = machine.decompress(inner, length + 1)
        except zlib.error:
            raise DamagedError("it does not inflate") from None
        require(machine.eof and not machine.unused_data, "it does not inflate to its end")
    require(len(inner) == length, "it inflates to another length")
    return inner


def rows_of(data: Bytes, mantissa: int) -> list[list[int]]:
    """A grid's rows of 129 numbers in an asset or a prior file."""
    rows = [data.numbers(2, 129) for _ in range(contexts_of(mantissa))]
    require(all(sum(row) == 1 << 15 for row in rows), "a distribution that does not sum up")
    return rows


def prior_file(raw: bytes) -> dict[int, list[list[int]]]:
    """The rows of a prior file by bits of mantissa: section 10.3."""
    require(len(raw) <= 1 << 16 and raw[:8] == PRIOR_MAGIC, "no prior file")
    require(xxhash.xxh3_64_intdigest(raw[:-8]).to_bytes(8, "little") == raw[-8:], "a prior file that fails its check")
    data = Bytes(raw[8:-8])
    if data.varint() != 1:
        raise UnsupportedError("a prior file of another version")
    try:
        data.string(64).decode("utf-8")
    except UnicodeDecodeError:
        raise DamagedError("a name that is no UTF-8") from None
    rows: dict[int, list[list[int]]] = {}
    for _ in range(data.number(1)):
        mantissa = data.number(1)
        require(mantissa in GRIDS and mantissa > max(rows, default=0), "a grid out of place")
        rows[mantissa] = rows_of(data, mantissa)
    data.finish()
    require(rows, "a prior file without a grid")
    return rows


@dataclass
class Known:
    """What blocks may refer to."""

    version: int
    exponents: bytes
    residuals: dict[int, list[list[int]]]
    identity: str = ""  # of the trained prior that is needed
    ropes: list[Rope] = field(default_factory=list)
    tokens: list[list[Occurrence]] = field(default_factory=list)
    draft: Draft = field(default_factory=dict)  # what the container's record says of it was checked

    def add(self, data: Bytes) -> None:
        """Take in a SHARED record."""
        kind = data.number(1)
        if kind == ROPE:
            self.ropes.append(Rope.read(data))
        elif kind == TOKENS:
            self.tokens.append(read_tokens(data))
        elif kind == PRIOR:
            self.trained(inflated(data, data.flag(), data.varint(0, 1 << 16)))
        else:
            raise UnsupportedError(f"a shared record of kind {kind}")

    def trained(self, raw: bytes) -> None:
        """Take in the trained prior that START names."""
        require("xxh3:" + xxhash.xxh3_128_hexdigest(raw) == self.identity, "another prior file")
        self.residuals |= prior_file(raw)
        self.identity = ""
