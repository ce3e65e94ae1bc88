"""What a damaged container still gives: every block that can be decoded and passes its check, zeros for the others.

    damaged container -> scan -> remains -> blocks, each tried -> files with zeros in them, and what is lost

A block needs the windows that those before it in its chain left, and a unit's the values that it is predicted from.
Behind a lost block each one is tried as if it began its chain: one that was stored, or begins anew, is restored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import xxhash

from kvzip.container.records import OVERHEAD
from kvzip.container.remains import RemainingMember, Remains, remains_of
from kvzip.container.structures import BlockHead
from kvzip.errors import KvzipError
from kvzip.files.faults import shown
from kvzip.pipeline.decode_extent import DecodeBlock, Decoded, ExtentDecoder, drain
from kvzip.pipeline.decode_unit import DecodeUnitBlock, UnitDecoder, begin
from kvzip.pipeline.decompress import Create
from kvzip.pipeline.losses import DAMAGED, DEPENDS, UNVERIFIED, Losses, Lost
from kvzip.pipeline.options import Progress, in_flight_budget
from kvzip.pipeline.report import Report
from kvzip.pipeline.schedule import ChainPool
from kvzip.pipeline.sink import Sink
from kvzip.predict.prior import Prior

if TYPE_CHECKING:
    from kvzip.blocks.codec import Chain
    from kvzip.pipeline.draft import Draft


@dataclass
class _ChainState:
    """What the blocks of a chain leave to each other."""

    chain: Chain
    broken: bool = False  # whether what it would have learnt of a lost block is missing
    token: int = 0  # the next block's first one


@dataclass
class _UnitState:
    """A unit in the making, and which of its blocks are lost."""

    decoder: UnitDecoder
    bases: list[_UnitState]
    lost: set[int] = field(default_factory=set)
    broken: bool = False


@dataclass
class _TryBlock:
    """Decodes a block of a chain, or gives it up."""

    work: DecodeBlock
    state: _ChainState
    lost: list[Lost]
    loss: Lost  # what is lost if it is

    def __call__(self) -> Decoded:
        cause = DAMAGED
        if self.work.payload:
            self.work.chain = self.state.chain
            try:
                decoded = self.work()
                self.state.broken = False
                return decoded
            except KvzipError:
                cause = DEPENDS if self.state.broken else UNVERIFIED
        self.state.chain, self.state.broken = self.state.chain.afresh(), True
        self.lost.append(_because(self.loss, cause))
        return self.work.give_up()


@dataclass
class _TryUnitBlock:
    """Decodes a block of a unit, or gives it up."""

    work: DecodeUnitBlock
    state: _UnitState
    lost: dict[int, list[Lost]]

    def __call__(self) -> Decoded:
        decoder, number, cause = self.state.decoder, self.work.head.number, DAMAGED
        reached = all(base.lost.isdisjoint(decoder.looks_at(base.decoder, number)) for base in self.state.bases)
        if self.work.payload and not reached:
            cause = DEPENDS
        elif self.work.payload:
            try:
                decoded = self.work()
                self.state.broken = False
                return decoded
            except KvzipError:
                cause = DEPENDS if self.state.broken else UNVERIFIED
        self.state.broken = True
        self.state.lost.add(number)
        decoder.coder.begin_again()
        start, stop = decoder.coder.span(number)
        offset = self.work.offset if cause != DEPENDS else None
        for place, extent in enumerate(decoder.extents):
            streams = tuple(range(decoder.shape.streams[place]))
            size = len(streams) * (stop - start) * extent.axes[-1][1] * extent.itemsize
            one = Lost(number, streams, start, stop, 0, extent.nbytes, size, cause, offset)
            self.lost.setdefault(decoder.unit.first + place, []).append(one)
        return self.work.give_up()


def _because(loss: Lost, cause: str) -> Lost:
    return Lost(
        loss.number, loss.streams, loss.first, loss.stop, loss.start, loss.end, loss.nbytes, cause,
        loss.offset if cause != DEPENDS else None,
    )  # fmt: skip


class Salvager:
    """Restores what remains of a container, file after file."""

    def __init__(self, remains: Remains, where: str, create: Create, progress: Progress | None = None) -> None:
        self.remains, self.where, self.create, self.progress = remains, where, create, progress
        self.report, self.losses = Report(), Losses()
        self.units: dict[int, _UnitState] = {}
        self.read = 0  # bytes of the container

    def run(self, threads: int) -> tuple[Report, Losses]:
        """Restore every file whose record is there."""
        scan = self.remains.scan
        self.losses.members, self.losses.faults = self.remains.lost_members, scan.faults
        self.report.container_bytes = scan.size
        digests = xxhash.xxh3_128()
        with ChainPool[Decoded](threads, in_flight_budget(threads, self.remains.start.block_log2)) as pool:
            for member in self.remains.members:
                digests.update(self._member(member, pool))
        known = self.remains.digests
        if known is not None and not self.losses and known != digests.digest():
            self.losses.doubts.append("the files together")
        return self.report, self.losses

    def _member(self, found: RemainingMember, pool: ChainPool[Decoded]) -> bytes:
        member = found.member
        lost: dict[int, list[Lost]] = {}
        with self.create(member, self.report.members) as out:
            sink = Sink(out, self.report, self.progress, lambda: self.read)
            sink.write(member.header)
            number = 0
            while number < len(member.extents):
                state = self._open_unit(found, number)
                if state is not None:
                    work = self._unit(found, state, pool, lost)
                else:
                    work = self._extent(found, number, pool, lost.setdefault(number, []))
                for _ in work:
                    drain(pool, sink.write)
                number += state.decoder.unit.count if state is not None else 1
            drain(pool, sink.write, everything=True)
        self.report.members += 1
        for number in sorted(lost):
            self.losses.take(member, number, member.extents[number], lost[number], self.where)
        digest: bytes = sink.digest.digest()
        if not any(lost.values()) and found.digest not in (None, digest):
            self.losses.doubts.append(member.name or "the file")
        return digest

    # -- extents by themselves

    def _extent(
        self, found: RemainingMember, number: int, pool: ChainPool[Decoded], lost: list[Lost]
    ) -> Iterator[None]:
        extent = found.member.extents[number]
        decoder = ExtentDecoder(extent, self.remains.start, self.where, self.remains.shared)
        states: dict[int, _ChainState] = {}
        for count, (slab, blocks, block) in enumerate(decoder.plan()):
            head, payload, offset = self._block(found, number, count)
            work = decoder.work(head, payload, slab, blocks, block)
            state = states.setdefault(block.chain, _ChainState(work.chain))
            size = block.streams * block.tokens * block.channels * extent.itemsize
            token, state.token = state.token, state.token + block.tokens
            loss = Lost(
                count,
                block.names,
                token,
                token + block.tokens,
                slab.start,
                slab.start + slab.nbytes,
                size,
                "",
                offset,
            )
            attempt = _TryBlock(work, state, lost, loss)
            pool.submit((id(decoder), block.chain), work.chain.cost(block), attempt, block.last_of_chain)
            yield

    def _block(self, found: RemainingMember, extent: int, number: int) -> tuple[BlockHead, memoryview, int | None]:
        """A block's head, payload and place; without its record the payload is empty."""
        record = found.blocks.get((extent, number))
        if record is None:
            return BlockHead(extent, number, 0), memoryview(b""), self._gap_of(found, (extent, number))
        self.read = max(self.read, record.offset + OVERHEAD + record.length)
        head, payload = BlockHead.split(memoryview(self.remains.scanner.payload(record)), self.where)
        return head, payload, record.offset

    def _gap_of(self, found: RemainingMember, key: tuple[int, int]) -> int | None:
        """Where the damage begins that a missing block is lost by: between what comes before it and what follows."""
        keys = found.keys()
        place = bisect_left(keys, key)
        low = found.blocks[keys[place - 1]].stop if place else found.offset
        high = found.blocks[keys[place]].offset if place < len(keys) else self.remains.scan.size
        at = bisect_left(self.remains.scan.gaps, (low, 0))
        gaps = self.remains.scan.gaps[at : at + 1]
        return gaps[0][0] if gaps and gaps[0][0] <= high else None

    # -- units

    def _open_unit(self, found: RemainingMember, number: int) -> _UnitState | None:
        """The unit that begins at an extent, None if there is none or it cannot be what its record says."""
        if number not in found.units:
            return None
        at, unit = found.units[number]
        bases = [self.units.get(at - back) for back in unit.bases]
        known = [base for base in bases if base is not None]
        decoders = [None if base is None else base.decoder for base in bases]
        try:
            decoder = begin(unit, found.member, self.remains.start, self.remains.shared, self.where, decoders)
        except KvzipError:
            return None
        state = self.units[at] = _UnitState(decoder, known)
        for old in [n for n, other in self.units.items() if n + other.decoder.unit.keep <= at]:
            del self.units[old]
        return state

    def _unit(
        self, found: RemainingMember, state: _UnitState, pool: ChainPool[Decoded], lost: dict[int, list[Lost]]
    ) -> Iterator[None]:
        decoder = state.decoder
        pool.budget = max(pool.budget, decoder.nbytes)
        for number in range(decoder.coder.blocks):
            head, payload, offset = self._block(found, decoder.unit.first, number)
            work = decoder.work(head, payload)
            work.offset = offset
            decoder.submit(pool, work, _TryUnitBlock(work, state, lost))
            yield
        decoder.bases = []


def salvage_members(
    file: BinaryIO,
    where: str,
    create: Create,
    threads: int = 0,
    *,
    prior: Prior | None = None,
    draft: Draft | None = None,
    progress: Progress | None = None,
) -> tuple[Report, Losses]:
    """Restore what a container in a seekable file still holds into what ``create`` opens for each file.

    ContainerError if nothing of it can be used.
    """
    return Salvager(remains_of(file, where, prior, draft), where, create, progress).run(threads)


def summary(report: Report, losses: Losses, where: str) -> str:
    """What was lost, in a line."""
    parts = []
    if losses.damages:
        share = losses.nbytes / max(1, report.source_bytes)
        tensors = len({(one.file, name) for one in losses.damages for name in one.tensors})
        parts.append(f"{losses.nbytes} bytes ({share:.2%}) in {_count(tensors, 'tensor')} are lost")
    if losses.members:
        parts.append(f"{_count(losses.members, 'file')} lost whole, by name and all")
    if losses.members is None:
        parts.append("its end is lost, and with it perhaps whole files")
    parts += [f"{shown(name)}: every block passes its check, but not the whole" for name in losses.doubts]
    return f"{where}: {'; '.join(parts) or 'damaged, but nothing is lost'}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
