"""dump -> tensors -> (layer, head) streams -> planes -> windows -> range coder -> container."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.blocks.codec import Around, Chain
from kvzip.blocks.draft import DraftRows
from kvzip.blocks.prediction import Choice
from kvzip.container.shared import Shared, draft_payload, prior_payload
from kvzip.container.structures import DIRECTORY, DUMP, OTHER_FILE, RESIDUALS, SINGLE, BlockHead, Member, Start
from kvzip.container.writer import ContainerWriter
from kvzip.dumps.safetensors import Header, read_header
from kvzip.errors import DumpError, KvzipError
from kvzip.pipeline.choose import Chooser
from kvzip.pipeline.encode_unit import UnitEncoder
from kvzip.pipeline.encoded import Encoded
from kvzip.pipeline.options import PREDICTING, Options, Progress
from kvzip.pipeline.report import ChainRecord, Report
from kvzip.pipeline.schedule import ChainPool
from kvzip.pipeline.source import MemberInput
from kvzip.pipeline.units import PlannedUnit, plan_units
from kvzip.streams.describe import bytes_cache, extents_of, opaque_bytes
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block, blocks_of, gather, gather_whole, slabs


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
        if options.draft is not None:
            self.known.drafts, self.known.draft = options.draft, options.draft.parts()
            self.writer.shared(draft_payload(self.known.draft))
        self.units = UnitEncoder(options, self.known, observe)
        self.waiting: list[bytes] = []  # SHARED records that go before the next block
        self.chooser = Chooser(options, self.known, self.waiting.append)

    def add(self, source: MemberInput, pool: ChainPool[Encoded]) -> None:
        """Read a file to its end and append it."""
        header = read_header(source.file, source.where) if source.is_dump else None
        member = self._describe(source, header)
        self.writer.member(member)
        digest = xxhash.xxh3_128(member.header)
        self.chooser.find_tokens(source, member.extents)
        units = {unit.first: unit for unit in self._plan(member)}
        number = 0
        while number < len(member.extents):
            if number in units:
                self._unit(source, member, units[number], pool, digest)
                number += units[number].count
            else:
                self._extent(source, number, member.extents[number], pool, digest)
                number += 1
        self._write(pool.results(everything=True))
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
            raise DumpError(
                f"{source.where}: has {source.size} of the {size} bytes its header describes; "
                "the dump is incomplete, fetch it again"
            )
        if source.size is not None and source.size > size:
            raise DumpError(
                f"{source.where}: {source.size - size} bytes follow the data that the header describes; "
                "the file is damaged or no dump, write it again"
            )
        symbol_bits = self.options.parameters.symbol_bits
        path, layout = source.name or source.where, self.options.layout
        bytes_as = self.chooser.type_of_bytes(source, bytes_cache(header, path, layout))
        extents = extents_of(header, path, layout, symbol_bits, bytes_as)
        return Member(source.name, DUMP, size, header.raw, extents)

    def _plan(self, member: Member) -> list[PlannedUnit]:
        settings = self.options.unites
        return plan_units(member.extents, settings, self.chooser.unique) if settings else []

    def _unit(
        self, source: MemberInput, member: Member, planned: PlannedUnit, pool: ChainPool[Encoded], digest: Any
    ) -> None:
        """Read a layer and hand the blocks of its unit to the pool."""
        assert self.options.unites is not None
        extents = member.extents[planned.first : planned.first + planned.count]
        values = []
        for extent in extents:
            data = source.read(extent.nbytes)
            digest.update(data)
            values.append(gather_whole(extent, data))
        choice = self.chooser.choose_together(extents, values)
        opened = self.units.open(planned, extents, values, choice, self.options.unites)
        if self.observe:
            for number, seen in enumerate(opened.coder.records(), planned.first):
                self.report.chains.append(ChainRecord(self.report.members, number, *seen))
        pool.budget = max(pool.budget, 2 * planned.nbytes)
        for work, cost, last in opened.work(values, source.where):
            work.before = self._before()
            pool.submit((id(self), "unit", opened.number), cost, work, last)
            self._write(pool.results())

    def _extent(
        self, source: MemberInput, number: int, extent: Extent, pool: ChainPool[Encoded], digest: Any
    ) -> None:
        """Read an extent slab by slab and hand its blocks to the pool."""
        chains: dict[int, Chain] = {}
        checks: dict[int, Chain] = {}
        count = 0
        choice: Choice | None = None
        draft = self.known.drafts.rows(extent) if self.known.drafts else None
        for slab in slabs(extent, 1 << self.options.block_log2):
            data = source.read(slab.nbytes)
            digest.update(data)
            values = gather(extent, slab, data)
            blocks = blocks_of(extent, slab)
            if count == 0:
                names = tuple(name for block in blocks for name in block.names)
                if draft is not None and slab.nbytes == extent.nbytes and draft.has(values, extent.dtype):
                    choice = Choice(exact=True)
                elif draft is not None or self.options.level >= PREDICTING:
                    choice = self.chooser.choose(number, extent, values, extent.kinds(names))
            for block in blocks:
                chain = chains.get(block.chain) or self._open_chain(number, extent, block, chains, choice, draft)
                twin = (
                    checks.setdefault(block.chain, self._chain(extent, block, draft=draft))
                    if self.options.verify
                    else None
                )
                part = values[block.first : block.first + block.streams]
                work = _Encode(chain, twin, part, block, number, count, source.where, self._before())
                pool.submit((id(self), number, block.chain), chain.cost(block), work, block.last_of_chain)
                count += 1
                if block.last_of_chain:
                    chains.pop(block.chain), checks.pop(block.chain, None)
            self._write(pool.results())

    def _chain(
        self, extent: Extent, block: Block, choice: Choice | None = None, draft: DraftRows | None = None
    ) -> Chain:
        own = draft.of(block.names) if draft else None
        around = Around(extent.kinds(block.names), self.known.ropes, self.known.tokens, self.known.prior, own)
        return Chain(extent, self.options.parameters, self.observe, around, choice)

    def _open_chain(
        self,
        number: int,
        extent: Extent,
        block: Block,
        chains: dict[int, Chain],
        choice: Choice | None,
        draft: DraftRows | None,
    ) -> Chain:
        chain = chains[block.chain] = self._chain(extent, block, choice, draft)
        if self.observe:
            self.report.chains.append(ChainRecord(self.report.members, number, extent, block, chain))
        return chain

    def _before(self) -> tuple[bytes, ...]:
        """The SHARED records that the next block must follow."""
        records = tuple(self.waiting)
        self.waiting.clear()
        return records

    def _write(self, results: Iterable[Encoded]) -> None:
        for encoded in results:
            encoded.write(self.writer)
            self.done += encoded.nbytes
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
    before: tuple[bytes, ...]

    def __call__(self) -> Encoded:
        check = xxhash.xxh3_64_intdigest(np.ascontiguousarray(self.values).data)
        payload = self.chain.encode(self.values)
        if self.twin is not None:
            where = f"{self.where}: block {self.number} of tensor {self.extent}"
            if not np.array_equal(self.twin.decode(memoryview(payload), self.block, where), self.values):
                raise KvzipError(f"{where} did not survive --verify; the source is untouched, please report this")
        return Encoded(BlockHead(self.extent, self.number, check), payload, self.values.nbytes, self.before)


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
    with ChainPool[Encoded](options.threads, options.budget) as pool:
        for member in members:
            with member as source:
                compressor.add(source, pool)
    return compressor.close()
