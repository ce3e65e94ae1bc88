"""The command that all others are below."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kvzip.cli.verbatim import VerbatimGroup
from kvzip.pipeline import room
from kvzip.version import __version__

ORDER = (
    "compress", "decompress", "test", "list", "stats", "cat", "diff", "tune", "bench", "warmup", "prior",
    "completion", "man",
)  # fmt: skip
LIGHT = {"list", "completion", "man"}  # they load no kernels


class _Root(VerbatimGroup):
    """The commands in the order of their use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, those in ``ORDER`` first."""
        return sorted(self.commands, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="kvzip",
    cls=_Root,
    help="Compress dumped KV caches without losing a bit.",
    epilog="A dump is a safetensors file, a directory of them, or - for standard input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="show the version")] = False,
) -> None:
    """Compress dumped KV caches without losing a bit."""
    if version:
        print(f"kvzip {__version__}")
        raise typer.Exit
    if context.invoked_subcommand not in LIGHT:
        room.require()
