"""Dumps as models write them, small: rotated keys, repeated tokens, layers and channels that tell of each other."""

from __future__ import annotations

import json
import struct

import numpy as np

WIDTHS = {"BF16": 16, "F16": 16, "F32": 32, "F8_E4M3": 8, "U8": 8}


def dump(tensors, metadata=None):
    """A safetensors file of (name, dtype, shape, bytes)."""
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"".join(data for *_, data in tensors)


def bits_of(x, dtype):
    """float32 as the type's bits: cut off, not rounded."""
    wide = np.ascontiguousarray(x, "<f4").view("<u4")
    if dtype == "F16":
        return np.asarray(x, "<f2").view("<u2")
    if WIDTHS[dtype] == 8:
        code = np.clip((wide >> 20 & 0x7FF).astype(int) - (120 << 3), 0, 0x7E)
        return (code | (wide >> 31 << 7)).astype(np.uint8)
    return (wide >> (32 - WIDTHS[dtype])).astype(f"<u{WIDTHS[dtype] // 8}")


def layer(number, tokens=96, heads=2, channels=32, value_channels=None, vocabulary=30):
    """Keys, rotated, and values of one layer: (heads, tokens, channels) each. Layers of the same tokens are kin."""
    source = np.random.default_rng(number)
    ids = np.random.default_rng(1000 + tokens).integers(0, vocabulary, tokens)
    topics = np.cumsum(np.random.default_rng(tokens).normal(size=(tokens, 6)), 0) / 6
    out = []
    for width in (channels, value_channels or channels):
        x = np.einsum("tk,hkc->htc", topics, source.normal(size=(heads, 6, width)))
        x += source.normal(size=(heads, 1, width)) + 0.1 * source.normal(size=(heads, tokens, width))
        x += 0.7 * source.normal(size=(heads, vocabulary, width))[:, ids] if number else 0
        if number == 0 and len(out) == 1:
            x = source.normal(size=(heads, vocabulary, width))[:, ids]
        out.append(x)
    keys, half = out[0], channels // 2
    turns = np.exp(1j * np.arange(tokens)[:, None] * 1e4 ** (-np.arange(half) / half))
    keys[..., :half], keys[..., half : 2 * half] = (
        lambda z: (z.real, z.imag))((keys[..., :half] + 1j * keys[..., half : 2 * half]) * turns)  # fmt: skip
    return out


def tensors(layers, dtype="BF16", **shape):
    """The usual keys and values of some layers, (1, heads, tokens, channels) each."""
    out = []
    for number in layers:
        for kind, x in zip(("key", "value"), layer(number, **shape), strict=True):
            out.append((f"layers.{number}.{kind}", dtype, (1, *x.shape), bits_of(x, dtype).tobytes()))
    return out


class Lazy(dict):
    """Makes what it is asked for, once: nothing is compressed while tests are collected."""

    def __init__(self, make):
        self.make = make

    def __missing__(self, key):
        self[key] = self.make(key)
        return self[key]


def data_of(blob):
    """The header of a dump and a function from names to bytes."""
    start = 8 + int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:start])
    header.pop("__metadata__", None)
    return {n: blob[start + e["data_offsets"][0] : start + e["data_offsets"][1]] for n, e in header.items()}
