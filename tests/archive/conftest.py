"""Dumps that have something in common, made once."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

TOKENS, HEADS, CHANNELS, LAYERS = 96, 2, 32, 3


def dump(tensors):
    """A safetensors file of (name, bfloat16 bits)."""
    header, at = {}, 0
    for name, bits in tensors:
        header[name] = {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"".join(bits.tobytes() for _, bits in tensors)


def bits_of(x):
    return (np.ascontiguousarray(x, "<f4").view("<u4") >> 16).astype("<u2")


def cache(ids, noise=0.0, first=0, seed=0):
    """Keys and values: layer 0 by the token alone, later ones by all before; ``noise`` as of other weights."""
    model, other = np.random.default_rng(7), np.random.default_rng(100 + seed)
    table = model.normal(size=(256, HEADS, CHANNELS))
    tensors = []
    for layer in range(first, first + LAYERS):
        for kind in ("key", "value"):
            mix = model.normal(size=(CHANNELS, CHANNELS)) / CHANNELS**0.5
            x = table[ids] @ mix
            if layer:
                x = x + np.cumsum(x, 0) / np.arange(1, len(ids) + 1)[:, None, None] ** 0.5
            x = x + noise * other.normal(size=x.shape) * (layer > 0 or noise > 0.01)
            tensors.append((f"layers.{layer}.{kind}", bits_of(x.transpose(1, 0, 2)[None])))
    return dump(tensors)


@pytest.fixture(scope="session")
def prompts():
    draw = np.random.default_rng(1)
    return draw.integers(0, 256, 2 * TOKENS), draw.integers(0, 256, 2 * TOKENS)


@pytest.fixture(scope="session")
def caches(prompts):
    """By name: a prompt, its prefix, the same by other kernels and by other weights, a sibling, a stranger."""
    one, two = prompts
    return {
        "whole.safetensors": cache(one[:TOKENS]),
        "stranger.safetensors": cache(two[:TOKENS]),
        "prefix.safetensors": cache(one[: TOKENS // 2]),
        "served.safetensors": cache(one[:TOKENS], noise=0.005, seed=1),
        "rounded.safetensors": cache(one[:TOKENS], noise=0.03, seed=2),
        "longer.safetensors": cache(one),
        "sibling.safetensors": cache(np.concatenate([one[: TOKENS // 2], two[: TOKENS // 2]])),
    }


@pytest.fixture
def folder(tmp_path, caches):
    for name, data in caches.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path
