"""``tune``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip tune --min-speed 100MB/s -o our.toml dumps/*.safetensors
    kvzip tune --level 3 --seconds 300 dump.safetensors
    kvzip compress --profile our.toml dump.safetensors
    """,
)
def tune(
    inputs: Annotated[list[str] | None, typer.Argument(metavar="DUMP", help="- or nothing: standard input")] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="write a profile; - is standard output")
    ] = None,
    level: o.Levels = None,
    min_speed: Annotated[
        str | None, typer.Option("--min-speed", metavar="RATE", help="both ways at least so fast: 200MB/s")
    ] = None,
    seconds: Annotated[
        str, typer.Option("--seconds", metavar="N", help="how long to search; a check comes on top")
    ] = "60",
    threads: o.Threads = "0",
    layout: o.Layout = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="overwrite")] = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
) -> None:
    """Find the settings that suit some dumps.

    By their size on samples, and by speed if asked; shows what each is worth, and the command to use.
    """
    from kvzip.cli import tune as command
    from kvzip.cli.sizes import rate

    speed = None if min_speed is None else rate("--min-speed", min_speed)
    wanted = {"levels": o.levels_of(level), "min_speed": speed, "seconds": o.seconds_of(seconds), "layout": layout}
    say = command.Wishes(output, force, quiet, verbose, json)
    command.tune(inputs, wanted | {"threads": o.threads_of(threads)}, say)
