"""Commands whose options are all text or flags, handed on as they were typed, and what turns the text into numbers.

typer converts every value by a model of pydantic, which takes longer to import than a small dump takes to compress.
Text needs no conversion, so it is kept from that; what is missing, or may be, is left to typer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from kvzip.errors import OptionError


class _Verbatim:
    """A command whose parameters are declared as ``str``, ``list[str]`` or ``bool``."""

    def get_params(self, ctx: Any) -> Any:
        """The command's parameters, and --help."""
        above: Any = super()
        params = above.get_params(ctx)
        for param in params:
            param.process_value = partial(_process, partial(type(param).process_value, param), param)
        return params


class Verbatim(_Verbatim, TyperCommand):
    """A command."""


class VerbatimGroup(_Verbatim, TyperGroup):
    """A group of commands."""


def _process(own: Any, param: Any, ctx: Any, value: Any) -> Any:
    """What ``param`` makes of a value, by its ``own`` method unless it can only be the value itself."""
    given = isinstance(value, str) or (isinstance(value, list | tuple) and value)
    missing = value is None and not param.required
    if not given and not missing:
        return own(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


def whole(option: str, text: str | None, variable: str = "") -> Any:
    """The whole number that an option, or an environment variable instead, has as its text; None for none."""
    return _number(int, "a whole number", option, text, variable)


def real(option: str, text: str | None) -> Any:
    """The number that an option has as its text; None for none."""
    return _number(float, "a number", option, text, "")


def _number(kind: Any, what: str, option: str, text: str | None, variable: str) -> Any:
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        source = f" (or {variable})" if variable else ""
        raise OptionError(f"{option} {text}{source}: must be {what}") from None
