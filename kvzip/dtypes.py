"""The element types of safetensors: how wide each is, and where its exponent sits.

A float is ``[sign | exponent | mantissa]`` from its top bit down; ``exponent`` and ``mantissa`` are field widths in
bits. Integer and packed types have no exponent: both widths are 0. Ids are written into containers and never
change.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """One element type; ``bits`` is the size of an element, below 8 for packed types."""

    name: str
    id: int
    bits: int
    exponent: int = 0
    mantissa: int = 0

    @property
    def is_float(self) -> bool:
        """Whether the bits are sign, exponent and mantissa of one number."""
        return self.exponent > 0

    @property
    def container_bytes(self) -> int:
        """Width in bytes of the unsigned integer that the bits are read as; packed types are read as bytes."""
        return max(1, self.bits // 8)


_ROWS = (
    Dtype("BOOL", 1, 8),
    Dtype("F4", 2, 4),
    Dtype("F6_E2M3", 3, 6),
    Dtype("F6_E3M2", 4, 6),
    Dtype("U8", 5, 8),
    Dtype("I8", 6, 8),
    Dtype("F8_E5M2", 7, 8, 5, 2),
    Dtype("F8_E4M3", 8, 8, 4, 3),
    Dtype("F8_E8M0", 9, 8),
    Dtype("F8_E4M3FNUZ", 10, 8, 4, 3),
    Dtype("F8_E5M2FNUZ", 11, 8, 5, 2),
    Dtype("I16", 12, 16),
    Dtype("U16", 13, 16),
    Dtype("F16", 14, 16, 5, 10),
    Dtype("BF16", 15, 16, 8, 7),
    Dtype("I32", 16, 32),
    Dtype("U32", 17, 32),
    Dtype("F32", 18, 32, 8, 23),
    Dtype("C64", 19, 64),
    Dtype("F64", 20, 64, 11, 52),
    Dtype("I64", 21, 64),
    Dtype("U64", 22, 64),
)

DTYPES = {row.name: row for row in _ROWS}
DTYPES_BY_ID = {row.id: row for row in _ROWS}
