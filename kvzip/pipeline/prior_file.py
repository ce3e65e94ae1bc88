"""A prior file that a user names, as a path or by its bytes."""

from __future__ import annotations

import os

from kvzip.errors import DumpError, PriorError
from kvzip.files import FileSource
from kvzip.predict.prior import MOST_BYTES, Prior

PriorSource = str | os.PathLike[str] | bytes | bytearray | memoryview


def read_prior(given: PriorSource) -> Prior:
    """The prior in a file. PriorError if the file is not there, no prior or damaged."""
    if isinstance(given, bytes | bytearray | memoryview):
        return Prior.from_bytes(bytes(given), "prior")
    try:
        with FileSource(given) as source:
            return Prior.from_bytes(source.file.read(MOST_BYTES + 1), source.name)
    except DumpError as error:
        raise PriorError(f"--prior: {error}") from None
