"""Deflated parts of records: a zlib stream (RFC 1950) that must inflate to exactly the length stated."""

from __future__ import annotations

import zlib

from kvzip.wire import Cursor


def inflate(outer: Cursor, deflated: int, length: int) -> bytes | memoryview:
    """The rest of ``outer``, inflated if ``deflated`` is 1; ContainerError if it has not ``length`` bytes."""
    rest = outer.take(outer.left)
    if deflated > 1:
        raise outer.damaged("is packed in an unknown way")
    if not deflated:
        inner: bytes | memoryview = rest
    else:
        machine = zlib.decompressobj()
        try:
            inner = machine.decompress(rest, length + 1)
        except zlib.error:
            raise outer.damaged("does not inflate") from None
        if machine.unconsumed_tail or machine.unused_data or not machine.eof:
            raise outer.damaged("does not inflate to its length")
    if len(inner) != length:
        raise outer.damaged("does not inflate to its length")
    return inner
