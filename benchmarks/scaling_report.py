"""Render what scaling.py measured: the model of growth, cost by tokens and heads, chunks against their whole.

Knows nothing of how things are measured; the model is fitted here, to the kept data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from growth import Growth, fit
from tables import Table, as_markdown, as_text, number, spread_of
from trials import WAYS

Records = list[dict[str, Any]]
WIDTH = 2  # bytes of a value


def nanoseconds(each: dict[str, Any], way: str) -> float:
    """Return the cost of a value."""
    return WIDTH * 1e3 / each["rates"][way]["median"]


def growth_of(records: Records, way: str) -> Growth:
    """Fit the model to one codec's cases."""
    return fit([(each["bytes"] // WIDTH, each["threads"], _seconds(each, way)) for each in records])


def _seconds(each: dict[str, Any], way: str) -> float:
    return each["bytes"] / 1e6 / each["rates"][way]["median"]


def _of(result: dict[str, Any], kind: str, **wanted: Any) -> Records:
    found = [each for each in result["cases"] if each["kind"] == kind]
    return [each for each in found if all(each[name] == value for name, value in wanted.items())]


def _levels(result: dict[str, Any]) -> list[int]:
    return list(dict.fromkeys(each["level"] for each in result["cases"] if each["level"]))


def growth_table(result: dict[str, Any]) -> Table:
    """One row a level and way: the model's parts, and the rates measured on the whole dump."""
    counts = sorted({each["threads"] for each in _of(result, "growth")})
    head = ["level", "way", "call, ms", "serial, ns", "shared, ns", "serial share", "residual"]
    head += [f"MB/s, {threads} thread{'s' if threads > 1 else ''}" for threads in counts]
    rows = []
    for level in _levels(result):
        records = _of(result, "growth", level=level)
        whole = {each["threads"]: each for each in records if each["bytes"] == max(r["bytes"] for r in records)}
        for way in WAYS:
            found = growth_of(records, way)
            row = [str(level), way, number(found.fixed, 2, 1e-3), number(found.serial, 2, 1e-9)]
            row += [
                number(found.parallel, 1, 1e-9),
                *(f"{100 * x:.0f} %" for x in (found.serial_share, found.residual)),
            ]
            rows.append(row + [spread_of(whole[threads]["rates"][way]) for threads in counts])
    return Table(GROWTH.format(dump=result["dump"]), head, rows)


def shape_table(result: dict[str, Any], axis: str) -> Table:
    """One row a level and way: nanoseconds a value for each length of an axis, and the largest over the least."""
    lengths = sorted({each[axis] for each in _of(result, axis)})
    layers = {each[axis]: each["layers"] for each in _of(result, axis)}
    head = ["level", "way", *(f"{length:,} in {layers[length]} layers" for length in lengths), "most / least"]
    rows = []
    for level in _levels(result):
        records = {each[axis]: each for each in _of(result, axis, level=level)}
        for way in WAYS:
            costs = [nanoseconds(records[length], way) for length in lengths]
            rows.append([str(level), way, *(f"{cost:.1f}" for cost in costs), f"{max(costs) / min(costs):.2f}"])
        rows.append([str(level), "ratio", *(f"{records[length]['ratio']:.3f}" for length in lengths), ""])
    return Table({"tokens": TOKENS, "heads": HEADS}[axis], head, rows)


def chunk_table(result: dict[str, Any]) -> Table:
    """One row a codec and number of threads: rates in chunks and as a whole, and what a byte costs more in chunks."""
    head = ["codec", "threads", "in, chunks", "in, whole", "out, chunks", "out, whole"]
    head += [f"cost {way}, chunks / whole" for way in WAYS]
    rows = []
    for pieces in _of(result, "chunks"):
        whole = _whole(result, pieces)
        rates = [spread_of(each["rates"][way]) for way in WAYS for each in (pieces, whole)]
        more = [f"{dearer(pieces, whole, way):.2f}" for way in WAYS]
        rows.append([pieces["codec"], str(pieces["threads"]), *rates, *more])
    return Table(CHUNKS, head, rows)


def dearer(pieces: dict[str, Any], whole: dict[str, Any], way: str) -> float:
    """Return what a byte costs in chunks over what it costs in the whole dump."""
    return float(whole["rates"][way]["median"] / pieces["rates"][way]["median"])


def _whole(result: dict[str, Any], pieces: dict[str, Any]) -> dict[str, Any]:
    records = _of(result, "growth", codec=pieces["codec"], threads=pieces["threads"])
    return max(records, key=lambda each: int(each["bytes"]))


def findings(result: dict[str, Any]) -> str:
    """Say in a sentence what the tables come to."""
    parts = []
    for axis in ("tokens", "heads"):
        lengths = sorted({each[axis] for each in _of(result, axis)})
        ratios = {}
        for level in _levels(result):
            for way in WAYS:
                costs = [nanoseconds(each, way) for each in _of(result, axis, level=level)]
                ratios[f"level {level}, {way}"] = max(costs) / min(costs)
        parts.append(f"from {lengths[0]:,} to {lengths[-1]:,} {axis} the cost of a value varies {_extreme(ratios)}")
    sizes = [each["bytes"] / each["dumps"] / 1e6 for each in _of(result, "chunks")]
    more = {
        f"level {each['level']}, {each['threads']} thread{'s' if each['threads'] > 1 else ''}, {way}": dearer(
            each, _whole(result, each), way
        )
        for each in _of(result, "chunks")
        if each["level"]
        for way in WAYS
    }
    parts.append(f"in chunks of {sizes[0]:.2f} MB a byte costs {_extreme(more)} of what it costs in the whole dump")
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def _extreme(ratios: dict[str, float]) -> str:
    where = max(ratios, key=lambda name: ratios[name])
    return f"at most {ratios[where]:.2f} times ({where})"


def _render(result: dict[str, Any], render: Callable[[Table], str]) -> list[str]:
    every = [growth_table(result), shape_table(result, "tokens"), shape_table(result, "heads"), chunk_table(result)]
    about = f"{result['machine']}. {result['date']}. Plain copy {spread_of(result['copy'])} MB/s."
    return [about, findings(result)] + [part for table in every for part in (table.caption, render(table))]


def markdown(result: dict[str, Any] | None) -> str:
    """Render all tables as markdown; say so where nothing was measured."""
    return "\n\n".join(_render(result, as_markdown) if result else ["Not measured yet."]) + "\n"


def plain(result: dict[str, Any]) -> str:
    """Render all tables as aligned text."""
    return "\n\n".join(_render(result, as_text))


GROWTH = (
    "Threads. The model is `seconds = call + values * (serial + shared / threads)`, fitted to a quarter, half and "
    "all of the layers of {dump} at each number of threads; residual is the root mean square of its relative errors. "
    "Costs are nanoseconds a value, of one core."
)
TOKENS = (
    "Tokens: nanoseconds a value of one head, 1 thread; below them the ratio, which shows that no repeat was easy."
)
HEADS = "Heads: nanoseconds a value of 1024 tokens, 1 thread, and the ratio."
CHUNKS = (
    "Small dumps, once warm: MB/s of chunks of 256 tokens, one after the other, of the whole dump that they are cut "
    "from, and how much more a byte costs in chunks."
)
