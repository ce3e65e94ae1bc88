"""Random access: one tensor by name, or layer after layer, from a container in a seekable file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kvzip.container import records
from kvzip.container.indexed import read_index, read_members
from kvzip.container.records import Record, RecordReader
from kvzip.container.shared import Shared
from kvzip.container.structures import Index, Member
from kvzip.container.unit import MOST_BYTES, MOST_HELD, Unit
from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import Header, TensorEntry, parse_header
from kvzip.errors import ContainerError, KvzipError
from kvzip.pipeline.decode_extent import Decoded, ExtentDecoder, drain
from kvzip.pipeline.decode_unit import UnitDecoder, begin
from kvzip.pipeline.decompress import Opening
from kvzip.pipeline.options import in_flight_budget
from kvzip.pipeline.schedule import ChainPool
from kvzip.predict.prior import Prior
from kvzip.streams.plan import scatter_whole

if TYPE_CHECKING:
    from kvzip.pipeline.draft import Draft


@dataclass(frozen=True)
class Tensor:
    """One tensor's bits. ``bits`` has the tensor's shape, as unsigned integers of the element's width.

    Packed types (F4, F6) come as flat bytes. ``layer`` is None and ``kind`` empty where no layout knew them.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bits: NDArray[Any]
    member: str = ""
    layer: int | None = None
    kind: str = ""


@dataclass(frozen=True)
class Layer:
    """The tensors of one layer, by name; ``index`` is None for tensors that belong to no layer."""

    index: int | None
    tensors: dict[str, Tensor]


UNITS_HELD = 3  # decoded units that stay in memory for what comes next


