"""``bench``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    name="bench",
    epilog="""
    kvzip bench dump.safetensors
    kvzip bench -l 1-6 --peers zstd-1,lz4 dump.safetensors
    kvzip bench --peers none --seconds 20 --json dump.safetensors | jq .files
    """,
)
def compare_codecs(
    inputs: o.Inputs = None,
    level: o.Levels = None,
    peers: Annotated[
        str, typer.Option("--peers", metavar="NAMES", help="other codecs: all that are installed, none, zstd-1,lz4")
    ] = "all",
    threads: o.Threads = "0",
    seconds: Annotated[
        str, typer.Option("--seconds", metavar="N", help="for each dump, about; slow levels do a part in that time")
    ] = "60",
    quiet: o.Quiet = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="all rounds: medians, least and greatest")] = False,
    json: o.Json = False,
) -> None:
    """Measure what pays where.

    This machine, these dumps, every level and other codecs, memory to memory, and which of them is the fastest on
    links and disks of what bandwidth.
    """
    from kvzip.cli import bench

    chosen = bench.Chosen.of(level, peers, o.threads_of(threads), seconds)
    bench.bench(inputs, chosen, quiet=quiet, verbose=verbose, json=json)
