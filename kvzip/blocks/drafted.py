"""A block's payload where values are coded relative to a draft, both directions side by side.

    kind        u8          0 goes on with the chain's prediction, 1 starts it
    tail        varint      how many rows of zeros at the end of all streams are left out
    if kind is 1:
        flags   u8          1 the draft is scaled
        energy  u8          as in ``blocks.predicted``, like the next three
        together u8         1 to 16
        rope    varint
        tokens  varint
        if flags has 1: f32 for each stream, what the draft is multiplied by
    same        varint      rows at the start that are the draft's to the bit: nothing follows for them
    close       varint      rows after these whose difference from the draft is predicted
    near                    these rows, if there are any
    far                     the rows that are left, if any are, predicted like any others
    raw                     the low 16 bits of F32 values

    near, far: i8[2] for each stream where its prediction starts, see ``predict.model.scales_of``; then
    lanes_log2 u8 | words varint | literals varint | states u32 a lane | words u16 | literals

The far rows' prediction learns from the ``PRIMED`` rows before the first of them, whichever way they were coded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.draft import DraftRows, matches
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
from kvzip.coder import aligned
from kvzip.coder.lanes import WIDTH
from kvzip.predict.grid import Grid
from kvzip.predict.model import SCALE_ROWS, Coded, ResidualModel, number_table, scales_of
from kvzip.predict.nearness import distances, fit
from kvzip.predict.prior import Prior
from kvzip.predict.rope import Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_varint

SCALED = 1
PRIMED = 512  # rows that the far rows' prediction learns from before the first of them
TRIAL_ROWS, TRIAL_STREAMS = 192, 1  # coded both ways, to see whether a draft helps
OBVIOUS_ROWS, OBVIOUS = 64, 1 / 64
LEAST_SHARED = 16  # rows at the start that are the draft's, or all, for it to be used whatever follows
LEAST_SCALE, MOST_SCALE = 2.0**-60, 2.0**60


@dataclass
class _Side:
    """One of the two predictions, and the occurrences of tokens since it began."""

    model: ResidualModel
    began: int
    seen: Occurrences | None

    def part(self, start: int, stop: int) -> Occurrences:
        """What is known of tokens ``start`` to ``stop``."""
        if self.seen is None:
            return Occurrences.none(stop - start)
        return self.seen.part(start - self.began, stop - self.began)


class Drafted(Prediction):
    """The two predictions of a chain between its blocks, and the two directions of coding a block by them."""

    def __init__(
        self,
        extent: Extent,
        kinds: tuple[str, ...],
        parameters: Parameters,
        ropes: Sequence[Rope],
        tokens: Sequence[Occurrences],
        draft: DraftRows,
        measure: bool = False,
        prior: Prior | None = None,
    ) -> None:
        super().__init__(extent, kinds, parameters, ropes, tokens, measure, prior)
        self.draft = draft
        self.choice: Choice | None = None
        self.scales: NDArray[np.float32] | None = None
        self.near: _Side | None = None
        self.far: _Side | None = None
        self.past = np.zeros((len(kinds), 0, 0), np.uint16)  # the last rows, for the far ones to learn from
        self.pays: bool | None = None  # the encoder's: whether rows that are not the same are relative to the draft
        self.same: int | None = None  # the encoder's: what ``_same`` says of the next block, if that is known
        self.low = 0  # values of a stream whose lower halves were stored
        self.matched = np.zeros((len(kinds), 2), np.int64)  # see ``draft.matches``, if measured

    def encode(self, values: NDArray[Any], choice: Choice, method: bytes = b"") -> bytes:
        """The payload, behind ``method``, for ``values`` (streams, tokens, channels)."""
        streams, tokens, channels = values.shape
        tail = zero_rows(values)
        count = tokens - tail
        rows = values[:, :count]
        out = bytearray((CONTINUED if self.choice else STARTED,))
        put_varint(out, tail)
        same = min(count, self.same) if self.same is not None else self._same(rows)
        self.same = None
        if self.choice is None:
            scales = None if same >= LEAST_SHARED else scales_to(self._top(rows), self.grid, self.draft)
            choice = replace(choice, unique=False, together=even_share(streams, choice.together))
            self._start(choice, channels, scales)
            out += bytes((SCALED if scales is not None else 0, choice.energy, self._chosen.together))
            put_varint(out, choice.rope)
            put_varint(out, choice.tokens)
            out += b"" if scales is None else scales.astype("<f4").tobytes()
        same = 0 if self.scales is not None else same
        reached = self._reached(count)
        if self.pays is None and reached > same:
            near, far = try_both(self, rows, choice, same)
            self.pays = near < choice.bar * far
        close = reached - same if self.pays else 0
        put_varint(out, same)
        put_varint(out, close)
        parts: list[Any] = [method, out]
        top = self._top(rows)
        if close:
            parts += self._encode_side(top, same, same + close, True)
        self._keep(top, 0, same + close)
        if count > same + close:
            parts += self._encode_side(top, same + close, count, False)
        if self.halved:
            parts.append((rows[:, same:] & 0xFFFF).astype("<u2").tobytes())
            self.low += (count - same) * channels
        self._match(rows[:, :reached])
        self.token += tokens
        return b"".join(parts)

    def decode(self, cursor: Cursor, shape: tuple[int, int, int], first: bool = True) -> NDArray[Any]:
        """The inverse of ``encode``. Only in a chain's ``first`` block may a prediction start."""
        streams, tokens, channels = shape
        kind = cursor.u8()
        if kind > STARTED or (kind == CONTINUED) == (self.choice is None) or (kind == STARTED and not first):
            raise cursor.damaged("does not go on where the block before it ended")
        count = tokens - cursor.varint(tokens)
        if kind == STARTED:
            self._start(*self._read_start(cursor, streams, channels))
        reached = self._reached(count)
        same = cursor.varint(reached)
        if same and (self.scales is not None or self.draft.dtype != self.extent.dtype):
            raise cursor.damaged("takes values from a draft of another type")
        close = cursor.varint(reached - same)
        shared = self.draft.bits[:, self.token : self.token + same]
        if same == tokens and not self.measure:
            cursor.finish()
            self._keep(self._top(shared), 0, same)
            self.token += tokens
            return shared
        values = np.zeros(shape, np.dtype(f"<u{self.extent.itemsize}"))
        values[:, :same] = shared
        top = values[:, :count]
        if self.halved:
            top = np.zeros((streams, count, channels), "<u2")
            top[:, :same] = self._top(values[:, :same])
        if close:
            self._decode_side(cursor, top, same, same + close, True)
        self._keep(top, 0, same + close)
        if count > same + close:
            self._decode_side(cursor, top, same + close, count, False)
        if self.halved:
            low = np.frombuffer(cursor.take(2 * streams * (count - same) * channels), "<u2")
            values[:, same:count] = (top[:, same:].astype("<u4") << 16) | low.reshape(streams, -1, channels)
            self.low += (count - same) * channels
        cursor.finish()
        self._match(values[:, :reached])
        self.token += tokens
        return values

    def report_to(self, tally: Tally) -> None:
        """Add what was done so far."""
        tally.compare(self.matched)
        if self.halved:
            tally.spend("mantissa", np.full(len(self.kinds), 16.0 * self.low))
        for side in (self.near, self.far):
            if side is not None:
                self._report_model(side.model, tally)

    def _same(self, rows: NDArray[Any]) -> int:
        """How many of the next ``rows`` are the draft's to the bit."""
        return 0 if self.scales is not None else self.draft.same(rows, self.extent.dtype, self.token)

    # -- parts of both directions

    def _match(self, values: NDArray[Any]) -> None:
        """Note what the draft had of the values that it reaches, if anybody wants to know."""
        if self.measure and values.shape[1]:
            drafted = self.draft.numbers(self.token, self.token + values.shape[1], self.scales)
            self.matched += matches(values, self.extent.dtype, drafted)

    @property
    def _chosen(self) -> Choice:
        assert self.choice is not None
        return self.choice

    def _start(self, choice: Choice, channels: int, scales: NDArray[np.float32] | None) -> None:
        self.choice, self.scales = choice, scales
        self._take_order(choice, channels)

    def _reached(self, count: int) -> int:
        """How many of the next ``count`` rows the draft reaches."""
        return min(count, max(0, self.draft.tokens - self.token))

    def _side(self, near: bool, row: int, channels: int, scales: NDArray[np.int8]) -> _Side:
        """A prediction that begins at ``row`` of the block."""
        began = self.token + row
        seen = None
        if self._chosen.tokens:
            seen = self.tokens[self._chosen.tokens - 1]
            began -= 0 if near else self.past.shape[1]
            seen = seen.since(began) if began else seen
        model = self._new_model(self._chosen, channels, scales, seen)
        side = _Side(model, began, seen)
        if not near and self.past.shape[1]:
            past = self._ordered(self.past)
            model.learn(past.reshape(-1), past.shape[1], side.part(began, began + past.shape[1]))
        return side

    def _numbers(self, start: int, stop: int, near: bool) -> NDArray[np.float32] | None:
        """The draft of rows ``start`` to ``stop`` of the block as a prediction takes it."""
        if not near:
            return None
        first, last = self.token + start, self.token + stop
        if self.order is None:
            return self.draft.spared(first, last, self.scales)
        numbers = self.draft.numbers(first, last, self.scales)
        flat = aligned.zeros(numbers.size + WIDTH, np.float32)
        flat[: numbers.size] = self._ordered(numbers).reshape(-1)
        return flat

    def _encode_side(self, top: NDArray[Any], start: int, stop: int, near: bool) -> list[Any]:
        part = top[:, start:stop]
        side, head = self.near if near else self.far, b""
        if side is None:
            head_stop = self.token + min(stop, start + SCALE_ROWS)
            draft = self.draft.numbers(self.token + start, head_stop, self.scales) if near else None
            scales = scales_of(part, self.grid, draft)
            head = scales.tobytes()
            side = self._side(near, start, part.shape[2], scales)
            self.near, self.far = (side, self.far) if near else (self.near, side)
        seen = side.part(self.token + start, self.token + stop)
        coded = side.model.encode(
            self._ordered(part).reshape(-1), stop - start, seen, np.zeros(0, np.uint8), self.measure,
            self._numbers(start, stop, near),
        )  # fmt: skip
        self._chart(side.model, np.arange(start, stop))
        return [head, put_run(coded), coded.states.data, coded.words.data, coded.literals.data]

    def _decode_side(self, cursor: Cursor, top: NDArray[Any], start: int, stop: int, near: bool) -> None:
        streams, _, channels = top.shape
        side = self.near if near else self.far
        if side is None:
            scales = read_scales(cursor, streams)
            side = self._side(near, start, channels, scales)
            self.near, self.far = (side, self.far) if near else (self.near, side)
        coded: Coded = take_run(cursor, self.grid, streams * (stop - start) * channels)
        seen = side.part(self.token + start, self.token + stop)
        flat, rode = side.model.decode(
            coded, coded.literals.dtype, stop - start, seen, cursor.where, self.measure,
            self._numbers(start, stop, near),
        )  # fmt: skip
        self._chart(side.model, np.arange(start, stop))
        if rode.any():
            raise cursor.damaged("carries bytes that belong nowhere")
        rows = flat.reshape(streams, stop - start, channels)
        if self.order is None:
            top[:, start:stop] = rows
        else:
            top[:, start:stop, self.order] = rows

    def _keep(self, top: NDArray[Any], start: int, stop: int) -> None:
        """Remember the last rows, as long as far ones may come."""
        if self.far is None and stop > start:
            part = top[:, max(start, stop - PRIMED) : stop]
            if part.shape[1] < PRIMED and self.past.shape[1]:
                part = np.concatenate([self.past, part], axis=1)[:, -PRIMED:]
            self.past = np.ascontiguousarray(part)

    def _read_start(
        self, cursor: Cursor, streams: int, channels: int
    ) -> tuple[Choice, int, NDArray[np.float32] | None]:
        """What ``encode`` wrote where a chain starts."""
        flags, energy, together = cursor.u8(), cursor.u8(), cursor.u8()
        rope, tokens = cursor.varint(len(self.ropes)), cursor.varint(len(self.tokens))
        scales = np.frombuffer(cursor.take(4 * streams), "<f4").copy() if flags & SCALED else None
        if flags & ~SCALED or not 1 <= together <= min(streams, MOST_TOGETHER):
            raise cursor.damaged("starts a prediction in an impossible way")
        if scales is not None and not ((np.abs(scales) > LEAST_SCALE) & (np.abs(scales) < MOST_SCALE)).all():
            raise cursor.damaged("scales a draft in an impossible way")
        self._require_known(cursor, rope, tokens, channels)
        return Choice(rope, tokens, False, energy, together), channels, scales


