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
    """The running mean, leaning towards the token before: prediction without history."""
    return mean + LEAN * (last - mean)


def _toward(base: Any, row: Any, gain: Any) -> Any:
    """base + gain * (row - base)."""
    return base + gain * (row - base)


def _expect(mean: Any, last: Any, variance: Any) -> Any:
    """Mean and variance of a token that is not known."""
    return _lean(mean, last), variance


def _recall(mean: Any, last: Any, variance: Any, row: Any, gain: Any, factor: Any) -> Any:
    """Prediction without history; mean and variance of a token whose earlier rows are known (``repeats``)."""
    base = _lean(mean, last)
    return base, _toward(base, row, gain), larger(variance * factor, LEAST_VARIANCE)


def _expect_pair(mean: Any, last: Any, variance: Any, pair: Any, pair_gain: Any) -> Any:
    """``_expect`` without the pair; mean and variance by the last row of the pair too."""
    first = _lean(mean, last)
    return first, _toward(first, pair, pair_gain), variance


def _recall_pair(
    mean: Any, last: Any, variance: Any, row: Any, gain: Any, factor: Any, pair: Any, pair_gain: Any
) -> Any:
    """``_recall``, and its mean without the pair."""
    base, first, variance = _recall(mean, last, variance, row, gain, factor)
    return base, first, _toward(first, pair, pair_gain), variance


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


def _variance(x: Any, mean: Any, inverse: Any, variance: Any, rate: Any) -> Any:
    """variance + rate * (squared error * inverse - variance); ``inverse`` None for 1."""
    e = x - mean
    square = e * e if inverse is None else e * e * inverse
    return larger(variance + rate * (square - variance), LEAST_VARIANCE)


def _learn(x: Any, mean: Any, rate: Any) -> Any:
    """The running mean after ``x``, and the last row."""
    return _approach(x, mean, rate), x


def _learn_new(x: Any, expected: Any, variance: Any, mean: Any, rate: Any, variance_rate: Any) -> Any:
    """What a token that is not known teaches: variance, running mean, last row."""
    return _variance(x, expected, None, variance, variance_rate), *_learn(x, mean, rate)


def _learn_known(
    x: Any, expected: Any, inverse: Any, variance: Any, base: Any, row: Any, product: Any, square: Any, mean: Any,
    rate: Any, variance_rate: Any, gain_rate: Any, row_rate: Any,
) -> Any:  # fmt: skip
    """What a known one teaches: variance, the averages of r (h - pm) and of r^2, running mean, last row, its row."""
    r = x - base
    return (
        _variance(x, expected, inverse, variance, variance_rate),
        _approach(r * (row - base), product, gain_rate),
        _approach(r * r, square, gain_rate),
        *_learn(x, mean, rate),
        _approach(x, row, row_rate),
    )


def _learn_pair(x: Any, first: Any, row: Any, product: Any, square: Any, rate: Any, row_rate: Any) -> Any:
    """The averages of r (h2 - mu) and of (h2 - mu)^2, and the pair's row."""
    d = row - first
    return (
        _approach((x - first) * d, product, rate),
        _approach(d * d, square, rate),
        _approach(x, row, row_rate),
    )


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


expect: Any = lanes16(_expect, "fff>ff")
recall: Any = lanes16(_recall, "ffffff>fff")
expect_pair: Any = lanes16(_expect_pair, "fffff>fff")
recall_pair: Any = lanes16(_recall_pair, "ffffffff>ffff")
turn: Any = lanes16(_turn, "ffffff>ffff")
unturn: Any = lanes16(_unturn, "ffff>ff")
learn: Any = lanes16(_learn, "ffF>ff")
learn_new: Any = lanes16(_learn_new, "ffffFF>fff")
learn_known: Any = lanes16(_learn_known, "fffffffffFFFF>ffffff")
learn_pair: Any = lanes16(_learn_pair, "fffffFF>fff")
copy: Any = lanes16(_copy, "f>f")
add: Any = lanes16(_add, "ff>f")
subtract: Any = lanes16(_subtract, "ff>f")
approach: Any = lanes16(_approach, "ffF>f")
