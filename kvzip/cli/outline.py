"""What a command is, read off its declaration: for its help, for the man page, and for completion.

The declaration is whatever object this version of typer makes of it. Only attributes are used that all have:
``params`` with ``opts``, ``metavar``, ``help``, ``default``, ``envvar``; ``help``, ``epilog``, ``commands``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

GENERAL = "Options"
HELP = ("-h, --help", "show this and leave")


class Entry(NamedTuple):
    """An argument, or an option with all its names, and what is said of it."""

    head: str
    text: str


class Outline(NamedTuple):
    """One command; ``path`` begins with kvzip, ``groups`` are options by heading, ``examples`` are command lines."""

    path: str
    synopsis: str
    summary: str
    paragraphs: list[str]
    arguments: list[Entry]
    groups: dict[str, list[Entry]]
    examples: list[str]


def outline(path: str, command: Any) -> Outline:
    """What is to be said of a command that is called as ``path``."""
    summary, *paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    groups: dict[str, list[Entry]] = {GENERAL: []}
    for option in options(command):
        groups.setdefault(getattr(option, "rich_help_panel", None) or GENERAL, []).append(_option(option))
    groups[GENERAL].append(Entry(*HELP))
    shown = [Entry(metavar(argument), _text(argument)) for argument in arguments(command)]
    return Outline(path, synopsis(command), summary, paragraphs, shown, groups, examples(command))


def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and, in the order of help, all below it; each with what it is called as."""
    yield path, command
    for name in names(command):
        yield from walk(f"{path} {name}", command.commands[name])


def names(command: Any) -> list[str]:
    """The commands of a group in the order of help; none of a command that is no group."""
    if not hasattr(command, "commands"):
        return []
    return [name for name in command.list_commands(None) if not command.commands[name].hidden]


def options(command: Any) -> list[Any]:
    """The options that are declared and shown."""
    return [p for p in command.params if p.param_type_name == "option" and not p.hidden]


def arguments(command: Any) -> list[Any]:
    """What is given by place."""
    return [p for p in command.params if p.param_type_name == "argument"]


def metavar(parameter: Any) -> str:
    """What stands for the value in help."""
    return str(parameter.metavar or parameter.name.upper())


def takes_value(option: Any) -> bool:
    """Whether an option is followed by a value."""
    return not (option.is_flag or option.count)


def synopsis(command: Any) -> str:
    """What may follow the command's name."""
    if hasattr(command, "commands"):
        return "[OPTIONS] COMMAND [ARGS]..."
    parts = ["[OPTIONS]"]
    for argument in arguments(command):
        name = metavar(argument) if argument.required else f"[{metavar(argument)}]"
        parts.append(name + ("..." if argument.nargs == -1 else ""))
    return " ".join(parts)


def examples(command: Any) -> list[str]:
    """The lines of a command's epilog; a group's is prose."""
    if hasattr(command, "commands"):
        return []
    return [line.strip() for line in (command.epilog or "").splitlines() if line.strip()]


def _option(option: Any) -> Entry:
    head = ", ".join(sorted(option.opts, key=len))
    return Entry(f"{head} {metavar(option)}" if takes_value(option) else head, _text(option))


def _text(parameter: Any) -> str:
    """Help, and in brackets what holds if nothing is given."""
    notes = []
    if parameter.required and parameter.param_type_name == "option":
        notes.append("required")
    if isinstance(parameter.default, str) and parameter.show_default:
        notes.append(f"default: {parameter.default}")
    if parameter.envvar:
        notes.append(f"or {parameter.envvar}")
    return " ".join([parameter.help or "", *([f"[{', '.join(notes)}]"] if notes else [])]).strip()
