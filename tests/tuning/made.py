"""Dumps to tune on: caches, noise, constants, and what no layout knows."""

from __future__ import annotations

import json
import struct

import numpy as np

from kvzip.cli.warmup import made as cache


def dump(tensors, metadata=None) -> bytes:
    """A safetensors dump of (name, dtype, array) in order; arrays of unsigned integers of the right width."""
    table = {} if metadata is None else {"__metadata__": metadata}
    blobs, at = [], 0
    for name, dtype, array in tensors:
        blobs.append(np.ascontiguousarray(array).tobytes())
        table[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(blobs)


def numbered(shape) -> np.ndarray:
    """BF16 whose bits are the element's number, so that it shows where a value came from."""
    return np.arange(np.prod(shape), dtype=np.uint32).astype("<u2").reshape(shape)


def noise(seed=0, tokens=200) -> bytes:
    random = np.random.default_rng(seed)
    shape = (1, 2, tokens, 32)
    return dump([(f"layers.{i}.{k}", "BF16", random.integers(0, 65536, shape, "<u2")) for i in (0, 1) for k in "kv"])


def constant() -> bytes:
    return dump([(f"layers.{i}.key", "BF16", np.full((1, 2, 300, 64), 0x3F80, "<u2")) for i in range(3)])


def strange() -> bytes:
    """Nothing that is a cache."""
    random = np.random.default_rng(1)
    return dump(
        [
            ("weights", "F32", random.normal(size=(50, 70)).astype("<f4")),
            ("ids", "I64", np.arange(999, dtype="<i8")),
            ("nothing", "BF16", np.zeros((0, 4), "<u2")),
        ]
    )


DUMPS = {
    "cache": cache("BF16"),
    "fp8": cache("F8_E5M2"),
    "noise": noise(),
    "constant": constant(),
    "strange": strange(),
    "empty": dump([]),
}
