"""The angle of every token: cosines and sines by recurrence from those of one step, in float64.

    c' = c cos w - s sin w,  s' = s cos w + c sin w;   every 64 steps both times (3 - c^2 - s^2) / 2

Products and sums only, so every machine gets the same bits; only w matters, where a dump starts does not.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kvzip.coder import aligned
from kvzip.coder.jit import borrowing

STEADY = 64  # tokens between two corrections of the length


@borrowing
def turn_tokens(step_cos, step_sin, state, token, tokens, width, out):  # type: ignore[no-untyped-def]
    """Fill flat ``out`` (tokens, 2, width) float32 with cosines and sines of the pairs; advance ``state`` (2, pairs).

    ``token`` is the first one's number; beyond the pairs ``out`` is left alone.
    """
    for t in range(tokens):
        steady = (token + t) % STEADY == 0
        for p in range(len(step_cos)):
            c = state[0, p]
            s = state[1, p]
            if steady:
                length = 1.5 - 0.5 * (c * c + s * s)
                c = c * length
                s = s * length
            out[t * 2 * width + p] = np.float32(c)
            out[(t * 2 + 1) * width + p] = np.float32(s)
            state[0, p] = c * step_cos[p] - s * step_sin[p]
            state[1, p] = s * step_cos[p] + c * step_sin[p]


@lru_cache(maxsize=4)
def angles_of(
    cos: tuple[float, ...], sin: tuple[float, ...], state: bytes, token: int, tokens: int, width: int
) -> tuple[NDArray[np.float32], bytes]:
    """The table of ``turn_tokens`` for ``tokens`` from ``token`` on, and the state behind them; all keys share it.

    ``cos`` and ``sin`` are those of one step by pair; ``state`` is empty before the first token.
    """
    if state:
        angle = np.frombuffer(state, np.float64).reshape(2, -1).copy()
    else:
        angle = np.stack([np.ones(len(cos)), np.zeros(len(cos))])
    table = aligned.zeros(tokens * 2 * width, np.float32)
    turn_tokens(np.array(cos), np.array(sin), angle, token, tokens, width, table)
    return table, angle.tobytes()
