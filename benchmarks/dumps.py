"""Which dumps the benchmarks use by default, and the one thing the codecs must be told about one: its dtype."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from checkout import ROOT

from kvzip.dumps.safetensors import Header, main_dtype
from kvzip.dumps.safetensors import read_header as read
from kvzip.errors import DumpError

DATA = ROOT.parent / "shared" / "data"
FIXTURES = ROOT / "fixtures"
DEFAULT = ("chat_bf16", "prose_bf16", "chat_fp8")


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
    return Dump(path, data, main_dtype(read_header(data, path)))


def read_header(data: bytes, path: Path) -> Header:
    """Return the header of a dump, or stop the benchmark."""
    try:
        return read(io.BytesIO(data), str(path))
    except DumpError as error:
        raise SystemExit(str(error)) from None


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
