"""Sections 2 to 4 and 10 of docs/format.md: a whole container, every check of it verified.

    decode(Path("a.kvz").read_bytes(), "kvzip/priors/exponents-1.bin")  ->  {name: bytes}

The key of a single dump is the name in its record, usually empty.
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import xxhash

from .blocks import Chain, Extent, plan
from .reading import Bytes, DamagedError, UnsupportedError, require

MAGIC = bytes.fromhex("89 4B 56 5A 0D 0A 1A 0A")
END = b"KVZ-END\n"
START, MEMBER, BLOCK, MEMBER_END, INDEX = range(1, 6)
SINGLE, DIRECTORY = 0, 1
PRIOR = b"exponents-1"
PRIOR_SHA256 = "0dac10e4925f88b7dbef25a7c97b479dbc9bfbbec7e62fdc871a58be33424231"
RANGES = {
    "alpha": (32768, 65536),
    "beta": (0, 65470),
    "theta_low": (0, 32768),
    "theta_new": (0, 65470),
    "n_update": (1, 65536),
    "warmup": (0, 65535),
    "drift": (259, 4096),
    "drift_keep": (0, 256),
    "sampling": (0, 6),
    "table_bits": (10, 14),
    "classes": (1, 16),
    "prior_weight": (0, 4096),
    "symbol_bits": (8, 16),
}
OR_ZERO = ("drift", "symbol_bits")


def decode(container: bytes, prior: str | Path) -> dict[str, bytes]:
    """The files of a container by name. ``prior`` is the path of the asset ``exponents-1``."""
    asset = Path(prior).read_bytes()
    require(hashlib.sha256(asset).hexdigest() == PRIOR_SHA256, "another prior asset")
    return _Decoder(container, asset).run()


class _Decoder:
    def __init__(self, container: bytes, asset: bytes) -> None:
        self.bytes = Bytes(container)
        self.asset = asset
        self.index: list[tuple[int, list[int]]] = []

    def record(self) -> tuple[int, int, bytes]:
        """Offset, type and payload of the next record."""
        at = self.bytes.at
        kind, length = self.bytes.number(1), self.bytes.number(4)
        if not START <= kind <= INDEX:
            raise UnsupportedError(f"record type {kind} is unknown")
        require(length <= 1 << 28, "a record too long")
        payload = self.bytes.take(length)
        digest = xxhash.xxh3_64_intdigest(self.bytes.data[at : at + 5 + length])
        require(self.bytes.number(4) == digest & 0xFFFFFFFF, f"the record at {at} fails its check")
        return at, kind, payload

    def run(self) -> dict[str, bytes]:
        require(self.bytes.take(8) == MAGIC, "no container")
        _, kind, payload = self.record()
        require(kind == START, "the first record is no START")
        self._start(Bytes(payload))
        files: dict[str, bytes] = {}
        digests = b""
        at, kind, payload = self.record()
        while kind == MEMBER:
            self.index.append((at, []))
            name, data = self._member(Bytes(payload))
            require(name not in files, "a name given twice")
            files[name] = data
            _, kind, payload = self.record()
            require(kind == MEMBER_END and payload == xxhash.xxh3_128_digest(data), "a file fails its check")
            digests += payload
            at, kind, payload = self.record()
        require(kind == INDEX, "a record out of place")
        require(self.source == DIRECTORY or len(files) == 1, "a single dump that is none")
        self._check_index(Bytes(payload), digests)
        require(self.bytes.number(8) == at and self.bytes.take(8) == END, "a bad trailer")
        self.bytes.finish()
        return files

    def _start(self, data: Bytes) -> None:
        """Section 3."""
        version = data.varint()
        if version != 1:
            raise UnsupportedError(f"version {version} is unknown")
        self.source, _level, block_log2 = data.numbers(1, 3)
        prior = data.string(64)
        if prior != PRIOR:
            raise UnsupportedError(f"prior {prior!r} is unknown")
        require(self.source <= DIRECTORY and 12 <= block_log2 <= 26, "an impossible START")
        self.block_bytes = 1 << block_log2
        count = data.varint()
        if count != len(RANGES):
            raise UnsupportedError(f"{count} parameters")
        self.parameters = {name: data.varint() for name in RANGES}
        data.finish()
        for name, value in self.parameters.items():
            low, high = RANGES[name]
            require(low <= value <= high or (value == 0 and name in OR_ZERO), f"{name} is out of range")
        require(self.parameters["classes"] in (1, 2, 4, 8, 16), "classes is no power of two")

    def _member(self, data: Bytes) -> tuple[str, bytes]:
        """Section 4: the name and the whole file, whose BLOCK records are read here."""
        try:
            name = data.string(65536).decode("utf-8")
        except UnicodeDecodeError:
            raise DamagedError("a name that is no UTF-8") from None
        nature, size = data.number(1), data.varint(0, 1 << 62)
        if nature > 1:
            raise UnsupportedError(f"nature {nature} is unknown")
        if self.source == DIRECTORY:
            parts = name.split("/")
            require("\0" not in name and not any(part in ("", ".", "..") for part in parts), "an unsafe name")
        else:
            require(nature == 0, "a single file that is no dump")
        deflated, length = data.flag(), data.varint(0, 200000016)
        inner = Bytes(_inflate(data.rest(), length) if deflated else data.rest())
        require(len(inner.data) == length, "inner of another length")
        header = inner.string(100000008)
        require(nature == 0 or not header, "a header where none may be")
        extents = [Extent.read(inner) for _ in range(inner.varint(0, 1 << 21))]
        inner.finish()
        require(size == len(header) + sum(extent.elements * extent.item for extent in extents), "another size")
        return name, header + b"".join(self._extent(i, extent) for i, extent in enumerate(extents))

    def _extent(self, number: int, extent: Extent) -> bytes:
        """The data of one extent."""
        chains: dict[int, Chain] = {}
        out: dict[int, int] = {}  # element -> value; grows as blocks come, whatever the extent claims to be
        for count, block in enumerate(plan(extent, self.block_bytes)):
            at, kind, payload = self.record()
            require(kind == BLOCK, "a record that should be a BLOCK")
            if count == 0:
                self.index[-1][1].append(at)
            data = Bytes(payload)
            require((data.varint(), data.varint()) == (number, count), "a BLOCK out of order")
            check = data.number(8)
            if block.chain not in chains:
                chains[block.chain] = Chain(extent, self.parameters, self.asset)
            values = chains[block.chain].decode(data, block.shape)
            joined = b"".join(value.to_bytes(extent.item, "little") for value in values)
            require(xxhash.xxh3_64_intdigest(joined) == check, f"block {count} of extent {number} fails its check")
            out.update(zip(block.places, values, strict=True))
        return b"".join(out[place].to_bytes(extent.item, "little") for place in range(extent.elements))

    def _check_index(self, data: Bytes, digests: bytes) -> None:
        """Section 10."""
        last = 0
        require(data.varint() == len(self.index), "an index of other members")
        for offset, extents in self.index:
            last += data.varint()
            require(last == offset and data.varint() == len(extents), "an index that points elsewhere")
            for first in extents:
                last += data.varint()
                require(last == first, "an index that points elsewhere")
        require(data.take(16) == xxhash.xxh3_128_digest(digests), "another digest of digests")
        data.finish()


def _inflate(data: bytes, length: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        inner = machine.decompress(data, length + 1)
    except zlib.error:
        raise DamagedError("inner does not inflate") from None
    require(machine.eof and not machine.unused_data, "inner does not inflate to its end")
    return inner
