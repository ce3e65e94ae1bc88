"""What the records hold.

START        format version, what the source was (one dump or a directory), block size, priors, parameters
MEMBER       a file: name, nature, size, its raw safetensors header, the extents of its data
SHARED       what several tensors are coded by, see ``container.shared``
BLOCK        extent and block number, XXH3-64 of the decoded values, the payload of ``blocks.codec``
MEMBER_END   XXH3-128 of the file's bytes
INDEX        offsets of every MEMBER and of every extent's first BLOCK; XXH3-128 of the members' digests
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field

from kvzip.container.inflating import inflate
from kvzip.errors import UnsupportedError
from kvzip.streams.extent import Extent
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_bytes, put_varint

FORMAT_VERSION = 2
READABLE = (1, 2)
SINGLE, DIRECTORY = 0, 1
DUMP, OTHER_FILE = 0, 1
PRIOR = "exponents-1"
RESIDUALS = "residuals-1"
CUSTOM = re.compile("xxh3:[0-9a-f]{32}")  # the identity of a prior file, see ``predict.prior``
BLOCK_BYTES_LOG2 = 21
MAX_HEADER = 100_000_008
MAX_NAME = 1 << 16
MAX_EXTENTS = 1 << 21  # a header of at most 100 MB cannot describe more tensors


@dataclass(frozen=True)
class Start:
    """The first record."""

    source: int = SINGLE
    block_log2: int = BLOCK_BYTES_LOG2
    level: int = 0
    parameters: Parameters = field(default_factory=Parameters)
    version: int = FORMAT_VERSION
    residuals: str = RESIDUALS  # the prior of predictions' residuals; in version 1 there are none

    @property
    def needs(self) -> str:
        """The identity of the trained prior that a decoder must have, "" if all it needs is shipped."""
        return "" if self.residuals == RESIDUALS else self.residuals

    def to_bytes(self) -> bytes:
        """The payload."""
        out = bytearray()
        put_varint(out, self.version)
        out += bytes((self.source, self.level, self.block_log2))
        put_bytes(out, PRIOR.encode())
        if self.version > 1:
            put_bytes(out, self.residuals.encode())
        self.parameters.write_to(out)
        return bytes(out)

    @classmethod
    def from_bytes(cls, payload: memoryview, where: str) -> Start:
        """Read and check the payload."""
        cursor = Cursor(payload, f"{where}: the first record")
        version = cursor.varint()
        if version not in READABLE:
            raise UnsupportedError(
                f"{where}: format version {version}, this kvzip reads up to {FORMAT_VERSION}; use a newer kvzip"
            )
        source, level, block_log2 = cursor.u8(), cursor.u8(), cursor.u8()
        prior = cursor.bytes(64)
        if prior != PRIOR.encode():
            raise UnsupportedError(f"{where}: needs the prior {prior!r}, unknown here; use a newer kvzip")
        residuals = cursor.bytes(64).decode("latin-1") if version > 1 else RESIDUALS
        if residuals != RESIDUALS and not CUSTOM.fullmatch(residuals):
            raise UnsupportedError(f"{where}: needs the prior {residuals!r}, unknown here; use a newer kvzip")
        if source > DIRECTORY or not 12 <= block_log2 <= 26:
            raise cursor.damaged("is impossible")
        parameters = Parameters.read_from(cursor)
        cursor.finish()
        return cls(source, block_log2, level, parameters, version, residuals)


@dataclass(frozen=True)
class Member:
    """One file: ``header`` is its raw safetensors header with the length field, empty for other files."""

    name: str
    nature: int
    size: int
    header: bytes
    extents: tuple[Extent, ...]

    def to_bytes(self) -> bytes:
        """The payload. The header and the extents are deflated together if that is shorter."""
        inner = bytearray()
        put_bytes(inner, self.header)
        put_varint(inner, len(self.extents))
        for extent in self.extents:
            extent.write_to(inner)
        packed = zlib.compress(inner, 9)
        out = bytearray()
        put_bytes(out, self.name.encode())
        out.append(self.nature)
        put_varint(out, self.size)
        out.append(int(len(packed) < len(inner)))
        put_varint(out, len(inner))
        out += packed if len(packed) < len(inner) else inner
        return bytes(out)

    @classmethod
    def from_bytes(cls, payload: memoryview, where: str) -> Member:
        """Read and check the payload."""
        outer = Cursor(payload, f"{where}: a file's record")
        try:
            name = outer.bytes(MAX_NAME).decode()
        except UnicodeDecodeError:
            raise outer.damaged("holds a name that is no UTF-8") from None
        nature, size = outer.u8(), outer.varint(1 << 62)
        if nature > OTHER_FILE:
            raise UnsupportedError(f"{outer.where} is of a kind unknown here ({nature}); use a newer kvzip")
        deflated, length = outer.u8(), outer.varint(2 * MAX_HEADER)
        inner = Cursor(inflate(outer, deflated, length), outer.where)
        header = inner.bytes(MAX_HEADER)
        extents = tuple(Extent.read_from(inner) for _ in range(inner.varint(MAX_EXTENTS)))
        inner.finish()
        whole = len(header) + sum(extent.nbytes for extent in extents)
        if size != whole or (nature == OTHER_FILE and header):
            raise outer.damaged("does not add up")
        return cls(name, nature, size, header, extents)


@dataclass(frozen=True)
class BlockHead:
    """What precedes a block's payload: which block it is, and the check of its decoded values."""

    extent: int
    number: int
    check: int

    def to_bytes(self) -> bytes:
        """The bytes before the payload."""
        out = bytearray()
        put_varint(out, self.extent)
        put_varint(out, self.number)
        out += self.check.to_bytes(8, "little")
        return bytes(out)

    @classmethod
    def split(cls, payload: memoryview, where: str) -> tuple[BlockHead, memoryview]:
        """The head and the block's own payload."""
        cursor = Cursor(payload, f"{where}: a block")
        head = cls(cursor.varint(MAX_EXTENTS), cursor.varint(), cursor.u64())
        return head, cursor.take(cursor.left)


