"""What a search found; fits 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvzip.cli.render import Columns, Page
from kvzip.cli.sizes import human
from kvzip.files.faults import shown

if TYPE_CHECKING:
    from kvzip.tuning.result import Finding, Tuning

SMALL = 1e-3  # share of the size; a gain below it is said to be hardly one
WIDEST = 22  # characters of a value, or of a list of them


def show_tuning(found: Tuning, command: str, profile: str | None, names: Sequence[str]) -> None:
    """Levels, parameters, what is gained, and what to type."""
    page = Page()
    if len(found.levels) > 1:
        page.table(_levels(found))
        page.line()
    if found.findings:
        _show_findings(page, found)
    for line in _conclusion(found):
        page.line(line, wrap=True)
    page.line()
    page.line(command)
    if profile is None:
        page.line("To keep it: kvzip tune -o FILE, then kvzip compress --profile FILE", wrap=True)
    else:
        page.line(f"Or: kvzip compress --profile {shown(profile)}", wrap=True)


def _show_findings(page: Page, found: Tuning) -> None:
    """What each parameter is worth, if any is."""
    if any(one.acts for one in found.findings):
        page.line(f"At level {found.level}, each parameter alone on a sample:", wrap=True)
        page.table(_parameters(found.findings))
        slow = " Not taken, as too slow: what has a !." if any(not one.fast_enough for one in found.findings) else ""
        note = "Nearly as good: within 0.05 % of the best. Part of a preset: what no other option sets."
        page.line(note + slow, wrap=True)
    if idle := [_name(one) for one in found.findings if not one.acts]:
        page.line(f"These change nothing here: {', '.join(idle)}.", wrap=True)
    page.line()


def _levels(found: Tuning) -> Columns:
    table = Columns("level", "ratio", "in MB/s", "out MB/s", "<")
    for one in found.levels:
        note = "chosen" if one.level == found.level else "" if one.fast_enough else "too slow"
        speeds = (f"{speed / 1e6:.3g}" for speed in (one.compress_speed, one.decompress_speed))
        table.row(one.level, f"{one.ratio:.4f}", *speeds, note)
    return table


def _parameters(findings: Sequence[Finding]) -> Columns:
    """The parameters that change anything, the most valuable first."""
    table = Columns("<parameter", "default", "best", "size", "bits/value", "speed", "<nearly as good", gap=1)
    for one in sorted(findings, key=lambda one: -one.gain):
        if one.acts:
            size = f"{-100 * one.gain:.2f} %" if one.gain else ""
            bits = f"{-one.bits_per_value:.4f}" if one.gain else ""
            speed = (f"{one.speed:.2f}x" + ("" if one.fast_enough else "!")) if one.gain else ""
            table.row(_name(one), one.default, _short(one.best), size, bits, speed, _near(one.near))
    return table


def _name(finding: Finding) -> str:
    return finding.name.replace("_", "-")


def _near(values: Sequence[str]) -> str:
    """Values that are about as good; numbers as a range."""
    numbers = [float(value) for value in values if value.replace(".", "", 1).isdigit()]
    if len(numbers) == len(values) > 2:
        return f"{min(numbers):g} to {max(numbers):g}"
    return _short(", ".join(values))


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _conclusion(found: Tuning) -> list[str]:
    """What is gained, over what, as measured at the end."""
    part = "all of it" if found.whole else f"{human(found.checked_bytes)} of {human(found.total_bytes)}"
    ratios = f"{found.checked_bytes / max(1, found.default_bytes):.4f}x -> {found.ratio:.4f}x"
    bits = 8 * (found.default_bytes - found.tuned_bytes) / max(1, found.checked_values)
    lines = []
    if not found.settings:
        lines.append(_kept(found))
    else:
        near = (
            f"The defaults of level {found.level} are within 0.1 % of the best found: " if found.gain < SMALL else ""
        )
        lines.append(
            f"{near}{100 * found.gain:.2f} % smaller than the defaults of level {found.level} ({ratios}, "
            f"{bits:.4f} bits/value), measured on {part}."
        )
    lines.append(f"{_speeds(found.compress_speed, found.decompress_speed)} from memory, with these threads.")
    if found.settings:
        lines[-1] += f" Defaults: {_speeds(found.usual_compress_speed, found.usual_decompress_speed)}."
    if found.plain_bytes is not None and found.plain_bytes != found.default_bytes:
        lines.append(f"Against all defaults (level 3): {-100 * (1 - found.tuned_bytes / found.plain_bytes):+.2f} %.")
    if not found.complete:
        lines.append("The time was too short to try everything: give more --seconds, or fewer levels.")
    return lines


def _speeds(forth: float, back: float) -> str:
    return f"{forth / 1e6:.3g} MB/s in, {back / 1e6:.3g} MB/s out"


def _kept(found: Tuning) -> str:
    tried = any(one.acts for one in found.findings)
    slow = any(not one.fast_enough for one in found.findings)
    what = "nothing that was tried beats the defaults" if tried else "there is nothing to set"
    what = "nothing that is fast enough beats the defaults" if slow else what
    if not found.complete and any(one.gain > 0 and one.fast_enough for one in found.findings):
        what = "there was no time to put together and check what helped"
    return f"Level {found.level} as it is, {found.ratio:.4f}x: {what}."
