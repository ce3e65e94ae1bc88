"""The cold-start prior of the residuals' windows: one trained distribution for each context of each grid.

The asset ``priors/residuals-1.bin`` holds, for the grids with 2, 3, 7 and 10 bits of mantissa in this order, a row
for each context: 129 little-endian uint16, the 128 symbols and the escape, summing to 2^15.

A prior file has rows of its own for some of the grids; for the others the asset's hold:

    magic       8 bytes     89 4B 56 50 0D 0A 1A 0A
    version     varint      1
    name        bytes       at most 64, UTF-8
    grids       u8          1 to 4; then for each of them, fewest bits of mantissa first
    mantissa    u8          2, 3, 7 or 10
    rows        u16[contexts][129]
    check       u64         XXH3-64 of all that precedes

A container names it by its *identity*, "xxh3:" and the XXH3-128 of all its bytes in hex.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.dtypes import DTYPES
from kvzip.errors import ContainerError, PriorError, UnsupportedError
from kvzip.predict.grid import K_ABOVE, K_ONE, PHASES, Grid, first_phase, grid_of
from kvzip.predict.symbols import SYMBOLS
from kvzip.windows.estimator import ESCAPE
from kvzip.wire import Cursor, put_bytes, put_varint

MANTISSAS = (2, 3, 7, 10)
MASS_LOG2 = 15
SYMBOLS_PER_TOKEN = 16  # of a context: a prior's weight is given in tokens
MAGIC = b"\x89KVP\r\n\x1a\n"
VERSION = 1
MOST_BYTES = 1 << 16  # of a prior file
MOST_NAME = 64
CHECK_BYTES = 8

Rows = NDArray[np.int64]
"""(contexts, 129): the 128 symbols and the escape, each row summing to 2^15."""


def contexts_of(mantissa: int) -> int:
    """How many contexts the grids with so many bits of mantissa have, see ``Grid.contexts``."""
    return first_phase(mantissa) + PHASES * (K_ABOVE + 1)


@cache
def asset(identifier: str = "residuals-1") -> dict[int, Rows]:
    """The shipped rows by bits of mantissa."""
    path = files("kvzip").joinpath("priors").joinpath(identifier + ".bin")
    raw = np.frombuffer(path.read_bytes(), "<u2").astype(np.int64)
    out = {}
    for mantissa in MANTISSAS:
        contexts = contexts_of(mantissa)
        out[mantissa], raw = raw[: contexts * (SYMBOLS + 1)].reshape(contexts, SYMBOLS + 1), raw[contexts * 129 :]
    return out


@dataclass(frozen=True, eq=False)
class Prior:
    """A trained prior: its name, its own rows by bits of mantissa, and the bytes of its file."""

    name: str
    rows: dict[int, Rows]
    data: bytes

    @property
    def identity(self) -> str:
        """What a container calls it."""
        return "xxh3:" + xxhash.xxh3_128_hexdigest(self.data)

    def of(self, mantissa: int) -> Rows:
        """The rows of a grid."""
        return self.rows[mantissa] if mantissa in self.rows else asset()[mantissa]

    @classmethod
    def make(cls, name: str, rows: dict[int, Rows]) -> Prior:
        """A prior of these rows, in ascending order of the bits of mantissa."""
        out = bytearray(MAGIC)
        put_varint(out, VERSION)
        put_bytes(out, name.encode())
        out.append(len(rows))
        for mantissa in sorted(rows):
            out.append(mantissa)
            out += rows[mantissa].astype("<u2").tobytes()
        out += xxhash.xxh3_64_intdigest(out).to_bytes(CHECK_BYTES, "little")
        return cls(name, rows, bytes(out))

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Prior:
        """Read and check a prior file; PriorError if it is none or damaged."""
        if data[: len(MAGIC)] != MAGIC or len(data) > MOST_BYTES:
            raise PriorError(f"{where}: is no prior file; make one with `kvzip prior train`")
        damaged = PriorError(f"{where}: the prior file is damaged; get another copy")
        if xxhash.xxh3_64_intdigest(data[:-CHECK_BYTES]).to_bytes(CHECK_BYTES, "little") != data[-CHECK_BYTES:]:
            raise damaged
        cursor = Cursor(data[len(MAGIC) : -CHECK_BYTES], where)
        try:
            if cursor.varint() != VERSION:
                raise UnsupportedError(f"{where}: a prior file of a version unknown here; use a newer kvzip")
            name = cursor.bytes(MOST_NAME).decode()
            rows = _read_grids(cursor)
            cursor.finish()
        except (ContainerError, UnicodeDecodeError):
            raise damaged from None
        return cls(name, rows, data)


def _read_grids(cursor: Cursor) -> dict[int, Rows]:
    rows: dict[int, Rows] = {}
    for _ in range(cursor.u8()):
        mantissa = cursor.u8()
        if mantissa not in MANTISSAS or mantissa <= max(rows, default=0):
            raise cursor.damaged("holds a grid out of place")
        raw = np.frombuffer(cursor.take(2 * (SYMBOLS + 1) * contexts_of(mantissa)), "<u2")
        rows[mantissa] = raw.astype(np.int64).reshape(-1, SYMBOLS + 1)
        if (rows[mantissa].sum(axis=1) != 1 << MASS_LOG2).any():
            raise cursor.damaged("holds a distribution that does not sum up")
    if not rows:
        raise cursor.damaged("holds no grid")
    return rows


def types_of(mantissa: int) -> list[str]:
    """The element types whose values are coded by the rows of a grid."""
    grids = {name: grid_of(dtype) for name, dtype in DTYPES.items()}
    return [name for name, grid in grids.items() if grid is not None and grid.mantissa == mantissa]


def class_starts(mantissa: int) -> list[float]:
    """Where each class of predictions begins (see ``predict.grid``), in |mean| / sigma."""
    return [0.0, *(2.0 ** ((k - K_ONE) / 2) for k in range(1, first_phase(mantissa) + K_ABOVE + 1))]


def entropies(rows: Rows, mantissa: int) -> list[float]:
    """Bits of a symbol in each class of predictions (see ``predict.grid``), on average over its phases."""
    share = rows / (1 << MASS_LOG2)
    bits = -(share * np.log2(np.where(share > 0, share, 1))).sum(axis=1)
    single = first_phase(mantissa)
    return [*map(float, bits[:single]), *map(float, bits[single:].reshape(-1, PHASES).mean(axis=1))]


def fill(counts: NDArray[Any], grid: Grid, tokens: int, prior: Prior | None = None) -> None:
    """Start the counts (streams, contexts, 257) at a prior, None for the shipped one, worth ``tokens`` tokens."""
    if not tokens:
        return
    own = prior.of(grid.mantissa) if prior else asset()[grid.mantissa]
    rows = own * (2 * SYMBOLS_PER_TOKEN * tokens)
    counts[:, :, :SYMBOLS] = rows[:, :SYMBOLS]
    counts[:, :, ESCAPE] = rows[:, SYMBOLS]
