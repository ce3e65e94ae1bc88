"""What the records of a damaged container belong to: which file, unit and block each is, and what is missing.

With the index, a record belongs where its offset says, and one that says otherwise is none of this container's.
Without it records belong to the file whose record came last, and to none behind a gap that may have swallowed that of
another.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from kvzip.container import records
from kvzip.container.scan import HEAD, Found, Scan, Scanner
from kvzip.container.shared import Shared, holds_draft, holds_prior
from kvzip.container.structures import DIRECTORY, BlockHead, Index, Member, Start
from kvzip.container.unit import Unit
from kvzip.errors import ContainerError

if TYPE_CHECKING:
    from kvzip.blocks.draft import DraftSource
    from kvzip.predict.prior import Prior


@dataclass
class RemainingMember:
    """A file whose record was found. ``digest`` is None if the record at its end was not."""

    member: Member
    offset: int
    number: int | None  # in the index
    blocks: dict[tuple[int, int], Found] = field(default_factory=dict)  # by first extent and number
    units: dict[int, tuple[int, Unit]] = field(default_factory=dict)  # number and record, by first extent
    _keys: list[tuple[int, int]] = field(default_factory=list)
    digest: bytes | None = None

    def keys(self) -> list[tuple[int, int]]:
        """The blocks that were found, in order."""
        if len(self._keys) != len(self.blocks):
            self._keys = sorted(self.blocks)
        return self._keys


@dataclass
class Remains:
    """All that can be told of a damaged container without decoding a block."""

    scanner: Scanner
    scan: Scan
    start: Start
    shared: Shared
    members: list[RemainingMember] = field(default_factory=list)
    index: Index | None = None  # only one whose offsets hold
    digests: bytes | None = None  # of all files' digests

    @property
    def lost_members(self) -> int | None:
        """How many files' records are lost; None if that cannot be known."""
        if self.index is None:
            return None if self.start.source == DIRECTORY else int(not self.members)
        return len(self.index.members) - len(self.members)


def remains_of(file: BinaryIO, where: str, prior: Prior | None = None, draft: DraftSource | None = None) -> Remains:
    """Scan a seekable file.

    ContainerError if nothing of it can be used; PriorError or DraftError if it needs another prior or draft.
    """
    scanner = Scanner(file)
    scan = scanner.scan()
    scan.runs = [run for run in scan.runs if not _is_foreign(run, scan, run is scan.runs[0])]
    if not scan.runs or scan.runs[0][0].type != records.START:
        raise ContainerError(
            f"{where}: the record that says how it is coded is lost, or it is no .kvz file; nothing can be restored"
        )
    start = Start.from_bytes(memoryview(scanner.payload(scan.runs[0][0])), where)
    index, digests = _index(scanner, scan, start, where)
    remains = Remains(scanner, scan, start, Shared(needs=start.needs), index=index, digests=digests)
    _Placer(remains, where).place()
    _Sharer(remains, where).share(prior, draft)
    return remains


def _is_foreign(run: list[Found], scan: Scan, first: bool) -> bool:
    """Whether a run is of another container, one that this one holds: it begins or ends where ours does not."""
    begins = any(record.type == records.START for record in run[1 if first else 0 :])
    inside = run if run[-1].type != records.INDEX or run is not scan.runs[-1] else run[:-1]
    return begins or any(record.type == records.INDEX for record in inside)


def _index(scanner: Scanner, scan: Scan, start: Start, where: str) -> tuple[Index | None, bytes | None]:
    """The index, if it is there and its offsets hold, and the digest in it."""
    last = scan.runs[-1][-1]
    if last.type != records.INDEX:
        return None, None
    try:
        index = Index.from_bytes(memoryview(scanner.payload(last)), where, start.version)
    except ContainerError:
        return None, None
    return (index if scan.trailer in (None, last.offset) else None), index.digest


