"""The decorator of every kernel, and where compiled kernels are kept.

Kernels are compiled on first use and cached on disk. Numba does not notice an edit in a kernel that another one
calls, so the folder is named by a digest of all of kvzip's sources that hold kernels:

    ($NUMBA_CACHE_DIR, else $XDG_CACHE_HOME, else ~/.cache) / kvzip / digest

A home that cannot be written costs the cache, not the run: a private folder that ends with the process takes its
place (never a guessable one below /tmp, where someone else could have put code).
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from kvzip.errors import UnsupportedError

if sys.byteorder != "little":
    raise UnsupportedError(
        "this machine is big-endian, and kvzip's kernels take the bytes of numbers as little-endian ones have them; "
        "use another"
    )

config: Any = numba.config  # its attributes are made at run time
_PRIVATE = "kvzip-"  # a folder named so ends with the process
_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_FOLDERS = ("coder", "windows", "planes", "predict", "linear")


def _digest() -> str:
    state = hashlib.sha256()
    for folder in _KERNEL_FOLDERS:
        for source in sorted((_PACKAGE / folder).glob("*.py")):
            state.update(source.read_bytes())
    for switch in ("KVZIP_VECTORS", "NUMBA_BOUNDSCHECK"):  # Numba's own key knows neither
        state.update(f"{switch}={os.environ.get(switch)}".encode())
    return state.hexdigest()[:16]


def _folder() -> Path:
    base = (
        os.environ.get("NUMBA_CACHE_DIR")
        or os.environ.get("XDG_CACHE_HOME")
        or os.path.join(os.path.expanduser("~"), ".cache")
    )
    folder = Path(base, "kvzip", _digest())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, probe = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        os.unlink(probe)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix=_PRIVATE))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


config.CACHE_DIR = str(_folder())


class _Cache(FunctionCache):
    """Loads a compiled kernel without what only the compiler needs, which takes Numba half a second to set up."""

    counts_references = True  # such a kernel needs Numba's runtime, which each process compiles anew

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What ``FunctionCache`` loads."""
        if self.counts_references:
            rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _decorator(**options: Any) -> Any:
    """``numba.njit`` of kernels: they hold no lock, divide like C, and are kept in the cache."""
    compiled: Any = njit(nogil=True, error_model="numpy", **options)

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        if not config.DISABLE_JIT:
            dispatcher._cache = _Cache(function)
            dispatcher._cache.counts_references = options.get("_nrt", True)
        return dispatcher

    return decorate


kernel = _decorator()
"""Compiles a function that holds no lock while it runs, is cached, and divides like C."""

_uncounted: dict[str, bool] = {} if config.BOUNDSCHECK else {"_nrt": False}  # checked pointers are new arrays
borrowing = _decorator(**_uncounted)
"""Like ``kernel``, for what is called once a token or takes many arrays: it borrows them and allocates nothing.

Counting a reference is an atomic addition, and a tuple of arrays has many.
"""

step = _decorator(forceinline=True, **_uncounted)
"""A part of a kernel's loop, always compiled into it, which borrows its arrays too."""


def lasting() -> bool:
    """Whether compiled kernels are kept beyond this process."""
    return not Path(config.CACHE_DIR).name.startswith(_PRIVATE)


def is_cold(job: str) -> bool:
    """Whether ``job`` ("compress", "decompress") has never finished with these kernels on this machine."""
    return not Path(config.CACHE_DIR, f"warm-{job}").exists()


def remember_warm(job: str) -> None:
    """Note that ``job`` has run, so that its kernels are compiled and cached."""
    with suppress(OSError):
        Path(config.CACHE_DIR, f"warm-{job}").touch()