def scales_to(values: NDArray[Any], grid: Grid, draft: DraftRows) -> NDArray[np.float32] | None:
    """What each stream's draft is best multiplied by to be ``values``; None where nothing is as good."""
    count = min(values.shape[1], draft.tokens, 256)
    sums = np.zeros((len(values), 2))
    fit(np.ascontiguousarray(values[:, :count]), number_table(grid), draft.numbers(0, count), sums)
    best = sums[:, 0] / np.maximum(sums[:, 1], 1e-300)
    if not count or np.all(np.abs(best - 1) < 0.1):
        return None
    sound = (np.abs(best) > 1e-9) & (np.abs(best) < 1e9)
    scales: NDArray[np.float32] = np.where(sound, best, 1.0).astype(np.float32)
    return scales


def worth(drafted: Drafted, values: NDArray[Any], choice: Choice) -> bool:
    """Whether a draft helps with ``values``, which start a chain: as a prediction, or by the rows that they share."""
    drafted.same = same = values.shape[1] if choice.exact else drafted._same(values)
    if drafted.draft.tokens > same < values.shape[1]:
        near, far = try_both(drafted, values, choice, same)
        drafted.pays = near < choice.bar * far
    return bool(drafted.pays) or same >= min(LEAST_SHARED, values.shape[1])


