"""How a plane's windows begin: classes and priors, chosen by the encoder, written into a chain's first block.

classes    the class of every channel of every stream, log2(classes) bits each, packed from the lowest bit on
priors     for each window what ``windows.prior`` makes of it, if windows start with a prior
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing
from kvzip.windows import prior
from kvzip.windows.classes import classify, room
from kvzip.windows.lengths import LOG2_FRACTION
from kvzip.windows.prior import Fields

PADDED, UNKNOWN = 1, 2  # what can be wrong with an opening


@dataclass(frozen=True)
class Opening:
    """What an opening is for: ``streams`` of ``channels`` in ``classes`` windows each, their priors worth ``weight``
    tokens, 0 for none."""

    streams: int
    channels: int
    classes: int
    fields: Fields
    weight: int

    @property
    def class_bytes(self) -> int:
        """Bytes that the classes take."""
        return (self.streams * self.channels * (self.classes.bit_length() - 1) + 7) // 8

    @property
    def size(self) -> int:
        """Bytes of an opening."""
        return self.class_bytes + (self.fields.bytes_per_class * self.streams * self.classes if self.weight else 0)

    def choose(self, symbols: NDArray[np.uint8], tokens: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The opening that suits flat ``symbols``, ``tokens`` (int64) rows of each stream."""
        opening = np.zeros(self.size, np.uint8)
        windows = self.streams * self.classes
        _choose(
            symbols, tokens, self.channels, self.classes, LOG2_FRACTION, bool(self.weight), *self._fields(),
            prior.shape_lengths(), prior.SIGN_MIDDLES, opening, self.class_bytes,
            np.zeros((windows, 256), np.int64), np.zeros(self.streams * self.channels, np.uint8),
            room(self.channels, self.classes), self._exponents(), np.empty(prior.SHAPES, np.float64),
        )  # fmt: skip
        return opening

    def apply(self, opening: NDArray[np.uint8], class_of: NDArray[np.uint8], counts: NDArray[Any]) -> int:
        """Take classes into ``class_of`` (streams * channels) and start ``counts`` (windows, 257), both zero before.

        Return 0, or what is wrong: PADDED, bits behind the classes are set; UNKNOWN, a prior does not exist.
        """
        wrong = _apply(
            opening, self.class_bytes, self.streams, self.channels, self.classes, self.weight, *self._fields(),
            prior.shapes(), prior.SIGNS, class_of, counts,
            np.zeros(self.streams * self.classes, np.int64), self._exponents(),
        )  # fmt: skip
        return int(wrong)

    def _fields(self) -> tuple[int, int, int]:
        return self.fields.exponent, self.fields.sign, self.fields.rest

    def _exponents(self) -> NDArray[np.int64]:
        """Room for a number for each exponent."""
        return np.empty(1 << self.fields.exponent, np.int64)


@borrowing
def _bits(classes):  # type: ignore[no-untyped-def]
    bits = 0
    while (1 << bits) < classes:
        bits += 1
    return bits


@borrowing
def _choose(  # type: ignore[no-untyped-def]
    symbols, tokens, channels, classes, fraction, weighs, exponent_bits, sign_bits, rest_bits, lengths, middles,
    opening, specs_at, histograms, labels, room, exponents, taken,
):  # fmt: skip
    streams = len(tokens)
    begin = np.int64(0)
    for stream in range(streams):
        classify(
            symbols, begin, tokens[stream], channels, classes, fraction,
            labels[stream * channels : (stream + 1) * channels],
            histograms[stream * classes : (stream + 1) * classes],
            *room,
        )  # fmt: skip
        begin += tokens[stream] * channels
    bits = _bits(classes)
    at = 0
    for i in range(len(labels) if bits else 0):
        pair = np.int64(labels[i]) << (at & 7)
        opening[at >> 3] |= np.uint8(pair & 0xFF)
        if pair > 0xFF:
            opening[(at >> 3) + 1] |= np.uint8(pair >> 8)
        at += bits
    if weighs:
        prior.choose(
            histograms, exponent_bits, sign_bits, rest_bits, lengths, middles, opening, specs_at, exponents, taken
        )


@borrowing
def _apply(  # type: ignore[no-untyped-def]
    opening, specs_at, streams, channels, classes, weight, exponent_bits, sign_bits, rest_bits, shapes, signs,
    class_of, counts, members, placed,
):  # fmt: skip
    bits = _bits(classes)
    at = 0
    for i in range(streams * channels):
        for bit in range(bits):
            class_of[i] |= ((opening[at >> 3] >> (at & 7)) & 1) << bit
            at += 1
        members[i // channels * classes + class_of[i]] += 1
    while at < 8 * specs_at:
        if (opening[at >> 3] >> (at & 7)) & 1:
            return PADDED
        at += 1
    if weight:
        if not prior.exists(opening, specs_at, len(counts), exponent_bits, sign_bits):
            return UNKNOWN
        prior.fill(
            counts, opening, specs_at, members, weight, shapes, signs, exponent_bits, sign_bits, rest_bits, placed
        )  # fmt: skip
    return 0
