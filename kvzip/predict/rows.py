"""The steps over one token's channels, sixteen at a time; float32 in a fixed order of IEEE operations.

Rows hold the rotated pairs' first channels, then their second ones, then the rest, each padded to whole sixteens
(``grid.Groups``). What the padding holds never reaches a channel that is coded.
"""

from __future__ import annotations

from typing import Any

from kvzip.coder.lanes import bits_of, float_of, lanes16, larger, select, smaller, to_float

HUGE_BITS = (127 + 60) << 23  # float32 bits of 2^60: from here on, and NaN, a value teaches nothing
TINY_BITS = (127 - 60) << 23  # below 2^-60 a value counts as 0
LEAST_VARIANCE = 2.0**-100
LOG_CLIP = 6 << 23  # a channel's log2 of squared error over variance counts within +-6
LOG_UNIT = 15  # and is summed in units of 2^-8
LEAN = 0.2  # share of the token before in the running mean


def _lean(mean: Any, last: Any) -> Any:
    """The running mean, leaning towards the token before: prediction without history, twice."""
    base = mean + LEAN * (last - mean)
    return base, base


def _recall(base: Any, row: Any, gain: Any, variance: Any, factor: Any) -> Any:
    """Mean and variance of a token whose earlier rows are known (``repeats``)."""
    return base + gain * (row - base), larger(variance * factor, LEAST_VARIANCE)


def _move(base: Any, row: Any, gain: Any) -> Any:
    """base + gain * (row - base)."""
    return base + gain * (row - base)


def _turn(a: Any, b: Any, va: Any, vb: Any, cos: Any, sin: Any) -> Any:
    """Means and variances of pairs, rotated."""
    cc, ss = cos * cos, sin * sin
    return a * cos - b * sin, b * cos + a * sin, va * cc + vb * ss, vb * cc + va * ss


def _unturn(a: Any, b: Any, cos: Any, sin: Any) -> Any:
    """Pairs rotated back."""
    return a * cos + b * sin, b * cos - a * sin


def numbers_of(
    value: Any, fallback: Any, mask: Any, sign_at: Any, normal: Any, offset: Any, down: Any, unit: Any
) -> Any:
    """Values as float32: 0 below 2^-60, ``fallback`` (the prediction) from 2^60 on and for what is no number."""
    code = value & mask
    whole = float_of((code + offset) << down)
    size = select(code < normal, to_float(code) * unit, whole)
    bits = bits_of(size)
    number = select((value >> sign_at) > 0, float_of(bits | -0x80000000), size)
    number = select(bits < TINY_BITS, 0.0, number)
    return select((bits < HUGE_BITS) & (bits >= 0), number, fallback)


def numbers_of_bf16(value: Any, fallback: Any) -> Any:
    """The same for BF16, whose bits are the upper half of a float32's."""
    bits = value << 16
    size = bits & 0x7FFFFFFF
    number = select(size < TINY_BITS, 0.0, float_of(bits))
    return select(size < HUGE_BITS, number, fallback)


def log_energy_of(x: Any, mean: Any, variance: Any, live: Any) -> Any:
    """log2 of squared error over variance by their bits, clipped, in 2^-8, where ``live`` is -1; else 0."""
    e = x - mean
    log = bits_of(e * e) - bits_of(variance)
    return (larger(smaller(log, LOG_CLIP), -LOG_CLIP) >> LOG_UNIT) & live


def _learn(x: Any, mean: Any, rate: Any) -> Any:
    """The running mean after ``x``, and the last row."""
    return mean + rate * (x - mean), x


def _learn_variance(x: Any, mean: Any, inverse: Any, variance: Any, rate: Any) -> Any:
    """variance + rate * (squared error * inverse - variance)."""
    e = x - mean
    return larger(variance + rate * (e * e * inverse - variance), LEAST_VARIANCE)


def _learn_repeat(x: Any, base: Any, row: Any, product: Any, square: Any, rate: Any) -> Any:
    """The averages of r (h - pm) and of r^2."""
    r = x - base
    return product + rate * (r * (row - base) - product), square + rate * (r * r - square)


def _learn_pair(x: Any, base: Any, row: Any, product: Any, square: Any, rate: Any) -> Any:
    """The averages of r (h2 - mu) and of (h2 - mu)^2."""
    d = row - base
    return product + rate * ((x - base) * d - product), square + rate * (d * d - square)


def _copy(x: Any) -> Any:
    """x."""
    return x


def _add(a: Any, b: Any) -> Any:
    """a + b."""
    return a + b


def _subtract(a: Any, b: Any) -> Any:
    """a - b."""
    return a - b


def _approach(x: Any, average: Any, rate: Any) -> Any:
    """average + rate * (x - average)."""
    return average + rate * (x - average)


lean: Any = lanes16(_lean, "ff>ff")
recall: Any = lanes16(_recall, "fffff>ff")
move: Any = lanes16(_move, "fff>f")
turn: Any = lanes16(_turn, "ffffff>ffff")
unturn: Any = lanes16(_unturn, "ffff>ff")
learn: Any = lanes16(_learn, "ffF>ff")
learn_variance: Any = lanes16(_learn_variance, "ffffF>f")
learn_repeat: Any = lanes16(_learn_repeat, "fffffF>ff")
learn_pair: Any = lanes16(_learn_pair, "fffffF>ff")
copy: Any = lanes16(_copy, "f>f")
add: Any = lanes16(_add, "ff>f")
subtract: Any = lanes16(_subtract, "ff>f")
approach: Any = lanes16(_approach, "ffF>f")
