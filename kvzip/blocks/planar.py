"""A block's payload by windows on planes, both directions side by side.

    tails       u8     1 if some stream ends in rows of zeros, then their number as a varint for each stream
    planes             for each plane: kind u8, then
                       0 raw        nothing
                       1 constant   value u8
                       2 continued  lanes_log2 u8, words varint, literals varint
                       3 fresh      the same, then the opening of its windows (see ``windows.model``)
    coded              for each plane of kind 2 or 3: states u32 a lane, words u16, literals
    raw                the planes of kind 0 one after the other, packed, without what the start states carry

Start states carry the last bytes of ``raw``: the first coded plane takes the last ``2 * lanes`` bytes that are there,
the next one those before, and so on; a plane that finds fewer takes none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.tally import Tally
from kvzip.coder.rans import MAX_LANES_LOG2, lanes_log2
from kvzip.errors import UnsupportedError
from kvzip.planes.split import Cut, Plane, cut, lay, pack, planes_of, promise, unpack
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block
from kvzip.windows import triggers
from kvzip.windows.model import Bytes, Coded, PlaneModel
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_varint

RAW, CONSTANT, CONTINUED, FRESH = range(4)
TOKENS_PER_CLASS = 16  # a block's streams get one class of channels per so many tokens, at most
WORTH, WORTH_MODELLED = 248, 253  # in 1/256 of a plane's width: what its sampled entropy must stay below
EMPTY = np.zeros(0, np.uint8)


class Planar:
    """The windows of a chain's planes between its blocks, and the two directions of coding a block with them."""

    def __init__(self, extent: Extent, parameters: Parameters, measure: bool, tally: Tally) -> None:
        self.extent, self.parameters, self.measure, self.tally = extent, parameters, measure, tally
        self.planes = planes_of(extent.dtype, extent.symbol_bits, not extent.opaque)
        self.turn = (extent.dtype.exponent, extent.dtype.mantissa)
        self.models: dict[int, PlaneModel] = {}
        self.coded: tuple[list[int], NDArray[np.int64], int] = [], np.zeros(0, np.int64), 0  # by ``encode``

    def encode(self, values: NDArray[Any], method: bytes = b"") -> bytes:
        """The payload, behind ``method``, for ``values`` (streams, tokens, channels)."""
        head = bytearray()
        found = cut(values, *self.turn, self.planes)
        tokens, symbols = found.tokens, found.symbols
        self._put_tails(values.shape[1], tokens, head)
        kinds = [self._kind(number, found) for number in range(len(self.planes))]
        packed = [pack(s, p.width) for s, p, kind in zip(symbols, self.planes, kinds, strict=True) if kind == RAW]
        raw = np.concatenate(packed) if packed else EMPTY
        sections: list[NDArray[Any]] = []
        for number, (kind, plane) in enumerate(zip(kinds, symbols, strict=True)):
            head.append(kind)
            if kind == CONSTANT:
                head.append(int(plane[0]))
            elif kind != RAW:
                carried = _carried(len(raw), len(plane))
                coded, opening = self._encode_plane(number, plane, values.shape, tokens, raw[len(raw) - carried :])
                raw = raw[: len(raw) - carried]
                head.append(coded.lanes_log2)
                put_varint(head, len(coded.words))
                put_varint(head, len(coded.literals))
                head += opening.data
                sections += [coded.states, coded.words, coded.literals]
        self.coded = kinds, tokens, values.shape[2]
        return b"".join([method, head, *(section.data for section in (*sections, raw))])

    def decode(self, cursor: Cursor, block: Block) -> NDArray[Any]:
        """The inverse of ``encode``: values (streams, tokens, channels). ContainerError on anything wrong."""
        shape = (block.streams, block.tokens, block.channels)
        tokens = self._read_tails(cursor, block)
        count = int(tokens.sum()) * block.channels
        plans = [self._read_plane(cursor, number, count, shape) for number in range(len(self.planes))]
        symbols, carried = self._decode_planes(cursor, plans, tokens, count)
        left = sum(_packed(count, p.width) for p, plan in zip(self.planes, plans, strict=True) if plan.kind == RAW)
        rest = np.frombuffer(cursor.take(left - sum(map(len, carried))), np.uint8)
        cursor.finish()
        raw = np.concatenate([rest, *reversed(carried)])
        flat = np.empty(count, np.dtype(f"<u{self.extent.itemsize}"))
        for number, (plane, plan) in enumerate(zip(self.planes, plans, strict=True)):
            if plan.kind == RAW:
                size = _packed(count, plane.width)
                if count * plane.width % 8 and int(raw[size - 1]) >> count * plane.width % 8:
                    raise cursor.damaged("has bits set in its padding")
                symbols[number] = unpack(raw[:size], plane.width, count)
                raw = raw[size:]
            elif plan.kind == CONSTANT:
                symbols[number] = np.full(count, plan.value, np.uint8)
            last = number == len(self.planes) - 1
            lay(symbols[number], plane.shift, flat, number == 0, *(self.turn if last else (0, 0)))
        self.coded = [plan.kind for plan in plans], tokens, block.channels
        if self.measure:
            self.account()
        return self._restore_tails(flat, tokens, shape)

    def promised(self, values: NDArray[Any]) -> int:
        """About the bytes that ``values`` would take: what a sample's planes have for order-0 entropy."""
        return int(promise(values.reshape(-1), *self.turn, self.planes) * values.size / 8)

    # -- parts of encode

    def _put_tails(self, tokens: int, kept: NDArray[np.int64], head: bytearray) -> None:
        """Say how many rows of zeros each stream of ``tokens`` ends in."""
        tails = [tokens - count for count in kept.tolist()]
        some = any(tails)
        head.append(some)
        for tail in tails if some else ():
            put_varint(head, tail)

    def _kind(self, number: int, found: Cut) -> int:
        """How a plane is coded in this block; a plane that leaves the windows loses its model."""
        kind = CONTINUED if number in self.models else FRESH
        if len(found.symbols[number]) == 0:
            kind = RAW
        elif found.constant[number]:
            kind = CONSTANT
        elif not _could_pay(self.planes[number], found.bits[number], found.sampled[number]):
            kind = RAW
        if kind < CONTINUED:
            self.close(number)
        return kind

    def _encode_plane(
        self, number: int, symbols: Bytes, shape: tuple[int, ...], tokens: NDArray[np.int64], carried: Bytes
    ) -> tuple[Coded, Bytes]:
        """Code a plane's symbols with its model, made now if there is none; return its opening too."""
        opening = EMPTY
        if number not in self.models:
            self.models[number] = self._new_model(number, shape)
            opening = self.models[number].open(symbols, tokens)
        return self.models[number].encode(symbols, tokens, carried, self.measure), opening

    # -- parts of decode

    def _read_tails(self, cursor: Cursor, block: Block) -> NDArray[np.int64]:
        """The number of coded tokens of each stream."""
        tokens = np.full(block.streams, block.tokens, np.int64)
        some = cursor.u8()
        if some > 1:
            raise cursor.damaged("says something impossible about its tails")
        if some:
            tokens -= [cursor.varint(block.tokens) for _ in range(block.streams)]
        return tokens

    def _read_plane(self, cursor: Cursor, number: int, count: int, shape: tuple[int, ...]) -> _PlanePlan:
        """A plane's entry in the head; opens its model if the entry says so."""
        plan = _PlanePlan(cursor.u8())
        if plan.kind == CONSTANT:
            plan.value = cursor.u8()
        if plan.kind > FRESH:
            raise UnsupportedError(f"{cursor.where} has a plane of kind {plan.kind}, unknown here; use a newer kvzip")
        if plan.value >> self.planes[number].width or (plan.kind == CONTINUED and number not in self.models):
            raise cursor.damaged("says something impossible about a plane")
        if plan.kind < CONTINUED:
            self.close(number)
            return plan
        plan.lanes_log2, plan.words, plan.literals = cursor.u8(), cursor.varint(count), cursor.varint(count)
        if plan.lanes_log2 > MAX_LANES_LOG2:
            raise cursor.damaged("has too many lanes")
        if plan.kind == FRESH:
            self.close(number)
            model = self._new_model(number, shape)
            model.reopen(np.frombuffer(cursor.take(model.opening.size), np.uint8).copy(), cursor.where)
            self.models[number] = model
        return plan

    def _decode_planes(
        self, cursor: Cursor, plans: list[_PlanePlan], tokens: NDArray[np.int64], count: int
    ) -> tuple[dict[int, Bytes], list[Bytes]]:
        """Symbols of the coded planes, and the raw bytes that their start states carried."""
        symbols: dict[int, Bytes] = {}
        carried: list[Bytes] = []
        left = sum(_packed(count, p.width) for p, plan in zip(self.planes, plans, strict=True) if plan.kind == RAW)
        for number, plan in enumerate(plans):
            if plan.kind < CONTINUED:
                continue
            coded = Coded(
                plan.lanes_log2,
                np.frombuffer(cursor.take(4 << plan.lanes_log2), "<u4"),
                np.frombuffer(cursor.take(2 * plan.words), "<u2"),
                np.frombuffer(cursor.take(plan.literals), np.uint8),
            )
            symbols[number], rode = self.models[number].decode(coded, tokens, cursor.where, self.measure)
            if count and self.planes[number].width < 8 and int(symbols[number].max()) >> self.planes[number].width:
                raise cursor.damaged("has a symbol that is too wide")
            if left >= len(rode):
                carried.append(rode)
                left -= len(rode)
            elif rode.any():
                raise cursor.damaged("carries bytes that belong nowhere")
        return symbols, carried

    def _restore_tails(
        self, flat: NDArray[Any], tokens: NDArray[np.int64], shape: tuple[int, int, int]
    ) -> NDArray[Any]:
        """Put the rows of zeros back at the ends of the streams."""
        if len(flat) == shape[0] * shape[1] * shape[2]:
            return flat.reshape(shape)
        values = np.zeros(shape, flat.dtype)
        at = 0
        for stream, count in enumerate(tokens.tolist()):
            values[stream, :count] = flat[at : at + count * shape[2]].reshape(count, shape[2])
            at += count * shape[2]
        return values

    # -- models

    def _new_model(self, number: int, shape: tuple[int, ...]) -> PlaneModel:
        """A model for a block of ``shape`` (streams, tokens, channels): few tokens carry few classes."""
        streams, tokens, channels = shape
        classes = self.classes(tokens, channels)
        return PlaneModel(streams, channels, classes, self.planes[number].fields, self.parameters)

    def classes(self, tokens: int, channels: int) -> int:
        """Classes of a stream: at most one for every so many tokens, and no more than there are channels."""
        most = 1 if self.extent.opaque else self.parameters.classes
        by_tokens = 1 << max(0, (tokens // TOKENS_PER_CLASS).bit_length() - 1)
        return min(most, by_tokens, 1 << (channels - 1).bit_length())

    def close(self, number: int | None = None) -> None:
        """Drop one model, or all, keeping their counters."""
        for n in [number] if number is not None else list(self.models):
            if n in self.models:
                self.tally.absorb(n, self.models.pop(n).states[:, triggers.COUNTERS])

    def account(self) -> None:
        """Add what the block coded last took."""
        kinds, tokens, channels = self.coded
        raw = [number for number, kind in enumerate(kinds) if kind == RAW]
        for number in raw:
            self.tally.raw[number] = self.tally.raw.get(number, 0) + int(tokens.sum()) * channels
        courses = self.tally.courses
        if courses is None:
            return
        models = [self.models[number] for number, kind in enumerate(kinds) if kind >= CONTINUED]
        width = sum(self.planes[number].width for number in raw)
        at = 0
        for stream, rows in enumerate(tokens.tolist()):
            bits = np.full((rows, channels), width << 8, np.int64)
            for model in models:
                bits += model.costs[at * channels : (at + rows) * channels].reshape(rows, channels)
                courses.happen(stream, np.arange(rows), model.events[at : at + rows])
            courses.add(stream, np.arange(rows), bits, 1 / 256)
            at += rows


@dataclass
class _PlanePlan:
    kind: int
    value: int = 0
    lanes_log2: int = 0
    words: int = 0
    literals: int = 0


def _carried(raw: int, symbols: int) -> int:
    """Bytes that ride in the start states of a run of ``symbols`` when ``raw`` bytes are left to carry."""
    lanes_bytes = 2 << lanes_log2(symbols)
    return lanes_bytes if raw >= lanes_bytes else 0


def _packed(count: int, width: int) -> int:
    """Bytes of ``count`` packed symbols."""
    return (count * width + 7) // 8


def _could_pay(plane: Plane, bits: int, sampled: int) -> bool:
    """Whether a sample's order-0 entropy is below the plane's width by enough to be worth coding."""
    if plane.modelled and plane.width < 8:
        return True
    return bits < sampled * plane.width * (WORTH_MODELLED if plane.modelled else WORTH)
