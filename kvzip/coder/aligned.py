"""Arrays that begin at a cache line: a vector of sixteen numbers that straddles two lines costs twice."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE = 64


def zeros(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Like ``np.zeros``."""
    return _at_line(np.zeros, shape, dtype)


def empty(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Like ``np.empty``."""
    return _at_line(np.empty, shape, dtype)


def _at_line(make: Any, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    count = shape if isinstance(shape, int) else prod(shape)
    size = count * np.dtype(dtype).itemsize
    raw = make(size + LINE, np.uint8)
    skip = -raw.ctypes.data % LINE
    array: NDArray[Any] = raw[skip : skip + size].view(dtype)
    return array if isinstance(shape, int) else array.reshape(shape)
