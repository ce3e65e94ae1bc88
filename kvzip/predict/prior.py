"""The cold-start prior of the residuals' windows: one trained distribution for each context of each grid.

The asset ``priors/residuals-1.bin`` holds, for the grids with 2, 3, 7 and 10 bits of mantissa in this order, a row
for each context: 129 little-endian uint16, the 128 symbols and the escape, summing to 2^15.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.predict.grid import K_ABOVE, PHASES, Grid
from kvzip.predict.symbols import SYMBOLS
from kvzip.windows.estimator import ESCAPE

MANTISSAS = (2, 3, 7, 10)
MASS_LOG2 = 15
SYMBOLS_PER_TOKEN = 16  # of a context: a prior's weight is given in tokens


@cache
def asset(identifier: str = "residuals-1") -> dict[int, NDArray[np.int64]]:
    """The trained rows (contexts, 129) by bits of mantissa."""
    path = files("kvzip").joinpath("priors").joinpath(identifier + ".bin")
    raw = np.frombuffer(path.read_bytes(), "<u2").astype(np.int64)
    out = {}
    for mantissa in MANTISSAS:
        contexts = 2 * mantissa + 1 + PHASES * (K_ABOVE + 1)
        out[mantissa], raw = raw[: contexts * (SYMBOLS + 1)].reshape(contexts, SYMBOLS + 1), raw[contexts * 129 :]
    return out


def fill(counts: NDArray[Any], grid: Grid, tokens: int) -> None:
    """Start the counts (streams, contexts, 257) at the prior, worth ``tokens`` tokens."""
    if not tokens:
        return
    rows = asset()[grid.mantissa] * (2 * SYMBOLS_PER_TOKEN * tokens)
    counts[:, :, :SYMBOLS] = rows[:, :SYMBOLS]
    counts[:, :, ESCAPE] = rows[:, SYMBOLS]
