"""``.kvz`` as one of fsspec's compressions: importing this module makes it known.

    import kvzip.integrations.fsspec
    with fsspec.open("s3://bucket/prompt.safetensors.kvz", compression="infer") as file:
        ...                                   # the dump's bytes
    with fsspec.open("s3://bucket/prompt.safetensors.kvz", "wb", compression="kvzip") as file:
        file.write(dump)

What is read or written is held in memory, or above 64 MB in a temporary file.
"""

from __future__ import annotations

import tempfile
from typing import Any, BinaryIO, cast

from fsspec.compression import compr, register_compression

from kvzip.api import compress, decompress

NAME, SUFFIX = "kvzip", "kvz"
IN_MEMORY = 64 << 20


def opener(file: Any, mode: str = "rb", **options: Any) -> BinaryIO:
    """The dump in a container that is read, or a container that a dump is written into; see ``kvzip.compress``."""
    held = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
    if "r" in mode:
        decompress(file, cast(BinaryIO, held), **options)
        held.seek(0)
        return cast(BinaryIO, held)
    return cast(BinaryIO, _Written(file, held, options))


class _Written:
    """Takes a dump and compresses it once it is whole."""

    def __init__(self, file: Any, held: Any, options: dict[str, Any]) -> None:
        self._file, self._held, self._options = file, held, options
        self.closed = False
        self.write, self.flush, self.tell = held.write, held.flush, held.tell

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._held.close()

    def close(self) -> None:
        """Compress what was written. DumpError if it is no dump."""
        if not self.closed:
            self.closed = True
            self._held.seek(0)
            compress(self._held, self._file, **self._options)
            self._held.close()


if NAME not in compr:
    register_compression(NAME, opener, SUFFIX)
