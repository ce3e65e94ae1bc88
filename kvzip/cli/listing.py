"""What ``list`` shows: the tensors of a dump or a container, without decoding any and without numba."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

from kvzip.cli.voice import Voice
from kvzip.container import records
from kvzip.container.records import RecordReader, starts_archive, starts_container
from kvzip.container.shared import holds_draft
from kvzip.container.structures import SINGLE, BlockHead, Member, Start
from kvzip.container.unit import Unit
from kvzip.dumps.safetensors import Header, parse_header, read_header
from kvzip.errors import ContainerError, DumpError, KvzipError
from kvzip.files import FileSource, members
from kvzip.files.source import kept
from kvzip.layouts.registry import recognise


@dataclass
class TensorRow:
    """One tensor; ``packed`` is the bytes of its blocks, None in a dump or where it shares an extent.

    Where tensors are coded together it is the tensor's share of them. ``needs`` are the other tensors, by name, that
    must be decoded to get it: those coded with it, and those that its prediction refers to, member and name.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    layout: str
    packed: int | None = None
    needs: tuple[str, ...] = ()


@dataclass
class Listing:
    """One dump, or one member of a container; ``container_bytes`` counts the member's records, or the whole file."""

    file: str
    member: str
    source_bytes: int
    container_bytes: int | None
    level: int | None
    tensors: list[TensorRow] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    prior: str = ""  # the identity of the trained prior that it needs
    draft: str = ""  # the digest of what its draft must be

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "file": self.file,
            "member": self.member or None,
            "source_bytes": self.source_bytes,
            "container_bytes": self.container_bytes,
            "level": self.level,
            "prior": self.prior or None,
            "draft": self.draft or None,
            "metadata": self.metadata,
            "tensors": [
                {
                    "name": row.name,
                    "dtype": row.dtype,
                    "shape": list(row.shape),
                    "bytes": row.nbytes,
                    "layout": row.layout,
                    "packed_bytes": row.packed,
                    "needs": list(row.needs),
                }
                for row in self.tensors
            ],
        }


def list_tensors(inputs: Sequence[str], *, json: bool) -> None:
    """Show the tensors of every input."""
    found = []
    failed = False
    for name in inputs:
        try:
            found += listings(name)
        except KvzipError as error:
            if error.exit_code == 2:
                raise
            failed = True
            Voice(False, False).error(str(error))
    if json:
        print(json_module.dumps({"command": "list", "files": [item.to_json() for item in found]}))
    else:
        from kvzip.cli.show.listing import show_listing

        for item in found:
            show_listing(item)
    if failed:
        raise SystemExit(1)


def listings(name: str) -> list[Listing]:
    """A dump's or a container's tensors; a directory's dumps one by one."""
    if name != "-" and Path(name).is_dir():
        return [item for _, path in members(Path(name)).files for item in _try(str(path))]
    with FileSource(name) as source:
        if starts_archive(source.file):
            return list(_archive(source))
        if starts_container(source.file):
            return _container(source.file, source.name)
        return [_dump(source)]


def _try(name: str) -> list[Listing]:
    """The listing of a file in a directory; files that are neither dump nor container have none."""
    try:
        return listings(name)
    except (DumpError, ContainerError):
        if name.endswith((".safetensors", ".kvz")):
            raise
        return []


def _dump(source: FileSource) -> Listing:
    header = read_header(source.file, source.name)
    listing = Listing(source.name, "", len(header.raw) + header.data_size, None, None)
    return _fill(listing, header, source.name)


def _fill(listing: Listing, header: Header, path: str) -> Listing:
    layouts = recognise(header.entries, path)
    listing.metadata = dict(header.metadata or {})
    for entry in header.entries:
        layout = layouts.get(entry.name)
        row = TensorRow(entry.name, entry.dtype, entry.shape, entry.stop - entry.start, "opaque")
        if layout:
            row.layout = layout.layout
        listing.tensors.append(row)
    return listing


@dataclass
class _Union:
    """A unit of a container: its tensors by member and extent, and by name once they are known."""

    unit: Unit
    number: int
    names: list[str] = field(default_factory=list)


