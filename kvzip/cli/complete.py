"""What may come next on a command line: read off the commands' declarations, whatever they are.

The words so far lead to a command and to the option or place that the next word is for. What may stand there is told
by the metavar, see ``kvzip.cli.options``; nothing here names a command or an option. The line is as its shell reads
it: how it is cut into words, and how what is found gets into it, is the business of ``kvzip.cli.completion``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvzip.cli.outline import arguments, metavar, names, options, takes_value

SUFFIXES = {
    "FILE": (".safetensors", ".kvz"),
    "DUMP": (".safetensors",),
    "DRAFT": (".safetensors", ".kvz"),
    "PRIOR": (".kvp",),
    "ARCHIVE": (".kva",),
    "LIST": (),
}
"""What files are looked for first, for arguments and for options that say what they take; any file if ()."""

_RANGE = re.compile(r"([0-9]{1,3})\.\.([0-9]{1,3})")
_SUFFIXED = re.compile(r"[A-Z]+(\.[a-z0-9]+)")


class Candidate(NamedTuple):
    """A word that may stand there; ``whole`` if it needs nothing after it."""

    value: str
    text: str = ""
    whole: bool = True


@dataclass
class Answer:
    """What may stand in place of the last word: ``prefix`` is what stays of it, as in --prior=FILE.

    suffixes: of files, or folders, that may be named; () for any file, None for none at all.
    """

    prefix: str = ""
    candidates: list[Candidate] = field(default_factory=list)
    suffixes: tuple[str, ...] | None = None
    folders: bool = False


@dataclass
class _Place:
    """Where the words so far lead to."""

    command: Any
    operands: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)  # names of options
    waiting: Any = None  # the option whose value comes next
    only_operands: bool = False  # after --


def complete(root: Any, words: Sequence[str], last: str) -> Answer:
    """What may stand in place of ``last`` after ``words``, the name of the program not among them."""
    place = _follow(root, words)
    if place.waiting is not None:
        return _narrowed(_values(place.waiting, place), last)
    if last[:1] == "-" and last != "-" and "=" in last and not place.only_operands:
        name, _, value = last.partition("=")
        option = _by_name(place.command, name)
        answer = _values(option, place) if option is not None and takes_value(option) else Answer()
        answer.prefix = f"{name}="
        return _narrowed(answer, value)
    if last[:1] == "-" and not place.only_operands:
        return _narrowed(Answer(candidates=list(_options(place))), last)
    if hasattr(place.command, "commands"):
        return _narrowed(Answer(candidates=list(_commands(place.command))), last)
    expected = _next_argument(place)
    return _narrowed(_values(expected, place), last) if expected is not None else Answer()


def _follow(root: Any, words: Sequence[str]) -> _Place:
    place = _Place(root)
    for word in words:
        if place.waiting is not None:
            place.waiting = None
        elif word == "--" and not place.only_operands:
            place.only_operands = True
        elif word[:1] == "-" and word != "-" and not place.only_operands:
            _take_option(place, word)
        elif hasattr(place.command, "commands"):
            place = _Place(place.command.commands.get(word, _Nothing()))
        else:
            place.operands.append(word)
    return place


class _Nothing:
    """What follows a command that does not exist."""

    params: tuple[Any, ...] = ()


def _take_option(place: _Place, word: str) -> None:
    """Note what ``word`` sets: --name, --name=value, or letters of which the last may wait for its value."""
    name, joined, _ = word.partition("=")
    for at in [0] if word[:2] == "--" else range(1, len(word)):
        option = _by_name(place.command, f"-{word[at]}" if at else name)
        if option is None:
            continue
        place.used.update(option.opts)
        if takes_value(option):
            place.waiting = option if at == len(word) - 1 or (not at and not joined) else None
            return


def _by_name(command: Any, name: str) -> Any:
    return next((option for option in options(command) if name in option.opts), None)


def _options(place: _Place) -> Iterator[Candidate]:
    """Options not given yet, by their long name; those that may be repeated always."""
    for option in options(place.command):
        if option.multiple or not place.used.intersection(option.opts):
            yield Candidate(max(option.opts, key=len), option.help or "")
    yield Candidate("--help", "show this and leave")


def _commands(group: Any) -> Iterator[Candidate]:
    for name in names(group):
        yield Candidate(name, (group.commands[name].help or "").partition("\n\n")[0].rstrip("."))


def _next_argument(place: _Place) -> Any:
    left = len(place.operands)
    for argument in arguments(place.command):
        if argument.nargs < 0 or left < argument.nargs:
            return argument
        left -= argument.nargs
    return None


def _narrowed(answer: Answer, begun: str) -> Answer:
    answer.candidates = [c for c in answer.candidates if c.value.startswith(begun) and c.value.isprintable()]
    return answer


# -- values


def _values(parameter: Any, place: _Place) -> Answer:
    """What a parameter takes, by its metavar."""
    answer = Answer()
    is_argument = parameter.param_type_name == "argument"
    for name in metavar(parameter).split("|"):
        answer.candidates += _words(name, place)
        suffixed = _SUFFIXED.fullmatch(name)
        if suffixed:
            answer.suffixes = (*(answer.suffixes or ()), suffixed[1])
        elif name == "FILE" and not is_argument:
            answer.suffixes = ()
        elif name in SUFFIXES or (is_argument and name.isupper() and name not in _KINDS):
            answer.suffixes = (*(answer.suffixes or ()), *SUFFIXES.get(name, SUFFIXES["FILE"]))
        elif name == "DIR":
            answer.folders = True
    return answer


def _words(name: str, place: _Place) -> list[Candidate]:
    span = _RANGE.fullmatch(name)
    if span and int(span[2]) - int(span[1]) < 16:
        return [Candidate(str(n)) for n in range(int(span[1]), int(span[2]) + 1)]
    if name in _KINDS:
        return _KINDS[name](place)
    return [Candidate(name)] if name.islower() and name.isalpha() else []


def _presets(place: _Place) -> list[Candidate]:
    from kvzip.windows.parameters import PRESETS

    return [Candidate(name) for name in PRESETS]


def _layouts(place: _Place) -> list[Candidate]:
    from kvzip.layouts.registry import LAYOUTS, OPAQUE

    return [Candidate(name) for name in (*LAYOUTS, OPAQUE)]


def _ropes(place: _Place) -> list[Candidate]:
    begun = [Candidate(f"{pairs}:theta=", whole=False) for pairs in ("half", "interleaved")]
    return [Candidate("auto"), Candidate("none"), *begun]


def _priors(place: _Place) -> list[Candidate]:
    return [Candidate("builtin"), Candidate("none")]


def _tensors(place: _Place) -> list[Candidate]:
    from kvzip.cli.contents import tensor_names

    return [Candidate(name) for path in place.operands for name in tensor_names(expanded(path))]


def _layers(place: _Place) -> list[Candidate]:
    from kvzip.cli.contents import layer_numbers

    return [Candidate(str(number)) for path in place.operands for number in layer_numbers(expanded(path))]


def _kinds(place: _Place) -> list[Candidate]:
    from kvzip.streams.extent import KINDS

    return [Candidate(kind) for kind in KINDS if kind]


_KINDS: dict[str, Callable[[_Place], list[Candidate]]] = {
    "PRESET": _presets,
    "LAYOUT": _layouts,
    "ROPE": _ropes,
    "PRIOR": _priors,
    "TENSOR": _tensors,
    "LAYER": _layers,
    "KIND": _kinds,
}


# -- files


def expanded(path: str) -> str:
    """``path`` as the shell will hand it over: ~ and variables replaced."""
    return os.path.expandvars(os.path.expanduser(path))


def paths(begun: str, answer: Answer) -> list[str]:
    """Files and folders, the latter with / at their end, whose names begin so; any file if none has a suffix."""
    if answer.suffixes is None and not answer.folders:
        return []
    above, name = os.path.split(begun)
    try:
        with os.scandir(expanded(above) or ".") as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(name)]
    except OSError:
        return []
    found = sorted((name, folder) for name, folder in found if name.isprintable())
    shown = [(entry, folder) for entry, folder in found if name[:1] == "." or entry[:1] != "."]
    kept = begun[: len(begun) - len(name)]
    folders = [f"{kept}{entry}/" for entry, folder in shown if folder]
    files = [kept + entry for entry, folder in shown if not folder]
    if answer.suffixes is None:
        return folders
    fitting = [path for path in files if path.lower().endswith(answer.suffixes)] if answer.suffixes else files
    return folders + (fitting or files)
