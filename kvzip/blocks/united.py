"""A unit's blocks: all streams of one layer, coded together by linear prediction, both directions side by side.

    method      u8          0 linear prediction: the payload of ``linear.layer``; 1 apart
    apart       for each extent of the unit: length varint | payload of ``blocks.codec``

A unit whose prediction does not pay goes apart, and stays so for the rest of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.codec import Around, Chain
from kvzip.errors import UnsupportedError
from kvzip.linear.columns import Rope as Turns
from kvzip.linear.layer import HALVES, LayerCoder
from kvzip.predict.prior import Prior
from kvzip.predict.rope import MAX_CHANNELS, Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_bytes

if TYPE_CHECKING:
    from kvzip.container.unit import Unit

LINEAR, APART = 0, 1
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

    def coder(self, bases: Sequence[int] = (), unit: Unit | None = None, measure: bool = False) -> LayerCoder:
        """A coder of these streams, given the columns of each base."""
        settings = unit.settings if unit else None
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


class UnitCoder:
    """One direction of a unit's blocks, which are coded in order."""

    def __init__(
        self,
        unit: Unit,
        shape: UnitShape,
        tokens: Occurrences | None,
        bases: list[tuple[UnitShape, Values]],
        parameters: Parameters,
        prior: Prior | None = None,
        measure: bool = False,
    ) -> None:
        self.unit, self.shape, self.bases = unit, shape, bases
        self.ids = tokens.slot if tokens is not None else None
        self.parameters, self.prior, self.measure = parameters, prior, measure
        self.chains = self._chains()  # one an extent: what codes it apart, and keeps its statistics
        self.apart = False
        self.columns = [base.coder() for base, _ in bases]
        self.coder = shape.coder([base.columns for base, _ in bases], unit, measure)
        self.noted = np.zeros(len(shape.kinds))  # bits of each stream that the statistics know of

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
            payload = bytes((LINEAR,)) + self.coder.encode(rows(values, start, stop), *self._around(start, stop))
            if len(payload) <= sum(chain.promised(part) for chain, part in zip(self.chains, parts, strict=True)):
                self._note(len(payload), parts)
                return payload
            self.apart = True
        out = bytearray((APART,))
        for chain, part in zip(self.chains, parts, strict=True):
            put_bytes(out, chain.encode(part))
        return bytes(out)

    def decode(self, payload: memoryview, number: int, values: Values, where: str) -> list[NDArray[Any]]:
        """Put block ``number`` into ``values``; return it as ``rows`` does."""
        start, stop = self.span(number)
        cursor = Cursor(payload, where)
        method = cursor.u8()
        if method > APART:
            raise UnsupportedError(f"{where} is coded by method {method}, unknown here; use a newer kvzip")
        if method == LINEAR:
            if self.apart:
                raise cursor.damaged("goes back to a prediction that was given up")
            rest = cursor.take(cursor.left)
            if bytes(rest[:1]) > bytes((HALVES,)):
                raise UnsupportedError(f"{where} is coded in mode {rest[0]}, unknown here; use a newer kvzip")
            block = self.coder.decode(rest, stop - start, *self._around(start, stop))
            for into, part in zip(rows(values, start, stop), block, strict=True):
                into[:] = part
            self._note(len(payload), [part[:, start:stop] for part in values])
            return block
        self.apart = True
        for chain, extent, into in zip(self.chains, self.shape.extents, values, strict=True):
            names = tuple(range(len(into)))
            piece = Block(0, names, stop - start, extent.axes[-1][1], False)
            into[:, start:stop] = chain.decode(cursor.take(cursor.varint(cursor.left)), piece, where)
        cursor.finish()
        return rows(values, start, stop)

    def _chains(self) -> list[Chain]:
        around = Around(prior=self.prior)
        return [Chain(extent, self.parameters, self.measure, around) for extent in self.shape.extents]

    def _note(self, payload: int, parts: Values) -> None:
        """Share a block's ``payload`` bytes out among the extents, for the statistics if anybody wants them."""
        if not self.measure:
            return
        spent = self.coder.spent()
        bits, self.noted = spent - self.noted, spent
        whole = sum(part.size for part in parts)
        at = 0
        for chain, part in zip(self.chains, parts, strict=True):
            own = bits[at : at + len(part)]
            at += len(part)
            chain.tally.spend("symbols", own)
            halves = np.full(len(part), 16.0 * part[0].size * (chain.extent.dtype.name == "F32"))
            if halves.any():
                chain.tally.spend("mantissa", halves)
            taken = (own.sum() + halves.sum()) / max(1.0, bits.sum() + 16.0 * whole * (halves.any()))
            chain.tally.payload += round(payload * taken)
            chain.tally.observe(np.ascontiguousarray(part), chain.extent.dtype)

    def records(self) -> list[tuple[Extent, Block, Chain]]:
        """For each extent what the statistics ask for."""
        return [
            (extent, Block(0, tuple(range(streams)), extent.tokens, extent.axes[-1][1], True), chain)
            for extent, streams, chain in zip(self.shape.extents, self.shape.streams, self.chains, strict=True)
        ]

    def _around(self, start: int, stop: int) -> tuple[NDArray[np.float32] | None, NDArray[np.int32] | None]:
        """The bases' columns and the tokens' ids for a block."""
        base = None
        if self.bases:
            pairs = zip(self.columns, self.bases, strict=True)
            parts = [columns.columns(rows(values, start, stop)) for columns, (_, values) in pairs]
            base = np.concatenate(parts, axis=1)
        return base, self.ids[start:stop] if self.ids is not None else None
