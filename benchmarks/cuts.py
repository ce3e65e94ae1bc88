"""Dumps cut out of a real one, and dumps grown from it that are no easier to compress than a real one.

A cache is an array (layers, 2, heads, tokens, channels) of bfloat16 bits, keys and values. A dump grown along its
tokens or heads repeats the real one, which as such would be easy prey; so each repeat is made anew:

    - Keys are rotated on to their new positions, as RoPE would have done.
    - Both get noise of a quarter of their channel's deviation, as another context would change them, and are rounded
      to bfloat16. Layer 0's values know no context: a token's row there is the same wherever it stands, and stays so.
"""

from __future__ import annotations

import json
import re
import struct

import numpy
from dumps import Dump, read_header

NAME = re.compile(r"layers\.(\d+)\.(key|value)")
THETA = 100_000.0  # RoPE's base in the models the real dumps are from, whose channels i and i + half turn together
NOISE = 0.25

Cache = numpy.ndarray
"""(layers, 2, heads, tokens, channels) of uint16"""


def read_cache(dump: Dump) -> Cache:
    """Read a bfloat16 dump in Hugging Face's layout, tensors ``layers.N.key`` and ``.value`` of (1, heads, tokens,
    channels)."""
    header = read_header(dump.data, dump.path)
    base, found = len(header.raw), {}
    for entry in header.entries:
        place = NAME.fullmatch(entry.name)
        if not place or entry.dtype != "BF16" or len(entry.shape) != 4:
            raise SystemExit(f"not a bfloat16 dump of layers.N.key and .value: {dump.path}, tensor {entry.name}")
        bits = numpy.frombuffer(dump.data[base + entry.start : base + entry.stop], numpy.uint16)
        found[int(place[1]), place[2]] = bits.reshape(entry.shape[1:])
    layers = sorted({layer for layer, _ in found})
    return numpy.array([[found[layer, kind] for kind in ("key", "value")] for layer in layers])


def as_dump(cache: Cache) -> bytes:
    """Return the bytes of a safetensors file that holds a cache."""
    header, at = {}, 0
    for layer, pair in enumerate(cache):
        for kind, stream in zip(("key", "value"), pair, strict=True):
            header[f"layers.{layer}.{kind}"] = {
                "dtype": "BF16",
                "shape": [1, *stream.shape],
                "data_offsets": [at, at + stream.nbytes],
            }
            at += stream.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + cache.tobytes()


def chunks(cache: Cache, tokens: int, layers: int) -> list[Cache]:
    """Cut a cache into pieces of so many tokens and layers; what is left over at the ends is left out."""
    return [
        cache[layer : layer + layers, :, :, token : token + tokens]
        for token in range(0, cache.shape[3] - tokens + 1, tokens)
        for layer in range(0, cache.shape[0] - layers + 1, layers)
    ] or [cache]


def grown(cache: Cache, layers: int, heads: int, tokens: int) -> Cache:
    """Return a cache of a shape: real heads and tokens in turn, each repeat made anew.

    Heads that a layer lacks are other layers' ones, in layer 0 its own ones anew; layers begin again at the end.
    """
    real_layers, _, real_heads, real_tokens, channels = cache.shape
    out = numpy.empty((layers, 2, heads, tokens, channels), numpy.uint16)
    random = numpy.random.default_rng(0)
    for layer in range(layers):
        for head in range(heads):
            round_, real_head = divmod(head, real_heads)
            again, real_layer = divmod(layer + layers * round_, real_layers) if layer else (round_, 0)
            keys, values = cache[real_layer, :, real_head]
            by_token = _anew_by_row(values, random) if again and not layer else values
            for begin in range(0, tokens, real_tokens):
                span = slice(begin, min(begin + real_tokens, tokens))
                length = span.stop - begin
                real = not again and not begin
                out[layer, 0, head, span] = keys[:length] if real else _anew(_turned(keys[:length], begin), random)
                fresh = by_token if real or not layer else _anew(_floats(values), random)
                out[layer, 1, head, span] = fresh[:length]
    return out


def _floats(bits: numpy.ndarray) -> numpy.ndarray:
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def _turned(bits: numpy.ndarray, positions: int) -> numpy.ndarray:
    """Return keys (tokens, channels) rotated on by a number of positions, as floats."""
    keys, half = _floats(bits), bits.shape[1] // 2
    angles = positions * THETA ** (-numpy.arange(half) / half)
    cosine, sine = numpy.cos(angles).astype(numpy.float32), numpy.sin(angles).astype(numpy.float32)
    first, second = keys[:, :half], keys[:, half:]
    return numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=1)


def _anew_by_row(bits: numpy.ndarray, random: numpy.random.Generator) -> numpy.ndarray:
    """Return values (tokens, channels) with noise that is the same where rows are: they stay one token's."""
    rows, which = numpy.unique(bits, axis=0, return_inverse=True)
    return _anew(_floats(rows), random)[which.reshape(-1)]


def _anew(values: numpy.ndarray, random: numpy.random.Generator) -> numpy.ndarray:
    """Return values (tokens, channels) with noise, rounded to bfloat16."""
    noise = random.standard_normal(values.shape, numpy.float32) * (NOISE * values.std(axis=0))
    bits = (values + noise).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
