"""The codecs that are compared: one registry line each, made only where its package is installed."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import makers
from dumps import ROOT
from makers import Pair, Transform

sys.path.insert(0, str(ROOT))  # this checkout's kvzip, not an installed one

SLOW = 4  # the first of kvzip's levels that takes seconds


@dataclass(frozen=True)
class Codec:
    """A codec made for one dtype; ``level`` is set for kvzip only, whose files go through its own functions."""

    name: str
    version: str
    threaded: bool
    slow: bool
    compress: Transform
    decompress: Transform
    level: int | None = None

    def transcode(self, verb: str, source: Path, target: Path, threads: int) -> None:
        """Compress or decompress file to file, as durably as kvzip does: flushed to the disk."""
        if self.level is not None:
            _transcode_kvzip(verb, source, target, threads, self.level)
            return
        transform = self.compress if verb == "compress" else self.decompress
        data = transform(source.read_bytes(), threads)
        with target.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def command(self, verb: str, source: Path, target: Path, threads: int, dtype: str) -> list[str]:
        """Return the command line of a process that does the same and nothing else."""
        if self.level is not None:
            return kvzip_command(verb, source, target, threads, self.level)
        script = str(Path(__file__).with_name("transcode.py"))
        return [sys.executable, script, self.name, dtype, verb, str(source), str(target), str(threads)]


def _transcode_kvzip(verb: str, source: Path, target: Path, threads: int, level: int) -> None:
    from kvzip import compress, decompress

    if verb == "compress":
        compress(source, target, level=level, threads=threads)
    else:
        decompress(source, target, threads=threads)


def kvzip_command(verb: str, source: Path, target: Path, threads: int, level: int) -> list[str]:
    """Return the command line of kvzip that turns ``source`` into ``target``, quiet and overwriting."""
    options = ["-q", "-f", "-T", str(threads), "-o", str(target)]
    if verb == "compress":
        options += ["-l", str(level)]
    return [sys.executable, "-m", "kvzip", verb, *options, str(source)]


def environment(**changes: str) -> dict[str, str]:
    """Return the environment for children that import this checkout's kvzip."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **changes}


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
OTHERS = [name for name, entry in REGISTRY.items() if entry.level is None]


def make(name: str, dtype: str) -> Codec:
    """Make one codec for a dtype; ImportError where its package is not installed."""
    entry = REGISTRY[name]
    compress, decompress = entry.make(dtype)
    return Codec(name, _version(entry.package), entry.threaded, entry.slow, compress, decompress, entry.level)


def _version(package: str) -> str:
    if package == "kvzip":
        from kvzip.version import __version__

        return __version__
    return importlib.metadata.version(package)
