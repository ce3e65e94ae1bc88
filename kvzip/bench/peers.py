"""The codecs that can be compared, one registry line each, made only where its package is installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kvzip.bench import makers
from kvzip.bench.makers import Pair, Transform
from kvzip.version import __version__

SLOW = 4  # the first of kvzip's levels that takes seconds


@dataclass(frozen=True)
class Codec:
    """A codec made for one dtype; ``level`` is set for kvzip only."""

    name: str
    version: str
    threaded: bool
    slow: bool
    compress: Transform
    decompress: Transform
    level: int | None = None


@dataclass(frozen=True)
class Entry:
    """One registry line: ``package`` is the distribution whose version is shown; ``slow``: a call takes seconds."""

    package: str
    make: Callable[[str], Pair]
    threaded: bool
    slow: bool = False
    level: int | None = None


REGISTRY: dict[str, Entry] = {
    "lz4": Entry("lz4", makers.lz4, threaded=False),
    "zstd-1": Entry("zstandard", partial(makers.zstd, 1), threaded=True),
    "zstd-3": Entry("zstandard", partial(makers.zstd, 3), threaded=True),
    "blosc2-shuffle": Entry("blosc2", partial(makers.blosc2, "SHUFFLE", "ZSTD"), threaded=True),
    "blosc2-bitshuffle": Entry("blosc2", partial(makers.blosc2, "BITSHUFFLE", "LZ4"), threaded=True),
    "pcodec": Entry("pcodec", makers.pcodec, threaded=False),
    "openzl": Entry("openzl", makers.openzl, threaded=False),
    "zipnn": Entry("zipnn", makers.zipnn, threaded=True),
    "bigsmall": Entry("bigsmall", makers.bigsmall, threaded=True, slow=True),
    **{
        f"kvzip-{n}": Entry("kvzip", partial(makers.kvzip, n), threaded=True, slow=n >= SLOW, level=n)
        for n in range(1, 10)
    },
}


def others() -> list[str]:
    """The names of all codecs but kvzip's levels."""
    return [name for name, entry in REGISTRY.items() if entry.level is None]


def make(name: str, dtype: str) -> Codec:
    """Make one codec for a dtype of safetensors.

    ImportError where its package is not installed, UnsuitedError where it has no way for the dtype.
    """
    entry = REGISTRY[name]
    compress, decompress = entry.make(dtype)
    return Codec(name, _version(entry.package), entry.threaded, entry.slow, compress, decompress, entry.level)


def _version(package: str) -> str:
    return __version__ if package == "kvzip" else importlib.metadata.version(package)
