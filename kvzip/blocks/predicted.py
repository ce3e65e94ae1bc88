"""A block's payload where values are coded relative to predictions, both directions side by side.

    kind        u8          0 goes on with the chain's prediction, 1 starts it
    tail        varint      how many rows of zeros at the end of all streams are left out
    if kind is 1:
        flags   u8          1 rows that came before are left out; 2 streams are coded together
        energy  u8          groups of sixteen channels between two looks at a token's energy; 0: never
        if flags has 2:
            together u8     how many of them, each a row behind the one before it: 2 to 16
        rope    varint      0 none, else 1 + its number: the streams of keys and latents are rotated by it
        tokens  varint      0 none, else 1 + the number of the record of repeated tokens
        scales  i8[2]       for each stream, see ``predict.model.scales_of``
    lanes_log2 u8 | words varint | literals varint
    states u32 a lane | words u16 | literals, as wide as the predicted part of a value | raw

``raw`` holds the low 16 bits of F32 values, whose upper half is predicted; its last bytes ride in the start states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.prediction import (
    CONTINUED,
    MOST_TOGETHER,
    STARTED,
    Choice,
    Prediction,
    even_share,
    put_run,
    read_scales,
    take_run,
    zero_rows,
)
from kvzip.blocks.tally import Tally
from kvzip.coder import rans
from kvzip.predict.model import ResidualModel, scales_of
from kvzip.predict.prior import Prior
from kvzip.predict.rope import Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_varint

UNIQUE, TOGETHER = 1, 2  # flags


class Predicted(Prediction):
    """The prediction of a chain between its blocks, and the two directions of coding a block by it."""

    def __init__(
        self,
        extent: Extent,
        kinds: tuple[str, ...],
        parameters: Parameters,
        ropes: Sequence[Rope],
        tokens: Sequence[Occurrences],
        measure: bool = False,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(extent, kinds, parameters, ropes, tokens, measure, prior)
        self.choice = Choice()
        self.model: ResidualModel | None = None
        self.seen: Occurrences | None = None
        self.store = np.zeros((0, 0, 0), np.uint16)

    def encode(self, values: NDArray[Any], choice: Choice, method: bytes = b"") -> bytes:
        """The payload, behind ``method``, for ``values`` (streams, tokens, channels).

        ``choice`` is used if nothing was begun.
        """
        streams, tokens, channels = values.shape
        tail = zero_rows(values)
        rows = values[:, : tokens - tail]
        low, top = self._halves(rows)
        out = bytearray((CONTINUED if self.model else STARTED,))
        put_varint(out, tail)
        if self.model is None:
            scales = scales_of(top, self.grid) if top.size else np.zeros((streams, 2), np.int8)
            self._start(replace(choice, together=even_share(streams, choice.together)), channels, scales)
            flags = choice.unique * UNIQUE | (self.choice.together > 1) * TOGETHER
            out += bytes((flags, choice.energy))
            if flags & TOGETHER:
                out.append(self.choice.together)
            put_varint(out, choice.rope)
            put_varint(out, choice.tokens)
            out += scales.tobytes()
        assert self.model is not None
        kept, seen = self._kept(rows.shape[1])
        chosen = self._ordered(top[:, kept] if kept is not None else top)
        raw = low.reshape(-1).view(np.uint8)
        lanes = 2 << rans.lanes_log2(chosen.size >> 1)
        carried = raw[len(raw) - lanes :] if len(raw) >= lanes else raw[:0]
        coded = self.model.encode(chosen.reshape(-1), chosen.shape[1], seen, carried, self.measure)
        self._chart(self.model, np.arange(rows.shape[1]) if kept is None else np.flatnonzero(kept))
        self.token += tokens
        out += put_run(coded)
        left = raw[: len(raw) - len(carried)]
        return b"".join([method, out, *(part.data for part in (coded.states, coded.words, coded.literals, left))])

    def decode(self, cursor: Cursor, shape: tuple[int, int, int], first: bool = True) -> NDArray[Any]:
        """The inverse of ``encode``: values of ``shape`` (streams, tokens, channels).

        Only in a chain's ``first`` block may a prediction start.
        """
        streams, tokens, channels = shape
        kind = cursor.u8()
        if kind > STARTED or (kind == CONTINUED and self.model is None):
            raise cursor.damaged("goes on with a prediction that was not begun")
        if kind == STARTED and not first:
            raise cursor.damaged("starts a prediction in the middle")
        count = tokens - cursor.varint(tokens)
        if kind == STARTED:
            self._start(*self._read_start(cursor, streams, channels))
        assert self.model is not None
        kept, seen = self._kept(count)
        rows = count if kept is None else int(kept.sum())
        size = streams * rows * channels
        coded = take_run(cursor, self.grid, size)
        width = coded.literals.dtype
        flat, rode = self.model.decode(coded, width, rows, seen, cursor.where, self.measure)
        self._chart(self.model, np.arange(count) if kept is None else np.flatnonzero(kept))
        top = self._recalled(self._disordered(flat.reshape(streams, rows, channels)), kept, count)
        values = np.zeros(shape, np.dtype(f"<u{self.extent.itemsize}"))
        values[:, :count] = top
        left = 2 * size if self.halved else 0
        if left >= len(rode):
            raw = np.concatenate([np.frombuffer(cursor.take(left - len(rode)), np.uint8), rode])
        elif rode.any():
            raise cursor.damaged("carries bytes that belong nowhere")
        else:
            raw = np.frombuffer(cursor.take(left), np.uint8)
        cursor.finish()
        if self.halved:
            values[:, :count] = (values[:, :count] << 16) | raw.view("<u2").reshape(streams, rows, channels)
        self.token += tokens
        return values

    def report_to(self, tally: Tally) -> None:
        """Add what was done so far."""
        if self.model is None:
            return
        self._report_model(self.model, tally)
        if self.halved:
            tally.spend("mantissa", np.full(len(self.kinds), 16.0 * self.token * self.model.channels))

    # -- parts of both directions

    def _start(self, choice: Choice, channels: int, scales: NDArray[np.int8]) -> None:
        self.choice = choice
        self.seen = self.tokens[choice.tokens - 1] if choice.tokens else None
        self._take_order(choice, channels)
        if choice.unique:
            slots = self.seen.slots if self.seen is not None else 0
            self.store = np.zeros((len(self.kinds), slots, channels), np.dtype(f"<u{self.grid.bits // 8}"))
        self.model = self._new_model(choice, channels, scales, None if choice.unique else self.seen)

    def _kept(self, count: int) -> tuple[NDArray[np.bool_] | None, Occurrences]:
        """Which of the next ``count`` rows are coded (None for all), and what is known of their tokens."""
        if self.seen is None:
            return None, Occurrences.none(count)
        part = self.seen.part(self.token, self.token + count)
        if self.choice.unique:
            kept = part.times == 0
            return kept, Occurrences.none(int(kept.sum()))
        return None, part

    def _remember(self, top: NDArray[Any], count: int) -> None:
        """Keep the first rows of tokens that will repeat."""
        if self.choice.unique and self.seen is not None:
            part = self.seen.part(self.token, self.token + count)
            first = (part.times == 0) & (part.slot >= 0)
            self.store[:, part.slot[first]] = top[:, first]

    def _recalled(self, top: NDArray[Any], kept: NDArray[np.bool_] | None, count: int) -> NDArray[Any]:
        """The coded rows with those between them that came before."""
        if kept is None or self.seen is None:
            return top
        out = np.empty((top.shape[0], count, top.shape[2]), top.dtype)
        out[:, kept] = top
        self._remember(out, count)
        out[:, ~kept] = self.store[:, self.seen.slot[self.token : self.token + count][~kept]]
        return out

    def _disordered(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[:, :, self.order] = values
        return out

    def _halves(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The low part of the values, empty but for F32, and the part that is predicted."""
        if not self.halved:
            return values[:, :, :0], values
        return (values & 0xFFFF).astype("<u2"), self._top(values)

    def _read_start(self, cursor: Cursor, streams: int, channels: int) -> tuple[Choice, int, NDArray[np.int8]]:
        """What ``encode`` wrote where a prediction starts."""
        flags, energy = cursor.u8(), cursor.u8()
        together = cursor.u8() if flags & TOGETHER else 1
        rope, tokens = cursor.varint(len(self.ropes)), cursor.varint(len(self.tokens))
        scales = read_scales(cursor, streams)
        unique = bool(flags & UNIQUE)
        alone = flags & TOGETHER and not 2 <= together <= min(streams, MOST_TOGETHER)
        if flags & ~(UNIQUE | TOGETHER) or alone or (unique and (self.halved or not tokens)):
            raise cursor.damaged("starts a prediction in an impossible way")
        self._require_known(cursor, rope, tokens, channels)
        return Choice(rope, tokens, unique, energy, together), channels, scales
