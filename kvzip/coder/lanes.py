"""Formulas over sixteen lanes, written once in Python, compiled to vector code without anything fused or reordered.

A *formula* is a function of lanes, which add, multiply, shift and compare elementwise as NumPy arrays of int32 and
float32 do; ``select``, ``bits_of`` and the like below work on both. ``lanes16`` makes of it a function for kernels:

    step = lanes16(formula, "ff>f")         formula(a, b) -> c
    step(x, i, y, j, out, k)                out[k:k+16] = formula(x[i:i+16], y[j:j+16])

Letters before ``>`` are the inputs: f float32, i any integers up to 32 bits, and F, I one number for all lanes, given
as a scalar; behind it the outputs, stored in the type of their array. Because a formula names its loads and stores,
LLVM need not prove that arrays do not overlap, and whole steps stay in registers; sixteen lanes run on any CPU, as
one vector or several. Without the compiler (``NUMBA_DISABLE_JIT=1``) the formula runs on NumPy arrays: the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from kvzip.coder.memory import place_of

WIDTH = 16
_INT = ir.VectorType(ir.IntType(32), WIDTH)
_FLOAT = ir.VectorType(ir.FloatType(), WIDTH)
_SPLAT = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)


class Lanes:
    """Sixteen values in the making. Integers are int32 and wrap around; ``>>`` keeps the sign."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    @property
    def floats(self) -> bool:
        """Whether these are float32."""
        return bool(self.value.type == _FLOAT)

    def _of(self, other: Any) -> Any:
        if isinstance(other, Lanes):
            return other.value
        element = _FLOAT.element if self.floats else _INT.element
        if self.value.type.element == ir.IntType(1):
            raise TypeError("conditions combine with conditions only")
        return ir.Constant(ir.VectorType(element, WIDTH), [element(_exact(other, self.floats))] * WIDTH)

    def _do(self, name: str, other: Any, swapped: bool = False) -> Lanes:
        a, b = self.value, self._of(other)
        if swapped:
            a, b = b, a
        return Lanes(self.builder, getattr(self.builder, ("f" if self.floats else "") + name)(a, b))

    def _compare(self, how: str, other: Any) -> Lanes:
        compare = self.builder.fcmp_ordered if self.floats else self.builder.icmp_signed
        return Lanes(self.builder, compare(how, self.value, self._of(other)))

    def __add__(self, other: Any) -> Lanes:
        return self._do("add", other)

    def __radd__(self, other: Any) -> Lanes:
        return self._do("add", other, True)

    def __sub__(self, other: Any) -> Lanes:
        return self._do("sub", other)

    def __rsub__(self, other: Any) -> Lanes:
        return self._do("sub", other, True)

    def __mul__(self, other: Any) -> Lanes:
        return self._do("mul", other)

    def __rmul__(self, other: Any) -> Lanes:
        return self._do("mul", other, True)

    def __and__(self, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.and_(self.value, self._mask(other)))

    def __or__(self, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.or_(self.value, self._mask(other)))

    def __xor__(self, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.xor(self.value, self._mask(other)))

    def __lshift__(self, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.shl(self.value, self._of(other)))

    def __rlshift__(self, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.shl(self._of(other), self.value))

    def __rshift__(self, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.ashr(self.value, self._of(other)))

    def __lt__(self, other: Any) -> Lanes:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Lanes:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Lanes:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Lanes:
        return self._compare(">=", other)

    def _mask(self, other: Any) -> Any:
        return other.value if isinstance(other, Lanes) else self._of(other)


def _exact(number: Any, floats: bool) -> Any:
    return float(np.float32(number)) if floats else int(number)


def select(condition: Any, yes: Any, no: Any) -> Any:
    """Lane by lane ``yes`` where the condition holds, else ``no``; at least one of them is lanes."""
    if not isinstance(condition, Lanes):
        return np.where(condition, yes, no).astype(
            np.result_type(getattr(yes, "dtype", no), getattr(no, "dtype", yes))
        )
    typed = yes if isinstance(yes, Lanes) else no
    builder = condition.builder
    return Lanes(builder, builder.select(condition.value, typed._of(yes), typed._of(no)))


def smaller(a: Any, b: Any) -> Any:
    """The smaller one of lanes ``a`` and ``b``; ``b`` if they do not compare."""
    return select(a < b, a, b)


def larger(a: Any, b: Any) -> Any:
    """The larger one of lanes ``a`` and ``b``; ``b`` if they do not compare."""
    return select(a > b, a, b)


def bits_of(x: Any) -> Any:
    """The bits of float32 lanes."""
    return Lanes(x.builder, x.builder.bitcast(x.value, _INT)) if isinstance(x, Lanes) else x.view(np.int32)


def float_of(x: Any) -> Any:
    """The float32 lanes with these bits."""
    return Lanes(x.builder, x.builder.bitcast(x.value, _FLOAT)) if isinstance(x, Lanes) else x.view(np.float32)


def to_float(x: Any) -> Any:
    """Integers as float32, rounded to nearest even."""
    return Lanes(x.builder, x.builder.sitofp(x.value, _FLOAT)) if isinstance(x, Lanes) else x.astype(np.float32)


def to_int(x: Any) -> Any:
    """float32 rounded towards 0; the caller keeps them within int32."""
    return Lanes(x.builder, x.builder.fptosi(x.value, _INT)) if isinstance(x, Lanes) else x.astype(np.int32)


def magnitude(x: Any) -> Any:
    """Floats without their sign."""
    return float_of(bits_of(x) & 0x7FFFFFFF)


