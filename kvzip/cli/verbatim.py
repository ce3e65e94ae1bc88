"""Commands whose options are all text or flags, handed on as they were typed, and what turns the text into numbers.

Their help is laid out here too: options in groups, examples one to a line; and the refusal of a command that there
is not. typer converts every value by a model of pydantic, which takes longer to import than a small dump takes to
compress. Text needs no conversion, so it is kept from that; what is missing, or may be, is left to typer.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from typer.core import TyperCommand, TyperGroup

from kvzip.cli.outline import outline
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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options by group; for a group also its commands."""
        about = outline(ctx.command_path, self)
        for heading, entries in {"Arguments": about.arguments, **about.groups}.items():
            if entries:
                with formatter.section(heading):
                    formatter.write_dl(entries)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)


class Verbatim(_Verbatim, TyperCommand):
    """A command; every line of its epilog is an example."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Examples as they are, never wrapped: they are there to be copied."""
        examples = outline(ctx.command_path, self).examples
        if examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples))


class VerbatimGroup(_Verbatim, TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that ``args`` begin with, or an OptionError with the nearest there is."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            from kvzip.cli.suggest import no_command

            raise no_command(args[0], ctx.command_path, self)
        return super().resolve_command(ctx, args)


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
        from kvzip.cli.suggest import number

        source = f" (or {variable})" if variable else ""
        raise OptionError(f"{option} {text}{source}: must be {what}{number(kind, text)}") from None
