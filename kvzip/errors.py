"""What can go wrong, one class for each remedy.

A message is one line: what is wrong, where, and what to do next. Nothing below the command line prints; the
command line prints ``str(error)`` and leaves with ``error.exit_code``.
"""

from __future__ import annotations


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
