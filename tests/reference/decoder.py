"""Sections 2 to 4 and 14 of docs/format.md: a whole container, every check of it verified.

    decode(Path("a.kvz").read_bytes(), "kvzip/priors")  ->  {name: bytes}

The draft of a container that has one is given as section 10.4 sees it, see ``draft.Draft``.

The key of a single dump is the name in its record, usually empty.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import xxhash

from .blocks import Chain, Extent, plan
from .draft import Draft, checked
from .reading import Bytes, DamagedError, UnsupportedError, require
from .shared import DRAFT, GRIDS, PRIOR, Known, inflated, rows_of
from .unit import Unit, UnitDecoder

MAGIC = bytes.fromhex("89 4B 56 5A 0D 0A 1A 0A")
END = b"KVZ-END\n"
START, MEMBER, BLOCK, MEMBER_END, INDEX, SHARED, UNIT = range(1, 8)
SINGLE, DIRECTORY = 0, 1
EXPONENTS, RESIDUALS = b"exponents-1", b"residuals-1"
SHA256 = {
    EXPONENTS: "0dac10e4925f88b7dbef25a7c97b479dbc9bfbbec7e62fdc871a58be33424231",
    RESIDUALS: "800cad0b410ada1c3820a5be7c8a2c710eb45ddf274e382164cadca59c0d1c4b",
}
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


def decode(
    container: bytes, priors: str | Path, trained: bytes | None = None, draft: Draft | None = None
) -> dict[str, bytes]:
    """The files of a container by name. ``priors`` is the folder of the assets, ``trained`` a prior file."""
    assets = {}
    for name, digest in SHA256.items():
        assets[name] = (Path(priors) / (name.decode() + ".bin")).read_bytes()
        require(hashlib.sha256(assets[name]).hexdigest() == digest, "another asset")
    return _Decoder(container, assets, trained, draft).run()


class _Decoder:
    def __init__(
        self, container: bytes, assets: dict[bytes, bytes], trained: bytes | None, draft: Draft | None
    ) -> None:
        self.bytes = Bytes(container)
        self.assets, self.trained, self.draft = assets, trained, draft
        self.index: list[tuple[int, list[int]]] = []
        self.shared: list[int] = []
        self.units: list[UnitDecoder] = []
        self.unit_offsets: list[int] = []

    def record(self) -> tuple[int, int, bytes]:
        """Offset, type and payload of the next record."""
        at = self.bytes.at
        kind, length = self.bytes.number(1), self.bytes.number(4)
        if not START <= kind <= (UNIT if not at or self.known.version > 1 else INDEX):
            raise UnsupportedError(f"record type {kind} is unknown")
        require(length <= 1 << 28, "a record too long")
        payload = self.bytes.take(length)
        digest = xxhash.xxh3_64_intdigest(self.bytes.data[at : at + 5 + length])
        require(self.bytes.number(4) == digest & 0xFFFFFFFF, f"the record at {at} fails its check")
        return at, kind, payload

    def next(self) -> tuple[int, int, bytes]:
        """The next record but SHARED ones, which are taken in."""
        at, kind, payload = self.record()
        while kind == SHARED:
            self.shared.append(at)
            require(payload[:1] not in (bytes((PRIOR,)), bytes((DRAFT,))), "a prior or a draft out of place")
            self.known.add(Bytes(payload))
            at, kind, payload = self.record()
        return at, kind, payload

    def run(self) -> dict[str, bytes]:
        require(self.bytes.take(8) == MAGIC, "no container")
        self.known = Known(2, b"", {})
        _, kind, payload = self.record()
        require(kind == START, "the first record is no START")
        self._start(Bytes(payload))
        files: dict[str, bytes] = {}
        digests = b""
        at, kind, payload = self.record()
        if kind == SHARED and payload[:1] == bytes((PRIOR,)):
            self.shared.append(at)
            self.known.add(Bytes(payload))
            at, kind, payload = self.record()
        elif self.known.identity:
            require(self.trained is not None, f"needs the prior {self.known.identity}")
            self.known.trained(self.trained or b"")
        if kind == SHARED and payload[:1] == bytes((DRAFT,)):
            self.shared.append(at)
            require(self.draft is not None, "needs its draft")
            self.known.draft = checked(Bytes(payload[1:]), self.draft or {})
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
        if not 1 <= version <= 2:
            raise UnsupportedError(f"version {version} is unknown")
        self.source, _level, block_log2 = data.numbers(1, 3)
        prior = data.string(64)
        residuals = data.string(64) if version > 1 else RESIDUALS
        if prior != EXPONENTS or not (residuals == RESIDUALS or re.fullmatch(rb"xxh3:[0-9a-f]{32}", residuals)):
            raise UnsupportedError(f"prior {prior!r} or {residuals!r} is unknown")
        rows = Bytes(self.assets[RESIDUALS])
        grids = {mantissa: rows_of(rows, mantissa) for mantissa in GRIDS}
        identity = "" if residuals == RESIDUALS else residuals.decode()
        self.known = Known(version, self.assets[EXPONENTS], grids, identity)
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
        inner = Bytes(inflated(data, deflated, length))
        header = inner.string(100000008)
        require(nature == 0 or not header, "a header where none may be")
        extents = [Extent.read(inner) for _ in range(inner.varint(0, 1 << 21))]
        inner.finish()
        require(size == len(header) + sum(extent.elements * extent.item for extent in extents), "another size")
        parts: list[bytes] = []
        while len(parts) < len(extents):
            record = self.next()
            if record[1] == UNIT:
                parts += self._unit(len(parts), extents, *record)
            else:
                parts.append(self._extent(len(parts), extents[len(parts)], record))
        return name, header + b"".join(parts)

    def _extent(self, number: int, extent: Extent, record: tuple[int, int, bytes]) -> bytes:
        """The data of one extent, whose first record is given."""
        chains: dict[int, Chain] = {}
        out: dict[int, int] = {}  # element -> value; grows as blocks come, whatever the extent claims to be
        for count, block in enumerate(plan(extent, self.block_bytes)):
            at, kind, payload = record if count == 0 else self.next()
            require(kind == BLOCK, "a record that should be a BLOCK")
            if count == 0:
                self.index[-1][1].append(at)
            data = Bytes(payload)
            require((data.varint(), data.varint()) == (number, count), "a BLOCK out of order")
            check = data.number(8)
            chain = chains.get(block.streams[0]) or Chain(extent, block.streams, self.parameters, self.known)
            chains[block.streams[0]] = chain
            values = chain.decode(data, block.shape)
            joined = b"".join(value.to_bytes(extent.item, "little") for value in values)
            require(xxhash.xxh3_64_intdigest(joined) == check, f"block {count} of extent {number} fails its check")
            out.update(zip(block.places, values, strict=True))
        return b"".join(out[place].to_bytes(extent.item, "little") for place in range(extent.elements))

    def _unit(self, number: int, extents: list[Extent], at: int, kind: int, payload: bytes) -> list[bytes]:
        """The data of a unit's extents."""
        require(kind == UNIT, "a record that should be a UNIT")
        unit = Unit.read(Bytes(payload))
        require(unit.first == number, "a UNIT out of order")
        decoder = UnitDecoder(unit, extents[number : number + unit.count], self.units, self.parameters, self.known)
        self.units.append(decoder)
        self.unit_offsets.append(at)
        self.index[-1][1].extend([at] * unit.count)
        for count in range(decoder.blocks):
            _, kind, payload = self.next()
            require(kind == BLOCK, "a record that should be a BLOCK")
            data = Bytes(payload)
            require((data.varint(), data.varint()) == (number, count), "a BLOCK out of order")
            check = data.number(8)
            require(xxhash.xxh3_64_intdigest(decoder.decode(data, count)) == check, f"block {count} of a unit fails")
        return decoder.data()

    def _check_index(self, data: Bytes, digests: bytes) -> None:
        """Section 14."""
        last = 0
        require(data.varint() == len(self.index), "an index of other members")
        for offset, extents in self.index:
            last += data.varint()
            require(last == offset and data.varint() == len(extents), "an index that points elsewhere")
            for first in extents:
                last += data.varint()
                require(last == first, "an index that points elsewhere")
        for offsets in (self.shared, self.unit_offsets) if self.known.version > 1 else ():
            last = 0
            require(data.varint() == len(offsets), "an index of other records")
            for offset in offsets:
                last += data.varint()
                require(last == offset, "an index that points elsewhere")
        require(data.take(16) == xxhash.xxh3_128_digest(digests), "another digest of digests")
        data.finish()
