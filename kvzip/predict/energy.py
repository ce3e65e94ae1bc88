"""A token's energy: how its squared errors compare to their variances, log2, on average over its channels.

Channels that are coded before, in this stream or in those of the block before it, tell it; those that follow have
their variances multiplied by 2^L,

    L = sum over the n channels coded so far of (log2(error^2 / variance) - usual) / (n + 8)

where *usual* is the stream's running average of that logarithm. Sums are integers in units of 2^-8.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import step
from kvzip.coder.memory import float_of, peek, poke

USUAL_START = -333  # in 2^-8: about what Gaussian errors have
USUAL_SHIFT = 5  # the running average moves 2^-5 of the way, in units of 2^-16
DOUBT = 8  # channels' worth of doubt
CLIP = np.float32(8 * 256)


@step
def factor(total, channels):  # type: ignore[no-untyped-def]
    """2^L, from the sum in 2^-8 over so many channels; linear between powers of two."""
    log = np.float32(total) / np.float32(channels + DOUBT)
    log = max(-CLIP, min(CLIP, log))
    return float_of(np.int32((127 << 23) + (np.int32(log) << 15)))


@step
def learn_usual(learn, at, total, channels):  # type: ignore[no-untyped-def]
    """Follow the average over a row of ``channels`` whose logarithms sum to ``total``."""
    usual = peek(learn, at)
    poke(learn, at, usual + (((total << 8) // channels - usual) >> USUAL_SHIFT))
