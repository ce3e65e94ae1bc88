"""Which dumps the benchmarks use by default, and the one thing the codecs must be told about one: its dtype.

Reads the safetensors header on its own, so that the harness judges kvzip without leaning on it.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
FIXTURES = ROOT / "fixtures"
DEFAULT = ("chat_bf16", "prose_bf16", "chat_fp8")
WIDTHS = {"BF16": 2, "F16": 2, "I16": 2, "U16": 2, "F32": 4, "I32": 4, "U32": 4}


@dataclass(frozen=True)
class Dump:
    """One dump in memory; ``dtype`` is the safetensors dtype that most of its bytes have."""

    path: Path
    data: bytes
    dtype: str

    @property
    def name(self) -> str:
        """File name without its suffix."""
        return self.path.stem


def read_dump(path: Path) -> Dump:
    """Read a whole dump and find its dtype."""
    data = path.read_bytes()
    return Dump(path, data, dtype_of(data, path))


def read_header(data: bytes) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return where the data section of a safetensors file begins, and its tensors: name -> header entry."""
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return 8 + size, header


def dtype_of(data: bytes, path: Path) -> str:
    """Return the dtype of most bytes of a safetensors file."""
    if len(data) < 8:
        raise SystemExit(f"not a safetensors file: {path}; give --dumps files that safetensors wrote")
    held: Counter[str] = Counter()
    for entry in read_header(data)[1].values():
        start, stop = entry["data_offsets"]
        held[entry["dtype"]] += stop - start
    return held.most_common(1)[0][0] if held else "U8"


def width_of(dtype: str) -> int:
    """Return the bytes of one element, 1 where the dtype is unknown or narrower."""
    return WIDTHS.get(dtype, 1)


def default_dumps() -> list[Path]:
    """Return the real dumps beside the repository if they are there, else the repository's fixtures."""
    real = [DATA / f"{name}.safetensors" for name in DEFAULT]
    found = [path for path in real if path.exists()] or sorted(FIXTURES.glob("*.safetensors"))
    if not found:
        raise SystemExit(f"no dump found: {DATA} and {FIXTURES} have none; give --dumps FILE...")
    return found


def warm_up_dump(dump: Dump) -> Dump:
    """Return a small dump of the same dtype, or the dump itself where the repository has none."""
    small = sorted((FIXTURES / "real").glob("*.safetensors"), key=lambda path: path.stat().st_size)
    found = (read_dump(path) for path in small if path.stat().st_size < len(dump.data))
    return next((each for each in found if each.dtype == dump.dtype), dump)


def small_dump() -> Path:
    """Return a small BF16 dump, for start-up times."""
    named = [folder / "chat_bf16.safetensors" for folder in (FIXTURES, DATA / "small")]
    found = [path for path in named if path.exists()]
    found += sorted(FIXTURES.glob("*.safetensors"), key=lambda path: path.stat().st_size)
    return found[0] if found else default_dumps()[0]
