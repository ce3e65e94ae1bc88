"""The cold-start prior: what a window believes before it has seen a token.

A plane's symbol is ``[exponent | sign | rest]`` from its top bit down, any field possibly absent (``Fields``). The
prior of a window is the product of

    shape      one of 32 trained distributions of the exponent, 64 wide, placed by ``reference``
    sign       one of 16 levels of P(sign = 1)
    rest       uniform

chosen by the encoder for each class on the sampled tokens and written as up to three bytes. The shapes are an asset
named by version (``priors/exponents-1.bin``: 32 rows of 64 little-endian uint16, each row summing to 2^15); they
were trained by k-means on class histograms of a real dump and of Gaussians with |mean|/sigma from 0 to 32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import peek, pointer_of, poke
from kvzip.windows.estimator import ESCAPE, INCREMENT_START
from kvzip.windows.lengths import code_lengths

SHAPES = 32
SHAPE_WIDTH = 64
SHAPE_CENTRE = 40  # index of the exponent that ``reference`` names
SHAPE_BITS = 15
ESCAPE_MASS = 16  # of 2^16
REACH = 4  # exponents to either side of the mean that are tried as reference
# round(2^16 / (1 + exp(-t))) for 16 values of t evenly spaced from -6 to 6
SIGN_LEVELS = (
    162,
    360,
    795,
    1743,
    3757,
    7812,
    15170,
    26300,
    39236,
    50366,
    57724,
    61779,
    63793,
    64741,
    65176,
    65374,
)

SIGNS = np.array(SIGN_LEVELS, np.int64)
SIGN_MIDDLES = np.array([(a + b) // 2 for a, b in pairwise(SIGN_LEVELS)], np.int64)


@dataclass(frozen=True)
class Fields:
    """What a plane's symbols are made of: widths in bits of exponent, sign (0 or 1) and the rest."""

    exponent: int
    sign: int
    rest: int

    @property
    def width(self) -> int:
        """Bits of a symbol, 1..8."""
        return self.exponent + self.sign + self.rest

    @property
    def bytes_per_class(self) -> int:
        """How many bytes a class's prior takes in a block."""
        return (2 if self.exponent else 0) + self.sign


@cache
def shapes(identifier: str = "exponents-1") -> NDArray[np.int64]:
    """The trained shapes, (32, 64) int64, rows summing to 2^15."""
    raw = files("kvzip").joinpath("priors").joinpath(identifier + ".bin").read_bytes()
    return np.frombuffer(raw, "<u2").reshape(SHAPES, SHAPE_WIDTH).astype(np.int64)


@cache
def shape_lengths() -> NDArray[np.float64]:
    """Code length of every entry of the shapes in 1/256 bit, (64, 32). They are whole numbers."""
    return np.ascontiguousarray(code_lengths(SHAPE_BITS)[shapes()].T).astype(np.float64)


@borrowing
def _choose_shape(exponents, size, lengths, taken, spec, at):  # type: ignore[no-untyped-def]
    """Shape and reference that code the histogram ``exponents[:size]`` in the fewest bits, into ``spec`` at ``at``.

    Sums are whole numbers below 2^53 in float64: exact, and vectors multiply it faster than 64-bit integers.
    """
    flat = pointer_of(lengths)
    total = np.int64(0)
    weighted = np.int64(0)
    for s in range(size):
        total += exponents[s]
        weighted += exponents[s] * s
    mean = (2 * weighted + total) // (2 * max(np.int64(1), total))
    best = np.float64(-1)
    for reference in range(max(0, mean - REACH), min(255, mean + REACH) + 1):
        taken[:] = 0
        for s in range(size):
            if exponents[s] > 0:
                row = min(SHAPE_WIDTH - 1, max(0, s - reference + SHAPE_CENTRE)) * SHAPES
                times = np.float64(exponents[s])
                for shape in range(SHAPES):
                    poke(taken, shape, peek(taken, shape) + times * peek(flat, row + shape))
        for shape in range(SHAPES):
            if best < 0 or taken[shape] < best:
                best = taken[shape]
                spec[at] = shape
                spec[at + 1] = reference


@borrowing
def choose(  # type: ignore[no-untyped-def]
    histograms, exponent_bits, sign_bits, rest_bits, lengths, middles, specs, at, exponents, taken
):
    """The priors of classes for their sampled ``histograms`` (classes, 256), into the bytes ``specs`` from ``at`` on.

    ``lengths`` is ``shape_lengths()``, ``middles`` SIGN_MIDDLES. ``exponents`` (int64, one for each) and ``taken``
    (float64, one for each shape) are room to work in.
    """
    size = 1 << exponent_bits
    for k in range(len(histograms)):
        exponents[:] = 0
        zeros = ones = np.int64(0)
        for s in range(1 << (exponent_bits + sign_bits + rest_bits)):
            exponents[s >> (sign_bits + rest_bits)] += histograms[k, s]
            if (s >> rest_bits) & 1:
                ones += histograms[k, s]
            else:
                zeros += histograms[k, s]
        if exponent_bits:
            _choose_shape(exponents, size, lengths, taken, specs, at)
            at += 2
        if sign_bits:
            share = (ones << 16) // (zeros + ones) if zeros + ones else np.int64(1 << 15)
            level = 0
            for middle in middles:
                level += int(share >= middle)
            specs[at] = level
            at += 1


@borrowing
def exists(specs, at, windows, exponent_bits, sign_bits):  # type: ignore[no-untyped-def]
    """Whether the bytes ``specs`` from ``at`` on name priors that exist."""
    step = (2 if exponent_bits else 0) + sign_bits
    for k in range(windows):
        if exponent_bits and specs[at + k * step] >= SHAPES:
            return False
        if sign_bits and specs[at + k * step + step - 1] >= len(SIGN_LEVELS):
            return False
    return True


@borrowing
def fill(  # type: ignore[no-untyped-def]
    counts, specs, at, members, tokens, shapes, signs, exponent_bits, sign_bits, rest_bits, placed
):
    """Start each window's counts (windows, 257) at its prior, worth ``tokens`` tokens of ``members`` channels each.

    ``specs`` holds the bytes that ``choose`` made, from ``at`` on. Exponents outside the shape's reach have no mass;
    those below 0 or above the field are added to its ends. A shape's mass is 2^SHAPE_BITS, a window's about 2^16
    times its weight. ``shapes`` is ``shapes()``, ``signs`` SIGNS; ``placed`` (int64, one for each
    exponent) is room to work in.
    """
    step = (2 if exponent_bits else 0) + sign_bits
    size = 1 << exponent_bits
    for k in range(len(counts)):
        spec = at + k * step
        weight = min(tokens * members[k], np.int64(1 << 20)) * (INCREMENT_START >> 16)
        placed[:] = 0 if exponent_bits else 1 << SHAPE_BITS
        if exponent_bits:
            for i in range(SHAPE_WIDTH):
                e = i - SHAPE_CENTRE + np.int64(specs[spec + 1])
                placed[min(size - 1, max(0, e))] += shapes[np.int64(specs[spec]), i]
        for e in range(size):
            if placed[e] == 0:
                continue
            for sign in range(1 << sign_bits):
                share = np.int64(1) << 16
                if sign_bits:
                    one = signs[np.int64(specs[spec + step - 1])]
                    share = one if sign else share - one
                mass = ((placed[e] * share) >> (SHAPE_BITS - 8)) >> (8 + rest_bits)
                start = ((e << sign_bits) | sign) << rest_bits
                for s in range(start, start + (1 << rest_bits)):
                    counts[k, s] = mass * weight
        counts[k, ESCAPE] = ESCAPE_MASS * weight
