"""dump -> tensors -> (layer, head) streams -> planes -> windows -> range coder -> container."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.blocks.codec import Around, Chain
from kvzip.blocks.predicted import Choice
from kvzip.blocks.united import UnitCoder, UnitShape, Values, can_turn, checked_bytes, rows
from kvzip.container.structures import DIRECTORY, DUMP, OTHER_FILE, RESIDUALS, SINGLE, BlockHead, Member, Start
from kvzip.container.shared import Shared, prior_payload, rope_payload, tokens_payload
from kvzip.container.unit import Unit
from kvzip.container.writer import ContainerWriter
from kvzip.dumps.safetensors import Header, TensorEntry, read_header
from kvzip.errors import DumpError, KvzipError
from kvzip.pipeline.options import Options, Progress
from kvzip.pipeline.schedule import ChainPool
from kvzip.pipeline.survey import (
    BYTES_SAMPLE,
    MOST_AHEAD,
    Prefixed,
    accepts_tokens,
    rope_given,
    rope_of,
    token_source,
    tokens_of,
    type_of_bytes,
)
from kvzip.pipeline.units import KeptUnit, PlannedUnit, forget, nearest, plan_units
from kvzip.predict.grid import grid_of
from kvzip.predict.rope import Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.describe import bytes_cache, extents_of, opaque_bytes
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block, blocks_of, gather, gather_whole, slabs


@dataclass
class MemberInput:
    """A file to compress: its bytes from the start, how to name it, and its size where the header does not say."""

    file: BinaryIO
    where: str  # for messages
    name: str = ""  # in the container
    size: int | None = None
    is_dump: bool = True


@dataclass
class ChainRecord:
    """What a finished chain leaves behind for the statistics."""

    member: int
    number: int  # of the extent in its member
    extent: Extent
    block: Block
    chain: Chain


@dataclass
class Report:
    """What a run did: bytes of the source, bytes of the container; chains if they were asked for."""

    source_bytes: int = 0
    container_bytes: int = 0
    members: int = 0
    chains: list[ChainRecord] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Source bytes per container byte."""
        return self.source_bytes / max(1, self.container_bytes)


Coded = tuple[BlockHead, bytes, int, Unit | None]


