"""Where and how two dumps differ: their headers, their tensors, and the values of those that both have.

Values are compared as bits: two NaNs with other payloads differ, and so do 0 and -0. How far two numbers are apart is
told as a number and in units in the last place: how many values of the type lie between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.dtypes import DTYPES, Dtype
from kvzip.dumps.safetensors import Header
from kvzip.errors import KvzipError
from kvzip.pipeline.draft import Draft
from kvzip.pipeline.tensors import File, Held, Tensors
from kvzip.predict.grid import grid_of
from kvzip.predict.model import number_table

AT_ONCE = 1 << 22  # values compared at a time
Bits = NDArray[Any]


@dataclass
class TensorDifference:
    """A tensor that is not the same in both. ``what`` is "only in A", "only in B", "type", "shape", "length"
    (the same as far as both go) or "values"."""

    name: str
    what: str
    detail: str = ""  # of a type, a shape or a length: both
    values: int = 0  # compared
    differing: int = 0
    first: tuple[int, ...] = ()  # the index of the first one that differs
    first_values: tuple[float | int | str, ...] = ()  # there, in A and in B
    greatest: float | None = None  # difference of two numbers; None if one is no number
    greatest_ulp: int | None = None  # units in the last place; None for packed types
    nans: int = 0  # differing values that are no number on one side or on both
    signed_zeros: int = 0  # 0 against -0
    tokens: tuple[int, int, int] | None = None  # rows that differ: how many, the first, the last
    heads: tuple[int, ...] | None = None  # heads that differ

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        row = asdict(self)
        rows = row.pop("tokens")
        keys = ("count", "first", "last")
        row |= {
            "detail": self.detail or None,
            "first": list(self.first) or None,
            "first_values": list(self.first_values) or None,
            "heads": None if self.heads is None else list(self.heads),
            "tokens": None if rows is None else dict(zip(keys, rows, strict=True)),
        }
        return row


@dataclass
class Difference:
    """What ``compare`` found; false if there is nothing."""

    a: str
    b: str
    unit: str = "tensor"  # or "stream": what is compared
    header: list[str] = field(default_factory=list)  # how files or headers differ, in words
    tensors: list[TensorDifference] = field(default_factory=list)
    same_tensors: int = 0
    same_values: int = 0

    def __bool__(self) -> bool:
        return bool(self.header or self.tensors)

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "a": self.a,
            "b": self.b,
            "same": not self,
            "header": self.header,
            "unit": self.unit,
            "same_tensors": self.same_tensors,
            "same_values": self.same_values,
            "tensors": [tensor.to_json() for tensor in self.tensors],
        }


def compare(a: Tensors, b: Tensors, progress: Callable[[int, int], None] | None = None) -> Difference:
    """Compare two inputs, tensor by tensor as they are called, one of each in memory at a time."""
    found = Difference(a.where, b.where)
    files = _pair_files(a, b, found)
    done = 0
    for one, other in files:
        _compare_headers(one, other, found)
        theirs = {held.entry.name: held for held in other.tensors}
        for held in one.tensors:
            twin = theirs.pop(held.entry.name, None)
            _compare_tensor(held, twin, found)
            done += held.nbytes
            if progress:
                progress(done, done)
        found.tensors += [TensorDifference(held.full_name, "only in B") for held in theirs.values()]
    return found


def _pair_files(a: Tensors, b: Tensors, found: Difference) -> list[tuple[File, File]]:
    """Files of the same name; two single dumps whatever they are called."""
    if len(a.files) == len(b.files) == 1:
        return [(a.files[0], b.files[0])]
    theirs = {file.member: file for file in b.files}
    mine = {file.member for file in a.files}
    if mine.isdisjoint(theirs) and ("" in mine) != ("" in theirs):
        one, many = (a, b) if "" in mine else (b, a)
        raise KvzipError(
            f"{one.where}: is one dump, {many.where} a directory of {len(many.files)}; "
            "compare what they hold with --by-layer, or name two dumps"
        )
    found.header += [f"only in A: {file.member}" for file in a.files if file.member not in theirs]
    found.header += [f"only in B: {file.member}" for file in b.files if file.member not in mine]
    return [(file, theirs[file.member]) for file in a.files if file.member in theirs]


def _compare_headers(one: File, other: File, found: Difference) -> None:
    where = f"{one.member}: " if one.member else ""
    a, b = one.header, other.header
    if a is None or b is None:
        if (a is None) != (b is None):
            found.header.append(f"{where}a dump on one side only")
        return
    if a.raw == b.raw:
        return
    before = len(found.header)
    meta_a, meta_b = dict(a.metadata or {}), dict(b.metadata or {})
    for key in sorted(meta_a.keys() | meta_b.keys()):
        if meta_a.get(key) != meta_b.get(key):
            side = "" if key in meta_a and key in meta_b else " only in A" if key in meta_a else " only in B"
            found.header.append(f"{where}metadata {key!r}{side or ' differs'}")
    if _order(a) != _order(b) and set(_order(a)) == set(_order(b)):
        found.header.append(f"{where}the same tensors in another order")
    if len(found.header) == before and _described(a) == _described(b):
        found.header.append(f"{where}the header says the same in other words (keys, spaces or padding)")


def _order(header: Header) -> list[str]:
    return [entry.name for entry in header.entries]


def _described(header: Header) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(entry.name, entry.dtype, entry.shape) for entry in header.entries]


def _compare_tensor(one: Held, other: Held | None, found: Difference) -> None:
    name = one.full_name or "(the whole file)"
    if other is None:
        found.tensors.append(TensorDifference(name, "only in A"))
        return
    a, b = one.entry, other.entry
    if a.dtype != b.dtype:
        found.tensors.append(TensorDifference(name, "type", f"{a.dtype} and {b.dtype}"))
    elif a.shape != b.shape:
        shapes = ["x".join(map(str, shape)) or "scalar" for shape in (a.shape, b.shape)]
        found.tensors.append(TensorDifference(name, "shape", " and ".join(shapes)))
    else:
        mine, theirs = one.bits(), other.bits()
        if np.array_equal(mine, theirs):
            found.same_tensors += 1
            found.same_values += len(mine)
            return
        found.tensors.append(compare_bits(name, mine, theirs, DTYPES[a.dtype], a.shape, one.labels, one.sizes))


def compare_streams(a: Draft, b: Draft, progress: Callable[[int, int], None] | None = None) -> Difference:
    """Compare two caches stream by stream, paired by layer, kind and head, whatever their tensors are called.

    Of streams of different lengths the tokens that both have are compared.
    """
    found = Difference(a.where, b.where, "stream")
    done = 0
    for name in sorted(a.places.keys() | b.places.keys(), key=lambda n: (n.layer, n.kind, n.head)):
        label = f"layer {name.layer} {name.kind or 'cache'} head {name.head}"
        mine, theirs = a.stream(name), b.stream(name)
        if mine is None or theirs is None:
            found.tensors.append(TensorDifference(label, "only in B" if mine is None else "only in A"))
            continue
        (one, dtype), (other, their_dtype) = mine, theirs
        if dtype != their_dtype:
            found.tensors.append(TensorDifference(label, "type", f"{dtype.name} and {their_dtype.name}"))
        elif one.shape[1] != other.shape[1]:
            detail = f"{one.shape[1]} and {other.shape[1]} channels"
            found.tensors.append(TensorDifference(label, "shape", detail))
        else:
            _compare_rows(found, label, one, other, dtype)
        done += one.nbytes
        if progress:
            progress(done, done)
    return found


def _compare_rows(found: Difference, label: str, one: Bits, other: Bits, dtype: Dtype) -> None:
    both = min(len(one), len(other))
    a, b = (np.ascontiguousarray(rows[:both]).reshape(-1) for rows in (one, other))
    detail = "" if len(one) == len(other) else f"{len(one)} and {len(other)} tokens"
    if not np.array_equal(a, b):
        shape = (both, one.shape[1])
        found.tensors.append(compare_bits(label, a, b, dtype, shape, ("token", "channel"), shape))
        found.tensors[-1].detail = detail
    elif detail:
        found.tensors.append(TensorDifference(label, "length", f"{detail}, the same for the first {both}", both))
    else:
        found.same_tensors += 1
        found.same_values += a.size


def compare_bits(
    name: str,
    a: Bits,
    b: Bits,
    dtype: Dtype,
    shape: tuple[int, ...] = (),
    labels: tuple[str, ...] = (),
    sizes: tuple[int, ...] = (),
) -> TensorDifference:
    """How two flat arrays of a type's bits differ that are not the same.

    ``shape`` is what an index is told in, ``labels`` and ``sizes`` the axes as a layout knows them, if one does.
    """
    at = np.flatnonzero(a != b)
    one, other = a[at], b[at]
    told = shape if int(np.prod(shape, dtype=np.int64)) == len(a) else (len(a),)
    first = tuple(int(i) for i in np.unravel_index(at[0], told)) if told else ()
    out = TensorDifference(name, "values", values=len(a), differing=len(at), first=first)
    out.first_values = tuple(shown_value(bits[:1], dtype) for bits in (one, other))
    _measure(out, one, other, dtype)
    if labels and "token" in labels:
        place = np.unravel_index(at, sizes)
        rows = np.unique(place[labels.index("token")])
        out.tokens = len(rows), int(rows[0]), int(rows[-1])
        if "head" in labels:
            out.heads = tuple(int(head) for head in np.unique(place[labels.index("head")]))
    return out


def _measure(out: TensorDifference, one: Bits, other: Bits, dtype: Dtype) -> None:
    """The greatest distances between values, and what is special about them, some at a time."""
    for start in range(0, len(one), AT_ONCE):
        a, b = one[start : start + AT_ONCE], other[start : start + AT_ONCE]
        if dtype.is_float:
            top = 8 * dtype.container_bytes - 1
            size = (1 << top) - 1
            mine, theirs = numbers(a, dtype), numbers(b, dtype)
            real = np.isfinite(mine) & np.isfinite(theirs)
            out.nans += int((np.isnan(mine) | np.isnan(theirs)).sum())
            out.signed_zeros += int(((a & size == 0) & (b & size == 0)).sum())
            gaps = np.abs(mine[real] - theirs[real])
        elif dtype.bits < 8:
            return
        else:
            mine, theirs = integers(a, dtype), integers(b, dtype)
            real = np.ones(len(a), np.bool_)
            gaps = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
        if len(gaps):
            out.greatest = max(out.greatest or 0.0, float(gaps.max()))
            steps = _steps(a[real], b[real], dtype)
            out.greatest_ulp = max(out.greatest_ulp or 0, steps)


def _steps(a: Bits, b: Bits, dtype: Dtype) -> int:
    """The most units in the last place that two values lie apart."""
    if not dtype.is_float:
        x, y = integers(a, dtype), integers(b, dtype)
    else:
        x, y = _ordered(a, dtype), _ordered(b, dtype)
    high, low = np.maximum(x, y), np.minimum(x, y)
    return int((high.astype(np.uint64) - low.astype(np.uint64)).max())  # the difference is right modulo 2^64


def _ordered(bits: Bits, dtype: Dtype) -> NDArray[np.int64]:
    """Floats as integers in the order of their size; 0 and -0 are the same one."""
    top = 8 * dtype.container_bytes - 1
    size = (bits & ((1 << top) - 1)).astype(np.int64)
    return np.where(bits >> top & 1, -size, size)


def integers(bits: Bits, dtype: Dtype) -> NDArray[Any]:
    """Integers of a type from their bits."""
    return bits.view(f"<i{bits.itemsize}") if dtype.name.startswith("I") else bits


def numbers(bits: Bits, dtype: Dtype) -> NDArray[np.float64]:
    """Floats of any type from their bits; what is no number, or infinite, is so here too."""
    if dtype.name in ("F16", "F32", "F64"):
        return bits.view(f"<f{bits.itemsize}").astype(np.float64)
    if dtype.name == "BF16":
        return (bits.astype("<u4") << 16).view("<f4").astype(np.float64)
    grid = grid_of(dtype)
    assert grid is not None
    out = number_table(grid)[bits].astype(np.float64)
    size = bits & ((1 << (grid.bits - 1)) - 1)
    if dtype.name.endswith("FNUZ"):
        out[bits == 0x80] = np.nan
    elif dtype.name == "F8_E4M3":
        out[size == 0x7F] = np.nan
    else:
        out[size == 0x7C] = np.copysign(np.inf, 0.5 - (bits[size == 0x7C] >> 7))
        out[size > 0x7C] = np.nan
    return out


def shown_value(bits: Bits, dtype: Dtype) -> float | int | str:
    """The first value as a number; what JSON has no number for in words, with its bits."""
    raw = f"0x{int(bits[0]):0{2 * bits.itemsize}x}"
    if dtype.bits < 8 or dtype.name in ("C64", "F8_E8M0"):
        return raw
    if not dtype.is_float:
        return int(integers(bits, dtype)[0])
    number = float(numbers(bits, dtype)[0])
    if number != number:
        return f"nan ({raw})"
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    return number
