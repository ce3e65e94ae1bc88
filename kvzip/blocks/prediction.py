"""What the coders of predicted blocks share: how a chain is predicted, its model, and the order of its channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.course import Courses
from kvzip.blocks.tally import COUNTERS, Tally
from kvzip.coder import rans
from kvzip.predict.grid import Grid, grid_of
from kvzip.predict.model import Coded, ResidualModel
from kvzip.predict.prior import Prior
from kvzip.predict.rope import Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.windows import triggers
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor, put_varint

CONTINUED, STARTED = 0, 1
MOST_TOGETHER = 16
RESIDUALS = -1  # the number of the predicted part among planes, in a tally
ROTATED = ("key", "latent", "")


@dataclass(frozen=True)
class Choice:
    """How a chain is predicted. ``rope`` and ``tokens`` count from 1, 0 is none; ``unique`` needs tokens; up to
    ``together`` streams are coded at once, which changes the decoder's speed, not the size. ``near``: only relative
    to a draft, or not at all; ``exact``: all values are the draft's; ``bar``: what a draft must bring the size of a
    sample down to, of that without it by the stream alone.
    """

    rope: int = 0
    tokens: int = 0
    unique: bool = False
    energy: int = 1
    together: int = 4
    near: bool = False
    exact: bool = False
    bar: float = 0.98


class Prediction:
    """What is known of a chain between its blocks."""

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
        grid = grid_of(extent.dtype)
        assert grid is not None
        self.grid: Grid = grid
        self.extent, self.kinds, self.parameters = extent, kinds, parameters
        self.ropes, self.tokens, self.measure, self.prior = ropes, tokens, measure, prior
        self.halved = 8 * extent.itemsize != grid.bits  # F32, whose upper half is predicted
        self.token = 0  # of the chain's next row
        self.order: NDArray[np.int64] | None = None
        self.courses: Courses | None = None  # if measured

    def _new_model(
        self, choice: Choice, channels: int, scales: NDArray[np.int8], seen: Occurrences | None
    ) -> ResidualModel:
        """A model of all streams; ``seen``: the tokens that it will be told of."""
        return ResidualModel(
            len(self.kinds),
            channels,
            self.grid,
            self.parameters,
            self._rope(choice),
            tuple(kind in ROTATED for kind in self.kinds),
            scales,
            seen.slots if seen else 0,
            seen.pair_slots if seen else 0,
            choice.energy,
            self.prior,
            choice.together,
        )

    def _rope(self, choice: Choice) -> Rope | None:
        return self.ropes[choice.rope - 1] if choice.rope else None

    def _take_order(self, choice: Choice, channels: int) -> None:
        """Code channels in the order of the pairs of the rope that was chosen."""
        rope = self._rope(choice)
        self.order = None if rope is None else order_of(rope, channels)

    def _ordered(self, values: NDArray[Any]) -> NDArray[Any]:
        """Channels in the order of the rope's pairs."""
        return np.ascontiguousarray(values if self.order is None else values[:, :, self.order])

    def _top(self, values: NDArray[Any]) -> NDArray[Any]:
        """The part of the values that is predicted."""
        return (values >> 16).astype("<u2") if self.halved else values

    def _require_known(self, cursor: Cursor, rope: int, tokens: int, channels: int) -> None:
        """Refuse a rope or tokens that are not for this chain."""
        used = self.ropes[rope - 1] if rope else None
        if used is not None and max((*used.first, *used.second), default=0) >= channels:
            raise cursor.damaged("names a rope for wider rows")
        if tokens and (len(self.tokens[tokens - 1].slot) != self.extent.tokens or self.token):
            raise cursor.damaged("names the tokens of another dump")

    def _chart(self, model: ResidualModel, tokens: NDArray[np.int64]) -> None:
        """Note what a model's last run took, which were these ``tokens`` of the block, with the halves of F32."""
        if not self.measure:
            return
        streams, _, channels = model.costs.shape
        if self.courses is None:
            self.courses = Courses(streams, self.extent.tokens, channels)
        self.courses.token = self.token
        for stream, (costs, events) in enumerate(zip(model.costs, model.events, strict=True)):
            bits = costs + np.uint16((16 << 8) * self.halved)
            if self.order is not None:
                bits[:, self.order] = bits.copy()
            self.courses.add(stream, tokens, bits, 1 / 256)
            self.courses.happen(stream, tokens, events)

    def _report_model(self, model: ResidualModel, tally: Tally) -> None:
        """Add what a model did; the windows' counters go with the first stream, since streams share them."""
        counters = np.zeros((len(self.kinds), len(COUNTERS)), np.int64)
        counters[0] = model.states[triggers.COUNTERS]
        counters[:, COUNTERS.index("length")] = 0  # by stream, below
        tally.absorb(RESIDUALS, counters)
        for number, what in enumerate(("symbols", "low bits", "literals")):
            tally.spend(what, model.spent[:, number] / 256)


def read_scales(cursor: Cursor, streams: int) -> NDArray[np.int8]:
    """(streams, 2): the scales that a model starts from."""
    scales = np.frombuffer(cursor.take(2 * streams), np.int8).reshape(streams, 2)
    if abs(scales.astype(int)).max(initial=0) > 120:
        raise cursor.damaged("starts a prediction in an impossible way")
    return scales


def order_of(rope: Rope, channels: int) -> NDArray[np.int64] | None:
    """Channels in the order they are coded: the pairs' first ones, the second ones, the rest; None for 0, 1, 2..."""
    turned = {*rope.first, *rope.second}
    order = [*rope.first, *rope.second, *(c for c in range(channels) if c not in turned)]
    return np.array(order, np.int64) if order != list(range(channels)) else None


def take_run(cursor: Cursor, grid: Grid, size: int) -> Coded:
    """What a run of ``size`` values was coded into."""
    lanes_log2, words, literals = cursor.u8(), cursor.varint(2 * size), cursor.varint(size)
    if lanes_log2 > rans.MAX_LANES_LOG2:
        raise cursor.damaged("has too many lanes")
    width = np.dtype(f"<u{grid.bits // 8}")
    return Coded(
        lanes_log2,
        np.frombuffer(cursor.take(4 << lanes_log2), "<u4"),
        np.frombuffer(cursor.take(2 * words), "<u2"),
        np.frombuffer(cursor.take(width.itemsize * literals), width),
    )


def put_run(coded: Coded) -> bytes:
    """The numbers that ``take_run`` reads first; the arrays follow."""
    out = bytearray((coded.lanes_log2,))
    put_varint(out, len(coded.words))
    put_varint(out, len(coded.literals))
    return bytes(out)


def even_share(streams: int, most: int) -> int:
    """How many streams to code together: shares of at most so many, as even as they can be."""
    return -(-streams // max(1, -(-streams // most)))


def zero_rows(values: NDArray[Any]) -> int:
    """How many rows of zeros all streams of (streams, tokens, channels) end in."""
    if values[:, -1:].any():
        return 0
    alive = np.flatnonzero(values.any(axis=(0, 2)))
    return int(values.shape[1] - 1 - (alive[-1] if len(alive) else -1))
