"""How near a draft is to values, for the encoder's choices: sums in a fixed order, one pass, nothing kept."""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import kernel
from kvzip.coder.memory import peek, pointer_of

RUN = 512  # words compared before it is asked whether any differed


@kernel
def fit(values, numbers, draft, out):  # type: ignore[no-untyped-def]
    """Of each stream of ``values`` (streams, tokens, channels), ``numbers`` by bit pattern, and a ``draft`` of them:
    the sums of x d and of d^2, into ``out`` (streams, 2) float64."""
    streams, tokens, channels = values.shape
    for s in range(streams):
        for t in range(tokens):
            product = np.float64(0)
            square = np.float64(0)
            for c in range(channels):
                d = np.float64(draft[s, t, c])
                product += np.float64(numbers[values[s, t, c]]) * d
                square += d * d
            out[s, 0] += product
            out[s, 1] += square


@kernel
def distances(values, numbers, draft):  # type: ignore[no-untyped-def]
    """The mean squares of what a ``draft`` leaves of ``values`` and of their steps from token to token."""
    streams, tokens, channels = values.shape
    left = np.float64(0)
    steps = np.float64(0)
    for s in range(streams):
        for t in range(tokens):
            for c in range(channels):
                x = np.float64(numbers[values[s, t, c]])
                e = x - np.float64(draft[s, t, c])
                left += e * e
                if t > 0:
                    step = x - np.float64(numbers[values[s, t - 1, c]])
                    steps += step * step
    count = np.float64(streams * channels)
    return left / (count * max(1, tokens)), steps / (count * max(1, tokens - 1))


@kernel
def wide(bits, shift, most, out):  # type: ignore[no-untyped-def]
    """Flat ``bits`` that are the upper ones of float32, all but ``shift``, as its bits into ``out``; 0 from the size
    ``most`` on."""
    for i in range(len(bits)):
        x = np.uint32(bits[i]) << np.uint32(shift)
        out[i] = x if (x & np.uint32(0x7FFFFFFF)) < most else np.uint32(0)


@kernel
def first_difference(a, b):  # type: ignore[no-untyped-def]
    """Where ``a`` and ``b``, equally long and of uint64, differ first; their length if they do not."""
    count = len(a)
    start = np.int64(0)
    x, y = pointer_of(a), pointer_of(b)
    while start < count:
        stop = min(start + RUN, count)
        different = np.uint64(0)
        for i in range(start, stop):
            different |= peek(x, i) ^ peek(y, i)
        if different:
            while a[start] == b[start]:
                start += 1
            return start
        start = stop
    return count
