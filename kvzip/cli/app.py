"""The commands and their options. Every command hands over to a module that is imported only then."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kvzip.cli.verbatim import Verbatim, VerbatimGroup, real, whole
from kvzip.version import __version__

app = typer.Typer(
    name="kvzip",
    cls=VerbatimGroup,
    help="Compress dumped KV caches without losing a bit.",
    epilog="A dump is a safetensors file, a directory of them, or - for standard input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Inputs = Annotated[list[str] | None, typer.Argument(metavar="FILE", help="- or nothing: standard input")]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="write here; - is standard output")
]
OutputDir = Annotated[
    str | None, typer.Option("--output-dir", metavar="DIR", help="write below DIR, mirroring trees")
]
Stdout = Annotated[bool, typer.Option("-c", "--stdout", help="write to standard output")]
Force = Annotated[bool, typer.Option("-f", "--force", help="overwrite; write to a terminal; compress a .kvz again")]
Threads = Annotated[str, typer.Option("-T", "--threads", metavar="N", envvar="KVZIP_THREADS", help="0: all cores")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="say nothing but errors")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="say more")]
Remove = Annotated[bool, typer.Option("--rm", help="remove the input once the output is safe")]
Json = Annotated[bool, typer.Option("--json", help="report as JSON")]
Recursive = Annotated[bool, typer.Option("-r", "--recursive", help="every file below a directory by itself")]
Level = Annotated[str, typer.Option("-l", "--level", metavar="1..9", envvar="KVZIP_LEVEL", help="1 fast ... 9 small")]
Layout = Annotated[str | None, typer.Option("--layout", metavar="NAME", help="do not guess the layout of tensors")]
Rope = Annotated[
    str | None,
    typer.Option("--rope", metavar="ROPE", help="how keys are rotated: auto, none, half:theta=1e5, interleaved:..."),
]
Preset = Annotated[str | None, typer.Option("--preset", metavar="NAME", help="classic: the published starting point")]


def _setting(option: str, metavar: str, what: str) -> Any:
    return typer.Option(option, metavar=metavar, help=what, show_default=False, rich_help_panel="Estimator")


Alpha = Annotated[str | None, _setting("--alpha", "0.5..1", "what a count keeps from token to token")]
Beta = Annotated[str | None, _setting("--beta", "0..0.999", "what a probability keeps at an update")]
ThetaLow = Annotated[str | None, _setting("--theta-low", "P", "update on symbols less likely than P; 0 never")]
ThetaNew = Annotated[str | None, _setting("--theta-new", "P", "update on a share P of unknown symbols; 0 never")]
NUpdate = Annotated[str | None, _setting("--n-update", "N", "update every N tokens")]
SymbolBits = Annotated[str | None, _setting("--symbol-bits", "8..16", "bits of a value that are modelled")]
Prior = Annotated[str | None, _setting("--prior", "FILE", "a trained prior; builtin, or none to start empty")]
EmbedPrior = Annotated[
    bool, typer.Option("--embed-prior", help="put the trained prior into the container", rich_help_panel="Estimator")
]
NeededPrior = Annotated[
    str | None, typer.Option("--prior", metavar="FILE", help="the trained prior that the containers need")
]
Draft = Annotated[
    str | None, typer.Option("--draft", metavar="DRAFT", help="another cache of these tokens, to predict from")
]
NeededDraft = Annotated[
    str | None, typer.Option("--draft", metavar="DRAFT", help="the draft that the containers were made with")
]
PriorWeight = Annotated[str | None, _setting("--prior-weight", "N", "what the prior weighs, in tokens")]
Warmup = Annotated[str | None, _setting("--warmup", "N", "first N tokens by the prior alone")]
Drift = Annotated[str | None, _setting("--drift", "X", "reset when code length grows X-fold; 0 never")]
Classes = Annotated[str | None, _setting("--classes", "1..16", "classes of channels of a stream")]


def _settings(values: dict[str, Any]) -> dict[str, Any]:
    """The estimator's options among a command's values."""
    reals = ("alpha", "beta", "theta_low", "theta_new", "drift")
    wholes = ("n_update", "symbol_bits", "warmup", "classes", "prior_weight")
    numbers = {name: real(_option(name), values[name]) for name in reals}
    return numbers | {name: whole(_option(name), values[name]) for name in wholes} | {"prior": values["prior"]}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _threads(text: str) -> int:
    return int(whole("-T, --threads", text, "KVZIP_THREADS"))


def _choices(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Level, threads, layout, preset and rope among a command's values, and those of ``names``."""
    level, threads = whole("-l, --level", values["level"], "KVZIP_LEVEL"), _threads(values["threads"])
    same = {name: values[name] for name in ("layout", "preset", "rope", *names)}
    return {"level": level, "threads": threads} | same | _settings(values)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", "-V", help="show the version")] = False) -> None:
    """Compress dumped KV caches without losing a bit."""
    if version:
        print(f"kvzip {__version__}")
        raise typer.Exit


