"""Layers to code: streams of bits of a type, with rotated keys, repeated tokens, and a base that tells of them.

Run as a program it prints digests of what the coder makes of some, for a run on another (emulated) machine.
"""

from __future__ import annotations

import hashlib

import numpy as np

from kvzip.dtypes import DTYPES
from kvzip.linear.columns import Rope
from kvzip.linear.layer import LayerCoder
from kvzip.linear.settings import Settings
from kvzip.linear.symbols import alphabet, arrange

TYPES = ("BF16", "F16", "F32", "F8_E4M3", "F8_E5M2")
SETTINGS = {
    "rows": Settings(most_rows=32, count_every=4),
    "alone": Settings(count_every=2),
    "base": Settings(most_base=48, count_every=2),
    "two": Settings(most_base=384, two=True),
    "clash": Settings(most_base=20, two=True, slots=3),
    "plain": Settings(repeats=False),
    "coarse": Settings(most_base=48, two=True, coarse=True),
    "parts": Settings(most_base=48, two=True, parts=True, delta_far=3.2, delta_own=0.1),
}


def bits_of(x, dtype):
    """float32 as the type's bits: cut off, not rounded."""
    wide = np.ascontiguousarray(x, "<f4").view("<u4")
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return np.asarray(x, "<f2").view("<u2")
    if dtype == "F32":
        return wide
    if dtype == "BF16":
        return (wide >> 16).astype(np.uint16)
    row = DTYPES[dtype]
    bias = (1 << (row.exponent - 1)) - 1
    code = (wide >> (23 - row.mantissa) & 0x7FF >> (3 - row.mantissa)).astype(int) - ((127 - bias) << row.mantissa)
    return (np.clip(code, 0, (1 << 7) - 8) | (wide >> 31 << 7)).astype(np.uint8)


def rope(channels):
    """All channels but an odd one, halves against each other."""
    half = channels // 2
    angle = 100.0 ** (-np.arange(half) / max(1, half))
    return Rope(np.arange(half), half + np.arange(half), np.cos(angle), np.sin(angle))


