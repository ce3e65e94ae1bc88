"""Refusals of the operating system as one-line errors: what, where, what next.

A broken pipe is no fault of the output: it passes through untouched, for the command line to end in silence.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kvzip.errors import KvzipError, TargetError

_ELSEWHERE = "choose another place with -o"
_WRITING = {
    errno.ENOSPC: ("disk full", f"free some space or {_ELSEWHERE}"),
    errno.EDQUOT: ("disk full, the quota is used up", f"free some space or {_ELSEWHERE}"),
    errno.EFBIG: ("file too large", f"raise the limit (ulimit -f) or {_ELSEWHERE}"),
    errno.EROFS: ("read-only file system", _ELSEWHERE),
    errno.ENAMETOOLONG: ("name too long", "choose a shorter one with -o"),
    errno.EACCES: ("permission denied", _ELSEWHERE),
    errno.EPERM: ("permission denied", _ELSEWHERE),
    errno.ELOOP: ("symbolic links lead in a circle", _ELSEWHERE),
    errno.ENOTDIR: ("a part of the path is no folder", _ELSEWHERE),
    errno.EIO: ("the device failed", f"check the disk or {_ELSEWHERE}"),
    errno.ESTALE: ("the network file system lost it", f"mount it again or {_ELSEWHERE}"),
    errno.ETIMEDOUT: ("the network file system does not answer", f"check the network or {_ELSEWHERE}"),
}
# Met in the middle of an output, where a user wonders what became of the first part.
_MIDWAY = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READING = {
    errno.EACCES: ("permission denied", "check who may read it"),
    errno.EPERM: ("permission denied", "check who may read it"),
    errno.EIO: ("the device failed", "check the disk or get another copy"),
    errno.ESTALE: ("the network file system lost it", "mount it again or get another copy"),
    errno.ETIMEDOUT: ("the network file system does not answer", "check the network or get another copy"),
    errno.ELOOP: ("symbolic links lead in a circle", "name the file itself"),
    errno.ENXIO: ("it is a socket or a device that is not there", "name a file"),
}


MOST_SHOWN = 1000  # characters of a name


def shown(name: str | os.PathLike[str]) -> str:
    """``name`` on one line: control characters and bytes that are not UTF-8 as escapes; cut if it is very long."""
    name = os.fspath(name)
    if len(name) > MOST_SHOWN:
        name = f"{name[: MOST_SHOWN // 2]}...{name[-MOST_SHOWN // 4 :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)


def target_error(error: OSError, where: str, *, partial: bool = False) -> TargetError:
    """The line for ``error``, met while writing ``where`` (as ``shown`` gives it).

    partial: what was written before cannot be taken back.
    """
    code = error.errno or 0
    what, next_step = _WRITING.get(code, (error.strerror or str(error), _ELSEWHERE))
    if code in _MIDWAY:
        next_step = f"{'the output is incomplete' if partial else 'nothing was left behind'}, {next_step}"
    return TargetError(f"{what}: {where}; {next_step}")


def source_error(error: OSError, where: str) -> KvzipError:
    """The line for ``error``, met while reading ``where`` (as ``shown`` gives it)."""
    unknown = (error.strerror or str(error), "check the file or get another copy")
    what, next_step = _READING.get(error.errno or 0, unknown)
    return KvzipError(f"cannot read: {where}: {what}; {next_step}")


@contextmanager
def writing(where: str, *, partial: bool = False) -> Iterator[None]:
    """Turn every OSError of the block, except a broken pipe, into a TargetError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise target_error(error, where, partial=partial) from error


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn every OSError of the block into a KvzipError."""
    try:
        yield
    except OSError as error:
        raise source_error(error, where) from error
