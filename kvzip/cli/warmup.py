"""``warmup``: every kernel that a later run may need, compiled and kept ahead of it.

Kernels are compiled on first use, so they are used: a small made-up dump of each kind of element goes through a
level and back, with a draft and without. It has what makes an encoder choose: rotated keys, tokens that repeat,
layers that resemble each other, rows of zeros, tensors that no layout knows.
"""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.cli.options import levels_of
from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.coder import jit
from kvzip.dumps.safetensors import dump_bytes
from kvzip.errors import KvzipError, TargetError

LAYERS, HEADS, TOKENS, CHANNELS = 3, 2, 192, 64
KINDS = ("BF16", "F16", "F8_E5M2", "F32")
"""One type for each kind of kernel: BF16 has its own, the others by the width of their elements."""
KINDRED = (range(1, 2), range(2, 4), range(4, 7), range(7, 10))  # levels that share their kernels
LEVELS = tuple(max(levels) for levels in KINDRED)


def warmup(text: str | None, *, quiet: bool, verbose: bool, json: bool) -> None:
    """Compile what the levels in ``text`` need ("3", "1-3,9"), all if there is none."""
    levels = levels_of(text) or LEVELS
    voice = Voice(quiet, verbose)
    if not jit.lasting():
        raise TargetError(
            "the folder for compiled kernels cannot be written; set NUMBA_CACHE_DIR, or XDG_CACHE_HOME, "
            "to one that can"
        )
    began = time.perf_counter()
    folder = Path(jit.config.CACHE_DIR)
    before = _files(folder)
    compile_levels(levels, lambda what, seconds: voice.say(f"{what}: {seconds:.1f} s", detail=True))
    after = _files(folder)
    if not after:
        raise TargetError(f"{folder}: no compiled kernel could be kept there; check the disk and the permissions")
    for job in ("compress", "decompress"):
        jit.remember_warm(job)
    seconds, size = time.perf_counter() - began, sum(after.values())
    fresh = len(after.keys() - before.keys())
    if json:
        row = {"command": "warmup", "levels": list(levels), "seconds": round(seconds, 3), "compiled": fresh,
               "kernels": len(after), "bytes": size, "folder": str(folder)}  # fmt: skip
        print(json_module.dumps(row))
        return
    what = f"{fresh} kernels compiled" if fresh else "nothing to compile"
    voice.say(f"{what} in {seconds:.1f} s; {len(after)} kernels, {human(size)}, in {folder}")


def compile_levels(levels: tuple[int, ...], done: Callable[[str, float], None]) -> None:
    """Use every kernel of the ``levels``; tell each step and its seconds to ``done``."""
    for level in levels:
        for kind in KINDS:
            began = time.perf_counter()
            _use(level, kind)
            done(f"level {level}, {kind}", time.perf_counter() - began)


def _files(folder: Path) -> dict[str, int]:
    """Compiled kernels and their bytes."""
    return {str(path): path.stat().st_size for path in folder.rglob("*.nbc")}


def _use(level: int, kind: str) -> None:
    """A dump of a kind through a level and back, in every way that has kernels of its own."""
    from kvzip.api import compress, decompress, stats

    dump = made(kind)
    for draft in (None, made(kind, noise=2.0**-6), made(kind, tokens=TOKENS // 2)):
        packed = compress(dump, level=level, threads=1, draft=draft)
        if decompress(packed, threads=1, draft=draft) != dump:
            raise KvzipError(f"level {level} does not restore a dump of {kind}; please report this")
        if draft is None:
            stats(packed, threads=1)
    decompress(compress(dump, level=level, threads=1, symbol_bits=9), threads=1)


def made(kind: str, noise: float = 0.0, tokens: int = TOKENS) -> bytes:
    """A safetensors dump with elements of type ``kind``; with ``noise`` or fewer ``tokens`` a draft of it."""
    draw = np.random.RandomState(1)
    ids = np.arange(TOKENS) * 37 % (TOKENS // 3)
    turns = np.arange(TOKENS)[:, None] / 1e4 ** (2 * np.arange(CHANNELS // 2) / CHANNELS)
    cos, sin = np.cos(turns), np.sin(turns)
    common = draw.normal(size=(HEADS, TOKENS, CHANNELS))
    tensors: list[tuple[str, str, NDArray[Any]]] = []
    for layer in range(LAYERS):
        by_token = draw.normal(size=(HEADS, TOKENS // 3, CHANNELS))[:, ids]
        keys = 0.3 * (common + by_token) + 3 * draw.normal(size=(HEADS, 1, CHANNELS))
        a, b = keys[..., : CHANNELS // 2], keys[..., CHANNELS // 2 :]
        keys = np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
        values = by_token if layer == 0 else by_token + common
        extra = np.random.RandomState(2).normal(size=keys.shape) * noise
        for name, part in (("key", keys + extra), ("value", values + extra)):
            part[:, -1] = 0
            tensors.append((f"layers.{layer}.{name}", kind, part[None, :, :tokens]))
    tensors.append(("ids", "I64", ids.astype("<i8")))
    tensors.append(("mask", "I32", ids.astype("<i4")))
    return dump_bytes([(name, dtype, part.shape, _bits(dtype, part).tobytes()) for name, dtype, part in tensors])


def _bits(dtype: str, numbers: NDArray[Any]) -> NDArray[Any]:
    """Elements of a type; BF16 and FP8 are the upper part of a wider one."""
    if dtype == "BF16":
        return (numbers.astype("<f4").view("<u4") >> 16).astype("<u2")
    if dtype == "F8_E5M2":
        return (numbers.astype("<f2").view("<u2") >> 8).astype(np.uint8)
    return numbers.astype({"F16": "<f2", "F32": "<f4"}.get(dtype, numbers.dtype))
