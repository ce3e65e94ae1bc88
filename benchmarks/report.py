"""Render measured results: JSON records, tables as markdown and as plain text, README's table.

Knows nothing of how things are measured. Records are plain dictionaries with the keys of ``record``; what one lacks
is left blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dumps import Dump
from tables import Table, as_markdown, as_text, number, spread_of
from trials import WAYS, Unit, spread


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
        "file / memory": unit.shares(),
        "peaks": unit.peaks,
    }


def tables(dump: dict[str, Any]) -> list[Table]:
    """Return a dump's tables: memory to memory, then file to file and peak memory for each number of threads."""
    counts = sorted({each["threads"] for each in dump["results"]})
    return [_memory(dump, counts), *(_files(dump, threads) for threads in counts)]


def _memory(dump: dict[str, Any], counts: Sequence[int]) -> Table:
    head = ["codec", "bytes", "ratio", "K bits", "V bits"]
    head += [f"{way} MB/s, {threaded(threads)}" for threads in counts for way in WAYS]
    rows = []
    for codec in dict.fromkeys(each["codec"] for each in dump["results"]):
        found = {each["threads"]: each for each in dump["results"] if each["codec"] == codec}
        one = next(iter(found.values()))
        row = [codec, f"{one['bytes']:,}", f"{one['ratio']:.4f}"]
        row += [number(one["bits"].get(kind), 3) for kind in ("key", "value")]
        row += [_rate(found.get(threads), way) for threads in counts for way in WAYS]
        rows.append(row)
    return Table("Memory to memory.", head, rows)


def _files(dump: dict[str, Any], threads: int) -> Table:
    head = ["codec", "in MB/s", "out MB/s", "in / memory", "out / memory", "in, flushed", "out, flushed"]
    head += ["peak in MB", "peak out MB"]
    rows = []
    for each in dump["results"]:
        if each["threads"] == threads:
            row = [each["codec"], *(_rate(each, f"file {way}") for way in WAYS), *(_share(each, way) for way in WAYS)]
            row += [_rate(each, f"flushed {way}") for way in WAYS]
            rows.append(row + [number(each["peaks"].get(way), 0, 1e6) for way in WAYS])
    return Table(f"File to file, {threaded(threads)}.", head, rows)


def threaded(threads: int) -> str:
    """Return the number of threads in words."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def _rate(each: dict[str, Any] | None, what: str) -> str:
    return spread_of(each["rates"].get(what)) if each else ""


def _share(each: dict[str, Any], way: str) -> str:
    return number(each.get("file / memory", {}).get(way), 2)


def markdown(result: dict[str, Any]) -> str:
    """Render all tables as markdown."""
    parts = [f"{result['machine']}; {_versions(result)}. {result['date']}."]
    for dump in result["dumps"]:
        parts += [f"### {dump['name']}", _about(dump)]
        for table in tables(dump):
            parts += [table.caption, as_markdown(table)]
    return "\n\n".join(parts) + "\n"


def plain(result: dict[str, Any]) -> str:
    """Render all tables as aligned text."""
    parts = [result["machine"]]
    for dump in result["dumps"]:
        parts.append(f"{dump['name']}: {_about(dump)}")
        parts += [f"{table.caption}\n{as_text(table)}" for table in tables(dump)]
    return "\n\n".join(parts)


def _versions(result: dict[str, Any]) -> str:
    found = {each["codec"]: each["version"] for dump in result["dumps"] for each in dump["results"]}
    packages: dict[str, str] = {}
    for codec, version in found.items():
        packages.setdefault(codec.partition("-")[0], version)
    return ", ".join(f"{package} {version}" for package, version in packages.items())


def _about(dump: dict[str, Any]) -> str:
    about = f"{dump['bytes']:,} bytes, mostly {dump['dtype']}"
    labels = {"memory": "in memory", "file": "from file to file", "flushed": "flushed to the disk"}
    copies = [
        f"{spread_of(dump['copies'][what])} {label}" for what, label in labels.items() if what in dump["copies"]
    ]
    return about + (f". Plain copy, MB/s: {', '.join(copies)}." if copies else ".")


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
    for name, cells in rows.items():
        codec = f"kvzip{name}" if name[:1] == "-" else name
        found = [at_threads(dump, codec, threads) for dump in result["dumps"]]
        ratios = [f" {each['ratio']:.3f} " if each else " " for each in found]
        rates = found[0]["rates"] if found[0] else {}
        speed = f" {number(rates['in']['median'], 0)} / {number(rates['out']['median'], 0)} " if rates else " "
        lines.append("|".join(["", *cells, *ratios, speed, ""]))
    return "\n".join(lines)


def greatest_threads(dump: dict[str, Any]) -> int:
    """Return the greatest number of threads measured on a dump."""
    return max(each["threads"] for each in dump["results"])


def at_threads(dump: dict[str, Any], codec: str, threads: int) -> dict[str, Any] | None:
    """Return a codec's record with so many threads, with one if it has none with more; None if there is none."""
    found = {each["threads"]: each for each in dump["results"] if each["codec"] == codec}
    return found.get(threads) or found.get(1)
