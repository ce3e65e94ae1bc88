"""``peek``, ``poke`` and pointers reach the elements they name; floats and their bits are the same number."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from kvzip.coder import memory

peek, poke, pointer_of, advance = memory.peek, memory.poke, memory.pointer_of, memory.advance
bits_of, float_of = memory.bits_of, memory.float_of


@numba.njit
def through_array(x, i, value):
    before = peek(x, i)
    poke(x, i, value)
    return before


@numba.njit
def through_pointer(x, skipped, i, value):
    behind = advance(pointer_of(x), skipped)
    before = peek(behind, i)
    poke(behind, i, value)
    return before


@numba.njit
def there_and_back(bits):
    return bits_of(float_of(bits))


@pytest.mark.parametrize("kind", ["u1", "u2", "i4", "u4", "i8", "f4", "f8"])
def test_elements_are_read_and_written_where_they_are(kind):
    for at in range(7):
        x = (np.arange(7) + 1).astype(kind)
        assert through_array(x, at, 100) == at + 1
        assert x.tolist() == [100 if i == at else i + 1 for i in range(7)]


@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 3, 4)])
def test_a_pointer_runs_through_an_array_in_order(shape):
    for skipped, at in [(0, 0), (0, 23), (23, 0), (6, 5), (np.int32(5), np.int64(6))]:
        x = np.arange(24, dtype=np.int64).reshape(shape)
        assert through_pointer(x, skipped, at, -1) == skipped + at
        assert np.flatnonzero(x.reshape(-1) == -1).tolist() == [skipped + at]


def test_values_are_cast_to_the_arrays_type():
    x = np.zeros(2, np.uint8)
    through_array(x, 1, 0x1234)
    assert x.tolist() == [0, 0x34]


def test_bits_survive_as_floats():
    for bits in (0, 1, -1, 0x7F800001, 0x7FC00000, -0x80000000, 0x3F800000, 0x007FFFFF):
        assert there_and_back(np.int32(bits)) == bits
        assert memory._plain_bits(memory._plain_float(bits)) == bits
    assert memory._plain_float(0x3F800000) == 1.0
