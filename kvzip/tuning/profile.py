"""A profile: the settings for a kind of data in a small TOML file, which ``compress`` and ``stats`` take.

    [compress]             named as the options of the command line; nothing else acts
    level = 3
    prior-weight = 512

    [measured]             for people: what was found, on what, when and by which version
    ratio = 1.7201

It is read with the standard library's parser and written by hand: keys of letters, values that are text, numbers,
truth values or lists of these.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from kvzip.errors import DumpError, OptionError, meant
from kvzip.files import FileSource
from kvzip.files.faults import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 1 << 20
MOST = 1 << 53  # of any number
TEXTS = ("preset", "rope", "layout")
REALS = ("alpha", "beta", "theta-low", "theta-new", "drift")
WHOLES = ("level", "n-update", "symbol-bits", "warmup", "classes", "prior-weight")
KEYS = (*WHOLES[:1], *TEXTS, *REALS, *WHOLES[1:])
COMPRESS, MEASURED = "compress", "measured"

Value = str | int | float | bool | list[Any]


def read_profile(given: str | os.PathLike[str] | bytes) -> dict[str, Any]:
    """The options for ``compress`` in a profile, a path or its bytes, by their names in Python.

    OptionError if it is not there, is no profile, or says what no option can be told.
    """
    if isinstance(given, bytes):
        return parsed(given, "profile")
    path = "./-" if given == "-" else given
    if os.path.isdir(path):
        raise OptionError(f"--profile: it is a folder: {shown(path)}; name the file in it")
    try:
        with FileSource(path) as source:
            return parsed(source.file.read(MOST_BYTES + 1), source.name)
    except DumpError as error:
        raise OptionError(f"--profile: {error}") from None


def parsed(data: bytes, where: str) -> dict[str, Any]:
    """The options in a profile's text."""
    from kvzip.layouts.registry import recognise
    from kvzip.pipeline.options import Options

    if len(data) > MOST_BYTES:
        raise OptionError(f"{where}: too large for a profile; give --profile what kvzip tune -o wrote")
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        fault = "no text" if isinstance(error, UnicodeDecodeError) else " ".join(str(error).split())
        raise OptionError(f"{where}: no profile: {fault}; give --profile what kvzip tune -o wrote") from None
    for name in table:
        if name not in (COMPRESS, MEASURED):
            hint = f"put it below [{COMPRESS}]" if name in KEYS else _nearest(name, (COMPRESS, MEASURED))
            raise OptionError(f"{where}: {name!a} is no part of a profile; {hint}")
    compress = table.get(COMPRESS, {})
    if not isinstance(compress, dict):
        raise OptionError(f"{where}: {COMPRESS!a} is no table; write [{COMPRESS}] and the options below it")
    found = {name.replace("-", "_"): _checked(name, value, where) for name, value in compress.items()}
    try:
        Options.make(**found)
        recognise((), "", found.get("layout"))
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from None
    return found


def _checked(name: str, value: object, where: str) -> Any:
    """A value of the type that its option takes."""
    if name not in KEYS:
        raise OptionError(f"{where}: unknown option {name!a} in [{COMPRESS}]; {_nearest(name, KEYS)}")
    kinds: dict[str, tuple[type, ...]] = dict.fromkeys(TEXTS, (str,)) | dict.fromkeys(REALS, (int, float))
    sound = not isinstance(value, int | float) or (not isinstance(value, bool) and abs(value) < MOST)
    if isinstance(value, kinds.get(name, (int,))) and sound:
        return value
    what = "text in quotes" if name in TEXTS else "a number" if name in REALS else "a whole number"
    raise OptionError(f"{where}: {name} must be {what}, as in --{name}; correct it in [{COMPRESS}]")


def _nearest(name: str, known: tuple[str, ...]) -> str:
    return meant(name.replace("_", "-"), known, f"known are {', '.join(known)}")


def profile_text(options: Mapping[str, Any], measured: Mapping[str, Value], comments: list[str]) -> str:
    """A profile with ``options`` of ``compress`` by their names in Python; ``measured`` is for people."""
    lines = [f"# {_plain(comment)}" for comment in comments]
    lines += ["", f"[{COMPRESS}]"]
    given = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    lines += [f"{name} = {_value(given[name])}" for name in KEYS if name in given]
    if unknown := sorted(set(given) - set(KEYS)):
        raise OptionError(f"a profile cannot hold {', '.join(unknown)}; leave it to the command line")
    lines += ["", f"[{MEASURED}]"]
    lines += [f"{name} = {_value(value)}" for name, value in measured.items()]
    return "\n".join(lines) + "\n"


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(_escaped(c) for c in value) + '"'
    return repr(value)


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable() and not 0xD800 <= ord(char) < 0xE000:
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0xD800 or 0xE000 <= ord(char) < 0x10000 else _wide(ord(char))


def _wide(code: int) -> str:
    """Beyond what four digits can say; half of a surrogate pair, which no text has, as a question mark."""
    return f"\\U{code:08x}" if code > 0xFFFF else "?"


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
