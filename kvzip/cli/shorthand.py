"""``-1`` to ``-9`` for ``--level 1`` to ``--level 9``, as compressors have it; option parsers refuse them."""

from __future__ import annotations

import re

_LEVEL = re.compile("-[1-9]")
_VALUED = re.compile("-[olT]|--(?!stdout|force|quiet|verbose|rm|verify|json|recursive|help|version)[a-z-]+")
COMMANDS = ("compress", "stats")


def expand(arguments: list[str]) -> list[str]:
    """The arguments with bare levels spelt out, up to ``--`` and but for the values of options."""
    if not arguments or arguments[0] not in COMMANDS:
        return arguments
    out: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return out + arguments[at:]
        is_value = at > 0 and _VALUED.fullmatch(arguments[at - 1]) is not None
        out.append(f"--level={argument[1]}" if _LEVEL.fullmatch(argument) and not is_value else argument)
    return out
