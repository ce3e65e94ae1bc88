"""The codecs that are compared: one registry line each, made only where its package is installed.

A maker is given the dtype of the dump and returns the pair (compress, decompress), each ``(data, threads) ->
data``. It imports its package itself: a missing package removes the codec, nothing else. Codecs may scribble
on their input (zipnn does for bfloat16, even through an immutable ``bytes``): callers pass a private copy.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dumps import ROOT, width_of

sys.path.insert(0, str(ROOT))  # this checkout's kvzip, not an installed one

Transform = Callable[[bytes, int], bytes]
Pair = tuple[Transform, Transform]


@dataclass(frozen=True)
class Codec:
    """A codec made for one dtype; ``level`` is set for kvzip only, whose files go through its command."""

    name: str
    version: str
    threaded: bool
    compress: Transform
    decompress: Transform
    level: int | None = None

    def transcode(self, verb: str, source: Path, target: Path, threads: int) -> None:
        """Compress or decompress file to file, as durably as kvzip's command: flushed to the disk."""
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


def _kvzip(level: int, dtype: str) -> Pair:
    from kvzip import compress, decompress

    return (
        lambda data, threads: compress(data, level=level, threads=threads),
        lambda data, threads: decompress(data, threads=threads),
    )


def _zstd(level: int, dtype: str) -> Pair:
    import zstandard

    def compress(data: bytes, threads: int) -> bytes:
        workers = threads if threads > 1 else 0  # 0 is single-threaded in the library's terms
        return zstandard.ZstdCompressor(level=level, threads=workers).compress(data)

    return compress, lambda data, threads: zstandard.ZstdDecompressor().decompress(data)


def _lz4(dtype: str) -> Pair:
    import lz4.frame

    size = lz4.frame.BLOCKSIZE_MAX4MB
    return (
        lambda data, threads: lz4.frame.compress(data, block_size=size),
        lambda data, threads: lz4.frame.decompress(data),
    )


def _zlib(dtype: str) -> Pair:
    import zlib

    return lambda data, threads: zlib.compress(data, 6), lambda data, threads: zlib.decompress(data)


def _zipnn(dtype: str) -> Pair:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its use of torch.jit.script
        from zipnn import ZipNN

    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F8_E5M2": "float8_e5m2"}
    settings = partial(ZipNN, input_format="byte", bytearray_dtype=names.get(dtype, "float8_e4m3fn"))
    return (
        lambda data, threads: settings(threads=threads).compress(data),
        lambda data, threads: settings(threads=threads).decompress(data),
    )


def _blosc2(dtype: str) -> Pair:
    import blosc2

    settings = {
        "codec": blosc2.Codec.ZSTD,
        "clevel": 1,
        "typesize": width_of(dtype),
        "filters": [blosc2.Filter.BITSHUFFLE],
        "filters_meta": [0],
    }
    return (
        lambda data, threads: blosc2.compress2(data, nthreads=threads, **settings),
        lambda data, threads: blosc2.decompress2(data, nthreads=threads),
    )


def _pcodec(dtype: str) -> Pair:
    import numpy
    from pcodec import ChunkConfig, standalone

    kinds = {"BF16": "u2", "F16": "f2", "F32": "f4"}
    kind = numpy.dtype(kinds.get(dtype, "u1"))

    def compress(data: bytes, threads: int) -> bytes:
        tail = len(data) % kind.itemsize
        numbers = numpy.frombuffer(data, kind, count=len(data) // kind.itemsize)
        packed = standalone.simple_compress(numbers, ChunkConfig(enable_8_bit=kind.itemsize == 1))
        return b"".join((bytes((tail,)), data[len(data) - tail :], packed))

    def decompress(data: bytes, threads: int) -> bytes:
        tail = data[0]
        numbers = standalone.simple_decompress(data[1 + tail :])
        return bytes(numbers.tobytes()) + data[1 : 1 + tail]

    return compress, decompress


@dataclass(frozen=True)
class Entry:
    """One registry line: ``package`` is the distribution whose version is shown, ``""`` for Python's own."""

    package: str
    make: Callable[[str], Pair]
    threaded: bool
    level: int | None = None


REGISTRY: dict[str, Entry] = {
    "lz4": Entry("lz4", _lz4, threaded=False),
    "zlib-6": Entry("", _zlib, threaded=False),
    "zstd-1": Entry("zstandard", partial(_zstd, 1), threaded=True),
    "zstd-3": Entry("zstandard", partial(_zstd, 3), threaded=True),
    "blosc2-bitshuffle-zstd": Entry("blosc2", _blosc2, threaded=True),
    "pcodec": Entry("pcodec", _pcodec, threaded=False),
    "zipnn": Entry("zipnn", _zipnn, threaded=True),
    **{f"kvzip-{n}": Entry("kvzip", partial(_kvzip, n), threaded=True, level=n) for n in range(1, 10)},
}
OTHERS = [name for name, entry in REGISTRY.items() if entry.level is None]


def make(name: str, dtype: str) -> Codec:
    """Make one codec for a dtype; ImportError where its package is not installed."""
    entry = REGISTRY[name]
    compress, decompress = entry.make(dtype)
    return Codec(name, _version(entry.package), entry.threaded, compress, decompress, entry.level)


def _version(package: str) -> str:
    if package == "kvzip":
        from kvzip.version import __version__

        return __version__
    return importlib.metadata.version(package) if package else f"Python {platform.python_version()}"
