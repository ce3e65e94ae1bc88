"""How each compared codec is called: one maker a package, each imports its package itself.

A maker is given the safetensors dtype of the dump and returns the pair (compress, decompress), each ``(data,
threads) -> data``. Where a package sees numbers, it is told the dtype as well as it can be. Codecs may scribble on
their input (zipnn does for bfloat16, even through an immutable ``bytes``): callers pass a private copy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy
from dumps import read_header, width_of

Transform = Callable[[bytes, int], bytes]
Pair = tuple[Transform, Transform]


class UnsuitedError(Exception):
    """A codec has no way for a dtype."""


def kvzip(level: int, dtype: str) -> Pair:
    from kvzip import compress, decompress

    return (
        lambda data, threads: compress(data, level=level, threads=threads),
        lambda data, threads: decompress(data, threads=threads),
    )


def zstd(level: int, dtype: str) -> Pair:
    import zstandard

    def compress(data: bytes, threads: int) -> bytes:
        workers = threads if threads > 1 else 0  # 0 is single-threaded in the library's terms
        return zstandard.ZstdCompressor(level=level, threads=workers).compress(data)

    return compress, lambda data, threads: zstandard.ZstdDecompressor().decompress(data)


def lz4(dtype: str) -> Pair:
    import lz4.frame

    size = lz4.frame.BLOCKSIZE_MAX4MB
    return (
        lambda data, threads: lz4.frame.compress(data, block_size=size),
        lambda data, threads: lz4.frame.decompress(data),
    )


def zipnn(dtype: str) -> Pair:
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
        "typesize": width_of(dtype),
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

    kind = numpy.dtype({"BF16": "u2", "F16": "f2", "F32": "f4"}.get(dtype, "u1"))

    def pack(numbers: numpy.ndarray) -> bytes:
        return bytes(standalone.simple_compress(numbers, ChunkConfig(enable_8_bit=kind.itemsize == 1)))

    return _of_numbers(kind, pack, lambda packed: standalone.simple_decompress(packed).tobytes())


def openzl(dtype: str) -> Pair:
    """Floats of 16 bits in two streams, exponents and the rest, 8-bit ones in one; entropy coded.

    Its generic graph (``graphs.Compress``, which finds repeats of numbers) is smaller on 256 tokens and larger and
    slower on 1024.
    """
    import openzl.ext as zl

    if width_of(dtype) > 2:
        raise UnsuitedError("its entropy coder takes no mantissas of 24 bits")
    parts = {"BF16": "BFloat16Deconstruct", "F16": "Float16Deconstruct"}
    kind = numpy.dtype("u2" if dtype in parts else "u1")

    def pack(numbers: numpy.ndarray) -> bytes:
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


def _of_numbers(kind: numpy.dtype, pack: Callable[[numpy.ndarray], bytes], unpack: Callable[[bytes], bytes]) -> Pair:
    """Make a pair of what codes whole numbers: bytes left over at the end are kept in front, after their count."""

    def compress(data: bytes, threads: int) -> bytes:
        whole = len(data) // kind.itemsize
        tail = data[whole * kind.itemsize :]
        return b"".join((bytes((len(tail),)), tail, pack(numpy.frombuffer(data, kind, count=whole))))

    def decompress(data: bytes, threads: int) -> bytes:
        tail = data[0]
        return unpack(data[1 + tail :]) + data[1 : 1 + tail]

    return compress, decompress


def bigsmall(dtype: str) -> Pair:
    """Through files in the system's temporary folder, all it takes; ``threads`` are processes, to compress only.

    It keeps tensors, not files (metadata and spaces of the header are lost): the header is kept in front.
    """
    os.environ["BIGSMALL_DISABLE_VERSION_CHECK"] = "1"  # it would ask the package index for news when imported
    import bigsmall

    def compress(data: bytes, threads: int) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "dump.safetensors"), Path(folder, "dump.bs")
            source.write_bytes(data)
            bigsmall.compress(source, target, workers=threads, progress=False)
            return data[: read_header(data)[0]] + target.read_bytes()

    def decompress(data: bytes, threads: int) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "dump.bs"), Path(folder, "dump.safetensors")
            start, tensors = read_header(data)
            source.write_bytes(data[start:])
            bigsmall.decompress(source, target, progress=False)
            return data[:start] + _in_order_of(tensors, target.read_bytes())

    return compress, decompress


def _in_order_of(tensors: dict[str, dict], restored: bytes) -> bytes:
    start, found = read_header(restored)
    out = bytearray(max((each["data_offsets"][1] for each in tensors.values()), default=0))
    for name, each in tensors.items():
        begin, end = found[name]["data_offsets"]
        out[slice(*each["data_offsets"])] = restored[start + begin : start + end]
    return bytes(out)
