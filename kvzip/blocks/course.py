"""How a stream's bits lie: by channel, and along the tokens with what its windows did there."""

from __future__ import annotations

from dataclasses import dataclass, field

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
