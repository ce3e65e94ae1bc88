"""The predictor and the windows of a chain's streams between its blocks, and both directions of coding with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder import aligned, rans
from kvzip.coder.jit import borrowing
from kvzip.coder.lanes import WIDTH
from kvzip.errors import ContainerError
from kvzip.predict import loop, steps
from kvzip.predict.energy import USUAL_START
from kvzip.predict.grid import Grid, groups_of
from kvzip.predict.prior import Prior
from kvzip.predict.rope import Rope
from kvzip.predict.row import ROW
from kvzip.predict.tables import Tables
from kvzip.predict.tokens import Occurrences
from kvzip.predict.turning import angles_of
from kvzip.windows import triggers
from kvzip.windows.estimator import INCREMENT_START, WINDOW
from kvzip.windows.lengths import code_lengths
from kvzip.windows.parameters import Parameters

SCALE_ROWS = 16  # rows looked at for where variances start
NO_DRAFT = np.zeros(0, np.float32)
NO_COSTS, NO_EVENTS = np.zeros((0, 0, 0), np.uint16), np.zeros((0, 0, 4), np.int64)
LEAST_WARMUP = 128  # tokens: the prior is trained, and tables of so many contexts are dear


Floats = NDArray[np.float32]


@cache
def _reciprocals(bits: int) -> NDArray[np.uint64]:
    return rans.reciprocals(bits)


@cache
def _lengths(bits: int) -> NDArray[np.int64]:
    return code_lengths(bits)


@cache
def _groups(channels: int, pairs: int) -> tuple[NDArray[np.int64], int, NDArray[np.int32]]:
    """``groups_of``, and -1 for channels and 0 for padding."""
    groups, padded = groups_of(channels, pairs)
    live = aligned.zeros(padded, np.int32)
    for place, _, count in groups.tolist():
        live[place : place + count] = -1
    return groups, padded, live


@dataclass
class Coded:
    """One run: final lane states, words and literals, in the order they are written."""

    lanes_log2: int
    states: NDArray[np.uint32]
    words: NDArray[np.uint16]
    literals: NDArray[Any]


class ResidualModel:
    """Prediction state and windows of ``streams`` streams of ``channels`` channels, the rope's pairs first.

    ``rotated`` says for each stream whether the rope applies to it; ``scales`` is what ``scales_of`` found;
    ``together`` is how many streams are coded at once, see docs/format.md, 11.2.
    """

    def __init__(
        self,
        streams: int,
        channels: int,
        grid: Grid,
        parameters: Parameters,
        rope: Rope | None = None,
        rotated: tuple[bool, ...] = (),
        scales: NDArray[np.int8] | None = None,
        slots: int = 0,
        pair_slots: int = 0,
        energy_step: int = 1,
        prior: Prior | None = None,
        together: int = 1,
    ) -> None:
        self.streams, self.channels, self.grid, self.parameters = streams, channels, grid, parameters
        self.energy_step, self.together = energy_step, together
        self.rope = rope if rope is not None and rope.first else None
        self.angle = b""
        self.token = 0
        pairs = len(rope.first) if rope else 0
        self.groups, self.padded, self.live = _groups(channels, pairs)
        self.turned = np.zeros(streams, np.int64)  # groups of first channels of rotated pairs, by stream
        self.turned[: len(rotated)] = [-(-pairs // WIDTH) * turns for turns in rotated]
        rows = (steps.AVERAGES, steps.GAINS, slots, pair_slots)
        self.averages, self.gains, self.memory, self.pair_memory = aligned.parts(
            [((streams, count * self.padded), np.float32) for count in rows]
        )
        averages = self.averages.reshape(streams, steps.AVERAGES, self.padded)
        if scales is not None:
            starts = np.ldexp(np.float32(1), scales.astype(np.int32))
            averages[:, steps.VAR_NEW], averages[:, steps.START] = starts[:, :1], starts[:, 1:]
        self.gains[:, steps.FACTOR * self.padded :] = 1
        self.learned = np.zeros((streams, steps.LEARNED), np.int64)
        self.learned[:, steps.USUAL] = USUAL_START << 8
        self.spent = np.zeros((streams, 3), np.int64)
        self.costs = NO_COSTS  # (streams, tokens, channels) of what was coded last, in 1/256 bit, if measured
        self.events = NO_EVENTS  # (streams, tokens, 4) triggers and resets after each row
        self.trained = prior
        self.tables: Tables | None = None  # made by the first block, for its direction
        self.learnt: Tables | None = None  # the encoder's tables of rows that were learnt from before
        self.touched = np.zeros(grid.contexts, np.uint8)
        self.states = np.zeros(triggers.STATE, np.int64)
        self.states[triggers.INCREMENT] = INCREMENT_START
        self.start = np.zeros((1, WINDOW), np.int64)  # the counts at the start, if drift may need them
        self.vector = parameters.vector.copy()
        self.vector[triggers.WARMUP] = max(LEAST_WARMUP, parameters.warmup)

    def encode(
        self,
        values: NDArray[Any],
        tokens: int,
        seen: Occurrences,
        carried: NDArray[np.uint8],
        measure: bool = False,
        draft: Floats | None = None,
    ) -> Coded:
        """Code flat values, stream after stream. ``carried`` (2 bytes a lane, or none) rides in the start states.

        ``draft`` is what they are expected to be: finite, flat, with WIDTH spare ones at the end.
        """
        count = len(values)
        spared = aligned.empty(count + WIDTH, values.dtype)
        spared[:count] = values
        spared[count:] = 0
        spare = WIDTH + -count % WIDTH  # so that both halves begin at a cache line
        literals = np.empty(count + 1, values.dtype)
        out = aligned.empty(2 * (count + spare), np.uint32)
        starts = np.empty(self.streams * tokens * len(self.groups) + 1, np.int64)
        unused = np.zeros(1, np.uint32)
        arguments = self._arguments(spared, tokens, seen, measure, False, draft)
        used, _ = (loop.encode_bf16 if self.grid.bf16 else loop.encode_run)(
            *arguments, literals, out, starts, unused, 0, np.zeros(1, np.uint16), 0
        )
        bits = self.parameters.table_bits
        lanes_log2 = rans.lanes_log2(count >> 1)
        states = aligned.empty(1 << lanes_log2, np.uint32)
        states[:] = rans.LANE_FLOOR
        if len(carried):
            states += carried.view("<u2")
        words = np.empty(2 * count + rans.SPARE_WORDS, np.uint16)
        first = rans.encode_groups(
            out, out[count + spare :], starts, lanes_log2, bits, _reciprocals(bits), states, words
        )
        return Coded(lanes_log2, states, words[first:], literals[:used])

    def learn(self, values: NDArray[Any], tokens: int, seen: Occurrences) -> None:
        """Learn from flat values that both sides have, as if they had been coded; every window gets a new table."""
        self.encode(values, tokens, seen, np.zeros(0, np.uint8))
        self.learnt, self.tables = self.tables, None
        self.touched[:] = 1
        self.states[triggers.DIRTY] = 1

    def decode(
        self,
        coded: Coded,
        dtype: Any,
        tokens: int,
        seen: Occurrences,
        where: str,
        measure: bool = False,
        draft: Floats | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        """The values, flat, and the bytes carried by the start states."""
        values = aligned.zeros(self.streams * tokens * self.channels + WIDTH, dtype)
        lanes = aligned.empty(len(coded.states), np.uint32)
        lanes[:] = coded.states
        if len(lanes) and int(lanes.min()) < rans.LANE_FLOOR:
            raise ContainerError(f"{where} holds a lane below its floor; the container is damaged")
        literals, words = (loop.decode_bf16 if self.grid.bf16 else loop.decode_run)(
            *self._arguments(values, tokens, seen, measure, True, draft),
            np.append(coded.literals, np.zeros(1, dtype)),
            np.empty(0, np.uint32),
            np.empty(1, np.int64),
            lanes,
            coded.lanes_log2,
            np.concatenate([coded.words, np.zeros(2 * self.together * self.channels + 16, np.uint16)]),
            len(coded.words),
        )
        carried = lanes - np.uint32(rans.LANE_FLOOR)
        spent = (literals, words) == (len(coded.literals), len(coded.words))
        if not spent or int(carried.max()) >= rans.LANE_FLOOR:
            raise ContainerError(f"{where} does not decode to its end; the container is damaged")
        return values[:-WIDTH], carried.astype("<u2").view(np.uint8)

    def _arguments(
        self,
        values: NDArray[Any],
        tokens: int,
        seen: Occurrences,
        measure: bool,
        decoding: bool,
        draft: Floats | None,
    ) -> tuple[object, ...]:
        if self.tables is None:
            self.tables = Tables.start(self.grid, self.parameters, self.trained, decoding)
            self.start = self.tables.counts.copy() if self.parameters.drift else self.start
            if self.learnt is not None:
                self.tables = replace(self.tables, counts=self.learnt.counts, probs=self.learnt.probs)
        tables = self.tables
        width = WIDTH * int(self.turned.max())
        turn = np.zeros(0, np.float32)
        if width and self.rope:
            turn, self.angle = angles_of(self.rope.cos, self.rope.sin, self.angle, self.token, tokens, width)
        self.token += tokens
        if measure:
            self.costs = np.zeros((self.streams, tokens, self.channels), np.uint16)
            self.events = np.zeros((self.streams, tokens, 4), np.int64)
        return (
            values, self.streams, self.together, tokens, self.channels, self.groups, self.padded, self.turned, turn,
            seen.slot, seen.times, seen.pair, seen.pair_times, draft is not None,
            NO_DRAFT if draft is None else draft, self.energy_step, self.grid.vector(), self.averages, self.gains,
            self.memory, self.pair_memory, self.learned, self.live,
            *aligned.parts(
                [
                    (self.together * ROW, np.int64),
                    (self.together * steps.WORK_ROWS * self.padded, np.float32),
                    (4 * self.together * self.padded, np.int32),
                    (2 * self.together * self.padded, np.uint32),
                    (self.together * self.padded, np.uint8),
                ]
            ),
            tables.counts, self.start, tables.probs,
            tables.codes, tables.slots, tables.span, self.touched, self.grid.contexts, self.states, self.vector,
            _lengths(self.parameters.table_bits), measure, self.spent,
            self.costs.reshape(-1), self.events.reshape(-1),
            np.empty(WINDOW, np.int64), np.zeros(tokens, np.int64),
        )  # fmt: skip


def scales_of(values: NDArray[Any], grid: Grid, draft: Floats | None = None) -> NDArray[np.int8]:
    """Where the variances of each stream of (streams, tokens, channels) start: log2 of the mean square of its first
    row, and of half the mean square of the differences between its first rows; (streams, 2) int8. With a ``draft``,
    of what is left of them without it."""
    head = np.ascontiguousarray(values[:, :SCALE_ROWS])
    drafted = NO_DRAFT.reshape(0, 0, 0) if draft is None else np.ascontiguousarray(draft[:, :SCALE_ROWS])
    logs = np.empty((len(head), 2), np.int8)
    _scales(head, number_table(grid), drafted, logs)
    return logs


@borrowing
def _scales(values, numbers, draft, out):  # type: ignore[no-untyped-def]
    """``scales_of`` by the ``numbers`` of bit patterns, less ``draft`` if there is any, into ``out``."""
    streams, rows, channels = values.shape
    for s in range(streams):
        first = np.float64(0)
        changes = np.float64(0)
        for c in range(channels):
            last = np.float64(0)
            for t in range(rows):
                x = np.float64(numbers[values[s, t, c]])
                if draft.size:
                    x -= np.float64(draft[s, t, c])
                if t == 0:
                    first += x * x
                else:
                    changes += (x - last) * (x - last)
                last = x
        first /= channels
        out[s, 0] = _log(first)
        out[s, 1] = _log(changes / (2 * channels * (rows - 1)) if rows > 1 else first)


@borrowing
def _log(square):  # type: ignore[no-untyped-def]
    """log2 of a mean square to the nearest whole number from -99 to 119."""
    return np.int8(min(119.0, max(-99.0, np.round(np.log2(max(square, 2.0**-99))))))


def numbers_of(values: NDArray[Any], grid: Grid) -> NDArray[np.float32]:
    """Values as numbers for the encoder's choices; what is huge or no number counts as 0."""
    numbers: NDArray[np.float32] = number_table(grid)[values]
    return numbers


@cache
def number_table(grid: Grid) -> NDArray[np.float32]:
    """The number that each bit pattern stands for."""
    bits = np.arange(1 << grid.bits, dtype=np.int64)
    code = bits & ((1 << (grid.bits - 1)) - 1)
    exponent = code >> grid.mantissa
    fraction = (code & ((1 << grid.mantissa) - 1)) + np.where(exponent > 0, 1 << grid.mantissa, 0)
    size = np.ldexp(fraction.astype(np.float64), np.maximum(exponent, 1) - grid.bias - grid.mantissa)
    size = np.where(size < 2.0**60, size, 0.0)
    numbers: NDArray[np.float32] = np.where(bits >> (grid.bits - 1) & 1, -size, size).astype(np.float32)
    return numbers
