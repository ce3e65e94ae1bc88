"""The blocks of a unit, back into the bytes of its extents; units in flight, and those that later ones refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from kvzip.blocks.draft import UnitDraft, rows_of
from kvzip.blocks.united import UnitCoder, UnitShape, Values, can_turn, checked_bytes
from kvzip.container.records import Record, RecordReader
from kvzip.container.shared import Shared
from kvzip.container.structures import BlockHead, Member, Start
from kvzip.container.unit import MOST_HELD, Unit, can_join, can_refer
from kvzip.errors import ContainerError
from kvzip.pipeline.decode_extent import Decoded, read_block, require_check
from kvzip.pipeline.schedule import ChainPool
from kvzip.streams.extent import Extent
from kvzip.streams.plan import scatter_whole

EMPTY = np.zeros(0, np.uint8)


@dataclass
class UnitDecoder:
    """Decodes the blocks of one unit, given in order. Others may use its values block by block, as they are done."""

    unit: Unit
    extents: tuple[Extent, ...]
    shape: UnitShape
    coder: UnitCoder
    values: Values
    bases: list[UnitDecoder]
    where: str
    draft: UnitDraft | None = None
    done: list[Future[Decoded]] = field(default_factory=list)
    blocks_given: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the unit's values."""
        return sum(extent.nbytes for extent in self.extents)

    def read(
        self, reader: RecordReader, pool: ChainPool[Decoded], next_record: Callable[[RecordReader], Record]
    ) -> Iterator[None]:
        """Read the blocks and hand them to the pool, each behind the blocks of the bases that it needs."""
        for number in range(self.coder.blocks):
            head, payload = read_block(reader, next_record(reader), self.unit.first, number)
            self.submit(pool, self.work(head, payload))
            yield
        self.bases = []  # lest a unit keep all those before it alive

    def work(self, head: BlockHead, payload: memoryview) -> DecodeUnitBlock:
        """The job of one block."""
        return DecodeUnitBlock(
            self, payload, head, f"{self.where}: block {head.number} of the unit at {self.unit.first}"
        )

    def submit(
        self, pool: ChainPool[Decoded], work: DecodeUnitBlock, run: Callable[[], Decoded] | None = None
    ) -> None:
        """Queue the next block's ``work``, or what ``run``s it, behind the blocks of the bases that it needs."""
        number = work.head.number
        needed = [b.done[min(self.looks_at(b, number)[-1], len(b.done) - 1)] for b in self.bases if b.done]
        last = number + 1 == self.coder.blocks
        self.done.append(pool.submit((id(self), "unit"), len(work.payload), run or work, last, needed))

    def looks_at(self, base: UnitDecoder, number: int) -> range:
        """The blocks of a base that block ``number`` looks at."""
        start, stop = self.coder.span(number)
        return range(start // base.unit.step, (stop - 1) // base.unit.step + 1)

    def take(self, decoded: Decoded) -> list[memoryview]:
        """Each extent's bytes, once the last block is given."""
        self.blocks_given += 1
        if self.blocks_given < self.coder.blocks:
            return []
        self.done = []  # nobody need wait any more, and results that refer to this would keep it alive
        return [scatter_whole(extent, part) for extent, part in zip(self.extents, self.values, strict=True)]


@dataclass
class DecodeUnitBlock:
    """The work of one block: runs on a pool thread."""

    decoder: UnitDecoder
    payload: memoryview
    head: BlockHead
    where: str
    offset: int | None = None  # of its record, if that is of interest

    def __call__(self) -> Decoded:
        """Decode it. ContainerError if its values are not those that were coded."""
        block = self.decoder.coder.decode(self.payload, self.head.number, self.decoder.values, self.where)
        require_check(checked_bytes(block), self.head, self.where)
        return Decoded(self.decoder, None, self.decoder.coder.blocks, EMPTY)

    def give_up(self) -> Decoded:
        """Zeros in place of the block's values."""
        start, stop = self.decoder.coder.span(self.head.number)
        for part in self.decoder.values:
            part[:, start:stop] = 0
        return Decoded(self.decoder, None, self.decoder.coder.blocks, EMPTY)


@dataclass
class OpenUnits:
    """The units met so far that later ones may refer to, by number."""

    observe: bool = False
    count: int = 0
    kept: dict[int, UnitDecoder] = field(default_factory=dict)

    def open(self, unit: Unit, member: Member, start: Start, shared: Shared, where: str) -> UnitDecoder:
        """Begin the next unit. ContainerError if it cannot be what its record says."""
        bases = [self.kept.get(self.count - back) for back in unit.bases]
        if sum(other.nbytes for other in self.kept.values()) > MOST_HELD:
            raise ContainerError(f"{where}: keeps more units than it may; the container is damaged, get another copy")
        decoder = begin(unit, member, start, shared, where, bases, self.observe)
        self.kept[self.count] = decoder
        self.count += 1
        for old in [n for n, other in self.kept.items() if n + other.unit.keep < self.count]:
            del self.kept[old]
        return decoder


def begin(
    unit: Unit,
    member: Member,
    start: Start,
    shared: Shared,
    where: str,
    bases: list[UnitDecoder | None],
    observe: bool = False,
) -> UnitDecoder:
    """A decoder for a unit, after all checks that its record, the shared ones and its bases allow."""
    extents = member.extents[unit.first : unit.first + unit.count]
    known = [base for base in bases if base is not None]
    possible = (
        len(extents) == unit.count
        and can_join(extents)
        and len(known) == len(bases)
        and unit.rope <= len(shared.ropes)
        and unit.tokens <= len(shared.tokens)
        and all(base.shape.tokens == extents[0].tokens for base in known)
        and can_refer(unit, extents, sum(base.shape.columns for base in known))
    )
    if not possible:
        raise ContainerError(
            f"{where}: a unit refers to what is not there; the container is damaged, get another copy"
        )
    rope = shared.ropes[unit.rope - 1] if unit.rope else None
    tokens = shared.tokens[unit.tokens - 1] if unit.tokens else None
    misfits = rope is not None and not can_turn(extents, rope)
    if misfits or (tokens is not None and len(tokens.slot) != extents[0].tokens):
        raise ContainerError(f"{where}: a unit's parts do not fit; the container is damaged, get another copy")
    shape = UnitShape(extents, rope)
    draft = _draft(unit, extents, shared, where) if unit.near is not None else None
    around = [(base.shape, base.values, base.draft) for base in known]
    coder = UnitCoder(unit, shape, tokens, around, start.parameters, shared.prior, observe, draft)
    return UnitDecoder(unit, extents, shape, coder, shape.empty(), known, where, draft)


def _draft(unit: Unit, extents: tuple[Extent, ...], shared: Shared, where: str) -> UnitDraft:
    """What the draft has for a unit that needs it."""
    rows = rows_of(shared.drafts, extents)
    if rows is None or len(unit.scales) not in (0, sum(len(part.bits) for part in rows)):
        raise ContainerError(f"{where}: a unit needs a draft that is not there; the container is damaged")
    return UnitDraft(rows, unit.scales)
