"""Courses of many streams added up: their channels, and their tokens in common bins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvzip.blocks.course import EVENTS, Course
from kvzip.pipeline.stats import StreamStats

Reals = NDArray[np.float64]


def per_value(bits: Reals, values: Reals) -> Reals:
    """Bits per value, NaN where there are none."""
    return np.where(values > 0, bits / np.maximum(values, 1e-300), np.nan)


def by_channel(streams: list[StreamStats]) -> dict[str, tuple[Reals, Reals]]:
    """Bits and values by channel, of each kind; streams with fewer channels lack the last ones."""
    found: dict[str, tuple[Reals, Reals]] = {}
    for kind in sorted({stream.kind for stream in streams}):
        courses = [s.course for s in streams if s.kind == kind and s.course is not None]
        width = max(len(course.channels) for course in courses)
        bits, values = np.zeros((2, width))
        for course in courses:
            channels = len(course.channels)
            bits[:channels] += course.channels
            values[:channels] += course.values.sum() / max(1, channels)
        found[kind] = bits, values
    return found


def along(streams: list[StreamStats]) -> tuple[Reals, Reals, Reals, dict[str, NDArray[np.int64]]]:
    """Edges of bins (bins + 1,), bits and values of the bins, and how often what happened in them.

    Bins are those of the stream with the widest; others are shared out evenly, and what happened counts where its
    own bin begins.
    """
    courses = [stream.course for stream in streams if stream.course is not None]
    step = max(course.step for course in courses)
    end = max(float(_edges(course)[-1]) for course in courses)
    edges = np.append(np.arange(0.0, end, step), end)
    bits, values = np.zeros((2, len(edges) - 1))
    events = {what: np.zeros(len(edges) - 1, np.int64) for what in EVENTS}
    for course in courses:
        own = _edges(course)
        bits += _shared_out(edges, own, course.tokens)
        values += _shared_out(edges, own, course.values)
        bins = np.minimum(own[:-1] // step, len(edges) - 2).astype(np.int64)
        for what, counts in course.events.items():
            into = events.setdefault(what, np.zeros(len(edges) - 1, np.int64))
            np.add.at(into, bins, counts)
    return edges, bits, values, events


def _edges(course: Course) -> Reals:
    """Where a course's bins begin and end, in tokens."""
    return np.append(0.0, np.cumsum(course.values)) / max(1, len(course.channels))


def _shared_out(edges: Reals, own: Reals, amounts: NDArray[np.generic]) -> Reals:
    """Amounts of bins between ``own`` edges as amounts between ``edges``."""
    sums = np.append(0.0, np.cumsum(amounts.astype(np.float64)))
    return np.diff(np.interp(edges, own, sums))
