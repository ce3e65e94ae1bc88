"""Steps over sixteen channels that belong together, as one: what passes between them stays in registers."""

from __future__ import annotations

from typing import Any

from kvzip.coder.jit import step
from kvzip.coder.lanes import lanes16
from kvzip.predict.grid import pack, pack_bf16
from kvzip.predict.rows import log_energy_of, numbers_of, numbers_of_bf16
from kvzip.predict.symbols import symbols_of, values_of


def _read(
    entry: Any, low: Any, packed: Any, mean: Any, variance: Any, live: Any, sign_at: Any, mask: Any, *grid: Any
) -> Any:
    """Values, symbols, numbers, log energies of what was decoded, escapes apart; BF16 needs no more of ``grid``."""
    value, symbol = values_of(entry, low, packed, sign_at, mask)
    number = numbers_of(value, mean, mask, sign_at, *grid) if grid else numbers_of_bf16(value, mean)
    return value, symbol, number, log_energy_of(number, mean, variance, live)


def _write(
    value: Any, packed: Any, mean: Any, variance: Any, live: Any, sign_at: Any, mask: Any, bits: Any, *grid: Any
) -> Any:
    """Symbols, codes of low bits, numbers and log energies of values; BF16 needs no more of ``grid``."""
    symbol, low = symbols_of(value, packed, sign_at, mask, bits)
    number = numbers_of(value, mean, mask, sign_at, *grid) if grid else numbers_of_bf16(value, mean)
    return symbol, low, number, log_energy_of(number, mean, variance, live)


read: Any = lanes16(_read, "iiiffiIIIIIF>iifi")
write: Any = lanes16(_write, "iiffiIIIIIIF>iifi")
read_bf16: Any = lanes16(_read, "iiiffiII>iifi")
write_bf16: Any = lanes16(_write, "iiffiIII>iifi")


@step
def pack_group(  # type: ignore[no-untyped-def]
    bf16, work, mean_at, variance_at, loud, mantissa, down, offset, normal, mask, lift, up, packed, places, p
):
    """``grid.pack`` of sixteen values at ``p`` of the padded row, whose means and variances are in ``work``."""
    if bf16:
        pack_bf16(work, mean_at, work, variance_at, loud, mantissa, mask, up, packed, p, places, p)
    else:
        pack(
            work, mean_at, work, variance_at, loud, mantissa, down, offset, normal, mask, lift, up, packed, p, places,
            p,
        )  # fmt: skip


@step
def read_group(  # type: ignore[no-untyped-def]
    bf16, entries, lows, packed, p, work, mean_at, variance_at, live, within, sign_at, mask, least, offset, down,
    unit, x, into, symbols, number_at, logs,
):  # fmt: skip
    """Sixteen values into ``x``, their symbols, numbers and log energies."""
    if bf16:
        read_bf16(
            entries, p, lows, p, packed, p, work, mean_at, work, variance_at, live, within, sign_at, mask, x, into,
            symbols, p, work, number_at, logs, 0,
        )  # fmt: skip
    else:
        read(
            entries, p, lows, p, packed, p, work, mean_at, work, variance_at, live, within, sign_at, mask, least,
            offset, down, unit, x, into, symbols, p, work, number_at, logs, 0,
        )  # fmt: skip


@step
def write_group(  # type: ignore[no-untyped-def]
    bf16, x, at, packed, p, work, mean_at, variance_at, live, within, sign_at, mask, bits, least, offset, down, unit,
    symbols, lows, number_at, logs,
):  # fmt: skip
    """The symbols of sixteen values of ``x``, the codes of their low bits, their numbers and log energies."""
    if bf16:
        write_bf16(
            x, at, packed, p, work, mean_at, work, variance_at, live, within, sign_at, mask, bits, symbols, p, lows,
            p, work, number_at, logs, 0,
        )  # fmt: skip
    else:
        write(
            x, at, packed, p, work, mean_at, work, variance_at, live, within, sign_at, mask, bits, least, offset,
            down, unit, symbols, p, lows, p, work, number_at, logs, 0,
        )  # fmt: skip
