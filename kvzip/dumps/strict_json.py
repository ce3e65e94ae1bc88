r"""JSON as strict as the Rust parser behind safetensors (serde_json), and no object's repeated keys lost.

On top of what Python's json refuses, it refuses NaN and Infinity, numbers beyond a double, half a surrogate
pair (``"\ud800"``) and anything that is not an object. Numbers are int exactly when they are unsigned 64-bit
integers, all else is float, so that a size is told by its type alone. Nesting is the caller's to limit with
:func:`deeper_than`; Python's own limit only keeps the stack safe.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import NoReturn

SIZE_LIMIT = 1 << 64
"""Sizes, offsets and their products in bits stay below this."""


class JsonError(Exception):
    """The text is no strict JSON object; the message completes "header ..."."""


class Repeating(dict[str, object]):
    """A JSON object in which some key occurs twice, with all its members."""

    def __init__(self, members: list[tuple[str, object]]) -> None:
        super().__init__(members)
        self.members = members


def load(text: bytes) -> dict[str, object]:
    """Parse UTF-8 bytes that hold one JSON object; objects with a repeated key are :class:`Repeating`."""
    try:
        decoded = text.decode()
        table = _DECODER.decode(decoded)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except UnicodeDecodeError:
        raise JsonError("is not UTF-8 text") from None
    except ValueError as error:
        raise JsonError(f"is not valid JSON ({error})") from None
    if "\\u" in decoded and any(escape["lone"] for escape in _ESCAPE.finditer(decoded)):
        raise JsonError("is not valid JSON (half a surrogate pair)")
    if not isinstance(table, dict):
        raise JsonError("is no JSON object")
    return table


def pairs(table: dict[str, object]) -> Collection[tuple[str, object]]:
    """All members of a JSON object, repeated keys included."""
    return table.members if isinstance(table, Repeating) else table.items()


def deeper_than(value: object, limit: int) -> bool:
    """Whether arrays and objects nest more than ``limit`` deep in ``value``; breadth first, no recursion."""
    level = [value]
    for _ in range(limit + 1):
        inner: list[object] = []
        containers = False
        for item in level:
            if isinstance(item, list):
                containers = True
                inner += item
            elif isinstance(item, dict):
                containers = True
                inner += (member for _, member in pairs(item))
        if not containers:
            return False
        level = inner
    return True


# An escape consumes what it escapes, so a backslash that is itself escaped never starts one.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F])|.)")


def _object(members: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(members)
    return table if len(table) == len(members) else Repeating(members)


def _integer(text: str) -> int | float:
    if text[0] == "-" or len(text) > 20 or (value := int(text)) >= SIZE_LIMIT:
        return _finite(text)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("number out of range")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_finite, parse_constant=_constant
)