class Compressor:
    """One container in the making. ``observe`` keeps every chain, with code lengths, in the report."""

    def __init__(
        self,
        out: BinaryIO,
        options: Options,
        *,
        directory: bool,
        progress: Progress | None,
        observe: bool = False,
    ) -> None:
        residuals = options.prior.identity if options.prior else RESIDUALS
        source = DIRECTORY if directory else SINGLE
        start = Start(source, options.block_log2, options.level, options.parameters, residuals=residuals)
        self.options, self.progress, self.observe = options, progress, observe
        self.writer = ContainerWriter(out, start)
        self.report = Report()
        self.done = 0  # bytes of values written as blocks
        self.known = Shared(prior=options.prior)
        if options.prior and options.embed_prior:
            self.writer.shared(prior_payload(options.prior))
        self.units = 0  # the number of the next unit
        self.kept: dict[int, KeptUnit] = {}  # units that later ones may refer to
        self.unique: int | None = None  # the extent whose rows are the tokens themselves

    def add(self, source: MemberInput, pool: ChainPool[Coded]) -> None:
        """Read a file to its end and append it."""
        header = read_header(source.file, source.where) if source.is_dump else None
        member = self._describe(source, header)
        self.writer.member(member)
        digest = xxhash.xxh3_128(member.header)
        self._find_tokens(source, member)
        units = {unit.first: unit for unit in self._plan(member)}
        number = 0
        while number < len(member.extents):
            if number in units:
                self._unit(source, member, units[number], pool, digest)
                number += units[number].count
            else:
                self._extent(source, number, member.extents[number], pool, digest)
                number += 1
        for coded in pool.results(everything=True):
            self._write(coded)
        if source.file.read(1):
            raise DumpError(
                f"{source.where}: more bytes follow than the header describes ({member.size}); "
                "the file is damaged or no dump, write it again"
            )
        self.report.source_bytes += member.size
        self.report.members += 1
        self.writer.end_member(digest.digest())

    def close(self) -> Report:
        """End the container."""
        self.writer.close()
        self.report.container_bytes = self.writer.written
        return self.report

    def _describe(self, source: MemberInput, header: Header | None) -> Member:
        if header is None:
            size = source.size or 0
            return Member(source.name, OTHER_FILE, size, b"", opaque_bytes(size))
        size = len(header.raw) + header.data_size
        if source.size is not None and source.size < size:
            raise _cut(source.where, source.size, size)
        if source.size is not None and source.size > size:
            raise DumpError(
                f"{source.where}: {source.size - size} bytes follow the data that the header describes; "
                "the file is damaged or no dump, write it again"
            )
        symbol_bits = self.options.parameters.symbol_bits
        path, layout = source.name or source.where, self.options.layout
        bytes_as = self._look_at_bytes(source, bytes_cache(header, path, layout))
        extents = extents_of(header, path, layout, symbol_bits, bytes_as)
        return Member(source.name, DUMP, size, header.raw, extents)

    def _look_at_bytes(self, source: MemberInput, entry: TensorEntry | None) -> str:
        """What the bytes of a U8 cache are, by a sample of the tensor ``entry``."""
        if entry is None or entry.start + BYTES_SAMPLE > MOST_AHEAD:
            return "F8_E4M3"
        prefix = _read(source, min(entry.stop, entry.start + BYTES_SAMPLE))
        source.file = Prefixed(prefix, source.file)  # type: ignore[assignment]
        return type_of_bytes(np.frombuffer(memoryview(prefix)[entry.start :], np.uint8))

    def _find_tokens(self, source: MemberInput, member: Member) -> None:
        """Read ahead to the extent that tells the tokens, and write their record."""
        number = token_source(member.extents) if self.options.recalls else None
        self.unique = None
        if number is None:
            return
        ahead = sum(extent.nbytes for extent in member.extents[: number + 1])
        if ahead > MOST_AHEAD:
            return
        extent = member.extents[number]
        prefix = _read(source, ahead)
        source.file = Prefixed(prefix, source.file)  # type: ignore[assignment]
        ids, whole = tokens_of(extent, memoryview(prefix)[ahead - extent.nbytes :])
        if ids is not None:
            self.known.tokens.append(Occurrences.of(ids))
            self.writer.shared(tokens_payload(ids))
            self.unique = number if whole and extent.dtype.name != "F32" else None

    def _choose(self, number: int, extent: Extent, values: NDArray[Any], kinds: tuple[str, ...]) -> Choice | None:
        """How to predict an extent, from the streams of its first slab; writes the records this needs."""
        if not self.options.predicts or extent.opaque or grid_of(extent.dtype) is None:
            return None
        rope = None
        if self.options.rope is not None and any(kind != "value" for kind in kinds):
            rope = rope_given(self.options.rope, extent)
        elif self.options.rope is None:
            rope = rope_of(extent, values, kinds, self.known.ropes)
        tokens = len(self.known.tokens)
        if not tokens or not accepts_tokens(extent, len(self.known.tokens[-1].slot)):
            tokens = 0
        return Choice(self._rope_number(rope), tokens, unique=bool(tokens) and number == self.unique)

    def _rope_number(self, rope: Rope | None) -> int:
        if rope is None or not rope.first:
            return 0
        if rope not in self.known.ropes:
            self.known.ropes.append(rope)
            self.writer.shared(rope_payload(rope))
        return self.known.ropes.index(rope) + 1

    def _plan(self, member: Member) -> list[PlannedUnit]:
        settings = self.options.unites
        return plan_units(member.extents, settings.layers_back if settings.most_base else 0) if settings else []

    def _unit(
        self, source: MemberInput, member: Member, planned: PlannedUnit, pool: ChainPool[Coded], digest: Any
    ) -> None:
        """Read a layer and hand the blocks of its unit to the pool."""
        assert self.options.unites is not None
        extents = member.extents[planned.first : planned.first + planned.count]
        values = []
        for extent in extents:
            data = _read(source, extent.nbytes)
            digest.update(data)
            values.append(gather_whole(extent, data))
        choice = None
        for extent, part in zip(extents, values, strict=True):
            names = tuple(range(len(part)))
            found = self._choose(-1, extent, part, extent.kinds(names))
            choice = found if choice is None or (found and found.rope) else choice
        assert choice is not None
        rope = self.known.ropes[choice.rope - 1] if choice.rope else None
        if rope is not None and not can_turn(extents, rope):
            choice, rope = replace(choice, rope=0), None
        settings = self.options.unites
        back = settings.layers_back if settings.most_base else 0
        bases = nearest(self.kept, planned, back)
        unit = Unit(
            planned.first,
            planned.count,
            choice.rope,
            choice.tokens,
            planned.step,
            max(planned.keep, back),
            tuple(self.units - base for base in bases),
            settings,
        )
        shape = UnitShape(extents, rope)
        tokens = self.known.tokens[choice.tokens - 1] if choice.tokens else None
        around = [(self.kept[base].shape, self.kept[base].values) for base in bases]
        coder, twin = (
            UnitCoder(unit, shape, tokens, around, self.options.parameters, self.options.prior) for _ in range(2)
        )
        verified = (twin, shape.empty()) if self.options.verify else None
        self.kept[self.units] = KeptUnit(planned, shape, values, unit.keep)
        pool.budget = max(pool.budget, 2 * planned.nbytes)
        for block in range(coder.blocks):
            work = _EncodeUnit(coder, verified, values, block, source.where, unit)
            start, stop = coder.span(block)
            cost = planned.nbytes * (stop - start) // planned.tokens
            pool.submit((id(self), "unit", self.units), cost, work, block + 1 == coder.blocks)
            for coded in pool.results():
                self._write(coded)
        self.units += 1
        forget(self.kept, self.units)

    def _extent(self, source: MemberInput, number: int, extent: Extent, pool: ChainPool[Coded], digest: Any) -> None:
        """Read an extent slab by slab and hand its blocks to the pool."""
        chains: dict[int, Chain] = {}
        checks: dict[int, Chain] = {}
        count = 0
        choice: Choice | None = None
        for slab in slabs(extent, 1 << self.options.block_log2):
            data = _read(source, slab.nbytes)
            digest.update(data)
            values = gather(extent, slab, data)
            blocks = blocks_of(extent, slab)
            if count == 0:
                names = tuple(name for block in blocks for name in block.names)
                choice = self._choose(number, extent, values, extent.kinds(names))
            for block in blocks:
                chain = chains.get(block.chain) or self._open_chain(number, extent, block, chains, choice)
                twin = checks.setdefault(block.chain, self._chain(extent, block)) if self.options.verify else None
                part = values[block.first : block.first + block.streams]
                work = _Encode(chain, twin, part, block, number, count, source.where)
                pool.submit((id(self), number, block.chain), chain.cost(block), work, block.last_of_chain)
                count += 1
                if block.last_of_chain:
                    chains.pop(block.chain), checks.pop(block.chain, None)
            for coded in pool.results():
                self._write(coded)

    def _chain(self, extent: Extent, block: Block, choice: Choice | None = None) -> Chain:
        around = Around(extent.kinds(block.names), self.known.ropes, self.known.tokens, self.known.prior)
        return Chain(extent, self.options.parameters, self.observe, around, choice)

    def _open_chain(
        self, number: int, extent: Extent, block: Block, chains: dict[int, Chain], choice: Choice | None
    ) -> Chain:
        chain = chains[block.chain] = self._chain(extent, block, choice)
        if self.observe:
            self.report.chains.append(ChainRecord(self.report.members, number, extent, block, chain))
        return chain

    def _write(self, coded: Coded) -> None:
        head, payload, nbytes, unit = coded
        if unit is not None and head.number == 0:
            self.writer.unit(unit)
        self.writer.block(head, payload, unit is not None)
        self.done += nbytes
        if self.progress:
            self.progress(self.done, self.writer.written)


