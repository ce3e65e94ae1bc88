"""Bits per value of keys and of values in a container, from kvzip's own statistics where it offers them."""

from __future__ import annotations

from pathlib import Path


def bits_per_value(container: Path) -> dict[str, float]:
    """Return kind -> bits per value; empty while ``kvzip.stats`` is absent."""
    import kvzip

    stats = getattr(kvzip, "stats", None)
    kinds = getattr(stats(container), "kinds", None) if stats else None
    return {kind: float(entry.bits_per_value) for kind, entry in (kinds or {}).items()}
