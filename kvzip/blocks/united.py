"""A unit's blocks: all streams of one layer, coded together by linear prediction, both directions side by side.

    method      u8          0 linear prediction: the payload of ``linear.layer``; 1 apart; 2 with the unit's draft
    apart       for each extent of the unit: length varint | payload of ``blocks.codec``
    drafted     same varint: rows at the start that are the draft's to the bit, in all extents
                close varint: rows after these that are coded relative to the draft
                if there are any: length varint | payload of ``linear.layer`` for these rows
                if rows are left: payload of ``linear.layer`` for them, predicted like any others, from the
                ``PRIMED`` rows before the first of them on

A unit whose prediction does not pay goes apart, and stays so for the rest of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.codec import Around, Chain
from kvzip.blocks.draft import UnitDraft, matches
from kvzip.blocks.drafted import PRIMED
from kvzip.errors import UnsupportedError
from kvzip.linear.settings import Settings
from kvzip.predict.prior import Prior
from kvzip.predict.rope import MAX_CHANNELS, Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_bytes, put_varint

if TYPE_CHECKING:
    from kvzip.container.unit import Unit
    from kvzip.linear.layer import LayerCoder

LINEAR, APART, DRAFTED = 0, 1, 2
Values = list[NDArray[Any]]
"""For each extent of a unit (streams, tokens, channels) of unsigned integers."""


class UnitShape:
    """The streams of a unit: their kinds, widths and rotation."""

    def __init__(self, extents: tuple[Extent, ...], rope: Rope | None) -> None:
        self.extents = extents
        self.kinds: list[str] = []
        self.channels: list[int] = []
        self.streams: list[int] = []
        for extent in extents:
            kinds = [name.kind for name in extent.stream_names()]
            self.streams.append(len(kinds))
            self.kinds += ["value" if kind == "value" else "key" for kind in kinds]
            self.channels += [extent.axes[-1][1]] * len(kinds)
        turns = None
        if rope is not None:
            from kvzip.linear.columns import Rope as Turns  # here and below: who codes no unit need not wait for it

            turns = Turns(
                np.array(rope.first, np.int64),
                np.array(rope.second, np.int64),
                np.array(rope.cos, np.float64),
                np.array(rope.sin, np.float64),
            )
        self.turns = [turns if kind == "key" else None for kind in self.kinds]

    @property
    def columns(self) -> int:
        """How many columns another unit's prediction gets of this one."""
        return sum(self.channels)

    @property
    def tokens(self) -> int:
        """Tokens of every stream."""
        return self.extents[0].tokens

    def coder(self, bases: Sequence[int] = (), settings: Settings | None = None, measure: bool = False) -> LayerCoder:
        """A coder of these streams, given the columns of each base."""
        from kvzip.linear.layer import LayerCoder

        return LayerCoder(
            self.extents[0].dtype, self.kinds, self.channels, self.turns, sum(bases), settings, measure, *bases[:1]
        )

    def empty(self) -> Values:
        """Room for a unit's values."""
        return [
            np.empty((streams, extent.tokens, extent.axes[-1][1]), f"<u{extent.itemsize}")
            for extent, streams in zip(self.extents, self.streams, strict=True)
        ]


def can_turn(extents: tuple[Extent, ...], rope: Rope) -> bool:
    """Whether every stream that a rope would rotate has the channels it names."""
    kinds = [{name.kind for name in extent.stream_names()} for extent in extents]
    widths = (extent.axes[-1][1] for extent, held in zip(extents, kinds, strict=True) if held != {"value"})
    return max((*rope.first, *rope.second), default=-1) < min(widths, default=MAX_CHANNELS)


def rows(values: Values, start: int, stop: int) -> list[NDArray[Any]]:
    """Tokens ``start`` to ``stop`` of every stream, as (tokens, channels)."""
    return [stream[start:stop] for part in values for stream in part]


def checked_bytes(block: list[NDArray[Any]]) -> NDArray[Any]:
    """What a block's check is taken of: its streams one after the other."""
    return np.concatenate([stream.reshape(-1) for stream in block])


Base = tuple[UnitShape, Values, UnitDraft | None]
"""A unit that another one is predicted from: its shape, its values, its draft."""


@dataclass
class _Side:
    """A coder of some of a unit's rows, and what makes the bases' columns for it."""

    coder: LayerCoder
    columns: list[LayerCoder]


