"""Dumps made up, as arrays by name; ``__`` in a name stands for a dot."""

from __future__ import annotations

import io
import json

import numpy as np

from kvzip.bench.dump import Dump
from kvzip.dumps.safetensors import read_header

TOKENS, CHANNELS = 96, 8


def dump_of(**tensors: np.ndarray) -> Dump:
    header, parts, at = {}, [], 0
    for name, array in tensors.items():
        spelt = {"float16": "F16", "uint8": "U8", "int64": "I64"}[str(array.dtype)]
        offsets = [at, at + array.nbytes]
        header[name.replace("__", ".")] = {"dtype": spelt, "shape": array.shape, "data_offsets": offsets}
        parts.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    data = b"".join((len(text).to_bytes(8, "little"), text, *parts))
    return Dump("d", data, read_header(io.BytesIO(data), "d"))


def tensors(dump: Dump) -> dict[str, np.ndarray]:
    base = len(dump.header.raw)
    kinds = {"F16": np.float16, "U8": np.uint8, "I64": np.int64}
    return {
        entry.name: np.frombuffer(dump.data[base + entry.start : base + entry.stop], kinds[entry.dtype]).reshape(
            entry.shape
        )
        for entry in dump.header.entries
    }


def cache(layers: int, tokens: int = TOKENS) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    names = [f"layers__{layer}__{kind}" for layer in range(layers) for kind in ("key", "value")]
    return {name: draw.normal(size=(1, 2, tokens, CHANNELS)).astype(np.float16) for name in names}
