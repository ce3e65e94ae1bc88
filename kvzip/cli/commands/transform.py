"""``compress`` and ``decompress``."""

from __future__ import annotations

from typing import Annotated

import typer

from kvzip.cli import options as o
from kvzip.cli.root import app
from kvzip.cli.verbatim import Verbatim


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip compress dump.safetensors
    kvzip compress -9 --verify --rm dump.safetensors
    kvzip compress -r --output-dir packed dumps
    kvzip compress -r --output-dir packed --scheduler tcp://host:8786 dumps
    kvzip compress -1 -c dump.safetensors | ssh host 'cat > dump.safetensors.kvz'
    """,
)
def compress(
    context: typer.Context,
    inputs: o.Dumps = None,
    output: o.Output = None,
    output_dir: o.OutputDir = None,
    stdout: o.Stdout = False,
    level: o.Level = "3",
    threads: o.Threads = "0",
    recursive: o.Recursive = False,
    files_from: o.FilesFrom = None,
    null: o.Null = False,
    skip_existing: o.SkipExisting = False,
    scheduler: o.Scheduler = None,
    workers: o.Workers = None,
    force: o.Force = False,
    remove: o.Remove = False,
    verify: Annotated[bool, typer.Option("--verify", help="decode what was written and compare")] = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
    layout: o.Layout = None,
    rope: o.Rope = None,
    draft: o.Draft = None,
    block_size: Annotated[
        str | None,
        typer.Option("--block-size", metavar="SIZE", help="4K..64M, a power of two: what is checked at once"),
    ] = None,
    profile: o.Profile = None,
    preset: o.Preset = None,
    alpha: o.Alpha = None,
    beta: o.Beta = None,
    theta_low: o.ThetaLow = None,
    theta_new: o.ThetaNew = None,
    n_update: o.NUpdate = None,
    symbol_bits: o.SymbolBits = None,
    prior: o.Prior = None,
    embed_prior: o.EmbedPrior = False,
    prior_weight: o.PriorWeight = None,
    warmup: o.Warmup = None,
    drift: o.Drift = None,
    classes: o.Classes = None,
) -> None:
    """Compress dumps.

    DUMP becomes DUMP.kvz, a directory one container; sources are kept.
    """
    values = dict(locals())
    from kvzip.cli import batch, transform
    from kvzip.cli.sizes import block_log2
    from kvzip.files import inputs_of

    chosen = o.choices(values, "verify", "embed_prior")
    extra = {} if block_size is None else {"block_log2": block_log2(block_size)}
    job = batch.Settings(output, output_dir, stdout, recursive, force, skip_existing, remove, quiet, verbose, json)
    fleet = o.fleet_of(scheduler, workers)
    transform.compress(inputs_of(inputs, files_from, null), job, chosen | extra, draft, fleet)


@app.command(
    cls=Verbatim,
    epilog="""
    kvzip decompress dump.safetensors.kvz
    kvzip decompress -c dump.safetensors.kvz | sha256sum
    kvzip decompress -r --output-dir restored packed
    kvzip decompress --salvage -o rescued.safetensors damaged.kvz
    """,
)
def decompress(
    inputs: o.Containers = None,
    output: o.Output = None,
    output_dir: o.OutputDir = None,
    stdout: o.Stdout = False,
    threads: o.Threads = "0",
    recursive: o.Recursive = False,
    files_from: o.FilesFrom = None,
    null: o.Null = False,
    skip_existing: o.SkipExisting = False,
    scheduler: o.Scheduler = None,
    workers: o.Workers = None,
    force: o.Force = False,
    remove: o.Remove = False,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="restore what a damaged container still holds, tell what it does not")
    ] = False,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    json: o.Json = False,
    prior: o.NeededPrior = None,
    draft: o.NeededDraft = None,
) -> None:
    """Restore what was compressed.

    FILE.kvz becomes FILE again, byte for byte; containers are kept.
    """
    from kvzip.cli import batch, transform
    from kvzip.files import inputs_of

    job = batch.Settings(output, output_dir, stdout, recursive, force, skip_existing, remove, quiet, verbose, json)
    choices = {"threads": o.threads_of(threads), "prior": prior, "salvage": salvage}
    transform.decompress(inputs_of(inputs, files_from, null), job, choices, draft, o.fleet_of(scheduler, workers))
