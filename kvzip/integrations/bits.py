"""Arrays' bits as containers, and back: what every integration is built on. It needs nothing but kvzip.

A container holds a dump with the arrays as its tensors, under names that kvzip knows the layout of, so that the tools
can look into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.api import compress
from kvzip.api_buffers import decompress_into, decompressed_size
from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import LENGTH_BYTES, dump_bytes
from kvzip.errors import ContainerError, OptionError

BY_NUMPY = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint32": "U32", "uint64": "U64",
    "float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "uint16": "BF16", "uint8": "F8_E4M3", "complex64": "C64",
}  # fmt: skip
"""Types of elements by NumPy's name; whole numbers of 16 and 8 bits are the bits of floats, unless said otherwise."""

KINDS = ("key", "value")


def dtype_of(array: NDArray[Any], wanted: str | None) -> str:
    """The element type of an array under safetensors' name, U8 for what it has none for.

    OptionError if ``wanted`` is unknown or of another width.
    """
    if wanted is None:
        return BY_NUMPY.get(array.dtype.name, "U8") if array.dtype.newbyteorder("<") == array.dtype else "U8"
    if wanted not in DTYPES or DTYPES[wanted].container_bytes != array.dtype.itemsize:
        raise OptionError(f"dtype {wanted!r}: is no type of {array.dtype.itemsize} bytes; take a name of safetensors")
    return wanted


def encode_array(array: NDArray[Any], *, dtype: str | None = None, kind: str = "key", **options: Any) -> bytes:
    """The container of one array (..., tokens, channels); an array of fewer axes has no layout.

    dtype: what its elements are, by safetensors' name, where NumPy cannot tell; kind: key or value. options: those
    of ``compress``.
    """
    if kind not in KINDS:
        raise OptionError(f"kind {kind!r}: must be {' or '.join(KINDS)}")
    name = dtype_of(array, dtype)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    shape: Sequence[int] = array.shape
    if name == "U8":
        shape = (data.size,)
    called = "array"
    if len(shape) >= 2 and data.size:
        called, shape = f"layers.0.{kind}", (1, int(np.prod(shape[:-2], dtype=np.int64)), *shape[-2:])
    packed: bytes = compress(dump_bytes([(called, name, shape, data.tobytes())]), **options)
    return packed


def decode_array(container: Any, *, threads: int = 1) -> NDArray[np.uint8]:
    """The bytes of what ``encode_array`` was given; ContainerError if the container is damaged or another one."""
    whole = np.empty(decompressed_size(container), np.uint8)
    decompress_into(container, whole, threads=threads)
    start = LENGTH_BYTES + int.from_bytes(whole[:LENGTH_BYTES].tobytes(), "little")
    if start > len(whole):
        raise ContainerError("container: holds no array; give one that the same codec made")
    return whole[start:]
