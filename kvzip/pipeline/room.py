"""Room in the address space, where it is limited, as by ``ulimit -v``.

Python says when it finds no memory, and that becomes one line. The libraries that load kernels, and the system where
a thread begins, abort instead. So a limit that these cannot live with is refused before they are loaded, and one that
leaves little has fewer threads.
"""

from __future__ import annotations

from kvzip.errors import KvzipError

START = 480 << 20  # bytes for Python, libraries, kernels and one thread; below 440 MiB some run was seen to abort
THREAD = 128 << 20  # bytes for each thread more: its stack, its heap


def address_space() -> int | None:
    """Bytes that this process may have mapped; None where there is no limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def require() -> None:
    """Refuse a limit that is too low to begin at all."""
    limit = address_space()
    if limit is not None and limit < START:
        raise KvzipError(
            f"out of memory: {limit >> 20} MiB of address space are allowed, {START >> 20} are needed; "
            "raise the limit (ulimit -v)"
        )


def threads_that_fit(count: int) -> int:
    """As many of ``count`` threads as the limit has room for, at least 1."""
    limit = address_space()
    return count if limit is None else max(1, min(count, 1 + (limit - START) // THREAD))
