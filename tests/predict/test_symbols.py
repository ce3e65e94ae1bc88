"""Symbols stand for values: every value of a type, whatever is predicted, comes back or escapes."""

from __future__ import annotations

import ast
import inspect

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.coder import lanes
from kvzip.coder.lanes import WIDTH
from kvzip.predict import grid as grids
from kvzip.predict import rows, sixteen, symbols
from kvzip.predict.symbols import OUT, SYMBOLS

from .test_grid import FLOATS, GRIDS, packed

BITS = 12


SYMBOLISE = lanes.lanes16(symbols.symbols_of, "iiIII>ii")
DESYMBOLISE = lanes.lanes16(symbols.values_of, "iiiII>ii")
coding = numba.njit(
    lambda values, at, packed, sign_at, mask, out, lows: SYMBOLISE(
        values, at, packed, 0, sign_at, mask, BITS, out, at, lows, at
    )
)
decoding = numba.njit(
    lambda out, lows, at, packed, sign_at, mask, values, again: DESYMBOLISE(
        out, at, lows, at, packed, 0, sign_at, mask, values, at, again, at
    )
)


@settings(max_examples=40, deadline=None)
@given(some.sampled_from(["BF16", "F16", "F8_E4M3", "F8_E5M2"]), some.data())
def test_every_value_comes_back_or_escapes(name, data):
    """All bit patterns of the type against one prediction."""
    grid = GRIDS[name]
    mean = data.draw(some.floats(-1e4, 1e4, width=32) | FLOATS)
    variance = data.draw(some.floats(2.0**-60, 2.0**60, width=32) | FLOATS)
    code, shift, negative, two, context = (x[:1] for x in packed(grid, [mean] * WIDTH, [variance] * WIDTH))
    row = np.repeat(code | shift << 16 | negative << 20 | two << 21 | context << 22, WIDTH).astype(np.int32)
    values = np.arange(1 << grid.bits).astype(f"<u{grid.bits // 8}")
    sign_at, mask = grid.bits - 1, (1 << (grid.bits - 1)) - 1
    out, lows = np.zeros(len(values), np.uint8), np.zeros(len(values), np.uint32)
    back, again = np.zeros_like(values), np.zeros_like(out)
    for at in range(0, len(values), WIDTH):
        coding(values, at, row, sign_at, mask, out, lows)
    coded = out != OUT
    assert (out[coded] < SYMBOLS).all()
    keep = np.where(coded, BITS - shift[0], BITS)
    assert np.array_equal(lows & 0xFFFF, 1 << keep)  # an interval of 2^keep of 2^BITS
    low = (lows >> 16) >> keep
    for at in range(0, len(values), WIDTH):
        decoding(out.astype(np.uint32), low.astype(np.uint32), at, row, sign_at, mask, back, again)
    assert np.array_equal(back[coded], values[coded])
    assert np.array_equal(again[coded], out[coded])
    assert len({*zip(out[coded].tolist(), low[coded].tolist(), strict=True)}) == coded.sum()  # no two alike


def formulas():
    """(name, formula, shape, compiled) of every formula that the prediction's modules make."""
    for module in (grids, rows, symbols, sixteen):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            call = getattr(node, "value", None)
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "lanes16":
                name = node.target.id
                yield name, getattr(module, call.args[0].id), call.args[1].value, getattr(module, name)


FORMULAS = [pytest.param(*rest, id=f"{name}-{rest[1]}") for name, *rest in formulas()]


@pytest.mark.parametrize(("formula", "shape", "compiled"), FORMULAS)
def test_formulas_are_their_own_twins(formula, shape, compiled):
    inputs, outputs = shape.split(">")
    given = [f"x{n}" if letter.isupper() else f"x{n}, 3" for n, letter in enumerate(inputs)]
    written = [f"y{n}, 5" for n in range(len(outputs))]
    names = ", ".join([f"x{n}" for n in range(len(inputs))] + [f"y{n}" for n in range(len(outputs))])
    space = {"compiled": compiled, "plain": lanes._plain(formula, inputs, outputs)}
    exec(f"def run({names}): compiled({', '.join(given + written)})", space)
    exec(f"def slow({names}): plain({', '.join(given + written)})", space)
    run = numba.njit(space["run"])
    source = np.random.default_rng(0)
    for _ in range(60):
        arguments = []
        for letter in inputs:
            if letter in "fF":
                x = (source.normal(size=24) * np.exp(source.uniform(-30, 30))).astype(np.float32)
                x[source.integers(0, 24, 2)] = source.choice([0, np.inf, np.nan, 1e-42, -3e38])
            else:
                x = source.integers(0, 1 << source.integers(1, 31), 24).astype(np.int32)
            arguments.append(x.flat[0] if letter.isupper() else x)
        if formula in (sixteen._read, sixteen._write, grids._pack, grids._pack_bf16):
            small = [
                source.integers(1, 16) if letter == "I" else x for letter, x in zip(inputs, arguments, strict=True)
            ]
            arguments = [np.int64(x) if letter == "I" else x for letter, x in zip(inputs, small, strict=True)]
        results = []
        for call in (run, space["slow"]):
            out = [np.zeros(24, np.float32 if letter == "f" else np.int32) for letter in outputs]
            call(*arguments, *out)
            results.append([np.where(np.isnan(x), 0, x.view(np.int32)).tolist() for x in out])
        assert results[0] == results[1]


def test_bf16_needs_less_and_gets_the_same():
    """Every bit pattern, and predictions of all sizes: what is left out for BF16 makes no difference."""
    m, sign_at, mask, down, offset, normal, _ = GRIDS["BF16"].vector().tolist()
    source = np.random.default_rng(1)
    values = np.arange(1 << 16).astype(np.int32)
    mean = (source.normal(size=1 << 16) * np.exp(source.uniform(-80, 80, 1 << 16))).astype(np.float32)
    variance = np.exp(source.uniform(-60, 60, 1 << 16)).astype(np.float32)
    live = np.full(1 << 16, -1, np.int32)
    energy, lift, unit = np.float32(1.5), np.float32(2.0**60), np.float32(0)
    with np.errstate(all="ignore"):
        wide = grids._pack(mean, variance, energy, m, down, offset, normal, mask, lift, 12)
        narrow = grids._pack_bf16(mean, variance, energy, m, mask, 12)
        whole = sixteen._write(
            values, wide[0], mean, variance, live, sign_at, mask, 12, normal, offset, down, unit
        )  # fmt: skip
        less = sixteen._write(values, wide[0], mean, variance, live, sign_at, mask, 12)
        entries, lows = whole[0] & 0xFF, whole[1] & 7
        back = sixteen._read(entries, lows, wide[0], mean, variance, live, sign_at, mask, normal, offset, down, unit)
        bare = sixteen._read(entries, lows, wide[0], mean, variance, live, sign_at, mask)
    for one, other in zip((*wide, *whole, *back), (*narrow, *less, *bare), strict=True):
        assert np.array_equal(one.view(np.int32), other.view(np.int32))
