"""Options that several commands have, and what turns their text into values.

A metavar tells what a value is, to the reader of help and to completion: FILE.kvz and the like are files with that
suffix, DUMP, DRAFT, FILE and DIR files and folders, LAYOUT, PRESET, ROPE, PRIOR, TENSOR, LAYER and KIND what their
name says, 2..9 whole numbers, lower-case words themselves; | stands between alternatives. See ``kvzip.cli.complete``.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kvzip.cli.verbatim import real, whole
from kvzip.errors import OptionError

STANDARD_INPUT = "- or nothing: standard input"
Inputs = Annotated[list[str] | None, typer.Argument(metavar="FILE", help=STANDARD_INPUT)]
Dumps = Annotated[list[str] | None, typer.Argument(metavar="DUMP", help=STANDARD_INPUT)]
Packed = Annotated[list[str] | None, typer.Argument(metavar="DUMP", help="dumps, or with -r what is below folders")]
Containers = Annotated[list[str] | None, typer.Argument(metavar="FILE.kvz", help=STANDARD_INPUT)]
Tensors = Annotated[
    list[str] | None, typer.Option("--tensor", metavar="TENSOR", help="a tensor, or a pattern like layers.*.key")
]
LayerSpans = Annotated[
    list[str] | None, typer.Option("--layer", metavar="LAYER", help="the tensors of a layer, or of N-M, or of N,M")
]
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
FilesFrom = Annotated[
    str | None, typer.Option("--files-from", metavar="LIST", help="more files, one name a line; - is standard input")
]
Null = Annotated[bool, typer.Option("-0", "--null", help="names in the list end in NUL, as find -print0 writes them")]
SkipExisting = Annotated[
    bool, typer.Option("--skip-existing", help="leave outputs that are whole and newer than their input")
]
Level = Annotated[str, typer.Option("-l", "--level", metavar="1..9", envvar="KVZIP_LEVEL", help="1 fast ... 9 small")]
Levels = Annotated[
    str | None, typer.Option("-l", "--level", metavar="N,N-M", help="only these levels", show_default=False)
]
Layout = Annotated[str | None, typer.Option("--layout", metavar="LAYOUT", help="do not guess the layout of tensors")]
Rope = Annotated[
    str | None,
    typer.Option("--rope", metavar="ROPE", help="how keys are rotated: auto, none, half:theta=1e5, interleaved:..."),
]
Profile = Annotated[
    str | None, typer.Option("--profile", metavar="FILE", help="settings that kvzip tune wrote; other options win")
]
Preset = Annotated[
    str | None, typer.Option("--preset", metavar="PRESET", help="classic: the published starting point")
]


def _setting(option: str, metavar: str, what: str) -> Any:
    return typer.Option(option, metavar=metavar, help=what, show_default=False, rich_help_panel="Estimator")


Alpha = Annotated[str | None, _setting("--alpha", "0.5..1", "what a count keeps from token to token")]
Beta = Annotated[str | None, _setting("--beta", "0..0.999", "what a probability keeps at an update")]
ThetaLow = Annotated[str | None, _setting("--theta-low", "P", "update on symbols less likely than P; 0 never")]
ThetaNew = Annotated[str | None, _setting("--theta-new", "P", "update on a share P of unknown symbols; 0 never")]
NUpdate = Annotated[str | None, _setting("--n-update", "N", "update every N tokens")]
SymbolBits = Annotated[str | None, _setting("--symbol-bits", "8..16", "bits of a value that are modelled")]
Prior = Annotated[str | None, _setting("--prior", "PRIOR", "a trained prior; builtin, or none to start empty")]
EmbedPrior = Annotated[
    bool, typer.Option("--embed-prior", help="put the trained prior into the container", rich_help_panel="Estimator")
]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="give the files to a cluster of dask.distributed")
]
Workers = Annotated[
    str | None, typer.Option("--workers", metavar="N", help="or to N processes of dask here; 0: one a core")
]
NeededPrior = Annotated[
    str | None, typer.Option("--prior", metavar="FILE.kvp", help="the trained prior that the containers need")
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


def settings(values: dict[str, Any]) -> dict[str, Any]:
    """The estimator's options among a command's values."""
    reals = ("alpha", "beta", "theta_low", "theta_new", "drift")
    wholes = ("n_update", "symbol_bits", "warmup", "classes", "prior_weight")
    numbers = {name: real(_option(name), values[name]) for name in reals}
    return numbers | {name: whole(_option(name), values[name]) for name in wholes} | {"prior": values["prior"]}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def threads_of(text: str) -> int:
    """The number of threads, from an option or the environment."""
    return int(whole("-T, --threads", text, "KVZIP_THREADS"))


def fleet_of(scheduler: str | None, workers: str | None) -> tuple[str | None, int] | None:
    """The scheduler or the number of local workers that files are given to; None to do them here."""
    count = whole("--workers", workers)
    return None if scheduler is None and count is None else (scheduler, count or 0)


def level_of(text: str) -> int:
    """The level, from an option or the environment."""
    return int(whole("-l, --level", text, "KVZIP_LEVEL"))


def choices(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Level, threads, layout, preset and rope among a command's values, and those of ``names``."""
    level, threads = level_of(values["level"]), threads_of(values["threads"])
    same = {name: values[name] for name in ("layout", "preset", "rope", *names)}
    chosen = {"level": level, "threads": threads} | same | settings(values)
    return (
        chosen if values.get("profile") is None else profiled(values["profile"], chosen, _is_typed(values, "level"))
    )


def profiled(path: str, chosen: dict[str, Any], level_given: bool) -> dict[str, Any]:
    """``chosen`` with what a profile says where the command line says nothing; it wins over the environment."""
    from kvzip.tuning.profile import read_profile
    from kvzip.windows.parameters import PRESETS

    said = read_profile(path)
    if level_given:
        said.pop("level", None)
    if chosen["preset"] is not None:  # it stands for all that it sets
        said = {name: value for name, value in said.items() if name not in PRESETS.get(chosen["preset"], {})}
    if chosen["prior"] == "none":
        said.pop("prior_weight", None)
    level = said.pop("level", chosen["level"])
    return chosen | {name: value for name, value in said.items() if chosen[name] is None} | {"level": level}


def _is_typed(values: dict[str, Any], name: str) -> bool:
    """Whether an option stands on the command line, not in the environment."""
    return bool(values["context"].get_parameter_source(name).name == "COMMANDLINE")


def seconds_of(text: str) -> float:
    """A time above 0."""
    seconds = float(real("--seconds", text))
    if not 0 < seconds < 1e9:
        raise OptionError(f"--seconds {text}: must be above 0")
    return seconds


def levels_of(text: str | None) -> tuple[int, ...] | None:
    """The levels of "3", "1-3,9"; None for none."""
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers = first.isascii() and first.isdigit() and (last or first).isascii() and (last or first).isdigit()
        if not (numbers and len(part) < 9 and 1 <= int(first) <= int(last or first) <= 9):
            raise OptionError(f"--level {text}: must be levels from 1 to 9, like 3 or 1-3,9")
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))