class Layer:
    """Streams (tokens, channels) of bits, keys before values, and what is known of them.

    ``near`` columns of the base are the nearest layer's, all unless it says otherwise.
    """

    def __init__(
        self, dtype="BF16", keys=(32,), values=(32,), tokens=60, seed=0, turned=True, base=0, names=True, near=None
    ):
        rng = np.random.default_rng(seed)
        self.dtype, self.tokens, self.near = dtype, tokens, near
        self.kinds = ["key"] * len(keys) + ["value"] * len(values)
        self.channels = [*keys, *values]
        self.ropes = [rope(channels) if turned and kind == "key" else None for kind, channels in self._streams()]
        self.ids = rng.integers(-1, max(2, tokens // 8), tokens).astype(np.int32) if names else None
        topics = rng.normal(size=(tokens, 4))
        known = rng.normal(size=(tokens // 8 + 3, sum(self.channels)))[self.ids] if names else 0
        x = topics @ rng.normal(size=(4, sum(self.channels))) + known + rng.normal(size=sum(self.channels))
        x += 0.1 * rng.normal(size=x.shape)
        self.base = (x[:, np.arange(base) % x.shape[1]] + 0.1).astype(np.float32) if base else None
        self.streams = []
        self.draft = None
        for stream, turn in zip(np.split(x, np.cumsum(self.channels)[:-1], axis=1), self.ropes, strict=True):
            if turn is not None:
                angle = np.arange(tokens)[:, None] * np.arctan2(turn.sin, turn.cos)
                z = (stream[:, turn.first] + 1j * stream[:, turn.second]) * np.exp(1j * angle)
                stream[:, turn.first], stream[:, turn.second] = z.real, z.imag
            self.streams.append(bits_of(stream, dtype))

    def _streams(self):
        return zip(self.kinds, self.channels, strict=True)

    def spoil(self, how, seed=0):
        """Replace bits by what real dumps hold now and then."""
        rng = np.random.default_rng(seed)
        bits = DTYPES[self.dtype].bits
        for x in self.streams:
            if how == "noise":
                x[:] = rng.integers(0, 1 << bits, x.shape)
            elif how == "zeros":
                x[20:44] = 0
            elif how == "all zeros":
                x[:] = 0
            elif how == "constants":
                x[:, ::3] = x[0, 0]
            elif how == "no numbers":
                x[rng.random(x.shape) < 0.03] = (1 << (bits - 1)) - 1
                x[rng.random(x.shape) < 0.03] = 1 << (bits - 1)
                x[x.shape[0] // 2] = (1 << bits) - 1
            elif how == "jump":
                x[30:] = bits_of(rng.normal(size=x[30:].shape) * 1e12, self.dtype)
            elif how == "tiny":
                x[:] = bits_of(rng.normal(size=x.shape) * 2.0**-60, self.dtype)
        return self

    def numbers(self):
        """What the bits stand for, 0 where they are no finite numbers."""
        letters = alphabet(DTYPES[self.dtype], 0)
        out = []
        for x in self.streams:
            k = np.empty(x.shape, np.uint16)
            arrange(x, letters.raw, len(letters.values) // 2, np.arange(x.shape[1]), 0, k)
            out.append(np.nan_to_num(letters.values[k], posinf=0, neginf=0))
        return out

    def drafted(self, how="near", seed=0):
        """The layer with a draft: its numbers with errors, or something else altogether."""
        rng = np.random.default_rng(seed)
        self.draft = self.numbers()
        for x in self.draft:
            if how == "near":
                x += (0.01 * rng.normal(size=x.shape)).astype(np.float32)
            elif how == "first":
                x[24:] += (0.01 * rng.normal(size=x[24:].shape)).astype(np.float32)
            elif how == "junk":
                x[:] = rng.normal(size=x.shape) * 10.0 ** rng.integers(-30, 30, x.shape)
            elif how == "bits":
                x[:] = rng.integers(0, 1 << 32, x.shape, np.uint32).view(np.float32)
            elif how == "greatest":
                x[:] = np.float32(3.4e38)
        return self

    def coder(self, settings):
        width = self.base.shape[1] if self.base is not None else 0
        return LayerCoder(
            DTYPES[self.dtype], self.kinds, self.channels, self.ropes, width, settings, near_columns=self.near
        )

    def blocks(self, steps=()):
        """(streams, base, ids, draft) of successive blocks, ``steps`` tokens each, then all that is left."""
        start = 0
        for step in [*steps, self.tokens]:
            cut = slice(start, min(start + step, self.tokens))
            if cut.start < cut.stop:
                base = self.base[cut] if self.base is not None else None
                draft = [x[cut] for x in self.draft] if self.draft is not None else None
                yield [x[cut] for x in self.streams], base, self.ids[cut] if self.ids is not None else None, draft
            start = cut.stop


DRAFTS = ("near", "exact", "first", "junk", "bits", "greatest")
SPOILS = ("", "noise", "zeros", "all zeros", "constants", "no numbers", "jump", "tiny")


def encoded(layer, settings, steps=()):
    coder = layer.coder(settings)
    return [coder.encode(*block) for block in layer.blocks(steps)]


def junk(layer, seed=0):
    """What no encoder writes, but begins like a payload."""
    noise = np.random.default_rng(seed).bytes(2 * sum(x.nbytes for x in layer.streams))
    return bytes(3) + len(noise).to_bytes(4, "little") + noise


def digests(tokens=44):
    """A line for each of some layers: what they are coded as, and what junk decodes to."""
    for number, (name, settings) in enumerate(SETTINGS.items()):
        dtype, how = (("BF16", "no numbers"), ("BF16", ""), ("F8_E5M2", "constants"))[number % 3]
        dtype = "F8_E4M3" if name == "coarse" else dtype
        layer = Layer(dtype, (18,), (7,), tokens, base=20 if settings.most_base else 0).spoil(how)
        if name == "coarse":
            layer.drafted()
        digest = hashlib.sha256()
        for part in [*encoded(layer, settings, (17,)), layer.coder(settings).columns(layer.streams, layer.draft)]:
            digest.update(part)
        (whole,) = layer.blocks()
        for part in layer.coder(settings).decode(junk(layer), tokens, *whole[1:]):
            digest.update(part)
        yield f"{name} {dtype} {digest.hexdigest()}"


if __name__ == "__main__":
    print(*digests(), sep="\n")
