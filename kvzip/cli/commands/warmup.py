"""``warmup``."""

from __future__ import annotations

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    name="warmup",
    epilog="""
    kvzip warmup
    kvzip warmup --level 1-3
    NUMBA_CACHE_DIR=/opt/kernels kvzip warmup -q
    """,
)
def compile_kernels(
    level: o.Levels = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Compile all kernels ahead.

    Otherwise the first run of each level does it. They are kept below NUMBA_CACHE_DIR, XDG_CACHE_HOME or ~/.cache.
    """
    from kvzip.cli import warmup

    warmup.warmup(level, quiet=quiet, verbose=verbose, json=json)
