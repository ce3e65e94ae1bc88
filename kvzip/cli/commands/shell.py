"""``completion`` and ``man``: made from all the other commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    name="completion",
    epilog="""
    kvzip completion bash > ~/.local/share/bash-completion/completions/kvzip
    kvzip completion zsh > ~/.zfunc/_kvzip
    kvzip completion fish > ~/.config/fish/completions/kvzip.fish
    """,
)
def complete_lines(
    ctx: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="which shell the script is for")],
    line: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="what the script asks about")] = None,
) -> None:
    """Print the script that completes command lines.

    Commands, options, their values, files, and the names of tensors in the file on the line.
    """
    from kvzip.cli import completion

    completion.completion(_root(ctx), shell, line)


@app.command(
    cls=Verbatim,
    name="man",
    epilog="""
    kvzip man | man -l -
    kvzip man > ~/.local/share/man/man1/kvzip.1
    """,
)
def manual(ctx: typer.Context) -> None:
    """Print the man page."""
    from kvzip.cli import man

    man.man(_root(ctx))


def _root(ctx: typer.Context) -> Any:
    return ctx.find_root().command
