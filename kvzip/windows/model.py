"""The windows of one plane of a chain of blocks: their arrays, and both directions of coding with them.

A *chain* is the blocks that hold the same streams at successive tokens; a ``PlaneModel`` lives as long as its chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kvzip.coder import rans
from kvzip.errors import ContainerError
from kvzip.windows import loop, triggers
from kvzip.windows.classes import classify
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, INCREMENT_START, WINDOW
from kvzip.windows.lengths import code_lengths
from kvzip.windows.parameters import Parameters
from kvzip.windows.prior import SHAPES, SIGN_LEVELS, Fields, choose, fill

Bytes = NDArray[np.uint8]


@cache
def _reciprocals(bits: int) -> NDArray[np.uint64]:
    return rans.reciprocals(bits)


@cache
def _lengths(bits: int) -> NDArray[np.int64]:
    return code_lengths(bits)


@dataclass
class Coded:
    """One run through the windows: final lane states, words and literals, in the order they are written."""

    lanes_log2: int
    states: NDArray[np.uint32]
    words: NDArray[np.uint16]
    literals: Bytes

    @property
    def size(self) -> int:
        """Bytes of the three sections."""
        return 4 * len(self.states) + 2 * len(self.words) + len(self.literals)


class PlaneModel:
    """Counts, probabilities and tables of ``streams * classes`` windows for one plane."""

    def __init__(self, streams: int, channels: int, classes: int, fields: Fields, parameters: Parameters) -> None:
        self.streams, self.channels, self.classes = streams, channels, classes
        self.fields, self.parameters = fields, parameters
        windows = streams * self.classes
        self.class_of = np.zeros(streams * channels, np.uint8)
        self.counts = np.zeros((windows, WINDOW), np.int64)
        self.prior = np.zeros_like(self.counts)
        self.probs = np.zeros((windows, WINDOW), np.int64)
        self.codes = np.zeros((windows, 1 << CODE_SHIFT), np.uint32)
        self.slots = np.zeros((1, 1), np.uint16)
        self.span = np.tile(np.array([ESCAPE, 0], np.int64), (windows, 1))
        self.states = np.zeros((streams, triggers.STATE), np.int64)
        self.states[:, triggers.INCREMENT] = INCREMENT_START
        self.states[:, triggers.DIRTY] = 1
        self.vector = parameters.vector()

    # -- the start: classes and priors, chosen by the encoder and written into the chain's first block

    def open(self, symbols: Bytes, tokens: NDArray[np.int64]) -> bytes:
        """Choose classes and priors on the first block's symbols; return the bytes that tell the decoder."""
        out = bytearray()
        at = 0
        sampled = np.zeros((len(self.counts), 256), np.int64)
        for stream in range(self.streams):
            count = int(tokens[stream]) * self.channels
            classify(
                symbols[at : at + count], int(tokens[stream]), self.channels, self.classes,
                self.class_of[stream * self.channels : (stream + 1) * self.channels],
                sampled[stream * self.classes : (stream + 1) * self.classes],
            )  # fmt: skip
            at += count
        out += self._packed_classes()
        specs = b""
        if self.fields.bytes_per_class and self.parameters.prior_weight:
            specs = choose(sampled, self.fields)
        out += specs
        self._fill(specs)
        return bytes(out)

    def opening_size(self) -> int:
        """How many bytes ``open`` returns."""
        bits = self.classes.bit_length() - 1
        specs = self.fields.bytes_per_class if self.parameters.prior_weight else 0
        return (len(self.class_of) * bits + 7) // 8 + specs * len(self.counts)

    def reopen(self, opening: bytes, where: str) -> None:
        """Take the decoder's side of ``open``; ``opening`` has ``opening_size()`` bytes."""
        bits = self.classes.bit_length() - 1
        packed = (len(self.class_of) * bits + 7) // 8
        if bits:
            flat = np.unpackbits(np.frombuffer(opening[:packed], np.uint8), bitorder="little")
            if flat[len(self.class_of) * bits :].any():
                raise ContainerError(f"{where} has bits set in its padding; the container is damaged")
            rows = flat[: len(self.class_of) * bits].reshape(-1, bits)
            self.class_of[:] = rows @ (1 << np.arange(bits, dtype=np.uint8))
        step = self.fields.bytes_per_class if self.parameters.prior_weight else 0
        specs = opening[packed : packed + step * len(self.counts)]
        too_far = self.fields.exponent and max(specs[::step], default=0) >= SHAPES if step else False
        if too_far or (self.fields.sign and step and max(specs[step - 1 :: step], default=0) >= len(SIGN_LEVELS)):
            raise ContainerError(f"{where} names a prior that does not exist; the container is damaged")
        self._fill(specs)
        self.slots = np.zeros((len(self.counts) + 1, 1 << self.parameters.table_bits), np.uint16)

    def _packed_classes(self) -> bytes:
        bits = self.classes.bit_length() - 1
        flat = self.class_of[:, None] >> np.arange(bits, dtype=np.uint8) & 1
        return np.packbits(flat.ravel(), bitorder="little").tobytes()

    def _fill(self, specs: bytes) -> None:
        """Start the counts from the priors; the drift reset needs them again, so they are kept aside."""
        if not self.parameters.prior_weight:
            return
        group = np.repeat(np.arange(self.streams), self.channels) * self.classes + self.class_of
        members = np.bincount(group, minlength=len(self.counts))
        fill(self.counts, specs, self.fields, self.parameters.prior_weight, members)
        if self.parameters.drift:
            self.prior = self.counts.copy()

    # -- coding

    def encode(self, symbols: Bytes, tokens: NDArray[np.int64], carried: Bytes, measure: bool = False) -> Coded:
        """Code flat symbols, stream after stream. ``carried`` (2 bytes a lane, or none) rides in the start states."""
        count = len(symbols)
        literals = np.empty(count + 1, np.uint8)
        codes = np.empty(count, np.uint32)
        unused = np.zeros(1, np.uint32)
        used, _ = loop.encode_run(
            *self._arguments(symbols, tokens, measure), literals, codes, unused, 0, np.zeros(1, np.uint16), 0
        )
        bits = self.parameters.table_bits
        lanes_log2 = rans.lanes_log2(count)
        states = np.full(1 << lanes_log2, rans.LANE_FLOOR, np.uint32)
        if len(carried):
            states += carried.view("<u2")
        words = np.empty(count + rans.SPARE_WORDS, np.uint16)
        first = rans.encode_lanes(codes, count, lanes_log2, bits, _reciprocals(bits), states, words)
        return Coded(lanes_log2, states, words[first:], literals[:used])

    def decode(
        self, coded: Coded, tokens: NDArray[np.int64], where: str, measure: bool = False
    ) -> tuple[Bytes, Bytes]:
        """The symbols, and the bytes carried by the start states."""
        symbols = np.empty(int(tokens.sum()) * self.channels, np.uint8)
        lanes = coded.states.copy()
        if len(lanes) and int(lanes.min()) < rans.LANE_FLOOR:
            raise ContainerError(f"{where} holds a lane below its floor; the container is damaged")
        literals, words = loop.decode_run(
            *self._arguments(symbols, tokens, measure),
            np.append(coded.literals, np.uint8(0)),
            np.empty(self.channels, np.uint32),
            lanes,
            coded.lanes_log2,
            np.concatenate([coded.words, np.zeros(self.channels, np.uint16)]),
            len(coded.words),
        )
        spent = (literals, words) == (len(coded.literals), len(coded.words))
        carried = lanes - np.uint32(rans.LANE_FLOOR)
        if not spent or int(carried.max()) >= rans.LANE_FLOOR:
            raise ContainerError(f"{where} does not decode to its end; the container is damaged")
        return symbols, carried.astype("<u2").view(np.uint8)

    def _arguments(self, symbols: Bytes, tokens: NDArray[np.int64], measure: bool) -> tuple[object, ...]:
        lengths = _lengths(self.parameters.table_bits)
        return (
            symbols, tokens, self.channels, self.class_of, self.classes, self.counts, self.prior, self.probs,
            self.codes, self.slots, self.span, self.states, self.vector, lengths, measure,
            np.empty(WINDOW, np.int64), np.empty(self.channels, np.int64), np.empty(self.channels, np.int32),
        )  # fmt: skip
