"""What a chain did, for the statistics: where its bytes went, what its windows did, what its values are like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.course import Courses
from kvzip.dtypes import Dtype

Counts = NDArray[np.int64]
TRIGGERS = ("periodic", "confidence", "novelty")
COUNTERS = (*TRIGGERS, "rebuilds", "resets", "escapes", "length")  # the order of ``windows.triggers``'s slots


@dataclass
class Tally:
    """Counters of a chain; everything by plane is keyed by the plane's number."""

    payload: int = 0  # bytes of all payloads
    stored: int = 0  # bytes of values in blocks that fell back to stored
    raw: dict[int, int] = field(default_factory=dict)  # symbols written raw
    windows: dict[int, Counts] = field(default_factory=dict)  # (streams, len(COUNTERS))
    spent: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # bits of each stream, by what for
    parts: list[PartCounts] = field(default_factory=list)  # one a stream, if measured
    courses: Courses | None = None  # where the bits of values lie, if measured
    drafted: Counts | None = None  # (streams, 2): values that the draft reached, and those it had exactly

    def absorb(self, plane: int, counters: Counts) -> None:
        """Add a model's counters."""
        self.windows[plane] = self.windows[plane] + counters if plane in self.windows else counters

    def spend(self, what: str, bits: NDArray[np.float64]) -> None:
        """Add bits of each stream."""
        self.spent[what] = self.spent[what] + bits if what in self.spent else bits

    def compare(self, counts: Counts) -> None:
        """Add what a draft had of each stream."""
        self.drafted = counts if self.drafted is None else self.drafted + counts

    def observe(self, values: NDArray[Any], dtype: Dtype) -> None:
        """Count the parts of a block's values (streams, tokens, channels)."""
        if not self.parts:
            self.parts = [PartCounts(dtype) for _ in values]
        for part, stream in zip(self.parts, values, strict=True):
            part.add(stream.reshape(-1))


class PartCounts:
    """Histograms of sign, exponent and mantissa (its bytes apart, from the top), or of an integer's bytes."""

    def __init__(self, dtype: Dtype) -> None:
        self.values = 0
        self.fields: list[tuple[str, int, int]] = []  # name, shift, width
        top = 8 * dtype.container_bytes
        if dtype.is_float:
            self.fields = [("sign", top - 1, 1), ("exponent", dtype.mantissa, dtype.exponent)]
            top = dtype.mantissa
        while top > 0:
            width = min(8, top)
            self.fields.append(("mantissa" if dtype.is_float else "bytes", top - width, width))
            top -= width
        self.counts = [np.zeros(1 << width, np.int64) for _, _, width in self.fields]

    def add(self, values: NDArray[Any]) -> None:
        """Count flat values."""
        self.values += len(values)
        for counts, (_, shift, width) in zip(self.counts, self.fields, strict=True):
            field_values = (values >> shift) & ((1 << width) - 1)
            counts += np.bincount(field_values.astype(np.int64), minlength=1 << width)

    def entropies(self) -> dict[str, float]:
        """Order-0 entropy of each part in bits per value."""
        out: dict[str, float] = {}
        for counts, (name, _, _) in zip(self.counts, self.fields, strict=True):
            share = counts[counts > 0] / max(1, self.values)
            out[name] = out.get(name, 0.0) + float(-(share * np.log2(share)).sum())
        return out
