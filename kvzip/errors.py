"""What can go wrong, one class for each remedy.

A message is one line: what is wrong, where, and what to do next. Nothing below the command line prints; the
command line prints ``str(error)`` and leaves with ``error.exit_code``.
"""

from __future__ import annotations

from collections.abc import Iterable


class KvzipError(Exception):
    """Base of every error that kvzip raises on purpose."""

    exit_code = 1


class DumpError(KvzipError):
    """The input is no dump that kvzip can read: get another file."""


class ContainerError(KvzipError):
    """The container is damaged, cut short or no container at all: get another copy."""


class UnsupportedError(KvzipError):
    """The container needs a newer kvzip or something this machine lacks: upgrade."""


class PriorError(KvzipError):
    """A trained prior is needed that was not given, or the file given is none: give the right file."""


class DraftError(KvzipError):
    """A draft is needed that was not given, or the one given is another: give the right one."""


class TargetError(KvzipError):
    """The output cannot be written there: choose another place, or ``--force``."""


class OptionError(KvzipError):
    """An option's value is out of range or unknown: a usage error."""

    exit_code = 2


def nearest(text: str, known: Iterable[str]) -> str:
    """The one of ``known`` that was probably meant by ``text``, "" if none is near, upper or lower case."""
    from difflib import get_close_matches  # here: most runs have nothing to suggest

    folded = {name.casefold(): name for name in known}
    near = get_close_matches(text.casefold(), folded, 1, 0.65)
    return folded[near[0]] if near else ""


def meant(text: str, known: Iterable[str], otherwise: str) -> str:
    """What to do next about a name that does not exist: the nearest of ``known``, or else what ``otherwise`` says."""
    near = nearest(text, known)
    return f"did you mean {near}?" if near else otherwise