def lanes16(formula: Callable[..., Any], shape: str) -> Any:
    """``formula`` as a function for kernels; see the module's text."""
    inputs, outputs = shape.split(">")
    settings: Any = config
    return _plain(formula, inputs, outputs) if settings.DISABLE_JIT else _compiled(formula, inputs, outputs)


def _compiled(formula: Callable[..., Any], inputs: str, outputs: str) -> Any:
    names = []
    for at, letter in enumerate(inputs):
        names += [f"x{at}"] if letter.isupper() else [f"x{at}", f"i{at}"]
    for at in range(len(outputs)):
        names += [f"y{at}", f"j{at}"]

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = list(zip(signature.args, values, strict=True))
        lanes = []
        for letter in inputs:
            kind, value = given.pop(0)
            if letter.isupper():
                lanes.append(_broadcast(context, builder, kind, value, letter == "F"))
            else:
                lanes.append(_load(context, builder, kind, value, *given.pop(0)))
        results = formula(*lanes)
        for result in results if isinstance(results, tuple) else (results,):
            kind, value = given.pop(0)
            _store(context, builder, kind, value, *given.pop(0), result)
        return context.get_dummy_value()

    def typer(typingctx: Any, *kinds: Any) -> Any:
        return types.void(*kinds), codegen

    space: dict[str, Any] = {"typer": typer}
    text = (
        f"def {formula.__name__}(typingctx, {', '.join(names)}):\n    return typer(typingctx, {', '.join(names)})\n"
    )
    exec(text, space)  # an intrinsic needs its parameters by name
    return intrinsic(space[formula.__name__])


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index_kind: Any, index: Any, width: Any) -> Any:
    at = place_of(context, builder, kind, array, index_kind, index)
    return builder.bitcast(at, width.as_pointer())


def _load(context: Any, builder: Any, kind: Any, array: Any, index_kind: Any, index: Any) -> Lanes:
    element = context.get_value_type(kind.dtype)
    raw = builder.load(
        _pointer(context, builder, kind, array, index_kind, index, ir.VectorType(element, WIDTH)),
        align=max(1, kind.dtype.bitwidth // 8),
    )
    if kind.dtype == types.float32 or kind.dtype.bitwidth == 32:
        return Lanes(builder, raw)
    return Lanes(builder, builder.zext(raw, _INT))


def _store(context: Any, builder: Any, kind: Any, array: Any, index_kind: Any, index: Any, result: Lanes) -> None:
    element = context.get_value_type(kind.dtype)
    width = ir.VectorType(element, WIDTH)
    value = result.value
    if kind.dtype != types.float32 and kind.dtype.bitwidth < 32:
        value = builder.trunc(value, width)
    builder.store(
        value,
        _pointer(context, builder, kind, array, index_kind, index, width),
        align=max(1, kind.dtype.bitwidth // 8),
    )


def _broadcast(context: Any, builder: Any, kind: Any, value: Any, floats: bool) -> Lanes:
    scalar = context.cast(builder, value, kind, types.float32 if floats else types.int32)
    width = _FLOAT if floats else _INT
    first = builder.insert_element(ir.Constant(width, ir.Undefined), scalar, ir.IntType(32)(0))
    return Lanes(builder, builder.shuffle_vector(first, ir.Constant(width, ir.Undefined), _SPLAT))


def _plain(formula: Callable[..., Any], inputs: str, outputs: str) -> Any:
    def run(*given: Any) -> None:
        rest = list(given)
        lanes: list[Any] = []
        for letter in inputs:
            value = rest.pop(0)
            if letter == "F":
                lanes.append(np.full(WIDTH, value, np.float32))
            elif letter == "I":
                lanes.append(np.full(WIDTH, value, np.int32))
            else:
                at = rest.pop(0)
                part = value[at : at + WIDTH]
                lanes.append(part.copy() if part.dtype == np.float32 else part.astype(np.int32))
        with np.errstate(all="ignore"):
            results = formula(*lanes)
        for result in results if isinstance(results, tuple) else (results,):
            array, at = rest.pop(0), rest.pop(0)
            array[at : at + WIDTH] = result.astype(array.dtype)

    return run


def _copy(x: Any) -> Any:
    """x."""
    return x


copy: Any = lanes16(_copy, "i>i")
"""``copy(x, i, out, k)``: sixteen integers."""

repeat: Any = lanes16(_copy, "I>i")
"""``repeat(x, out, k)``: sixteen times the integer ``x``."""


def _reduction(name: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        (kind, index_kind), (array, index) = signature.args, values
        lanes = _load(context, builder, kind, array, index_kind, index)
        shape = ir.FunctionType(ir.IntType(32), [_INT])
        function = cgutils.get_or_insert_function(builder.module, shape, f"llvm.vector.reduce.{name}.v16i32")
        return builder.call(function, [lanes.value])

    return codegen


@intrinsic
def _sum16(typingctx, array, index):  # type: ignore[no-untyped-def]
    return types.int32(array, index), _reduction("add")


@intrinsic
def _or16(typingctx, array, index):  # type: ignore[no-untyped-def]
    return types.int32(array, index), _reduction("or")


def _plain_sum16(array: Any, index: Any) -> Any:
    return array[index : index + WIDTH].astype(np.int32).sum(dtype=np.int32)


def _plain_or16(array: Any, index: Any) -> Any:
    return np.bitwise_or.reduce(array[index : index + WIDTH].astype(np.int32))


_settings: Any = config
sum16: Any = _plain_sum16 if _settings.DISABLE_JIT else _sum16
or16: Any = _plain_or16 if _settings.DISABLE_JIT else _or16
"""The sum, wrapping around, and the bitwise or of sixteen integers of an array from an index on."""
