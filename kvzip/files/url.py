"""Files that are named by a URL, wherever fsspec reaches: s3://, gs://, hf://, https://, memory://, ...

A ``Url`` does as much of ``pathlib.Path`` as is asked of inputs and outputs; ``place`` says which of the two a name
is. A local file whose name holds "://" is reached as ./name. fsspec is an extra: it is imported when a URL is met.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from kvzip.errors import DumpError, KvzipError, TargetError
from kvzip.files.faults import shown

_URL = re.compile(r"[a-z][a-z0-9+.-]+(::[a-z][a-z0-9+.-]+)*://", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


def is_url(name: str | os.PathLike[str]) -> bool:
    """Whether a name is a URL: a scheme of two letters or more (C:// is none), then ``://``."""
    return _URL.match(os.fspath(name)) is not None


@dataclass(frozen=True)
class Status:
    """What there is at a URL: bytes, time in nanoseconds (0 if unknown), and what changes with the content."""

    st_size: int
    st_mtime_ns: int
    version: str


class Url(os.PathLike[str]):
    """A URL as a path."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __fspath__(self) -> str:
        return self.text

    def __str__(self) -> str:
        return _CREDENTIALS.sub("", self.text)

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def name(self) -> str:
        """What follows the last slash of the path."""
        return self._path.rstrip("/").rpartition("/")[2]

    @property
    def _path(self) -> str:
        """The part behind the scheme, without query."""
        return self.text.rpartition("://")[2].partition("?")[0]

    def with_name(self, name: str) -> Url:
        """The URL beside this one."""
        whole, _, query = self.text.partition("?")
        return Url(whole.rstrip("/").rpartition("/")[0] + f"/{name}" + (f"?{query}" if query else ""))

    def joinpath(self, *parts: str | os.PathLike[str]) -> Url:
        """A URL below this one."""
        return Url("/".join([self.text.rstrip("/"), *(os.fspath(part).replace(os.sep, "/") for part in parts)]))

    def __truediv__(self, part: str | os.PathLike[str]) -> Url:
        return self.joinpath(part)

    @property
    def parts(self) -> list[str]:
        """The parts of its path, without the scheme."""
        return [part for part in self._path.split("/") if part]

    def is_absolute(self) -> bool:
        """It is."""
        return True

    @cached_property
    def opened(self) -> tuple[Any, str]:
        """fsspec's file system and the path in it. KvzipError if a package for it is missing."""
        with reaching(self):
            import fsspec

            system, path = fsspec.url_to_fs(self.text)
            return system, path

    def status(self) -> Status | None:
        """What is there; None if nothing is, or a folder."""
        system, path = self.opened
        with reaching(self):
            system.invalidate_cache()
            try:
                info = system.info(path)
            except FileNotFoundError:
                return None
        if info.get("type") == "directory":
            return None
        version = info.get("ETag") or info.get("etag") or info.get("md5Hash") or ""
        when = next((info[name] for name in _TIMES if info.get(name) is not None), 0)
        nanoseconds = int(1e9 * when.timestamp()) if isinstance(when, datetime) else 0
        return Status(-1 if info.get("size") is None else int(info["size"]), nanoseconds, f"{version} {when}")

    def stat(self) -> Status:
        """What is there. FileNotFoundError if nothing is."""
        found = self.status()
        if found is None:
            raise FileNotFoundError(2, os.strerror(2), str(self))
        return found

    def exists(self) -> bool:
        """Whether anything is there."""
        return self.status() is not None or self.is_dir()

    def is_file(self) -> bool:
        """Whether a file is there."""
        return self.status() is not None

    def is_dir(self) -> bool:
        """Whether it is the beginning of other names; never for http."""
        system, path = self.opened
        if "http" in str(system.protocol):
            return False
        with reaching(self):
            return bool(system.isdir(path))

    def below(self) -> list[tuple[str, Url]]:
        """The files below it, by their names relative to it."""
        system, path = self.opened
        with reaching(self):
            found = [name for name in system.find(path) if not name.endswith("/")]
        start = len(path.rstrip("/")) + 1
        return [(name[start:], self.joinpath(name[start:])) for name in found]

    def matching(self) -> list[str]:
        """The URLs of files that a pattern matches."""
        system, path = self.opened
        scheme = self.text[: self.text.rindex("://") + 3]
        with reaching(self):
            return [scheme + name.lstrip("/") for name in system.glob(path)]

    def unlink(self) -> None:
        """Remove the file."""
        system, path = self.opened
        with reaching(self):
            system.rm_file(path)


def place(name: str | os.PathLike[str]) -> Any:
    """A ``Url`` for what is one, else a ``Path``."""
    from pathlib import Path

    if isinstance(name, Url):
        return name
    return Url(os.fspath(name)) if is_url(name) else Path(name)


@contextmanager
def reaching(url: Url, *, writing: bool = False) -> Iterator[None]:
    """Turn whatever fsspec and what is below it raise into one line."""
    where, error_class = shown(str(url)), TargetError if writing else DumpError
    try:
        yield
    except KvzipError:
        raise
    except ImportError as error:
        needs = "pip install 'kvzip[remote]'" if error.name == "fsspec" else str(error).splitlines()[0]
        raise error_class(f"cannot reach: {where}: a package is missing: {needs}") from error
    except FileNotFoundError as error:
        raise error_class(f"no such file: {where}; check the name, and the bucket's") from error
    except PermissionError as error:
        raise error_class(f"permission denied: {where}; check the credentials that its library reads") from error
    except Exception as error:  # whatever the libraries of a dozen services raise
        text = shown(next(iter(str(error).splitlines()), "") or type(error).__name__)
        raise error_class(
            f"cannot reach: {where}: {text}; check the address, the credentials and the network"
        ) from error