class _Placer:
    """Gives members, units and blocks their places."""

    def __init__(self, remains: Remains, where: str) -> None:
        self.remains, self.where = remains, where
        index = remains.index
        self.starts = [offset for offset, _ in index.members] if index else []
        self.by_number: dict[int, RemainingMember] = {}
        self.current: RemainingMember | None = None  # without an index
        self.units = 0

    def place(self) -> None:
        """Go through all records."""
        single = self.remains.start.source != DIRECTORY
        for run in self.remains.scan.runs:
            if self.remains.index is None and not single:
                self.current = None
            for record in run:
                if record.type == records.MEMBER:
                    self._member(record, single)
                elif record.type == records.UNIT:
                    self._unit(record)
                elif record.type == records.BLOCK:
                    self._block(record)
                elif record.type == records.MEMBER_END and (member := self._owner(record)):
                    member.digest = member.digest or self.remains.scanner.payload(record)

    def _member(self, record: Found, single: bool) -> None:
        number = None
        if self.remains.index is not None:
            if record.offset not in self.starts:
                return
            number = self.starts.index(record.offset)
        elif single and self.remains.members:
            return
        member = Member.from_bytes(memoryview(self.remains.scanner.payload(record)), self.where)
        self.current = RemainingMember(member, record.offset, number)
        self.remains.members.append(self.current)
        if number is not None:
            self.by_number[number] = self.current

    def _unit(self, record: Found) -> None:
        number, index = self.units, self.remains.index
        self.units += 1
        if index is not None:
            if record.offset not in index.units:
                return
            number = index.units.index(record.offset)
        if (member := self._owner(record)) is None:
            return
        unit = Unit.from_bytes(memoryview(self.remains.scanner.payload(record)), self.where)
        if self._is_at(record, member, unit.first, exactly=True):
            member.units.setdefault(unit.first, (number, unit))

    def _block(self, record: Found) -> None:
        if (member := self._owner(record)) is None:
            return
        head, _ = BlockHead.split(memoryview(self.remains.scanner.payload(record)), self.where)
        if self._is_at(record, member, head.extent):
            member.blocks.setdefault((head.extent, head.number), record)

    def _owner(self, record: Found) -> RemainingMember | None:
        """The file that a record belongs to."""
        if self.remains.index is None:
            return self.current
        return self.by_number.get(bisect_right(self.starts, record.offset) - 1)

    def _is_at(self, record: Found, member: RemainingMember, extent: int, exactly: bool = False) -> bool:
        """Whether a record lies among those of an extent, as far as the index tells; ``exactly`` where they begin."""
        if extent >= len(member.member.extents):
            return False
        if self.remains.index is None or member.number is None:
            return True
        offsets = self.remains.index.members[member.number][1]
        if len(offsets) != len(member.member.extents):
            return False
        if exactly:
            return record.offset == offsets[extent]
        return bisect_right(offsets, record.offset) > extent and not any(
            offsets[extent] < offset <= record.offset for offset in offsets[extent : extent + 17]
        )


class _Sharer:
    """Gathers the shared records in order; one that is lost leaves a hole that fits nothing."""

    def __init__(self, remains: Remains, where: str) -> None:
        self.remains, self.where = remains, where
        found = [record for run in remains.scan.runs for record in run if record.type == records.SHARED]
        self.found = {record.offset: record for record in found}

    def share(self, prior: Prior | None, draft: DraftSource | None) -> None:
        """Add every record, and what was given where the container asks for it."""
        index = self.remains.index
        for offset in sorted(self.found) if index is None else index.shared:
            record = self.found.get(offset)
            if record is None:
                self._leave_hole(offset)
            else:
                self._add(record)
        shared = self.remains.shared
        if shared.needs and shared.prior is None:
            shared.take_prior(prior, self.where)
        shared.take_draft(draft, self.where)
        shared.drafts = draft  # also if the record that tells which one it was is lost: values have their checks

    def _add(self, record: Found) -> None:
        payload = memoryview(self.remains.scanner.payload(record))
        if not (holds_draft(payload) or holds_prior(payload)):
            self.remains.shared.begun = True
        self.remains.shared.add(payload, self.where)

    def _leave_hole(self, offset: int) -> None:
        """What the byte that told its kind now says is taken for it: wrong values fail their checks."""
        file = self.remains.scanner.file
        file.seek(offset + HEAD)
        self.remains.shared.leave_hole(int.from_bytes(file.read(1), "little"))