class UnitCoder:
    """One direction of a unit's blocks, which are coded in order.

    ``bases`` are units before this one, each with its values and its draft.
    """

    def __init__(
        self,
        unit: Unit,
        shape: UnitShape,
        tokens: Occurrences | None,
        bases: list[Base],
        parameters: Parameters,
        prior: Prior | None = None,
        measure: bool = False,
        draft: UnitDraft | None = None,
    ) -> None:
        self.unit, self.shape, self.bases = unit, shape, bases
        self.draft = draft if unit.near is not None else None
        self.ids = tokens.slot if tokens is not None else None
        self.parameters, self.prior, self.measure = parameters, prior, measure
        self.chains = self._chains()  # one an extent: what codes it apart, and keeps its statistics
        self.apart = False
        self.near: _Side | None = None
        self.far: _Side | None = None
        self.costs: list[tuple[int, list[NDArray[np.float32]], bool]] = []  # see ``_take_costs``

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.shape.tokens // self.unit.step)

    def span(self, number: int) -> tuple[int, int]:
        """The tokens of a block."""
        start = number * self.unit.step
        return start, min(start + self.unit.step, self.shape.tokens)

    def encode(self, values: Values, number: int) -> bytes:
        """The payload of block ``number``; the bases' values must be there as far as it reaches."""
        start, stop = self.span(number)
        parts = [np.ascontiguousarray(part[:, start:stop]) for part in values]
        if not self.apart:
            payload = (
                self._encode_drafted(values, start, stop) if self.draft else self._encode_linear(values, start, stop)
            )
            if len(payload) <= sum(chain.promised(part) for chain, part in zip(self.chains, parts, strict=True)):
                self._note(len(payload), parts, start)
                return payload
            self.apart = True
            self.costs = []
        out = bytearray((APART,))
        for chain, part in zip(self.chains, parts, strict=True):
            put_bytes(out, chain.encode(part))
        return bytes(out)

    def decode(self, payload: memoryview, number: int, values: Values, where: str) -> list[NDArray[Any]]:
        """Put block ``number`` into ``values``; return it as ``rows`` does."""
        start, stop = self.span(number)
        cursor = Cursor(payload, where)
        method = cursor.u8()
        if method > DRAFTED:
            raise UnsupportedError(f"{where} is coded by method {method}, unknown here; use a newer kvzip")
        if method != APART:
            if self.apart or (method == DRAFTED) != (self.draft is not None):
                raise cursor.damaged("goes back to a prediction that was given up")
            if method == DRAFTED:
                self._decode_drafted(cursor, values, start, stop)
            else:
                self._decode_rows(cursor.take(cursor.left), values, start, stop, False, where)
            self._note(len(payload), [part[:, start:stop] for part in values], start)
            return rows(values, start, stop)
        self.apart = True
        for chain, extent, into in zip(self.chains, self.shape.extents, values, strict=True):
            names = tuple(range(len(into)))
            piece = Block(0, names, stop - start, extent.axes[-1][1], False)
            into[:, start:stop] = chain.decode(cursor.take(cursor.varint(cursor.left)), piece, where)
        cursor.finish()
        return rows(values, start, stop)

    def begin_again(self) -> None:
        """Forget all that blocks have left to the next ones."""
        self.chains, self.apart, self.near, self.far, self.costs = self._chains(), False, None, None, []

    def _encode_linear(self, values: Values, start: int, stop: int) -> bytes:
        return bytes((LINEAR,)) + self._encode_rows(values, start, stop, False)

    def _encode_drafted(self, values: Values, start: int, stop: int) -> bytes:
        assert self.draft is not None
        reached = min(stop, max(start, self.draft.tokens))
        block = [part[:, start:stop] for part in values]
        same = self.draft.same(block, self.shape.extents[0].dtype, start)
        out = bytearray((DRAFTED,))
        if not self.draft.pays:
            reached = start + same
        put_varint(out, same)
        put_varint(out, reached - start - same)
        if reached > start + same:
            put_bytes(out, self._encode_rows(values, start + same, reached, True))
        if stop > reached:
            self._prime(values, reached, b"")
            out += self._encode_rows(values, reached, stop, False)
        return bytes(out)

    def _decode_drafted(self, cursor: Cursor, values: Values, start: int, stop: int) -> None:
        assert self.draft is not None
        reached = min(stop, max(start, self.draft.tokens))
        same = cursor.varint(reached - start)
        own = self.shape.extents[0].dtype
        if same and (self.draft.scales or any(rows.dtype != own for rows in self.draft.extents)):
            raise cursor.damaged("takes values from a draft of another type")
        reached = start + same + cursor.varint(reached - start - same)
        for into, drafted in zip(values, self.draft.extents, strict=True):
            into[:, start : start + same] = drafted.bits[:, start : start + same]
        if reached > start + same:
            payload = cursor.take(cursor.varint(cursor.left))
            self._decode_rows(payload, values, start + same, reached, True, cursor.where)
        if stop > reached:
            payload = cursor.take(cursor.left)
            self._prime(values, reached, bytes(payload[:3]))
            self._decode_rows(payload, values, reached, stop, False, cursor.where)
        cursor.finish()

    def _encode_rows(self, values: Values, start: int, stop: int, near: bool) -> bytes:
        coder = self._side(near).coder
        payload = coder.encode(rows(values, start, stop), *self._around(start, stop, near))
        self._take_costs(coder, start)
        return payload

    def _decode_rows(
        self, payload: memoryview, values: Values, start: int, stop: int, near: bool, where: str
    ) -> None:
        from kvzip.linear.layer import HALVES

        if bytes(payload[:1]) > bytes((HALVES,)):
            raise UnsupportedError(f"{where} is coded in mode {payload[0]}, unknown here; use a newer kvzip")
        coder = self._side(near).coder
        block = coder.decode(payload, stop - start, *self._around(start, stop, near))
        self._take_costs(coder, start)
        for into, part in zip(rows(values, start, stop), block, strict=True):
            into[:] = part

    def _prime(self, values: Values, start: int, payload: bytes) -> None:
        """Let the prediction of rows that the draft does not reach learn from those before, if it has not begun."""
        if self.far is None and start:
            before = max(0, start - PRIMED)
            base, ids, _ = self._around(before, start, False)
            self._side(False).coder.learn(rows(values, before, start), base, ids, payload)

    def _side(self, near: bool) -> _Side:
        side = self.near if near else self.far
        if side is None:
            settings = self.unit.near if near else self.unit.settings
            assert settings is not None
            most = max(1, self.shape.tokens)  # there are no more names, and room for none is needed
            settings = replace(settings, slots=min(settings.slots, most))
            coder = self.shape.coder([base.columns for base, *_ in self.bases], settings, self.measure)
            side = _Side(coder, [base.coder() for base, *_ in self.bases])
            self.near, self.far = (side, self.far) if near else (self.near, side)
        return side

    def _chains(self) -> list[Chain]:
        around = Around(prior=self.prior)
        return [Chain(extent, self.parameters, self.measure, around) for extent in self.shape.extents]

    def _take_costs(self, coder: LayerCoder, start: int) -> None:
        """Keep what the values coded last took, from token ``start`` on, until it is known that they stay so."""
        if self.measure:
            self.costs.append((start, coder.costs(), coder.halved))

    def _note(self, payload: int, parts: Values, start: int) -> None:
        """Share a block's ``payload`` bytes out among the extents, for the statistics if anybody wants them."""
        if not self.measure:
            return
        costs, self.costs = self.costs, []
        whole = sum(float(bits.sum()) + 16.0 * bits.size * halved for _, run, halved in costs for bits in run)
        first = 0
        reached = min(parts[0].shape[1], max(0, self.draft.tokens - start)) if self.draft else 0
        drafted = self.draft.numbers(start, start + reached) if self.draft and reached else []
        for chain, part in zip(self.chains, parts, strict=True):
            streams = range(first, first + len(part))
            first += len(part)
            if drafted:
                numbers = np.stack([drafted[stream] for stream in streams])
                chain.tally.compare(matches(part[:, :reached], chain.extent.dtype, numbers))
            chain.chart(part.shape)
            own = np.zeros((2, len(part)))
            assert chain.tally.courses is not None
            chain.tally.courses.token = 0
            for at, run, halved in costs:
                tokens = np.arange(at, at + len(run[0]))
                for number, stream in enumerate(streams):
                    bits = run[stream] + np.float32(16 * halved)
                    chain.tally.courses.add(number, tokens, bits)
                    own[:, number] += float(run[stream].sum()), 16.0 * bits.size * halved
            chain.tally.courses.token = start + part.shape[1]
            chain.tally.spend("symbols", own[0])
            if own[1].any():
                chain.tally.spend("mantissa", own[1])
            chain.tally.payload += round(payload * own.sum() / max(1.0, whole))
            chain.tally.observe(np.ascontiguousarray(part), chain.extent.dtype)

    def records(self) -> list[tuple[Extent, Block, Chain]]:
        """For each extent what the statistics ask for."""
        return [
            (extent, Block(0, tuple(range(streams)), extent.tokens, extent.axes[-1][1], True), chain)
            for extent, streams, chain in zip(self.shape.extents, self.shape.streams, self.chains, strict=True)
        ]

    def _around(
        self, start: int, stop: int, near: bool
    ) -> tuple[NDArray[np.float32] | None, NDArray[np.int32] | None, list[NDArray[np.float32]] | None]:
        """The bases' columns, the tokens' ids and the draft for some rows."""
        base = None
        if self.bases:
            parts = []
            for columns, (_, values, draft) in zip(self._side(near).columns, self.bases, strict=True):
                drafted = draft.numbers(start, stop) if near and draft else None
                parts.append(columns.columns(rows(values, start, stop), drafted))
            base = np.concatenate(parts, axis=1)
        ids = self.ids[start:stop] if self.ids is not None else None
        return base, ids, self.draft.numbers(start, stop) if near and self.draft else None