@dataclass
class _Encode:
    """The work of one block: runs on a pool thread."""

    chain: Chain
    twin: Chain | None
    values: NDArray[Any]
    block: Block
    extent: int
    number: int
    where: str

    def __call__(self) -> Coded:
        check = xxhash.xxh3_64_intdigest(np.ascontiguousarray(self.values).data)
        payload = self.chain.encode(self.values)
        if self.twin is not None:
            where = f"{self.where}: block {self.number} of tensor {self.extent}"
            if not np.array_equal(self.twin.decode(memoryview(payload), self.block, where), self.values):
                raise KvzipError(f"{where} did not survive --verify; the source is untouched, please report this")
        return BlockHead(self.extent, self.number, check), payload, self.values.nbytes, None


@dataclass
class _EncodeUnit:
    """The work of one block of a unit."""

    coder: UnitCoder
    twin: tuple[UnitCoder, Values] | None
    values: Values
    number: int
    where: str
    unit: Unit

    def __call__(self) -> Coded:
        data = checked_bytes(rows(self.values, *self.coder.span(self.number)))
        check = xxhash.xxh3_64_intdigest(data.data)
        payload = self.coder.encode(self.values, self.number)
        if self.twin is not None:
            coder, room = self.twin
            where = f"{self.where}: block {self.number} of the unit at {self.unit.first}"
            if not np.array_equal(checked_bytes(coder.decode(memoryview(payload), self.number, room, where)), data):
                raise KvzipError(f"{where} did not survive --verify; the source is untouched, please report this")
        return BlockHead(self.unit.first, self.number, check), payload, data.nbytes, self.unit


def _read(source: MemberInput, count: int) -> bytearray:
    """Exactly ``count`` bytes of a file."""
    data = bytearray(count)
    view = memoryview(data)
    got = 0
    while got < count:
        step = source.file.readinto(view[got:])  # type: ignore[attr-defined]
        if not step:
            raise DumpError(f"{source.where}: ends {count - got} bytes early; the dump is incomplete, fetch it again")
        got += step
    return data


def _cut(where: str, size: int, whole: int) -> DumpError:
    return DumpError(
        f"{where}: has {size} of the {whole} bytes its header describes; the dump is incomplete, fetch it again"
    )


def compress_members(
    members: Iterable[AbstractContextManager[MemberInput]],
    out: BinaryIO,
    options: Options,
    *,
    directory: bool = False,
    progress: Progress | None = None,
    observe: bool = False,
) -> Report:
    """Compress files, one after the other, into one container written to ``out`` in one pass."""
    compressor = Compressor(out, options, directory=directory, progress=progress, observe=observe)
    with ChainPool[Coded](options.threads, options.budget) as pool:
        for member in members:
            with member as source:
                compressor.add(source, pool)
    return compressor.close()