@app.command(
    cls=Verbatim, epilog="Example: kvzip compress -1 -c dump.safetensors | ssh host 'cat > dump.safetensors.kvz'"
)
def compress(
    inputs: Inputs = None,
    output: Output = None,
    output_dir: OutputDir = None,
    stdout: Stdout = False,
    level: Level = "3",
    threads: Threads = "0",
    recursive: Recursive = False,
    force: Force = False,
    remove: Remove = False,
    verify: Annotated[bool, typer.Option("--verify", help="decode what was written and compare")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
    layout: Layout = None,
    rope: Rope = None,
    draft: Draft = None,
    block_size: Annotated[
        str | None,
        typer.Option("--block-size", metavar="SIZE", help="4K..64M, a power of two: what is checked at once"),
    ] = None,
    preset: Preset = None,
    alpha: Alpha = None,
    beta: Beta = None,
    theta_low: ThetaLow = None,
    theta_new: ThetaNew = None,
    n_update: NUpdate = None,
    symbol_bits: SymbolBits = None,
    prior: Prior = None,
    embed_prior: EmbedPrior = False,
    prior_weight: PriorWeight = None,
    warmup: Warmup = None,
    drift: Drift = None,
    classes: Classes = None,
) -> None:
    """Compress dumps.

    FILE becomes FILE.kvz, a directory one container; sources are kept.
    """
    values = dict(locals())
    from kvzip.cli import transform
    from kvzip.cli.sizes import block_log2

    choices = _choices(values, "verify", "embed_prior")
    extra = {} if block_size is None else {"block_log2": block_log2(block_size)}
    job = transform.Settings(output, output_dir, stdout, recursive, force, remove, quiet, verbose, json)
    transform.compress(inputs, job, choices | extra, draft)


@app.command(cls=Verbatim, epilog="Example: kvzip decompress -c dump.safetensors.kvz | sha256sum")
def decompress(
    inputs: Inputs = None,
    output: Output = None,
    output_dir: OutputDir = None,
    stdout: Stdout = False,
    threads: Threads = "0",
    recursive: Recursive = False,
    force: Force = False,
    remove: Remove = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
    prior: NeededPrior = None,
    draft: NeededDraft = None,
) -> None:
    """Restore what was compressed.

    FILE.kvz becomes FILE again, byte for byte; containers are kept.
    """
    from kvzip.cli import transform

    job = transform.Settings(output, output_dir, stdout, recursive, force, remove, quiet, verbose, json)
    transform.decompress(inputs, job, _threads(threads), prior, draft)


@app.command(cls=Verbatim, name="test")
def check_containers(
    inputs: Inputs = None,
    threads: Threads = "0",
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
    prior: NeededPrior = None,
    draft: NeededDraft = None,
) -> None:
    """Check containers.

    Decodes them into nothing and compares every checksum.
    """
    from kvzip.cli import inspect

    inspect.test(inputs, _threads(threads), prior, draft, quiet=quiet, verbose=verbose, json=json)


@app.command(cls=Verbatim, name="list")
def list_tensors(inputs: Inputs = None, json: Json = False) -> None:
    """Show the tensors of dumps and containers."""
    from kvzip.cli import inspect

    inspect.list_tensors(inputs, json=json)


@app.command(
    cls=Verbatim, epilog="Example: kvzip stats --json dump.safetensors | jq .files[0].kinds.key.bits_per_value"
)
def stats(
    inputs: Inputs = None,
    level: Level = "3",
    threads: Threads = "0",
    quiet: Quiet = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="every head, not only layers")] = False,
    json: Json = False,
    layout: Layout = None,
    rope: Rope = None,
    draft: Draft = None,
    preset: Preset = None,
    alpha: Alpha = None,
    beta: Beta = None,
    theta_low: ThetaLow = None,
    theta_new: ThetaNew = None,
    n_update: NUpdate = None,
    symbol_bits: SymbolBits = None,
    prior: Prior = None,
    prior_weight: PriorWeight = None,
    warmup: Warmup = None,
    drift: Drift = None,
    classes: Classes = None,
) -> None:
    """Show where the bits go.

    By kind, layer and head, of dumps (as if they were compressed) and containers.
    """
    values = dict(locals())
    from kvzip.cli import inspect

    inspect.stats(inputs, _choices(values, "draft"), quiet=quiet, verbose=verbose, json=json)


@app.command(cls=Verbatim, name="warmup", epilog="Example: RUN kvzip warmup, in the recipe of an image")
def compile_kernels(
    level: Annotated[str | None, typer.Option("-l", "--level", metavar="N,N-M", help="only what these need")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Compile all kernels ahead.

    Otherwise the first run of each level does it. They are kept below NUMBA_CACHE_DIR, XDG_CACHE_HOME or ~/.cache.
    """
    from kvzip.cli import warmup

    warmup.warmup(level, quiet=quiet, verbose=verbose, json=json)


prior_app = typer.Typer(
    cls=VerbatimGroup,
    help="Train a prior on dumps, and look at one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(prior_app, name="prior")


@prior_app.command(cls=Verbatim, name="train", epilog="Example: kvzip prior train -o our.kvp dumps/*.safetensors")
def train_prior(
    inputs: Annotated[list[str], typer.Argument(metavar="DUMP", help="dumps or directories of them")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="write here")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="what to call it; by default the file's name")
    ] = None,
    threads: Threads = "0",
    force: Annotated[bool, typer.Option("-f", "--force", help="overwrite")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
    layout: Layout = None,
) -> None:
    """Train a prior on dumps.

    What their residuals look like, laid over the builtin prior, for --prior of the other commands.
    """
    from kvzip.cli import prior

    choices = {"threads": _threads(threads), "layout": layout}
    prior.train(inputs, output, name, choices, force=force, quiet=quiet, verbose=verbose, json=json)


@prior_app.command(cls=Verbatim, name="show")
def show_prior(
    source: Annotated[str, typer.Argument(metavar="FILE", help="a prior file, a container, or builtin")] = "builtin",
    json: Json = False,
) -> None:
    """Show a prior file, or the prior that a container needs."""
    from kvzip.cli import prior

    prior.show(source, json=json)
