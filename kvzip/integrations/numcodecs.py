"""A numcodecs codec, ``kvzip``: for zarr version 2, and whatever else takes codecs of numcodecs.

    zarr.create_array(store, shape=..., chunks=(1, 8, 256, 128), dtype="uint16", zarr_format=2,
                      compressors=numcodecs.get_codec({"id": "kvzip", "level": 3, "dtype": "BF16"}))

A chunk (..., tokens, channels) becomes a container. Chunks are coded with one thread each: zarr and Dask do several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray_like, ndarray_copy

from kvzip.integrations.bits import decode_array, dtype_of, encode_array


class Kvzip(Codec):  # type: ignore[misc]
    """level: 1 to 9. dtype: what the elements are, by safetensors' name, if it is not NumPy's. kind: key or value."""

    codec_id = "kvzip"

    def __init__(self, level: int = 3, dtype: str | None = None, kind: str = "key") -> None:
        self.level, self.dtype, self.kind = level, dtype, kind
        encode_array(np.zeros(0, np.uint8), level=level, kind=kind)  # refuses what is out of range

    def encode(self, buf: Any) -> bytes:
        """The container of an array."""
        array = np.asarray(ensure_ndarray_like(buf))
        dtype_of(array, self.dtype)
        return encode_array(array, dtype=self.dtype, kind=self.kind, level=self.level, threads=1)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """The array's bytes."""
        return ndarray_copy(decode_array(ensure_contiguous_ndarray(buf)), out)
