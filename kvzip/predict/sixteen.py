"""Steps over sixteen channels that belong together, as one: what passes between them stays in registers."""

from __future__ import annotations

from typing import Any

from kvzip.coder.lanes import lanes16
from kvzip.predict.rows import log_energy_of, numbers_of, numbers_of_bf16
from kvzip.predict.symbols import symbols_of, values_of


def _read(
    entry: Any, low: Any, packed: Any, mean: Any, variance: Any, live: Any, sign_at: Any, mask: Any, least: Any,
    offset: Any, down: Any, unit: Any,
) -> Any:  # fmt: skip
    """Values, symbols, numbers and log energies of what was decoded, escapes apart."""
    value, symbol = values_of(entry, low, packed, sign_at, mask)
    number = numbers_of(value, mean, mask, sign_at, least, offset, down, unit)
    return value, symbol, number, log_energy_of(number, mean, variance, live)


def _write(
    value: Any, packed: Any, mean: Any, variance: Any, live: Any, sign_at: Any, mask: Any, bits: Any, least: Any,
    offset: Any, down: Any, unit: Any,
) -> Any:  # fmt: skip
    """Symbols, codes of low bits, numbers and log energies of values."""
    symbol, low = symbols_of(value, packed, sign_at, mask, bits)
    number = numbers_of(value, mean, mask, sign_at, least, offset, down, unit)
    return symbol, low, number, log_energy_of(number, mean, variance, live)


def _read_bf16(
    entry: Any, low: Any, packed: Any, mean: Any, variance: Any, live: Any, sign_at: Any, mask: Any
) -> Any:  # fmt: skip
    """``_read`` for BF16."""
    value, symbol = values_of(entry, low, packed, sign_at, mask)
    number = numbers_of_bf16(value, mean)
    return value, symbol, number, log_energy_of(number, mean, variance, live)


def _write_bf16(
    value: Any, packed: Any, mean: Any, variance: Any, live: Any, sign_at: Any, mask: Any, bits: Any
) -> Any:  # fmt: skip
    """``_write`` for BF16."""
    symbol, low = symbols_of(value, packed, sign_at, mask, bits)
    number = numbers_of_bf16(value, mean)
    return symbol, low, number, log_energy_of(number, mean, variance, live)


read: Any = lanes16(_read, "iiiffiIIIIIF>iifi")
write: Any = lanes16(_write, "iiffiIIIIIIF>iifi")
read_bf16: Any = lanes16(_read_bf16, "iiiffiII>iifi")
write_bf16: Any = lanes16(_write_bf16, "iiffiIII>iifi")
