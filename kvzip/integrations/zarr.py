"""A codec of zarr version 3, ``kvzip``, from array to bytes: it takes the place of serializer and compressors.

zarr.create_array(store, shape=..., chunks=(1, 8, 256, 128), dtype="uint16",
                  serializer=kvzip.integrations.zarr.KvzipCodec(level=3, dtype="BF16"), compressors=None)
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import ArrayBytesCodec
from zarr.core.common import parse_named_configuration

from kvzip.integrations.bits import decode_array, encode_array

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

NAME = "kvzip"


@dataclass(frozen=True)
class KvzipCodec(ArrayBytesCodec):  # type: ignore[misc]
    """level: 1 to 9. dtype: what the elements are, by safetensors' name, if it is not NumPy's. kind: key or value."""

    level: int = 3
    dtype: str | None = None
    kind: str = "key"
    is_fixed_size = False

    def __post_init__(self) -> None:
        """Refuse what is out of range. OptionError."""
        encode_array(np.zeros(0, np.uint8), level=self.level, kind=self.kind)

    @classmethod
    def from_dict(cls, data: Any) -> KvzipCodec:
        """From an array's metadata."""
        _, configuration = parse_named_configuration(data, NAME, require_configuration=False)
        return cls(**(configuration or {}))

    def to_dict(self) -> dict[str, Any]:
        """For an array's metadata."""
        dtype = {} if self.dtype is None else {"dtype": self.dtype}
        return {"name": NAME, "configuration": {"level": self.level, "kind": self.kind, **dtype}}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Not known before."""
        raise NotImplementedError

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer | None:
        packed = await asyncio.to_thread(
            encode_array, chunk_data.as_numpy_array(), dtype=self.dtype, kind=self.kind, level=self.level, threads=1
        )
        return chunk_spec.prototype.buffer.from_bytes(packed)

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        data = await asyncio.to_thread(decode_array, chunk_data.as_numpy_array())
        dtype = chunk_spec.dtype.to_native_dtype()
        return chunk_spec.prototype.nd_buffer.from_numpy_array(data.view(dtype).reshape(chunk_spec.shape))
