"""Sizes as people write and read them."""

from __future__ import annotations

import re

from kvzip.errors import OptionError

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}


def block_log2(text: str) -> int:
    """``4K`` ... ``64M`` as a power of two, or an OptionError."""
    match = re.fullmatch(r"(\d{1,9})([km]?)(?:i?b)?", text.strip().lower())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    if size & (size - 1) or not 1 << 12 <= size <= 1 << 26:
        raise OptionError(f"--block-size {text}: must be a power of two from 4K to 64M")
    return size.bit_length() - 1


def human(count: float) -> str:
    """Bytes in decimal units, three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def compact(count: int) -> str:
    """A count in at most six characters."""
    if count < 1_000_000:
        return str(count)
    return f"{count / 1e6:.4g}M" if count < 1e9 else f"{count / 1e9:.4g}G"
