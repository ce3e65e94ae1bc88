"""``test``, ``list`` and ``stats``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    name="test",
    epilog="""
    kvzip test *.kvz
    kvzip test --json *.kvz | jq -r '.files[] | select(.ok | not).file'
    """,
)
def check_containers(
    inputs: o.Containers = None,
    threads: o.Threads = "0",
    recursive: o.Recursive = False,
    files_from: o.FilesFrom = None,
    null: o.Null = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
    prior: o.NeededPrior = None,
    draft: o.NeededDraft = None,
) -> None:
    """Check containers.

    Decodes them into nothing and compares every checksum.
    """
    from kvzip.cli import check
    from kvzip.cli.looked_at import looked_at

    names = looked_at(inputs, files_from, null, recursive)
    check.test(names, o.threads_of(threads), prior, draft, quiet=quiet, verbose=verbose, json=json)


@app.command(
    cls=Verbatim,
    name="list",
    epilog="""
    kvzip list dump.safetensors.kvz
    kvzip list --json dump.safetensors | jq -r '.files[].tensors[].name'
    """,
)
def list_tensors(
    inputs: o.Inputs = None,
    recursive: o.Recursive = False,
    files_from: o.FilesFrom = None,
    null: o.Null = False,
    json: o.Json = False,
) -> None:
    """Show the tensors of dumps and containers."""
    from kvzip.cli import listing
    from kvzip.cli.looked_at import looked_at

    listing.list_tensors(looked_at(inputs, files_from, null, recursive), json=json)


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip stats dump.safetensors
    kvzip stats -9 -v dump.safetensors
    kvzip stats --json dump.safetensors | jq .files[0].kinds.key.bits_per_value
    """,
)
def stats(
    context: typer.Context,
    inputs: o.Inputs = None,
    level: o.Level = "3",
    threads: o.Threads = "0",
    recursive: o.Recursive = False,
    files_from: o.FilesFrom = None,
    null: o.Null = False,
    quiet: o.Quiet = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="every head, not only layers")] = False,
    json: o.Json = False,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="draw it into FILE: .svg, .png or .html")
    ] = None,
    heatmap: Annotated[bool, typer.Option("--heatmap", help="draw it in the terminal instead of tables")] = False,
    force: Annotated[bool, typer.Option("-f", "--force", help="overwrite the file of --plot")] = False,
    layout: o.Layout = None,
    rope: o.Rope = None,
    draft: o.Draft = None,
    profile: o.Profile = None,
    preset: o.Preset = None,
    alpha: o.Alpha = None,
    beta: o.Beta = None,
    theta_low: o.ThetaLow = None,
    theta_new: o.ThetaNew = None,
    n_update: o.NUpdate = None,
    symbol_bits: o.SymbolBits = None,
    prior: o.Prior = None,
    prior_weight: o.PriorWeight = None,
    warmup: o.Warmup = None,
    drift: o.Drift = None,
    classes: o.Classes = None,
) -> None:
    """Show where the bits go.

    By kind, layer and head, of dumps (as if they were compressed) and containers.
    """
    values = dict(locals())
    from kvzip.cli import stats as command
    from kvzip.cli.looked_at import looked_at

    names = looked_at(inputs, files_from, null, recursive)
    shown = o.choices(values, "draft")
    pictures = {"heatmap": heatmap, "force": force}
    command.stats(names, shown, quiet=quiet, verbose=verbose, json=json, plot=plot, **pictures)
