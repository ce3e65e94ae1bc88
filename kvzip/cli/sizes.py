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


def rate(option: str, text: str) -> float:
    """``200MB/s``, ``1.5 GiB/s``, ``200M`` as bytes a second, or an OptionError."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b?(?:/s|ps)?", text.strip().lower())
    if not match or (match[3] and not match[2]):
        raise OptionError(f"{option} {text}: must be bytes a second, like 200MB/s, 1.5GB/s or 64MiB/s")
    step = 1024 if match[3] else 1000
    return float(match[1]) * float(step ** " kmgt".index(match[2] or " "))


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
