"""Where axes have marks, and what stands there."""

from __future__ import annotations

import math


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from ``low`` to ``high``, at most ``most``: multiples of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    step = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10, 20, 50):
        if math.floor(high / (step * factor) + 1e-9) - math.ceil(low / (step * factor) - 1e-9) < most:
            step *= factor
            break
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 9) for number in range(first, last + 1)]


def every(count: int, most: int) -> range:
    """Indices of at most ``most`` of ``count`` rows or columns: all, or each second, fourth, fifth, eighth, ..."""
    for step in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000):
        if -(-count // step) <= most:
            return range(0, count, step)
    return range(0, count, -(-count // most))


def plain(number: float) -> str:
    """A mark's number: no trailing zeros."""
    return f"{number:.9g}"
