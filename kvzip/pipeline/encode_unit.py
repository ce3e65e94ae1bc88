"""A layer's streams, coded together: from values to the work of its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xxhash

from kvzip.blocks.draft import UnitDraft, rows_of
from kvzip.blocks.drafted import LEAST_SHARED, Drafted, scales_to, try_both
from kvzip.blocks.prediction import Choice
from kvzip.blocks.united import UnitCoder, UnitShape, Values, checked_bytes, rows
from kvzip.container.shared import Shared
from kvzip.container.structures import BlockHead
from kvzip.container.unit import Unit
from kvzip.errors import KvzipError
from kvzip.linear.settings import Settings, drafted
from kvzip.pipeline.encoded import Encoded
from kvzip.pipeline.options import Options
from kvzip.pipeline.units import KeptUnit, PlannedUnit, forget, nearest
from kvzip.streams.extent import Extent


@dataclass
class UnitEncoder:
    """The units of a container so far; the last ones are kept for those that refer to them."""

    options: Options
    known: Shared
    observe: bool = False
    count: int = 0
    kept: dict[int, KeptUnit] = field(default_factory=dict)

    def open(
        self, planned: PlannedUnit, extents: tuple[Extent, ...], values: Values, choice: Choice, settings: Settings
    ) -> OpenUnit:
        """The next unit."""
        bases = nearest(self.kept, planned, settings)
        draft = self._draft(extents, values, choice)
        unit = Unit(
            planned.first,
            planned.count,
            choice.rope,
            choice.tokens,
            planned.step,
            max(planned.keep, settings.layers_back if settings.most_base else 0),
            tuple(self.count - base for base in bases),
            settings,
            drafted(settings, extents[0].dtype) if draft else None,
            draft.scales if draft else (),
        )
        shape = UnitShape(extents, self.known.ropes[choice.rope - 1] if choice.rope else None)
        tokens = self.known.tokens[choice.tokens - 1] if choice.tokens else None
        around = [(self.kept[base].shape, self.kept[base].values, self.kept[base].draft) for base in bases]
        parts = (unit, shape, tokens, around, self.options.parameters, self.options.prior)
        twin = (UnitCoder(*parts, draft=draft), shape.empty()) if self.options.verify else None
        self.kept[self.count] = KeptUnit(planned, shape, values, unit.keep, draft)
        opened = OpenUnit(self.count, planned, unit, UnitCoder(*parts, self.observe, draft), twin)
        self.count += 1
        forget(self.kept, self.count)
        return opened

    def _draft(self, extents: tuple[Extent, ...], values: Values, choice: Choice) -> UnitDraft | None:
        """What the draft has for a unit, if that helps."""
        rows = rows_of(self.known.drafts, extents)
        if rows is None:
            return None
        scales: list[float] = []
        sizes = np.zeros(2)
        start = UnitDraft(rows).same(values, extents[0].dtype, 0)
        for extent, part, own in zip(extents, rows, values, strict=True):
            kinds, known = extent.kinds(tuple(range(len(own)))), self.known
            trial = Drafted(
                extent, kinds, self.options.parameters, known.ropes, known.tokens, part, prior=known.prior
            )  # fmt: skip
            turned = any(kind != "value" for kind in kinds)
            sizes += try_both(trial, own, choice if turned else replace(choice, rope=0), start)
            fit = scales_to(own if own.dtype.itemsize < 4 else (own >> 16).astype("<u2"), trial.grid, part)
            scales += [1.0] * len(own) if fit is None or start >= LEAST_SHARED else fit.tolist()
        pays = bool(sizes[0] < choice.bar * sizes[1])
        if not pays and start < min(LEAST_SHARED, values[0].shape[1]):
            return None
        scaled = pays and any(scale != 1.0 for scale in scales)
        return UnitDraft(rows, tuple(scales) if scaled else (), pays)


@dataclass
class OpenUnit:
    """A unit about to be coded; ``twin`` decodes what was encoded, if that is to be verified."""

    number: int
    planned: PlannedUnit
    unit: Unit
    coder: UnitCoder
    twin: tuple[UnitCoder, Values] | None

    def work(self, values: Values, where: str) -> Iterator[tuple[_EncodeUnit, int, bool]]:
        """Each block's work, what it costs in memory, and whether it is the last."""
        for block in range(self.coder.blocks):
            start, stop = self.coder.span(block)
            cost = self.planned.nbytes * (stop - start) // self.planned.tokens
            yield _EncodeUnit(self, values, block, where), cost, block + 1 == self.coder.blocks


@dataclass
class _EncodeUnit:
    """The work of one block of a unit: runs on a pool thread."""

    opened: OpenUnit
    values: Values
    number: int
    where: str
    before: tuple[bytes, ...] = ()

    def __call__(self) -> Encoded:
        opened = self.opened
        data: Any = checked_bytes(rows(self.values, *opened.coder.span(self.number)))
        payload = opened.coder.encode(self.values, self.number)
        if opened.twin is not None:
            coder, room = opened.twin
            where = f"{self.where}: block {self.number} of the unit at {opened.unit.first}"
            if not np.array_equal(checked_bytes(coder.decode(memoryview(payload), self.number, room, where)), data):
                raise KvzipError(f"{where} did not survive --verify; the source is untouched, please report this")
        head = BlockHead(opened.unit.first, self.number, xxhash.xxh3_64_intdigest(data.data))
        return Encoded(head, payload, data.nbytes, self.before, opened.unit)
