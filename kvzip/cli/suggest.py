"""What was probably meant by a command, an option or a number that is none."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from kvzip.cli.outline import names, options
from kvzip.errors import OptionError, meant, nearest
from kvzip.files.faults import shown

_FACTORS = {"%": 0.01, "k": 1e3, "m": 1e6, "g": 1e9}
_NUMBER = re.compile(r"([+-]?[0-9]*\.?[0-9]+)\s*([^0-9.]*)")
_THOUSANDS = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")


def no_command(word: str, path: str, group: Any) -> OptionError:
    """The refusal of ``word`` where a command of ``group`` must stand; a file there is what other tools take."""
    if path == "kvzip" and os.path.exists(word):
        verb = "decompress" if word.lower().endswith(".kvz") else "compress"
        return OptionError(f"no command before {shown(word)}; did you mean `{path} {verb} {shown(word)}`?")
    hint = meant(word, names(group), f"`{path} --help` shows what there is")
    return OptionError(f"no such command: {shown(word)}; {hint}")


def complaint(error: Any, arguments: Sequence[str]) -> str:
    """The parser's complaint about ``arguments`` as one line: what, and what next."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else " ".join(["kvzip", *(a for a in arguments[:1] if a[:1] != "-")])
    hint = f"`{path} --help` shows what there is"
    wrong = getattr(error, "option_name", None)
    if context and wrong and hasattr(error, "possibilities"):
        return _no_option(wrong, arguments, context.command, hint)
    text = " ".join(error.format_message().split()).rstrip(".")
    return f"{text[:1].lower() + text[1:]}; {hint}"


def number(kind: type, text: str) -> str:
    """A suggestion for what was to be a number of ``kind``: 3 for "3 cores", 0.97 for "97%" or "0,97"."""
    text = text.strip()
    text = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text.replace(",", ".")
    found = _NUMBER.fullmatch(text)
    if not found:
        return ""
    value = float(found[1]) * _FACTORS.get(found[2].strip().lower(), 1)
    if kind is int and value != int(value):
        return ""
    return f"; did you mean {value:.12g}?"


def _no_option(wrong: str, arguments: Sequence[str], command: Any, otherwise: str) -> str:
    """What to say of an option that ``command`` has not."""
    known = [name[2:] for option in options(command) for name in option.opts if name[:2] == "--"] + ["help"]
    if wrong[:2] == "--":
        near = _option_meant(wrong[2:], known)
        return f"no such option: {shown(wrong)}; {f'did you mean --{near}?' if near else otherwise}"
    for word in arguments:  # of -threads the parser only says that there is no -t
        written = word.partition("=")[0]
        if written[:1] == "-" and written[1:] in known:
            return f"no such option: {written}; did you mean -{written}?"
    verb = next((name for name in names(command) if name[:1] == wrong[1:]), None)
    hint = f"did you mean the command {verb}?" if verb else otherwise
    return f"no such option: {shown(wrong)}; {hint}"


def _option_meant(name: str, known: list[str]) -> str:
    """The nearest of the options; one cut short is taken for the only one that goes on."""
    longer = [other for other in known if other.startswith(name.casefold())]
    return longer[0] if len(longer) == 1 else nearest(name, known)
