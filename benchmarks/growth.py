"""How time grows with values and threads: ``seconds = fixed + values * (serial + parallel / threads)``, Amdahl's law
with what a call costs whatever its size. Fitted to measured points by least squares of relative errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

Point = tuple[int, int, float]
"""Values, threads, seconds."""


@dataclass(frozen=True)
class Growth:
    """Seconds of a call, seconds of a value that one core does alone, and that cores share; relative error (RMS)."""

    fixed: float
    serial: float
    parallel: float
    residual: float

    @property
    def serial_share(self) -> float:
        """The part of a value's cost that more threads do not lessen."""
        return self.serial / (self.serial + self.parallel)


def fit(points: Sequence[Point]) -> Growth:
    """Fit the model; no part is below zero, and with one number of threads all is ``parallel``."""
    values, threads, seconds = (numpy.array(column, float) for column in zip(*points, strict=True))
    columns = numpy.stack([numpy.ones_like(values), values, values / threads]) / seconds
    left = [0, 2] if len(set(threads)) == 1 else [0, 1, 2]
    parts = numpy.zeros(3)
    while True:
        found = numpy.linalg.lstsq(columns[left].T, numpy.ones_like(values), rcond=None)[0]
        if found.min() >= 0:
            break
        left.pop(int(found.argmin()))
    parts[left] = found
    errors = parts @ columns - 1
    return Growth(*map(float, parts), residual=float(numpy.sqrt((errors**2).mean())))
