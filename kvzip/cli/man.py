"""kvzip(1), the manual page: all commands as they are declared, in roff's man macros."""

from __future__ import annotations

import re
import sys
from typing import Any

from kvzip.cli.outline import Outline, outline, walk
from kvzip.version import __version__

DESCRIPTION = """\
compresses KV caches that were dumped to safetensors files, without losing a bit, and restores them byte for byte.
A dump is a file, a directory of files, or standard input."""
EXIT = (
    ("0", "Done; also if an input was skipped because it is compressed already. diff: the same."),
    ("1", "Something failed: a line for each says what, where and what to do. diff: they differ."),
    ("2", "Wrong usage. diff: trouble."),
    ("129, 130, 143", "Ended by SIGHUP, SIGINT or SIGTERM; nothing half-written is left behind."),
    ("141", "The reader of the output left before its end; nothing is said."),
)
ENVIRONMENT = (
    ("KVZIP_LEVEL, KVZIP_THREADS", "Defaults of --level and --threads."),
    ("NO_COLOR, COLUMNS", "No colours; the width of tables and progress."),
    ("NUMBA_CACHE_DIR, XDG_CACHE_HOME", "Where compiled kernels are kept."),
    ("KVZIP_VECTORS", "256: no AVX-512; 0: no vectors. The same bytes, slower."),
)
FILES = (
    (".kvz", "A container: the dumps of one file or directory."),
    (".kvp", "A trained prior, of prior train."),
    (".toml", "A profile, of tune."),
    ("~/.cache/kvzip", "Kernels that were compiled for this machine."),
)


def man(root: Any) -> None:
    """Write the page to standard output."""
    sys.stdout.write(page(root))


def page(root: Any) -> str:
    """The page in roff."""
    lines = [
        f'.TH KVZIP 1 "" "kvzip {__version__}" "User Commands"',
        ".SH NAME",
        f"kvzip {escaped('-')} lossless compression of dumped KV caches",
        ".SH SYNOPSIS",
        ".B kvzip",
        ".I COMMAND",
        escaped("[OPTIONS] [ARGS]..."),
        ".SH DESCRIPTION",
        ".B kvzip",
        *text(DESCRIPTION),
        ".SH COMMANDS",
    ]
    for path, command in walk("kvzip", root):
        if path != "kvzip":
            lines += _command(outline(path, command))
    for heading, entries in (("EXIT STATUS", EXIT), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines += [f".SH {escaped(heading)}", *(line for head, what in entries for line in _entry(head, what))]
    lines += [".SH SEE ALSO", ".BR xz (1),", ".BR zstd (1)"]
    return "\n".join(lines) + "\n"


def _command(about: Outline) -> list[str]:
    lines = [f".SS {escaped(f'{about.path} {about.synopsis}')}", *text(about.summary)]
    for paragraph in about.paragraphs:
        lines += [".PP", *text(paragraph)]
    for entry in about.arguments:
        lines += _entry(entry.head, entry.text)
    for heading, entries in about.groups.items():
        if heading != "Options":
            lines += [".PP", *text(f"{heading}:")]
        lines += [line for entry in entries for line in _entry(entry.head, entry.text)]
    if about.examples:
        lines += [".PP", "Examples:", ".PP", ".EX", *(_line(f"    {example}") for example in about.examples), ".EE"]
    return lines


def _entry(head: str, what: str) -> list[str]:
    return [".TP", f'.B "{escaped(head)}"', *text(what)]


def text(prose: str) -> list[str]:
    """Lines of running text."""
    return [_line(" ".join(line.split())) for line in prose.splitlines()] or [""]


def _line(line: str) -> str:
    r"""A line that roff does not take for a request."""
    return rf"\&{escaped(line)}" if line[:1] in (".", "'") else escaped(line)


def escaped(words: str) -> str:
    r"""Text whose hyphens stay hyphens, with backslashes, quotes and what a page may not hold replaced."""
    words = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    words = words.replace("^", "\\(ha").replace("~", "\\(ti").replace('"', "\\(dq")
    return re.sub(r"[^\x20-\x7e]", lambda found: f"\\[u{ord(found[0]):04X}]", words)
