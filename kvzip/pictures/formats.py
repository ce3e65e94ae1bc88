"""Files that pictures can be written to, by suffix."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import PurePath

from kvzip.errors import OptionError, UnsupportedError
from kvzip.files.faults import shown
from kvzip.pictures.figures import Pictures
from kvzip.pipeline.stats import Stats

FORMATS = ("svg", "png", "html")


def format_of(path: str, inputs: int) -> str:
    """The format that a path's suffix names, or an error where it cannot be written.

    inputs: files to draw; only a report holds more than one.
    Raises OptionError for an unknown suffix and for too many inputs, UnsupportedError without matplotlib.
    """
    form = PurePath(path).suffix.lower().removeprefix(".")
    if form not in FORMATS:
        known = "a picture ends in .svg, .png or .html"
        raise OptionError(f"--plot {shown(path)}: unknown suffix; {known}")
    if form == "html":
        return form
    if inputs > 1:
        raise OptionError(f"--plot {shown(path)}: draws one input, not {inputs}; a report (.html) takes them all")
    if find_spec("matplotlib") is None:
        remedy = "pip install matplotlib (or kvzip's extra plot), or write .html, which needs nothing"
        raise UnsupportedError(f"--plot {shown(path)}: needs matplotlib: {remedy}")
    return form


def drawn(files: Sequence[Stats], form: str) -> bytes:
    """The bytes of a picture of files: one file for svg and png, any number for html."""
    pictures = [Pictures.of(stats) for stats in files]
    if form == "html":
        from kvzip.pictures.html import report

        return report(pictures).encode()
    from kvzip.pictures.mpl import picture

    return picture(pictures[0], form)
