"""Which inputs a command line names: as arguments, by patterns that the shell left alone, and from a list.

A list holds one name a line, or names that each end in NUL. Its names are taken as they are: no patterns, no ``-``.
"""

from __future__ import annotations

import codecs
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass

from kvzip.errors import DumpError, OptionError
from kvzip.files.faults import shown
from kvzip.files.members import members, natural_order
from kvzip.files.source import FileSource
from kvzip.files.url import Url, is_url, place

STANDARD = "-"
_WILD = "*?["


@dataclass(frozen=True)
class Inputs:
    """Names: ``given`` as arguments, patterns expanded, and ``listed`` in a list."""

    given: tuple[str, ...]
    listed: tuple[str, ...] = ()

    @property
    def all(self) -> list[str]:
        """All of them, in that order."""
        return [*self.given, *self.listed]


def inputs_of(arguments: Sequence[str] | None, files_from: str | None = None, null: bool = False) -> Inputs:
    """The inputs that a user names; standard input if there is no other word of any.

    OptionError where one is empty or standard input is asked for twice, DumpError where a pattern matches nothing.
    """
    if null and files_from is None:
        raise OptionError("-0/--null says how a list ends its names; name the list with --files-from")
    if "" in (arguments or ()) or files_from == "":
        raise OptionError("a file name is empty; perhaps a variable of a script is not set")
    given = tuple(name for text in arguments or () for name in _expanded(text))
    if files_from is None:
        return Inputs(given or (STANDARD,))
    if files_from == STANDARD and STANDARD in given:
        raise OptionError("standard input is the list of --files-from already; name the list's file instead")
    return Inputs(given, tuple(_listed(files_from, null)))


def _expanded(text: str) -> list[str]:
    """The files that a pattern matches; a name without wildcards, or of a file that is there, stands for itself."""
    if text == STANDARD or not any(sign in text for sign in _WILD) or os.path.lexists(text):
        return [text]
    if is_url(text) and "http" in text.partition(":")[0]:
        return [text]  # a question mark begins its query
    found = Url(text).matching() if is_url(text) else glob.glob(text, recursive=True)
    if "**" in text:
        found = [name for name in found if is_url(name) or not os.path.isdir(name)]
    if not found:
        raise DumpError(f"no file matches: {shown(text)}; check the pattern")
    return sorted(found, key=natural_order)


def _listed(name: str, null: bool) -> list[str]:
    with FileSource(name) as source:
        data = source.file.read()
    data = data if null else data.removeprefix(codecs.BOM_UTF8)  # as some editors put at the start of a text
    names = data.split(b"\0") if null else [line.removesuffix(b"\r") for line in data.split(b"\n")]
    found = [os.fsdecode(one) for one in names if one]
    if not null and any("\0" in one for one in found):
        raise OptionError(f"{source.name}: holds NUL; add -0 if its names end in it")
    if STANDARD in found:
        raise OptionError(f"{source.name}: names standard input (-); name a file, or ./- for one that is called so")
    return found


def files_below(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Each directory's files in place of it, and links to folders, which are not followed."""
    found: list[str] = []
    links: list[str] = []
    for name in names:
        if name != STANDARD and place(name).is_dir():
            tree = members(place(name))
            found += [os.fspath(path) for _, path in tree.files]
            links += [os.path.join(name, link) for link in tree.links]
        else:
            found.append(name)
    return found, links
