"""Where an output may go, and how a finished temporary gets there.

Owns the rules that no target may break: an input is never overwritten, an existing file only by force, and
what stands under the target's name is at every moment either the old file or the whole new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kvzip.errors import TargetError
from kvzip.files.faults import shown, writing

SUFFIX = ".kvzip-tmp"
Input = str | os.PathLike[str] | os.stat_result
folders = threading.RLock()
"""Held while folders are made and something is put into them, and while those made are removed again: of two targets
in one new folder, one that fails must not take it from under the other."""

TRIES = 20
"""How often a folder is made again that another process had made and took back before anything was put into it."""

# Some file systems stop at 143 bytes, most at 255. A shorter name never hurts: it only has to be unique.
_NAME_LIMIT = 143
# What file systems without fsync, or without hard links, answer.
_NOT_OFFERED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_NO_LINKS = _NOT_OFFERED | {errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV}

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def is_temporary(name: str) -> bool:
    """Whether ``name`` is one that ``temporary_paths`` gives."""
    return name.startswith(".") and name.endswith(SUFFIX)


def temporary_paths(final: Path) -> Iterator[Path]:
    """Fresh names ``.{name}.XXXXXXXX.kvzip-tmp`` beside ``final``, cut between characters where too long."""
    room = _NAME_LIMIT - len(f"..01234567{SUFFIX}")
    name = os.fsencode(final.name)[:room].decode("utf-8", "ignore")
    while True:
        yield final.with_name(f".{name}.{secrets.token_hex(4)}{SUFFIX}")


def status(path: Path) -> os.stat_result | None:
    """What ``path`` leads to, links followed; None if nothing is there."""
    with writing(shown(path)):
        try:
            return os.stat(path)
        except FileNotFoundError:
            return None


def resolve(path: Path, *, force: bool) -> Path:
    """The path to write: free, or a link or file that ``force`` gives up.

    By force a symbolic link is written through, as a redirection in the shell does: the link stays and what
    it points to is replaced.
    """
    if os.path.lexists(path) and not force:
        raise TargetError(f"it exists: {shown(path)}; overwrite it with -f/--force or choose another name with -o")
    with writing(shown(path)):
        final = Path(os.path.realpath(path))
    if not final.name:
        raise TargetError(f"no place for an output: {shown(path)}; choose another with -o")
    return final


def refuse_inputs(found: os.stat_result | None, path: str, inputs: Sequence[Input]) -> None:
    """Raise TargetError if ``found``, the status of the target, is one of the inputs by device and inode.

    Only what keeps its bytes can lose them: /dev/null may be both, and so may the one socket that some remote
    shells give for standard input and output.
    """
    if found is None or not any(kind(found.st_mode) for kind in (stat.S_ISREG, stat.S_ISDIR, stat.S_ISBLK)):
        return
    if identity(found) in identities(inputs):
        raise TargetError(f"input and output are the same file: {path}; choose another output with -o")


def identity(info: os.stat_result) -> tuple[int, int] | None:
    """Device and inode; None where the file system has no inodes."""
    return (info.st_dev, info.st_ino) if info.st_ino else None


def identities(inputs: Sequence[Input]) -> set[tuple[int, int]]:
    """Devices and inodes of the inputs; one that cannot be found is left to whoever reads it."""
    found = set()
    for item in inputs:
        with suppress(OSError):
            known = identity(item if isinstance(item, os.stat_result) else os.stat(item))
            if known:
                found.add(known)
    return found


def make_parents(final: Path, *, wanted: bool) -> list[Path]:
    """Make the missing folders above ``final``, outermost first, or refuse if that is not ``wanted``."""
    made: list[Path] = []
    for left in range(TRIES, -1, -1):
        missing: list[Path] = []
        folder = final.parent
        while not folder.is_dir():
            if folder.exists() or not wanted:
                raise TargetError(f"no such folder: {shown(folder)}; make it first or choose another place with -o")
            missing.insert(0, folder)
            folder = folder.parent
        with writing(shown(final.parent)):
            try:
                for folder in missing:
                    folder.mkdir(exist_ok=True)
                    made.append(folder)
                break
            except FileNotFoundError:
                if not left:
                    raise
    return made


def publish(temporary: Path, final: Path, *, force: bool) -> None:
    """Give a finished file its name; without ``force`` a file that appeared meanwhile stays untouched."""
    if force:
        os.replace(temporary, final)
        return
    try:
        os.link(temporary, final)
    except FileExistsError:
        raise appeared(final) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(final):  # the one place where a race is left, on file systems without links
            raise appeared(final) from None
        os.rename(temporary, final)
    else:
        os.unlink(temporary)


def exchange(first: Path, second: Path) -> bool:
    """Swap what two names lead to, at one stroke; False where the system or the file system does not offer it."""
    import ctypes  # here: only the replacement of a folder needs it

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2  # Linux
    except (AttributeError, OSError, TypeError):
        return False
    if call(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_OFFERED | {errno.EPERM}:  # the latter from sandboxes that do not know the call
        return False
    raise OSError(code, os.strerror(code), os.fspath(second))


def appeared(final: Path) -> TargetError:
    """The refusal of a target that was free at the start and no longer is."""
    return TargetError(
        f"it appeared meanwhile: {shown(final)}; overwrite it with -f/--force or choose another name with -o"
    )


def copy_attributes(handle: int | Path, like: os.stat_result) -> None:
    """Give ``handle`` the mode, the time stamps and, where allowed, the owner and group of ``like``.

    Where the group cannot be kept, its bits are cut to what everyone may do, lest another group gains by it.
    File systems that lack any of this do without.
    """
    mode = stat.S_IMODE(like.st_mode) & (0o666 if stat.S_ISDIR(like.st_mode) else 0o777)
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(handle, like.st_uid, -1)
        try:
            os.chown(handle, -1, like.st_gid)
        except OSError:
            mode &= ~0o070 | (mode & 0o007) << 3
    with suppress(OSError):
        os.chmod(handle, mode)
    with suppress(OSError):
        os.utime(handle, ns=(like.st_atime_ns, like.st_mtime_ns))


def sync(descriptor: int) -> None:
    """Fsync, where the file system offers it."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, where a folder can be opened at all."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
