"""dumps -> prior: what the residuals' windows count in these dumps, laid over the shipped prior.

The dumps are compressed into nowhere, as level 3 does it but with every token counted. A context that was seen n
times gets n parts of its own distribution and ``TRUST`` parts of the shipped one, so that one that hardly occurs
stays what it was; a grid that does not occur at all is left out, and the shipped rows hold. Integers only, added up
over all chains: the same dumps give the same file on any machine, with any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.predicted import Predicted
from kvzip.container.writer import Nowhere
from kvzip.errors import DumpError, OptionError
from kvzip.pipeline.compress import Compressor
from kvzip.pipeline.encoded import Encoded
from kvzip.pipeline.options import Options, Progress
from kvzip.pipeline.schedule import ChainPool
from kvzip.pipeline.source import MemberInput
from kvzip.predict.model import ResidualModel
from kvzip.predict.prior import MASS_LOG2, MOST_NAME, Prior, Rows, asset, fill
from kvzip.predict.symbols import SYMBOLS
from kvzip.predict.tables import Tables
from kvzip.windows import triggers
from kvzip.windows.estimator import ESCAPE, INCREMENT_START

LEVEL = 3
TRUST = 2048  # values that the shipped distribution of a context is worth

Counts = NDArray[np.int64]
"""(contexts, 129): how often each symbol was met, and how often one escaped."""


def train(
    members: Iterable[AbstractContextManager[MemberInput]],
    name: str = "",
    *,
    threads: int = 0,
    layout: str | None = None,
    progress: Progress | None = None,
) -> Prior:
    """A prior of dumps. DumpError if nothing in them is predicted."""
    if len(name.encode()) > MOST_NAME:
        raise OptionError(f"--name {name}: must be at most {MOST_NAME} bytes")
    options = Options.make(LEVEL, threads, layout=layout, sampling=0)
    counted = count(members, options, progress)
    if not counted:
        raise DumpError("nothing in these dumps is predicted; give caches of floats that `kvzip list` recognises")
    return Prior.make(name, {mantissa: blend(counts, mantissa) for mantissa, counts in counted.items()})


def count(
    members: Iterable[AbstractContextManager[MemberInput]], options: Options, progress: Progress | None = None
) -> dict[int, Counts]:
    """What the windows counted, by the grid's bits of mantissa."""
    out: dict[int, Counts] = {}
    compressor = Compressor(Nowhere(), options, directory=True, progress=progress, observe=True)
    with ChainPool[Encoded](options.threads, options.budget) as pool:
        for member in members:
            with member as source:
                compressor.add(source, pool)
            for record in compressor.report.chains:
                model = record.chain.predicted.model if isinstance(record.chain.predicted, Predicted) else None
                if model is not None and model.tables is not None:
                    met = counts_of(model, model.tables)
                    grid = model.grid.mantissa
                    out[grid] = out[grid] + met if grid in out else met
            compressor.report.chains.clear()
    return out


def counts_of(model: ResidualModel, tables: Tables) -> Counts:
    """What a model has counted by now, without the prior it started from."""
    start = np.zeros((1, *tables.counts.shape), np.int64)
    fill(start, model.grid, model.parameters.prior_weight)
    increment = int(model.states[triggers.INCREMENT])
    own = (tables.counts << 16) // increment - start[0] // (INCREMENT_START >> 16)
    met: Counts = np.maximum((own + (1 << 15)) >> 16, 0)
    return np.concatenate([met[:, :SYMBOLS], met[:, ESCAPE:]], axis=1)


def blend(counts: Counts, mantissa: int) -> Rows:
    """The rows of a grid: ``counts`` of its contexts laid over the shipped rows."""
    total = counts.sum(axis=1, keepdims=True)
    rows: Rows = ((counts << MASS_LOG2) + asset()[mantissa] * TRUST) // (total + TRUST)
    rows[np.arange(len(rows)), rows.argmax(axis=1)] += (1 << MASS_LOG2) - rows.sum(axis=1)
    return rows
