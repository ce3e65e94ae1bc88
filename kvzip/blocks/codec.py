"""One block's payload: how it is coded, and what is carried from block to block of its chain.

method      u8     0 stored: the values' bytes follow
                   1 windows on planes: the payload of ``blocks.planar``
                   2 predicted: the payload of ``blocks.predicted``
                   3 drafted: the payload of ``blocks.drafted``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.course import Courses
from kvzip.blocks.draft import DraftRows
from kvzip.blocks.drafted import Drafted, worth
from kvzip.blocks.planar import Planar
from kvzip.blocks.predicted import Predicted
from kvzip.blocks.prediction import Choice
from kvzip.blocks.tally import Tally
from kvzip.errors import UnsupportedError
from kvzip.predict.grid import grid_of
from kvzip.predict.prior import Prior
from kvzip.predict.rope import Rope
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block
from kvzip.windows.parameters import Parameters
from kvzip.wire import Cursor

STORED, WINDOWS, PREDICTED, DRAFTED = 0, 1, 2, 3
WINDOW_BYTES = 257 * 16 + 512 * 4  # of counts, probabilities and codes
TINY = 64  # bytes, and 1/256 of the values: a prediction that takes no more is compared with nothing
PROMISE = 0.995  # prediction must take less than this much of what windows promise


@dataclass(frozen=True)
class Around:
    """What a chain's blocks may refer to: its streams' kinds, the container's ropes, tokens and trained prior, and
    what the draft has for them."""

    kinds: tuple[str, ...] = ()
    ropes: Sequence[Rope] = field(default_factory=list)
    tokens: Sequence[Occurrences] = field(default_factory=list)
    prior: Prior | None = None  # None is the shipped one
    draft: DraftRows | None = None


class Chain:
    """What a chain's blocks leave to the next one, and the two directions of coding a block."""

    def __init__(
        self,
        extent: Extent,
        parameters: Parameters,
        measure: bool = False,
        around: Around | None = None,
        choice: Choice | None = None,
    ) -> None:
        self.extent, self.parameters, self.measure = extent, parameters, measure
        self.around = around or Around()
        self.choice = choice  # the encoder's: how to predict, None not at all
        self.tally = Tally()
        self.planar = Planar(extent, parameters, measure, self.tally)
        self.predicted: Predicted | Drafted | None = None
        self.begun = False  # whether a block was decoded: only a chain's first may begin a prediction

    def afresh(self) -> Chain:
        """A chain like this one that has coded nothing yet."""
        return Chain(self.extent, self.parameters, self.measure, self.around, self.choice)

    def cost(self, block: Block) -> int:
        """About how much memory a block takes while it is in flight: its values, and the windows it may open."""
        values = block.streams * block.tokens * block.channels * self.extent.itemsize
        window = WINDOW_BYTES + (2 << self.parameters.table_bits)
        grid = grid_of(self.extent.dtype)
        if grid is not None and (self.choice or self.predicted):
            return 3 * values + grid.contexts * window
        windows = len(self.planar.planes) * block.streams * self.planar.classes(block.tokens, block.channels)
        return values + windows * window

    def encode(self, values: NDArray[Any]) -> bytes:
        """The payload for ``values`` (streams, tokens, channels) of unsigned integers."""
        self.chart(values.shape)
        payload = self._encode_predicted(values) if self.choice else None
        if payload is None:
            payload = self.planar.encode(values, bytes((WINDOWS,)))
            if len(payload) > values.nbytes:
                self.planar.close()
                payload = self._store(values)
            elif self.measure:
                self.planar.account()
        self._observe(payload, values)
        return payload

    def decode(self, payload: memoryview, block: Block, where: str) -> NDArray[Any]:
        """The inverse of ``encode``: values (streams, tokens, channels). ContainerError on anything wrong."""
        cursor = Cursor(payload, where)
        method = cursor.u8()
        self.chart((block.streams, block.tokens, block.channels))
        if method in (PREDICTED, DRAFTED) and grid_of(self.extent.dtype) is not None and not self.extent.opaque:
            if method == DRAFTED and self.around.draft is None:
                raise cursor.damaged("needs a draft that its container does not name")
            if self.predicted is None:
                self.predicted = self._new_predicted(block.streams, method == DRAFTED)
            if isinstance(self.predicted, Drafted) != (method == DRAFTED):
                raise cursor.damaged("goes on with a prediction that was not begun")
            shape = (block.streams, block.tokens, block.channels)
            values = self.predicted.decode(cursor, shape, first=not self.begun)
        elif method == WINDOWS:
            self._close_predicted()
            values = self.planar.decode(cursor, block)
        elif method == STORED:
            self.planar.close()
            self._close_predicted()
            values = self._stored(cursor, block)
        else:
            raise UnsupportedError(f"{where} is coded by method {method}, unknown here; use a newer kvzip")
        self.begun = True
        self._observe(payload, values)
        return values

    def promised(self, values: NDArray[Any]) -> int:
        """What a prediction of ``values`` must not exceed to be worth its while."""
        return min(values.nbytes, int(self.planar.promised(values) * PROMISE))

    def finish(self) -> Tally:
        """Drop every model; return what the chain did."""
        self.planar.close()
        self._close_predicted()
        return self.tally

    def _encode_predicted(self, values: NDArray[Any]) -> bytes | None:
        """The payload by prediction; None, and never again, if it is no better than plain windows promise to be."""
        assert self.choice is not None
        begun = self.predicted is not None
        if self.predicted is None:
            self.predicted = self._new_predicted(values.shape[0], self.around.draft is not None)
            if isinstance(self.predicted, Drafted) and not worth(self.predicted, values, self.choice):
                self.predicted = self._new_predicted(values.shape[0], False)
            if self.choice.near and not isinstance(self.predicted, Drafted):
                self.predicted = self.choice = None
                return None
        method = DRAFTED if isinstance(self.predicted, Drafted) else PREDICTED
        payload = self.predicted.encode(values, self.choice, bytes((method,)))
        size, tiny = len(payload), TINY + values.nbytes // 256
        if size <= values.nbytes if begun else size <= tiny or size <= self.promised(values):
            return payload
        self._close_predicted(begun)
        self.choice = None
        return self._store(values) if begun else None

    def _new_predicted(self, streams: int, drafted: bool) -> Predicted | Drafted:
        kinds = self.around.kinds or (self.extent.kind,) * streams
        around = self.around
        if drafted and around.draft is not None:
            return Drafted(
                self.extent, kinds, self.parameters, around.ropes, around.tokens, around.draft, self.measure,
                around.prior,
            )  # fmt: skip
        return Predicted(self.extent, kinds, self.parameters, around.ropes, around.tokens, self.measure, around.prior)

    def _close_predicted(self, used: bool = True) -> None:
        """Drop the prediction, keeping its counters if it was ``used``."""
        if self.predicted is not None and used and self.measure:
            self.predicted.report_to(self.tally)
            if self.predicted.courses is not None and self.tally.courses is not None:
                self.tally.courses.merge(self.predicted.courses)
        self.predicted = None

    def _store(self, values: NDArray[Any]) -> bytes:
        self._count_stored(values.shape[1], values.nbytes)
        return bytes((STORED,)) + values.tobytes()

    def _stored(self, cursor: Cursor, block: Block) -> NDArray[Any]:
        """The inverse of ``_store``."""
        dtype = np.dtype(f"<u{self.extent.itemsize}")
        stored = cursor.take(block.streams * block.tokens * block.channels * dtype.itemsize)
        cursor.finish()
        self._count_stored(block.tokens, len(stored))
        return np.frombuffer(stored, dtype).reshape(block.streams, block.tokens, block.channels)

    def _count_stored(self, tokens: int, nbytes: int) -> None:
        self.tally.stored += nbytes
        if self.tally.courses is not None:
            self.tally.courses.spread(tokens, 8.0 * self.extent.itemsize)

    def chart(self, shape: tuple[int, ...]) -> None:
        """Make room for the course of each stream, if anybody wants it; rows of opaque data are no tokens."""
        if self.measure and self.tally.courses is None and not self.extent.opaque:
            self.tally.courses = Courses(shape[0], self.extent.tokens, shape[2])

    def _observe(self, payload: bytes | memoryview, values: NDArray[Any]) -> None:
        """Note a finished block for the statistics, if anybody wants them."""
        if self.measure:
            self.tally.payload += len(payload)
            self.tally.observe(values, self.extent.dtype)
            if self.tally.courses is not None:
                self.tally.courses.token += values.shape[1]