@dataclass
class Index:
    """Offsets of records, for random access; ``members`` holds (offset of MEMBER, offsets of first BLOCKs).

    Since version 2 also those of the SHARED and of the UNIT records.
    """

    members: list[tuple[int, list[int]]] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    units: list[int] = field(default_factory=list)
    digest: bytes = bytes(16)
    offset: int = 0  # of the record itself, once it is read

    def to_bytes(self, version: int = FORMAT_VERSION) -> bytes:
        """The payload; offsets are written as differences, since they only grow."""
        out = bytearray()
        put_varint(out, len(self.members))
        last = 0
        for offset, extents in self.members:
            put_varint(out, offset - last)
            put_varint(out, len(extents))
            last = offset
            for value in extents:
                put_varint(out, value - last)
                last = value
        if version > 1:
            for offsets in (self.shared, self.units):
                put_varint(out, len(offsets))
                last = 0
                for offset in offsets:
                    put_varint(out, offset - last)
                    last = offset
        return bytes(out + self.digest)

    @classmethod
    def from_bytes(cls, payload: memoryview, where: str, version: int = FORMAT_VERSION) -> Index:
        """Read and check the payload."""
        cursor = Cursor(payload, f"{where}: the index")
        index = cls()
        last = 0
        for _ in range(cursor.varint(MAX_EXTENTS)):
            offset = last = last + cursor.varint(1 << 62)
            extents = []
            for _ in range(cursor.varint(MAX_EXTENTS)):
                last += cursor.varint(1 << 62)
                extents.append(last)
            index.members.append((offset, extents))
        for offsets in (index.shared, index.units) if version > 1 else ():
            last = 0
            for _ in range(cursor.varint(MAX_EXTENTS)):
                last += cursor.varint(1 << 62)
                offsets.append(last)
        index.digest = bytes(cursor.take(16))
        cursor.finish()
        return index
