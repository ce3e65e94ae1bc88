"""Statistics of many files added up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvzip.pipeline.stats import Stats
from kvzip.pipeline.stats import Totals as Sums


@dataclass
class Totals:
    """Sizes in bytes of all files, and sums by kind."""

    files: int = 0
    source_bytes: int = 0
    container_bytes: int = 0
    kinds: dict[str, Sums] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Source bytes per container byte."""
        return self.source_bytes / max(1, self.container_bytes)

    def add(self, stats: Stats) -> None:
        """Count a file."""
        self.files += 1
        self.source_bytes += stats.source_bytes
        self.container_bytes += stats.container_bytes
        for name, found in stats.kinds.items():
            kind = name or "opaque"
            self.kinds[kind] = Sums.of([self.kinds[kind], found]) if kind in self.kinds else found

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "files": self.files,
            "source_bytes": self.source_bytes,
            "container_bytes": self.container_bytes,
            "ratio": self.ratio,
            "kinds": {
                name: {"values": kind.values, "bits_per_value": kind.bits_per_value, "ratio": kind.ratio}
                for name, kind in sorted(self.kinds.items())
            },
        }
