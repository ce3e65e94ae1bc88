"""Render measured results: JSON records, a markdown table for each dump, the same as plain text.

Knows nothing of how things are measured. Records are plain dictionaries with the keys of ``record``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dumps import Dump
from trials import Unit, spread

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
RATES = (("in", "in"), ("out", "out"), ("file in", "file in"), ("file out", "file out"))


def record(dump: Dump, unit: Unit) -> dict[str, Any]:
    """Return everything known about one unit on one dump."""
    size = len(dump.data)
    return {
        "codec": unit.codec.name,
        "version": unit.codec.version,
        "threads": unit.threads,
        "bytes": len(unit.packed),
        "ratio": size / len(unit.packed),
        "bits": unit.bits,
        "rates": {what: spread(size, times) for what, times in unit.seconds.items()},
        "first": unit.first,
        "peaks": unit.peaks,
    }


def columns(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the head of the table; columns that nobody filled are left out."""
    kinds = ["K bits", "V bits"] if any(each["bits"] for each in records) else []
    rates = [f"{label} MB/s" for what, label in RATES if any(what in each["rates"] for each in records)]
    peaks = ["peak in MB", "peak out MB"] if any(each["peaks"] for each in records) else []
    return ["codec", "version", "threads", "bytes", "ratio", *kinds, *rates, *peaks, "first in / out s"]


def cells(each: dict[str, Any], head: Sequence[str]) -> list[str]:
    """Return one row of the table."""
    known = {
        "codec": each["codec"],
        "version": each["version"],
        "threads": str(each["threads"]),
        "bytes": f"{each['bytes']:,}",
        "ratio": f"{each['ratio']:.4f}",
        "K bits": _number(each["bits"].get("key"), 3),
        "V bits": _number(each["bits"].get("value"), 3),
        "peak in MB": _number(each["peaks"].get("in"), 0, 1e6),
        "peak out MB": _number(each["peaks"].get("out"), 0, 1e6),
        "first in / out s": f"{each['first']['in']:.2f} / {each['first']['out']:.2f}",
    }
    known |= {f"{label} MB/s": _rate(each["rates"].get(what)) for what, label in RATES}
    return [known[name] for name in head]


def _number(value: float | None, digits: int, unit: float = 1.0) -> str:
    return "" if value is None else f"{value / unit:.{digits}f}"


def _rate(rate: dict[str, float] | None) -> str:
    if rate is None:
        return ""
    digits = 0 if rate["median"] >= 10 else 1
    low, high = f"{rate['min']:.{digits}f}", f"{rate['max']:.{digits}f}"
    return f"{rate['median']:.{digits}f} ({low}..{high})"


def markdown(result: dict[str, Any]) -> str:
    """Render all tables as markdown."""
    parts = [f"{result['machine']}. {result['date']}, {result['repeat']} rounds: median (least..greatest)."]
    for dump in result["dumps"]:
        head = columns(dump["results"])
        lines = [_bar(head), _bar(["---"] * 2 + ["---:"] * (len(head) - 2))]
        lines += [_bar(cells(each, head)) for each in dump["results"]]
        parts += [f"### {dump['name']}", _about(dump), "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _bar(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _about(dump: dict[str, Any]) -> str:
    about = f"{dump['bytes']:,} bytes, mostly {dump['dtype']}"
    return about + (f"; plain copy {_rate(dump['copy'])} MB/s." if dump["copy"] else ".")


def plain(result: dict[str, Any]) -> str:
    """Render all tables as aligned text."""
    parts = [result["machine"]]
    for dump in result["dumps"]:
        head = columns(dump["results"])
        rows = [head, *(cells(each, head) for each in dump["results"])]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        padded = ([f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)] for row in rows)
        lines = ["  ".join(row).rstrip() for row in padded]
        parts.append("\n".join([f"{dump['name']}: {_about(dump)}", *lines]))
    return "\n\n".join(parts)


def write_between_markers(path: Path, text: str) -> None:
    """Replace what stands between the markers of a document; a document that does not exist is made."""
    old = path.read_text() if path.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"no place for the tables: {path}; add the lines {BEGIN} and {END}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
