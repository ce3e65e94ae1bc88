"""What terabytes of caches cost: core hours, hours on some cores and bytes saved, by the measured rates of a dump."""

from __future__ import annotations

from typing import Any

LEVELS = (1, 3, 6, 9)
AMOUNTS = (1, 10, 100)  # TB
CORES = 32
DUMP = "prose_bf16"


def rate(result: dict[str, Any], way: str) -> float:
    """MB/s of a core, memory to memory: of one thread if that was measured, else of several, shared out."""
    return float(result["rates"][way]["median"]) / int(result["threads"])


def hours(terabytes: float, megabytes_a_second: float) -> float:
    """Hours that one core takes."""
    return terabytes * 1e6 / megabytes_a_second / 3600


def markdown(data: dict[str, Any]) -> str:
    """The table."""
    (dump,) = [each for each in data["dumps"] if each["name"] == DUMP]
    lines = [
        f"| caches | level | stored | saved | compress, core hours | on {CORES} | restore, core hours | on {CORES} |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for amount in AMOUNTS:
        for level in LEVELS:
            found = [each for each in dump["results"] if each["level"] == level]
            result = min(found, key=lambda each: int(each["threads"]))
            there, back = (hours(amount, rate(result, way)) for way in ("in", "out"))
            stored = amount / result["ratio"]
            lines.append(
                f"| {amount} TB | {level} | {stored:.2f} TB | {amount - stored:.2f} TB "
                f"| {there:.1f} | {there / CORES:.1f} h | {back:.1f} | {back / CORES:.1f} h |"
            )
    return "\n".join(lines)
