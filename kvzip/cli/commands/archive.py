"""``pack`` and ``unpack``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip pack turn1.safetensors turn2.safetensors turn3.safetensors -o chat.kva
    kvzip pack -6 -r prompts -o prompts.kva
    """,
)
def pack(
    inputs: o.Packed = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="the archive; - is stdout")] = "-",
    level: o.Level = "3",
    threads: o.Threads = "0",
    recursive: o.Recursive = False,
    files_from: o.FilesFrom = None,
    null: o.Null = False,
    force: o.Force = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
    layout: o.Layout = None,
    rope: o.Rope = None,
) -> None:
    """Put dumps that have something in common into one archive.

    Each is coded relative to the earlier one that it is most like: the same prompt by other kernels or weights, the
    same beginning, the turn before. Nothing must be known of the tokens.
    """
    from kvzip.cli import archive
    from kvzip.cli.looked_at import looked_at

    names = looked_at(inputs, files_from, null, recursive, (".safetensors",))
    settings = archive.Settings(force, quiet, verbose, json)
    archive.pack(names, output, settings, o.level_of(level), o.threads_of(threads), {"layout": layout, "rope": rope})


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip unpack chat.kva
    kvzip unpack chat.kva turn3.safetensors --output-dir restored
    kvzip list chat.kva
    """,
)
def unpack(
    archive: Annotated[str, typer.Argument(metavar="ARCHIVE", help="made by `kvzip pack`; - is stdin")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="what to restore, by name or pattern; all if none")
    ] = None,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", metavar="DIR", help="the folder for what is restored")
    ] = None,
    stdout: o.Stdout = False,
    threads: o.Threads = "0",
    force: o.Force = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Restore dumps from an archive.

    All, or those that are named; of the others only what these are coded relative to is decoded.
    """
    from kvzip.cli import archive as command

    settings = command.Settings(force, quiet, verbose, json)
    command.unpack(archive, names or (), output_dir, stdout, settings, o.threads_of(threads))
