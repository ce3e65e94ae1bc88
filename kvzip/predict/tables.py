"""The residual windows of a block: counts, probabilities and tables, one window for each context.

They start at a prior, which takes longer to turn into tables than a short block takes to code: the first tables of a
prior are made once and copied.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.predict.grid import Grid
from kvzip.predict.loop import rebuild
from kvzip.predict.prior import Prior, fill
from kvzip.windows import triggers
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, INCREMENT_START, WINDOW
from kvzip.windows.parameters import Parameters

MOST_REMEMBERED = 8


@dataclass
class Tables:
    """Arrays by context; ``slots`` are the decoder's, with a spare row. See ``windows.estimator``."""

    counts: NDArray[np.int64]
    probs: NDArray[np.int64]
    codes: NDArray[np.uint32]
    slots: NDArray[np.uint16]
    span: NDArray[np.int64]

    @classmethod
    def start(cls, grid: Grid, parameters: Parameters, prior: Prior | None, decoding: bool) -> Tables:
        """Tables of the prior, for one direction."""
        key = (grid, parameters.table_bits, parameters.prior_weight, prior.identity if prior else "", decoding)
        known = _remembered.get(key)
        if known is None:
            known = _remembered[key] = cls._make(grid, parameters, prior, decoding)
            while len(_remembered) > MOST_REMEMBERED:
                _remembered.popitem(last=False)
        return cls(known.counts.copy(), known.probs.copy(), known.codes.copy(), known.slots.copy(), known.span.copy())

    @classmethod
    def _make(cls, grid: Grid, parameters: Parameters, prior: Prior | None, decoding: bool) -> Tables:
        count = grid.contexts
        slots = (count + 1, 1 << parameters.table_bits) if decoding else (1, 1)
        tables = cls(
            np.zeros((count, WINDOW), np.int64),
            np.zeros((count, WINDOW), np.int64),
            np.zeros((count, 1 << CODE_SHIFT), np.uint32),
            np.zeros(slots, np.uint16),
            np.tile(np.array([ESCAPE, 0], np.int64), (count, 1)),
        )
        fill(tables.counts[None], grid, parameters.prior_weight, prior)
        state = np.zeros(triggers.STATE, np.int64)
        state[triggers.INCREMENT] = INCREMENT_START
        rebuild(
            tables.counts, tables.probs, tables.codes, tables.slots, tables.span, count, np.ones(count, np.uint8),
            np.zeros(WINDOW, np.int64), state, parameters.vector,
        )  # fmt: skip
        return tables


_remembered: OrderedDict[tuple[Any, ...], Tables] = OrderedDict()
