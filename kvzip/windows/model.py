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
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, INCREMENT_START, WINDOW
from kvzip.windows.lengths import code_lengths
from kvzip.windows.opening import PADDED, UNKNOWN, Opening
from kvzip.windows.parameters import Parameters
from kvzip.windows.prior import Fields

Bytes = NDArray[np.uint8]
NO_LANES, NO_WORDS = np.zeros(1, np.uint32), np.zeros(1, np.uint16)  # the encoder's loop has none
NO_COSTS, NO_EVENTS = np.zeros(0, np.uint16), np.zeros((0, 4), np.int64)


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
        self.opening = Opening(streams, channels, classes, fields, parameters.prior_weight)
        self.class_of = np.zeros(streams * channels, np.uint8)
        self.counts, self.prior, self.probs = np.zeros((3, windows, WINDOW), np.int64)
        self.codes = np.zeros((windows, 1 << CODE_SHIFT), np.uint32)
        self.slots = np.zeros((1, 1), np.uint16)
        self.span = np.zeros((windows, 2), np.int64)
        self.span[:, 0] = ESCAPE
        self.states = np.zeros((streams, triggers.STATE), np.int64)
        self.states[:, triggers.INCREMENT] = INCREMENT_START
        self.states[:, triggers.DIRTY] = 1
        self.costs = NO_COSTS  # of the symbols coded last, in 1/256 bit, if they are measured
        self.events = NO_EVENTS  # (tokens, 4) triggers and resets after each of their rows

    # -- the start: classes and priors, chosen by the encoder and written into the chain's first block

    def open(self, symbols: Bytes, tokens: NDArray[np.int64]) -> Bytes:
        """Choose classes and priors on the first block's symbols; return the bytes that tell the decoder."""
        opening = self.opening.choose(symbols, tokens)
        self._begin(opening)
        return opening

    def reopen(self, opening: Bytes, where: str) -> None:
        """Take the decoder's side of ``open``; ``opening`` has ``self.opening.size`` bytes."""
        wrong = self._begin(opening)
        if wrong == PADDED:
            raise ContainerError(f"{where} has bits set in its padding; the container is damaged")
        if wrong == UNKNOWN:
            raise ContainerError(f"{where} names a prior that does not exist; the container is damaged")
        self.slots = np.zeros((len(self.counts) + 1, 1 << self.parameters.table_bits), np.uint16)

    def _begin(self, opening: Bytes) -> int:
        """Start the counts; the drift reset needs them again, so they are kept aside."""
        wrong = self.opening.apply(opening, self.class_of, self.counts)
        if self.parameters.drift:
            self.prior = self.counts.copy()
        return wrong

    # -- coding

    def encode(self, symbols: Bytes, tokens: NDArray[np.int64], carried: Bytes, measure: bool = False) -> Coded:
        """Code flat symbols, stream after stream. ``carried`` (2 bytes a lane, or none) rides in the start states."""
        count = len(symbols)
        literals = np.empty(count + 1, np.uint8)
        codes = np.empty(count, np.uint32)
        used, _ = loop.encode_run(
            *self._arguments(symbols, tokens, measure), literals, codes, NO_LANES, 0, NO_WORDS, 0
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
        if measure:
            self.costs = np.zeros(len(symbols), np.uint16)
            self.events = np.zeros((len(symbols) // self.channels, 4), np.int64)
        return (
            symbols, tokens, self.channels, self.class_of, self.classes, self.counts, self.prior, self.probs,
            self.codes, self.slots, self.span, self.states, self.parameters.vector, lengths, measure,
            self.costs, self.events.reshape(-1),
            np.empty(WINDOW, np.int64), np.empty(self.channels, np.int64), np.empty(self.channels, np.int32),
        )  # fmt: skip