@dataclass
class _Reading:
    """A container's records as they come; nothing is decoded."""

    where: str
    start: Start
    found: list[Listing] = field(default_factory=list)
    unions: list[_Union] = field(default_factory=list)
    of_extent: dict[int, _Union] = field(default_factory=dict)  # of the member being read
    spent: dict[int, int] = field(default_factory=dict)
    member: Member | None = None
    record_bytes: int = 0
    draft: str = ""

    def begin(self, payload: memoryview) -> None:
        """A MEMBER record."""
        self.member = Member.from_bytes(payload, self.where)
        self.spent, self.of_extent, self.record_bytes = {}, {}, len(payload)

    def unite(self, payload: memoryview) -> None:
        """A UNIT record."""
        union = _Union(Unit.from_bytes(payload, self.where), len(self.unions))
        self.unions.append(union)
        for extent in range(union.unit.first, union.unit.first + union.unit.count):
            self.of_extent[extent] = union

    def spend(self, payload: memoryview) -> None:
        """A BLOCK record: shared out by size among the extents of a unit."""
        head, coded = BlockHead.split(payload, self.where)
        union = self.of_extent.get(head.extent)
        extents = [head.extent]
        if union and self.member:
            extents = list(
                range(union.unit.first, min(union.unit.first + union.unit.count, len(self.member.extents)))
            )
        sizes = [self.member.extents[n].nbytes if union and self.member else 1 for n in extents]
        for number, size in zip(extents, sizes, strict=True):
            self.spent[number] = self.spent.get(number, 0) + len(coded) * size // max(1, sum(sizes))

    def end(self) -> None:
        """A MEMBER_END record: fill in the member's tensors and what their blocks take."""
        assert self.member is not None
        member = self.member
        packed = self.record_bytes + sum(self.spent.values())
        listing = Listing(self.where, member.name, member.size, packed, self.start.level)
        listing.prior, listing.draft = self.start.needs, self.draft
        self.found.append(listing)
        if not member.header:
            return
        header = parse_header(member.header, self.where)
        _fill(listing, header, member.name or self.where.removesuffix(".kvz"))
        at = 0
        starts = {}
        for number, extent in enumerate(member.extents):
            starts[at, extent.nbytes] = number
            at += extent.nbytes
        for row, entry in zip(listing.tensors, header.entries, strict=True):
            number = starts.get((entry.start, entry.stop - entry.start), -1)
            row.packed = self.spent.get(number)
            if number in self.of_extent:
                self.of_extent[number].names.append(f"{member.name}:{row.name}" if member.name else row.name)
        for row, entry in zip(listing.tensors, header.entries, strict=True):
            union = self.of_extent.get(starts.get((entry.start, entry.stop - entry.start), -1))
            if union:
                own = f"{member.name}:{row.name}" if member.name else row.name
                row.needs = tuple(name for name in self._needs(union) if name != own)

    def _needs(self, union: _Union) -> list[str]:
        """The names of a unit's tensors and of those it refers to, the earliest unit first."""
        wanted, numbers = [union.number], {union.number}
        while wanted:
            number = wanted.pop()
            for back in self.unions[number].unit.bases:
                if number - back >= 0 and number - back not in numbers:
                    numbers.add(number - back)
                    wanted.append(number - back)
        return [name for number in sorted(numbers) for name in self.unions[number].names]


def _archive(source: FileSource) -> Iterator[Listing]:
    """The containers of an archive; their members' names begin with theirs."""
    from kvzip.archive.unpack import Archive

    with ExitStack() as opened:
        held = Archive(source.file if source.file.seekable() else kept(source.file, opened), source.name)
        for number, entry in enumerate(held.entries):
            for listing in _container(held.container(number), source.name):
                listing.member = entry.name
                yield listing


def _container(file: BinaryIO, where: str) -> list[Listing]:
    """Read every record but decode none."""
    reader = RecordReader(file, where)
    first = reader.next()
    if first.type != records.START:
        raise reader.damaged(first.offset, "should be the first one")
    reading = _Reading(where, Start.from_bytes(first.payload, where))
    while True:
        record = reader.next()
        if record.type == records.MEMBER:
            reading.begin(record.payload)
        elif record.type == records.BLOCK and reading.member:
            reading.spend(record.payload)
        elif record.type == records.UNIT and reading.member and reading.start.version > 1:
            reading.unite(record.payload)
        elif record.type == records.SHARED and reading.start.version > 1:
            if holds_draft(record.payload):
                reading.draft = xxhash.xxh3_128_hexdigest(record.payload)
        elif record.type == records.MEMBER_END and reading.member:
            reading.end()
        elif record.type == records.INDEX:
            reader.finish(record.offset)
            if reading.start.source == SINGLE and reading.found:
                reading.found[0].container_bytes = reader.offset
            return reading.found
        else:
            raise reader.damaged(record.offset, "is out of place")