def try_both(drafted: Drafted, values: NDArray[Any], choice: Choice, start: int) -> tuple[int, int]:
    """Bytes that some rows of a block's ``values`` from ``start`` on take with the draft and without: as many again
    before them are only learnt from, since a draft of other tokens knows at once what is always the same, and no
    more."""
    first = drafted.token + start
    few = values[:TRIAL_STREAMS, start : start + min(TRIAL_ROWS, drafted.draft.tokens - first)]
    if few.shape[1] < 4:
        return 1, 1
    draft = DraftRows(drafted.draft.bits[: len(few), first:], drafted.draft.dtype)
    trial = Drafted(
        drafted.extent, drafted.kinds[: len(few)], drafted.parameters, drafted.ropes, drafted.tokens, draft,
        prior=drafted.prior,
    )  # fmt: skip
    top = trial._top(few)
    scales = scales_to(top, trial.grid, draft)
    if _obvious(top[:, :OBVIOUS_ROWS], trial.grid, draft.numbers(0, min(few.shape[1], OBVIOUS_ROWS), scales)):
        return few.size // 8, few.size
    trial._start(replace(choice, tokens=0, together=len(few)), few.shape[2], scales)
    trial.past = top[:, :0]
    middle = few.shape[1] // 2
    sizes = []
    for near in (True, False):
        trial._encode_side(top, 0, middle, near)
        sizes.append(len(b"".join(trial._encode_side(top, middle, few.shape[1], near))))
    return sizes[0], sizes[1]


def _obvious(values: NDArray[Any], grid: Grid, draft: NDArray[np.float32]) -> bool:
    """Whether a draft is so near, against what values differ by from token to token, that nothing need be tried."""
    rows = min(values.shape[1], draft.shape[1])
    left, steps = distances(np.ascontiguousarray(values[:, :rows]), number_table(grid), draft)
    return bool(left < OBVIOUS * steps)
