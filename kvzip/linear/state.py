"""The arrays a group of columns is coded with, as tuples that kernels take apart by name.

A group's columns, each of 16 and its multiples: the constant and the base | keys in RoPE pairs | other keys | values.
Arrays over all columns have the length ``16 * blocks``; arrays over own columns start at the first own block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Recursion(NamedTuple):
    """Recursive least squares: what one sweep reads and writes. ``lower`` holds tiles of 16 x 16, see ``panel``."""

    lower: Floats  # row block after row block, each from its diagonal tile on
    x: Floats  # what of the last token's column is not yet explained
    p: Floats  # the prediction of this token's column so far
    e: Floats  # residuals of the last token
    g: Floats  # their gains
    n: Floats  # residuals of this token
    d: Floats  # energies of the residuals
    delta: Floats  # what d starts at


class Columns(NamedTuple):
    """What turns a prediction of an own column into a mean and a deviation, and learns from the value."""

    y: Floats  # all columns: this token, normalised
    centre: Floats
    spread: Floats
    inverse: Floats  # 1 / spread
    scale: Floats  # mean = scale * p + shift
    other: Floats  # + other * p of the second recursion
    shift: Floats
    deviation: Floats
    precision: Floats  # 1 / deviation
    slope: Floats  # of a pair's second value on its first one's residual, at the pair's first column
    cosine: Floats
    sine: Floats
    variance: Floats
    cross: Floats  # covariance of a pair, at its first column
    residual: Floats
    blur: Floats  # variance of what is not known of the residual
    twist: Floats  # its covariance in a pair, at its first column
    value: Floats
    near: Floats  # what the base's nearest layer predicts, normalised
    based: Floats  # what all of the base predicts
    mixed: Floats  # residual of the two recursions' mixture


class Symbols(NamedTuple):
    """The alphabet, the distributions (one each for keys and values), and the runs of constant channels."""

    values: Floats
    edges: Floats
    shape: Ints  # see below
    linear: Floats  # least normal number, patterns per unit below it
    table: NDArray[np.int32]
    inverse: Floats
    moments: NDArray[np.float64]  # see ``posterior``
    counts: Ints
    work: Ints
    last: NDArray[np.int32]  # of each own column: the last k
    run: NDArray[np.int32]  # how often it was the same


class Work(NamedTuple):
    """All else: what the group is made of, parameters, counters, and room to work in."""

    kinds: Ints  # (blocks, 3): pairs, singles and kind of each block
    kind_of: Ints  # of each own column
    history: Floats  # own columns of the first tokens
    base_history: Floats
    blurs: Floats  # of own columns: sums over the first tokens
    sharp: Floats  # of the base's: zeros
    centres: NDArray[np.float64]  # of the base's columns
    inverses: NDArray[np.float64]
    angle: NDArray[np.float64]  # cosine and sine of each pair at this token
    turn: NDArray[np.float64]
    rates: Floats  # of the energy, by the values coded of a token
    shares: Ints  # of a count, by the cells it is spread over
    mix: NDArray[np.float64]
    whole: Ints  # parameters, see below
    real: Floats
    counters: Ints
    constant: Floats  # a block of columns: the constant
    spare: Floats
    room: Floats
    means: NDArray[np.float64]
    devs: NDArray[np.float64]


SHIFT, OFFSET, HALF, SIGN, GREATEST, ABSURDITIES = range(6)

# Slots of the integer parameters of a group, of the float parameters, and of the counters.
(
    BLOCKS, BASE, LIMIT, BACK, BOTH, PAIRS, OWN, REPEATS, STRIDE, COUNT_EVERY, COARSE, WITH_PARTS, NEAR,
) = range(13)  # fmt: skip
KEEP, WEIGHT_FLOOR, WEIGHT_CEILING, RATE, KEEP_TWO, SURPRISE, USUAL, LEAST_SPREAD, SPREAD_FLOOR = range(9)
TOKEN, NEXT_ADAPT, STRANGE, CLOCK = range(4)
