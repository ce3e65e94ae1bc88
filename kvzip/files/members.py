"""The files of a directory container: how they are found, ordered and named, and which names are safe.

A member's name is its path below the directory, with ``/`` between the parts on every system.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvzip.errors import ContainerError, DumpError
from kvzip.files.faults import reading, shown
from kvzip.files.placement import is_temporary
from kvzip.files.url import Url

MOST_PARTS = 128
"""Of a member's name: folders that are nested deeper some systems can make, but nobody's tools remove."""

_DIGITS = re.compile("([0-9]+)")
_WINDOWS_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\..*)?", re.IGNORECASE | re.DOTALL
)
_WINDOWS_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"|?*\\]')


@dataclass
class Tree:
    """What lies below a directory; all names are relative, with ``/``."""

    files: list[tuple[str, Any]] = field(default_factory=list)
    """Name and path of each regular file, links to files followed, in natural order."""

    empty: list[str] = field(default_factory=list)
    """Folders without entries, which no container can keep."""

    links: list[str] = field(default_factory=list)
    """Links to folders, which are not followed."""


def members(directory: Path | Url, wanted: Callable[[str], bool] | None = None) -> Tree:
    """All files below ``directory`` except kvzip's own temporaries, or those whose name ``wanted`` accepts.

    DumpError for a socket, a fifo, a device, a broken link, or a name that is not UTF-8.
    """
    tree = Tree()
    if isinstance(directory, Url):
        tree.files = [(name, file) for name, file in directory.below() if wanted is None or wanted(name)]
        tree.files.sort(key=lambda file: natural_order(file[0]))
        return tree
    pending = [("", directory)]
    while pending:
        prefix, folder = pending.pop()
        with reading(shown(folder)), os.scandir(folder) as entries:
            found = [entry for entry in entries if not is_temporary(entry.name)]
        if not found and prefix:
            tree.empty.append(prefix.rstrip("/"))
        for entry in found:
            name = prefix + entry.name
            with reading(shown(entry.path)):
                if entry.is_dir(follow_symlinks=False):
                    pending.append((name + "/", Path(entry.path)))
                elif entry.is_dir():
                    tree.links.append(name)
                elif wanted is None or wanted(entry.name):
                    tree.files.append((_member_name(name, entry), Path(entry.path)))
    tree.files.sort(key=lambda file: natural_order(file[0]))
    tree.empty.sort(key=natural_order)
    tree.links.sort(key=natural_order)
    return tree


def natural_order(name: str) -> tuple[list[list[str | tuple[int, str]]], str]:
    """A sort key with layers.2 before layers.10, folder by folder; the same on every machine."""
    parts = [_DIGITS.split(part) for part in name.split("/")]  # text and digits in turn, text first
    return [[_size_of(x) if i % 2 else x for i, x in enumerate(part)] for part in parts], name


def _size_of(digits: str) -> tuple[int, str]:
    """What sorts digits as numbers, however many there are: Python refuses to read thousands of them."""
    digits = digits.lstrip("0")
    return len(digits), digits


def member_parts(name: str, *, windows: bool = os.name == "nt") -> list[str]:
    """The parts of a member's name; ContainerError unless it stays below the directory it is restored in."""
    parts = name.split("/")
    problem = None
    if "\0" in name or not _is_utf8(name):
        problem = "it holds NUL or is not UTF-8"
    elif any(part in ("", ".", "..") for part in parts):
        problem = "it is absolute or has an empty, '.' or '..' part"
    elif len(parts) > MOST_PARTS:
        problem = f"it lies more than {MOST_PARTS - 1} folders deep"
    elif windows and any(not _is_safe_on_windows(part) for part in parts):
        problem = "Windows reserves it"
    if problem is not None:
        raise ContainerError(f"unsafe member name: {shown(name)!r}: {problem}; get another copy of the container")
    return parts


def _is_safe_on_windows(part: str) -> bool:
    return not (_WINDOWS_FORBIDDEN.search(part) or _WINDOWS_DEVICE.fullmatch(part) or part[-1] in ". ")


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _member_name(name: str, entry: os.DirEntry[str]) -> str:
    """``name`` if a container can keep it and its file."""
    where = shown(entry.path)
    if entry.is_symlink() and not os.path.exists(entry.path):
        raise DumpError(f"broken link: {where}; remove it or restore what it points to")
    if not stat.S_ISREG(entry.stat().st_mode):
        raise DumpError(f"neither file nor folder: {where}; move sockets, fifos and devices out of the folder")
    if not _is_utf8(name):
        raise DumpError(f"name is not UTF-8: {where}; rename the file")
    if name.count("/") >= MOST_PARTS:
        raise DumpError(f"more than {MOST_PARTS - 1} folders deep: {where}; move the file further up")
    return name
