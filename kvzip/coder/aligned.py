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


def parts(wanted: list[tuple[int | tuple[int, ...], Any]]) -> list[NDArray[Any]]:
    """``zeros`` of several shapes and types at once, each at a cache line of one run of memory."""
    sizes = [(shape if isinstance(shape, int) else prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in wanted]
    whole = zeros(sum(size + -size % LINE for size in sizes), np.uint8)
    arrays, at = [], 0
    for (shape, dtype), size in zip(wanted, sizes, strict=True):
        arrays.append(whole[at : at + size].view(dtype).reshape(shape))
        at += size + -size % LINE
    return arrays


def _at_line(make: Any, shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    count = shape if isinstance(shape, int) else prod(shape)
    size = count * np.dtype(dtype).itemsize
    raw = make(size + LINE, np.uint8)
    skip = -raw.__array_interface__["data"][0] % LINE
    array: NDArray[Any] = raw[skip : skip + size].view(dtype)
    return array if isinstance(shape, int) else array.reshape(shape)
