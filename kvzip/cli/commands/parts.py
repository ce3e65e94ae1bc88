"""``cat`` and ``diff``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim

Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="only key, value, latent, ...")]


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip cat dump.safetensors.kvz --layer 0-3 -o first.safetensors
    kvzip cat dump.safetensors.kvz --tensor layers.7.key --raw | sha256sum
    kvzip cat dump.safetensors --kind key | kvzip compress -9 > keys.kvz
    """,
)
def cat(
    source: Annotated[str, typer.Argument(metavar="FILE", help="a container, a dump or a directory of dumps")] = "-",
    tensor: o.Tensors = None,
    layer: o.LayerSpans = None,
    kind: Kinds = None,
    output: o.Output = None,
    raw: Annotated[bool, typer.Option("--raw", help="the bytes of one tensor alone, without a header")] = False,
    threads: o.Threads = "0",
    force: Annotated[bool, typer.Option("-f", "--force", help="overwrite; write to a terminal")] = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
    layout: o.Layout = None,
    prior: o.NeededPrior = None,
    draft: o.NeededDraft = None,
) -> None:
    """Take tensors out.

    Those that are named, by name, layer or kind, as a safetensors dump of their own; nothing else is decoded.
    """
    from kvzip.cli import cat as command

    settings = command.Settings(output, force, raw, quiet, verbose, json)
    wanted = (tensor or (), layer or (), kind or ())
    command.cat(source, wanted, settings, o.threads_of(threads), prior, draft, layout)


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip diff dump.safetensors dump.safetensors.kvz && echo the same
    kvzip diff --by-layer prompt.safetensors longer.safetensors
    """,
)
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="a dump, a directory of dumps or a container")],
    b: Annotated[str, typer.Argument(metavar="B", help="what to compare it with; one of them may be -")],
    by_layer: Annotated[
        bool, typer.Option("--by-layer", help="pair by layer, kind and head, whatever tensors are called")
    ] = False,
    threads: o.Threads = "0",
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="say nothing but errors; look at the exit code")
    ] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="every tensor; say if they are the same")] = False,
    json: o.Json = False,
    layout: o.Layout = None,
    prior: o.NeededPrior = None,
    draft: o.NeededDraft = None,
) -> None:
    """Compare two caches, bit by bit.

    Exit code 0: they are the same; 1: they differ, and it says where and how far; 2: trouble.
    """
    from kvzip.cli import diff as command

    command.diff(
        a, b, o.threads_of(threads), by_layer=by_layer, quiet=quiet, verbose=verbose, json=json, layout=layout,
        prior=prior, draft=draft,
    )  # fmt: skip
