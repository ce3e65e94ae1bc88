"""Statistics of many files added up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvzip.pipeline.stats import Stats


@dataclass
class Kind:
    """Values of a kind, and the bits that they were and are."""

    values: int = 0
    source_bits: int = 0
    bits: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "values": self.values,
            "bits_per_value": self.bits / max(1, self.values),
            "ratio": self.source_bits / max(1.0, self.bits),
        }


@dataclass
class Totals:
    """Sizes in bytes of all files, and values by kind."""

    files: int = 0
    source_bytes: int = 0
    container_bytes: int = 0
    kinds: dict[str, Kind] = field(default_factory=dict)

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
            kind = self.kinds.setdefault(name or "opaque", Kind())
            kind.values += found.values
            kind.source_bits += found.source_bits
            kind.bits += found.bits

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "files": self.files,
            "source_bytes": self.source_bytes,
            "container_bytes": self.container_bytes,
            "ratio": self.ratio,
            "kinds": {name: kind.to_json() for name, kind in sorted(self.kinds.items())},
        }
