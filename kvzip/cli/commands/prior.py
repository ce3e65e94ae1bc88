"""``prior train`` and ``prior show``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim, VerbatimGroup

prior_app = typer.Typer(
    cls=VerbatimGroup,
    help="Train a prior on dumps, and look at one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(prior_app, name="prior")


@prior_app.command(
    cls=Verbatim,
    name="train",
    epilog="""
    kvzip prior train -o our.kvp dumps/*.safetensors
    kvzip prior train --name llama-8b -o llama.kvp dumps
    """,
)
def train_prior(
    inputs: Annotated[list[str], typer.Argument(metavar="DUMP", help="dumps or directories of them")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="write here")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="what to call it; by default the file's name")
    ] = None,
    threads: o.Threads = "0",
    force: Annotated[bool, typer.Option("-f", "--force", help="overwrite")] = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
    layout: o.Layout = None,
) -> None:
    """Train a prior on dumps.

    What their residuals look like, laid over the builtin prior, for --prior of the other commands.
    """
    from kvzip.cli import prior

    choices = {"threads": o.threads_of(threads), "layout": layout}
    prior.train(inputs, output, name, choices, force=force, quiet=quiet, verbose=verbose, json=json)


@prior_app.command(
    cls=Verbatim,
    name="show",
    epilog="""
    kvzip prior show our.kvp
    kvzip prior show dump.safetensors.kvz
    """,
)
def show_prior(
    source: Annotated[
        str, typer.Argument(metavar="builtin|FILE.kvp|FILE.kvz", help="a prior file, a container, or builtin")
    ] = "builtin",
    json: o.Json = False,
) -> None:
    """Show a prior file, or the prior that a container needs."""
    from kvzip.cli import prior

    prior.show(source, json=json)
