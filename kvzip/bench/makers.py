"""How each compared codec is called: one maker a package, each imports its package itself.

A maker is given the safetensors dtype of the dump and returns the pair (compress, decompress), each ``(data,
threads) -> data``. Where a package sees numbers, it is told the dtype as well as it can be. Codecs may scribble on
their input (zipnn does for bfloat16, even through an immutable ``bytes``): callers pass a private copy.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import Header, read_header

Transform = Callable[[bytes, int], bytes]
Pair = tuple[Transform, Transform]


class UnsuitedError(Exception):
    """A codec has no way for a dtype."""


def kvzip(level: int, dtype: str) -> Pair:
    """One of its own levels."""
    from kvzip.api import compress, decompress

    return (
        lambda data, threads: compress(data, level=level, threads=threads),
        lambda data, threads: decompress(data, threads=threads),
    )


def zstd(level: int, dtype: str) -> Pair:
    """One frame; it decompresses with one thread whatever is asked."""
    import zstandard

    def compress(data: bytes, threads: int) -> bytes:
        workers = threads if threads > 1 else 0  # 0 is single-threaded in the library's terms
        return bytes(zstandard.ZstdCompressor(level=level, threads=workers).compress(data))

    return compress, lambda data, threads: zstandard.ZstdDecompressor().decompress(data)


def lz4(dtype: str) -> Pair:
    """Frames of 4 MiB blocks; no threads."""
    import lz4.frame

    size = lz4.frame.BLOCKSIZE_MAX4MB
    return (
        lambda data, threads: lz4.frame.compress(data, block_size=size),
        lambda data, threads: lz4.frame.decompress(data),
    )


def zipnn(dtype: str) -> Pair:
    """The dtype's own mode."""
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


def blosc2(filter_name: str, codec_name: str, dtype: str) -> Pair:
    """Level 1 of a codec behind a filter: level 5, its default, is 2 % off in ratio on a cache and far slower."""
    import blosc2

    settings = {
        "codec": blosc2.Codec[codec_name],
        "clevel": 1,
        "typesize": _width_of(dtype),
        "filters": [blosc2.Filter[filter_name]],
        "filters_meta": [0],
    }
    return (
        lambda data, threads: blosc2.compress2(data, nthreads=threads, **settings),
        lambda data, threads: blosc2.decompress2(data, nthreads=threads),
    )


def pcodec(dtype: str) -> Pair:
    """Float16 and float32 as such; bfloat16 and 8-bit floats, which it does not know, as unsigned integers."""
    from pcodec import ChunkConfig, standalone

    kind: np.dtype[Any] = np.dtype({"BF16": "u2", "F16": "f2", "F32": "f4"}.get(dtype, "u1"))

    def pack(numbers: NDArray[Any]) -> bytes:
        return bytes(standalone.simple_compress(numbers, ChunkConfig(enable_8_bit=kind.itemsize == 1)))

    return _of_numbers(kind, pack, lambda packed: standalone.simple_decompress(packed).tobytes())


def openzl(dtype: str) -> Pair:
    """Floats of 16 bits in two streams, exponents and the rest, 8-bit ones in one; entropy coded.

    Its generic graph (``graphs.Compress``, which finds repeats of numbers) is smaller on 256 tokens and larger and
    slower on 1024.
    """
    import openzl.ext as zl

    if _width_of(dtype) > 2:
        raise UnsuitedError("its entropy coder takes no mantissas of 24 bits")
    parts = {"BF16": "BFloat16Deconstruct", "F16": "Float16Deconstruct"}
    kind: np.dtype[Any] = np.dtype("u2" if dtype in parts else "u1")

    def pack(numbers: NDArray[Any]) -> bytes:
        compressor = zl.Compressor()
        compressor.set_parameter(zl.CParam.FormatVersion, zl.MAX_FORMAT_VERSION)
        graph = zl.graphs.Entropy()(compressor)
        if dtype in parts:
            graph = getattr(zl.nodes, parts[dtype])()(compressor, graph, graph)
        compressor.select_starting_graph(graph)
        context = zl.CCtx()
        context.ref_compressor(compressor)
        return bytes(context.compress([zl.Input(zl.Type.Numeric, numbers)]))

    return _of_numbers(kind, pack, lambda packed: zl.DCtx().decompress(packed)[0].content.as_bytes())


def _of_numbers(kind: np.dtype[Any], pack: Callable[[NDArray[Any]], bytes], unpack: Callable[[bytes], bytes]) -> Pair:
    """Make a pair of what codes whole numbers: bytes left over at the end are kept in front, after their count."""

    def compress(data: bytes, threads: int) -> bytes:
        whole = len(data) // kind.itemsize
        tail = data[whole * kind.itemsize :]
        return b"".join((bytes((len(tail),)), tail, pack(np.frombuffer(data, kind, count=whole))))

    def decompress(data: bytes, threads: int) -> bytes:
        tail = data[0]
        return unpack(data[1 + tail :]) + data[1 : 1 + tail]

    return compress, decompress


def bigsmall(dtype: str) -> Pair:
    """Through files in the system's temporary folder, all it takes; ``threads`` are processes, to compress only.

    It keeps tensors, not files (metadata and spaces of the header are lost): the header is kept in front.
    """
    os.environ.setdefault(
        "BIGSMALL_DISABLE_VERSION_CHECK", "1"
    )  # it would ask the package index for news when imported
    import bigsmall

    def compress(data: bytes, threads: int) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "dump.safetensors"), Path(folder, "dump.bs")
            source.write_bytes(data)
            bigsmall.compress(source, target, workers=threads, progress=False)
            return _header(data).raw + target.read_bytes()

    def decompress(data: bytes, threads: int) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "dump.bs"), Path(folder, "dump.safetensors")
            header = _header(data)
            source.write_bytes(data[len(header.raw) :])
            bigsmall.decompress(source, target, progress=False)
            return header.raw + _in_order_of(header, target.read_bytes())

    return compress, decompress


def _in_order_of(header: Header, restored: bytes) -> bytes:
    """The data section that a header describes, out of a dump with the same tensors in another order."""
    found = _header(restored)
    places = {entry.name: len(found.raw) + entry.start for entry in found.entries}
    sizes = ((entry.name, entry.stop - entry.start) for entry in header.entries)
    return b"".join(restored[places[name] : places[name] + size] for name, size in sizes)


def _header(data: bytes) -> Header:
    return read_header(io.BytesIO(data), "the dump")


def _width_of(dtype: str) -> int:
    """Bytes of an element."""
    return DTYPES[dtype].container_bytes