def _skip_shared(reader: RecordReader) -> Record:
    """The next record that is not a SHARED one; those are known."""
    record = reader.next()
    while record.type == records.SHARED:
        record = reader.next()
    return record


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor is and what it is, without its data."""

    member: int
    extent: int
    entry: TensorEntry
    offset: int  # of its first byte inside the extent
    layer: int | None
    kind: str


class Reader:
    """An open container. Use it as a context manager, or call ``close``."""

    def __init__(
        self,
        file: BinaryIO,
        where: str,
        threads: int = 0,
        owned: bool = True,
        prior: Prior | None = None,
        draft: Draft | None = None,
    ) -> None:
        self.file, self.where, self.threads, self._owned = file, where, threads, owned
        self._draft = draft
        opening = Opening.of(file, where, prior, draft)
        self.start, self.draft = opening.start, opening.shared.drafts
        self.prior = prior if opening.shared.prior is prior else None  # else it is in the container
        self.index = self._read_index()
        self.members = read_members(self.file, self.where, self.index)
        self.headers = [self._header(member) for member in self.members]
        self._known: Shared | None = None
        self._units: dict[int, UnitDecoder] = {}
        self._infos = {(i.member, i.entry.name): i for i in self._locate()}

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file if this reader opened it, and its draft."""
        if self._owned:
            self.file.close()
        if self._draft is not None:
            self._draft.close()

    def infos(self) -> list[TensorInfo]:
        """Every tensor, in file order."""
        return list(self._infos.values())

    def names(self) -> list[str]:
        """The tensors' names, in file order; in a directory each as ``member:name``."""
        return [self._full_name(info) for info in self.infos()]

    def tensor(self, name: str) -> Tensor:
        """Decode one tensor, and nothing else but what its windows need. KvzipError if there is none."""
        for info in self.infos():
            if name in (self._full_name(info), info.entry.name):
                return self._load(info)
        raise KvzipError(f"{self.where}: has no tensor {name!r}; `kvzip list` shows the names")

    def layers(self) -> Iterator[Layer]:
        """Layer after layer in ascending order, holding one layer in memory; tensors of no layer come last."""
        by_layer: dict[int | None, list[TensorInfo]] = {}
        for info in self.infos():
            by_layer.setdefault(info.layer, []).append(info)
        for layer in sorted(by_layer, key=lambda n: (n is None, n)):
            yield Layer(layer, {self._full_name(info): self._load(info) for info in by_layer[layer]})

    def extent(self, member: int, number: int) -> bytearray:
        """The bytes of a member's extent ``number``."""
        extent = self.members[member].extents[number]
        entry = TensorEntry("", "U8", (extent.nbytes,), 0, extent.nbytes)
        return self._extent_bytes(TensorInfo(member, number, entry, 0, None, ""))

    def data(self, info: TensorInfo) -> bytearray:
        """A tensor's bytes."""
        return self._extent_bytes(info)[info.offset : info.offset + info.entry.stop - info.entry.start]

    def _full_name(self, info: TensorInfo) -> str:
        member = self.members[info.member].name
        return f"{member}:{info.entry.name}" if member else info.entry.name

    def _load(self, info: TensorInfo) -> Tensor:
        entry = info.entry
        dtype = DTYPES[entry.dtype]
        data = self.data(info)
        bits = np.frombuffer(data, f"<u{dtype.container_bytes}")
        if dtype.bits >= 8:
            bits = bits.reshape(entry.shape)
        member = self.members[info.member].name
        return Tensor(entry.name, entry.dtype, entry.shape, bits, member, info.layer, info.kind)

    def _extent_bytes(self, info: TensorInfo) -> bytearray:
        """Decode an extent whole."""
        if info.entry.start == info.entry.stop:
            return bytearray()
        member, at = self.members[info.member], self.index.members[info.member][1][info.extent]
        shared = self._shared()  # before the reader: one file, one place in it
        reader = RecordReader.at(self.file, self.where, at)
        first = reader.next()
        out = bytearray()
        budget = in_flight_budget(self.threads, self.start.block_log2)
        with ChainPool[Decoded](self.threads, budget) as pool:
            if first.type == records.UNIT:
                return bytearray(self._from_unit(info, at, pool))
            single = ExtentDecoder(member.extents[info.extent], self.start, self.where, shared)
            single.next_record = _skip_shared
            for _ in single.read(reader, info.extent, pool, first):
                drain(pool, out.extend)
            drain(pool, out.extend, everything=True)
        return out

    def _from_unit(self, info: TensorInfo, at: int, pool: ChainPool[Decoded]) -> memoryview:
        """An extent's bytes out of the unit at an offset."""
        if at not in self.index.units:
            raise self._misfit("records")
        decoder = self._unit(self.index.units.index(at), pool)
        extent, place = self.members[info.member].extents[info.extent], info.extent - decoder.unit.first
        if not 0 <= place < decoder.unit.count or decoder.extents[place] is not extent:
            raise self._misfit("records")
        return scatter_whole(extent, decoder.values[place])

    def _unit(self, number: int, pool: ChainPool[Decoded]) -> UnitDecoder:
        """Decode a unit, and before it what it refers to; the last few stay in memory."""
        units = self._needed(number)
        for n in sorted(units):
            self._units[n] = self._decode_unit(n, units[n], pool)
            later = {m - back for m in units if m > n for back in units[m].bases}
            for old in [kept for kept in self._units if kept not in later][:-UNITS_HELD]:
                del self._units[old]
            if sum(held.nbytes for held in self._units.values()) > MOST_HELD + UNITS_HELD * MOST_BYTES:
                raise ContainerError(f"{self.where}: keeps more units than it may; the container is damaged")
        return self._units[number]

    def _needed(self, number: int) -> dict[int, Unit]:
        """The records of a unit and of all that it refers to, but for what is in memory."""
        units: dict[int, Unit] = {}
        queue = [number]
        while queue:
            n = queue.pop()
            if n < 0:
                raise ContainerError(f"{self.where}: a unit refers to what is not there; the container is damaged")
            if n not in units and n not in self._units:
                record = RecordReader.at(self.file, self.where, self.index.units[n]).next()
                if record.type != records.UNIT:
                    raise self._misfit("records")
                units[n] = Unit.from_bytes(record.payload, self.where)
                queue += [n - back for back in units[n].bases]
        return units

    def _decode_unit(self, number: int, unit: Unit, pool: ChainPool[Decoded]) -> UnitDecoder:
        """Decode a unit whose bases are in memory."""
        offset = self.index.units[number]
        bases = [self._units.get(number - back) for back in unit.bases]
        members = [n for n, (at, _) in enumerate(self.index.members) if at < offset]
        if not members:
            raise self._misfit("records")
        decoder = begin(unit, self.members[members[-1]], self.start, self._shared(), self.where, bases)
        reader = RecordReader.at(self.file, self.where, offset)
        reader.next()
        for _ in decoder.read(reader, pool, _skip_shared):
            pass
        for decoded in pool.results(everything=True):
            decoded.decoder.take(decoded)
        return decoder

    def _misfit(self, what: str) -> ContainerError:
        return ContainerError(f"{self.where}: the index does not fit the {what}; the container is damaged")

    def _shared(self) -> Shared:
        """The shared records, read once."""
        if self._known is None:
            self._known = Shared(prior=self.prior, needs=self.start.needs)
            for offset in self.index.shared:
                record = RecordReader.at(self.file, self.where, offset).next()
                if record.type != records.SHARED:
                    raise self._misfit("records")
                self._known.add(record.payload, self.where)
            self._known.drafts = self.draft
        return self._known

    def _read_index(self) -> Index:
        if not self.file.seekable():
            raise KvzipError(f"{self.where}: random access needs a file, not a pipe; decompress it instead")
        return read_index(self.file, self.where, self.start.version)

    def _header(self, member: Member) -> Header | None:
        return parse_header(member.header, self.where) if member.header else None

    def _locate(self) -> Iterator[TensorInfo]:
        """Each tensor of each member with the extent that holds it."""
        for number, (member, header) in enumerate(zip(self.members, self.headers, strict=True)):
            if len(self.index.members[number][1]) != len(member.extents):
                raise self._misfit("tensors")
            at, extent = 0, 0
            for entry in header.entries if header else ():
                while extent < len(member.extents) and at + member.extents[extent].nbytes <= entry.start:
                    at += member.extents[extent].nbytes
                    extent += 1
                if entry.start == entry.stop:
                    yield TensorInfo(number, extent, entry, 0, None, "")
                    continue
                if extent == len(member.extents) or entry.stop > at + member.extents[extent].nbytes:
                    raise ContainerError(f"{self.where}: tensors and data do not fit; the container is damaged")
                known = member.extents[extent]
                layer = known.layer if known.layer >= 0 else None
                yield TensorInfo(number, extent, entry, entry.start - at, layer, known.kind)
