"""``-1`` to ``-9`` for ``--level 1`` to ``--level 9``, alone or among other letters (``-9c``)."""

from __future__ import annotations

import re

_LEVEL = re.compile("-([cfqvr0]*)([1-9])([cfqvr0]*)")
_FLAGS = "stdout|force|quiet|verbose|rm|verify|json|recursive|embed-prior|null|skip-existing|heatmap|help|version"
_VALUED = re.compile(f"-[olT]|--(?!{_FLAGS})[a-z-]+")
COMMANDS = ("compress", "pack", "stats", "tune")


def expand(arguments: list[str]) -> list[str]:
    """The arguments with bare levels spelt out, up to ``--`` and but for the values of options."""
    if not arguments or arguments[0] not in COMMANDS:
        return arguments
    out: list[str] = []
    for at, argument in enumerate(arguments):
        if argument == "--":
            return out + arguments[at:]
        is_value = at > 0 and _VALUED.fullmatch(arguments[at - 1]) is not None
        level = None if is_value else _LEVEL.fullmatch(argument)
        if level is None:
            out.append(argument)
            continue
        out.append(f"--level={level[2]}")
        if level[1] or level[3]:
            out.append(f"-{level[1]}{level[3]}")
    return out
