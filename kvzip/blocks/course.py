"""How a stream's bits lie: by channel, and along the tokens with what its windows did there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Course:
    """Bits of a stream's symbols and raw bits, in bins of ``step`` tokens and by channel.

    What its blocks spend beside them (lane states, scales, "side") belongs to no value and is left out.
    """

    step: int  # tokens of a bin; the last one may have fewer
    values: NDArray[np.int64]  # (bins,) values of the tokens of a bin
    tokens: NDArray[np.float64]  # (bins,) bits that they took
    channels: NDArray[np.float64]  # (channels,) bits that all tokens of a channel took
    events: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """(bins,) how often what happened, by trigger ("periodic", "confidence", "novelty") and for "resets"."""

    @property
    def bits_along(self) -> NDArray[np.float64]:
        """(bins,) bits per value."""
        return self.tokens / np.maximum(1, self.values)

    @property
    def bits_by_channel(self) -> NDArray[np.float64]:
        """(channels,) bits per value."""
        return self.channels * len(self.channels) / max(1, int(self.values.sum()))


BINS = 256  # at most, along the tokens
EVENTS = ("periodic", "confidence", "novelty", "resets")


class Courses:
    """The courses of a chain's streams in the making."""

    def __init__(self, streams: int, tokens: int, channels: int) -> None:
        self.step = max(1, -(-tokens // BINS))
        sizes = np.full(-(-tokens // self.step), self.step * channels, np.int64)
        sizes[-1:] -= (self.step * len(sizes) - tokens) * channels
        self.values = sizes
        self.token = 0  # of the block's first row
        self.tokens = np.zeros((streams, len(sizes)))
        self.channels = np.zeros((streams, channels))
        self.events = np.zeros((streams, len(EVENTS), len(sizes)), np.int64)

    def add(self, stream: int, tokens: NDArray[np.int64], bits: NDArray[Any], unit: float = 1.0) -> None:
        """Add what the values of ``tokens`` of a stream's block took: (tokens, channels), in ``unit`` bits."""
        np.add.at(self.tokens[stream], (self.token + tokens) // self.step, bits.sum(axis=1, dtype=np.float64) * unit)
        self.channels[stream] += bits.sum(axis=0, dtype=np.float64) * unit

    def spread(self, tokens: int, bits: float) -> None:
        """Add ``bits`` for each value of so many tokens of all streams."""
        bins = (self.token + np.arange(tokens)) // self.step
        self.tokens += np.bincount(bins, minlength=len(self.values)) * (bits * self.channels.shape[1])
        self.channels += tokens * bits

    def happen(self, stream: int, tokens: NDArray[np.int64], events: NDArray[np.int64]) -> None:
        """Count what happened after ``tokens`` of a stream's block: (tokens, len(EVENTS))."""
        at, what = np.nonzero(events)
        np.add.at(self.events[stream], (what, (self.token + tokens[at]) // self.step), events[at, what])

    def merge(self, other: Courses) -> None:
        """Add another's."""
        self.tokens += other.tokens
        self.channels += other.channels
        self.events += other.events

    def of(self, stream: int) -> Course:
        """One stream's course, in bins."""
        events = dict(zip(EVENTS, self.events[stream], strict=True))
        return Course(self.step, self.values, self.tokens[stream], self.channels[stream], events)
