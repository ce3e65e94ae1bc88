"""Formulas over sixteen lanes: compiled, they give what they give on NumPy arrays, bit for bit."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.coder import lanes
from kvzip.coder.lanes import WIDTH, bits_of, float_of, lanes16, larger, magnitude, select, smaller, to_float, to_int

STRANGE = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF,
    0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7FFFFFFF, 0x4F000000, 0x34000000,
]  # fmt: skip
WORDS = some.sampled_from(STRANGE) | some.integers(0, (1 << 32) - 1)


def arithmetic(a, b, c):
    return a + b, a - b, a * b, a * b + c, a * b - c * c, 1.5 - a, 0.1 * b, a + 3, a * (b - c), 2.0 - b * b


def choices(a, b, c):
    near = (a < b) & (b <= c)
    odd = (a > c) ^ (a >= b)
    return (
        smaller(a, b), larger(a, b), smaller(c, 0.5), larger(a, 2.0**-100), select(near, a, c), select(odd, b, 0.0),
        select(near | odd, 1.0, b), magnitude(a), float_of(bits_of(b) | -0x80000000), float_of(bits_of(c)),
    )  # fmt: skip


def integers(a, b, c):
    s = c & 31
    return (
        a + b, a - b, a * b, a * 3 + 7, 5 - b, (a & b) | (c ^ 1), a << s, b >> s, 1 << s, (a >> 7) & 0xFFFF,
        select(a < b, a, -1), select((b > 3) & (c <= a), (a & 0) + 1, c & 0), smaller(larger(a, 0), 127), bits_of(
            to_float(a)),
    )  # fmt: skip


def conversions(a, b, c):
    inside = larger(smaller(a, 65536.0), -65536.0)
    return to_int(inside), to_int(magnitude(inside)), bits_of(a) >> 23, bits_of(a * b), bits_of(c) & 0x7FFFFFFF


FORMULAS = {
    arithmetic: ("fff", "f" * 10),
    choices: ("fff", "f" * 10),
    integers: ("iii", "i" * 14),
    conversions: ("fff", "i" * 5),
}


def runner(formula, inputs, outputs):
    """A kernel of the compiled formula: inputs and outputs are rows of sixteen in two flat arrays."""
    step = lanes16(formula, f"{inputs}>{outputs}")
    read = ", ".join(f"x, {at}" for at in range(1, 1 + WIDTH * len(inputs), WIDTH))  # odd starts: nothing is aligned
    write = ", ".join(f"y, {WIDTH * at}" for at in range(len(outputs)))
    space = {"step": step, "kernel": numba.njit(error_model="numpy")}
    exec(f"@kernel\ndef run(x, y):\n    step({read}, {write})\n", space)
    return space["run"]


RUN = {formula: runner(formula, *shape) for formula, shape in FORMULAS.items()}


def same(found, expected):
    """Equal bits; any NaN is as good as another where one was made by arithmetic."""
    if found.dtype == np.float32:
        both = np.isnan(found) & np.isnan(expected)
        return np.array_equal(np.where(both, 0, found.view(np.uint32)), np.where(both, 0, expected.view(np.uint32)))
    return np.array_equal(found, expected)


def check(formula, words):
    inputs, outputs = FORMULAS[formula]
    kind = np.float32 if inputs[0] == "f" else np.int32
    x = np.array([0, *words], np.uint32).view(kind)
    y = np.zeros(WIDTH * len(outputs), np.float32 if outputs[0] == "f" else np.int32)
    RUN[formula](x, y)
    given = [x[at : at + WIDTH] for at in range(1, len(x), WIDTH)]
    with np.errstate(all="ignore"):
        expected = formula(*(part.copy() for part in given))
    for number, part in enumerate(expected):
        found = y[WIDTH * number :][:WIDTH]
        assert same(found, np.asarray(part, y.dtype)), (formula.__name__, number, [hex(w) for w in words])


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__name__)
def test_every_pair_of_strange_values(formula):
    pairs = np.array([(a, b) for a in STRANGE for b in STRANGE], np.uint64)
    pairs = np.concatenate([pairs, pairs[: -len(pairs) % WIDTH]])
    for at in range(0, len(pairs), WIDTH):
        a, b = pairs[at : at + WIDTH].T
        check(formula, np.concatenate([a, b, np.roll(b, 5)]))


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.__name__)
@settings(max_examples=80, deadline=None)
@given(some.lists(WORDS, min_size=3 * WIDTH, max_size=3 * WIDTH))
def test_any_bits(formula, words):
    check(formula, words)


def narrow(x, number, shift):
    """Loads, stores and scalars of other widths."""
    return x + number, x << shift, to_float(x) * 0.5


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int32, np.uint32])
def test_integers_of_any_width_are_loaded_and_stored_in_their_type(kind):
    step = lanes16(narrow, "iII>iif")
    x = np.arange(40, dtype=np.int64) * 0x01234567
    x = x.astype(kind)
    run = numba.njit(lambda x, n, s, y, f: step(x, 3, n, s, y, 1, y, 20, f, 2))
    found, expected = (np.zeros(40, kind), np.zeros(40, np.float32)), (np.zeros(40, kind), np.zeros(40, np.float32))
    run(x, 77, 3, *found)
    lanes._plain(narrow, "iII", "iif")(x, 3, 77, 3, expected[0], 1, expected[0], 20, expected[1], 2)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])
    assert not found[0][[0, 17, 18, 19, 36]].any()  # nothing beside the sixteen is touched


def test_conditions_and_numbers_do_not_mix():
    with pytest.raises(Exception, match="conditions combine with conditions only"):
        numba.njit(lambda x: lanes16(lambda a: select((a < 1) & 1, a, a), "i>i")(x, 0, x, 0))(np.zeros(16, np.int32))


@settings(max_examples=40, deadline=None)
@given(some.lists(some.integers(0, (1 << 32) - 1), min_size=20, max_size=20), some.integers(0, 4))
def test_reductions_equal_their_twins(words, at):
    x = np.array(words, np.uint32)
    found = REDUCED(x.view(np.int32), at)
    assert found == (lanes._plain_sum16(x.view(np.int32), at), lanes._plain_or16(x.view(np.int32), at))
    assert REDUCED(x, at)[1] & 0xFFFFFFFF == int(np.bitwise_or.reduce(x[at : at + 16]))


SUM16, OR16 = lanes.sum16, lanes.or16
REDUCED = numba.njit(lambda x, at: (SUM16(x, at), OR16(x, at)))
