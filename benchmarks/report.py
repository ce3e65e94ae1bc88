"""Render measured results: JSON records, a markdown table for each dump, the same as plain text, README's table.

Knows nothing of how things are measured. Records are plain dictionaries with the keys of ``record``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dumps import Dump
from trials import Unit, spread

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
        "level": unit.codec.level,
        "rounds": len(unit.seconds.get("in", ())),
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
    return ["codec", "version", "threads", "bytes", "ratio", *kinds, "rounds", *rates, *peaks, "first in / out s"]


def cells(each: dict[str, Any], head: Sequence[str]) -> list[str]:
    """Return one row of the table."""
    known = {
        "codec": each["codec"],
        "version": each["version"],
        "threads": str(each["threads"]),
        "bytes": f"{each['bytes']:,}",
        "ratio": f"{each['ratio']:.4f}",
        "rounds": str(each["rounds"]),
        "K bits": _number(each["bits"].get("key"), 3),
        "V bits": _number(each["bits"].get("value"), 3),
        "peak in MB": _number(each["peaks"].get("in"), 0, 1e6),
        "peak out MB": _number(each["peaks"].get("out"), 0, 1e6),
        "first in / out s": " / ".join(f"{seconds:.2f}" for seconds in each["first"].values()),
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
    parts = [f"{result['machine']}. {result['date']}; rates are medians of the rounds (least..greatest)."]
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


def summary(table: str, result: dict[str, Any]) -> str:
    """Return README's table with its figures renewed: one row a codec, ratios of all dumps, rates of the first one.

    The first two cells of a row, what is measured and what that does, are the author's and stay.
    """
    head = table.splitlines()[0].strip("|").split("|")[:2]
    rows = {
        cells[0].strip(" `"): cells[:2] for cells in (line.strip("|").split("|") for line in table.splitlines()[2:])
    }
    threads = greatest_threads(result["dumps"][0])
    figures = [f" {dump['name']} " for dump in result["dumps"]] + [" in / out MB/s "]
    lines = ["|".join(["", *head, *figures, ""]), "|---" * (len(head) + len(figures)) + "|"]
    for name, cells_ in rows.items():
        codec = f"kvzip{name}" if name[:1] == "-" else name
        found = [at_threads(dump, codec, threads) for dump in result["dumps"]]
        ratios = [f" {each['ratio']:.3f} " if each else " " for each in found]
        rates = found[0]["rates"] if found[0] else {}
        speed = f" {_number(rates['in']['median'], 0)} / {_number(rates['out']['median'], 0)} " if rates else " "
        lines.append("|".join(["", *cells_, *ratios, speed, ""]))
    return "\n".join(lines)


def greatest_threads(dump: dict[str, Any]) -> int:
    """Return the greatest number of threads measured on a dump."""
    return max(each["threads"] for each in dump["results"])


def at_threads(dump: dict[str, Any], codec: str, threads: int) -> dict[str, Any] | None:
    """Return a codec's record with so many threads, with one if it has none with more; None if there is none."""
    found = {each["threads"]: each for each in dump["results"] if each["codec"] == codec}
    return found.get(threads) or found.get(1)
