"""Statistics as a file might have them, made without compressing anything."""

from __future__ import annotations

import numpy as np

from kvzip.blocks.course import EVENTS, Course
from kvzip.pipeline.stats import Stats, StreamStats

HOSTILE = "<script>alert(1)</script>\"'&]]>--><img src=x onerror=alert(1)>$x^2$[red]\x00\x1b[31m\n\u202e\ud800"


def course(bits_by_bin, channels=4, step=2, last=None, events=None, share=None) -> Course:
    """A course whose bins take so many bits a value; ``last``: tokens of the last bin, ``share``: of each channel."""
    values = np.full(len(bits_by_bin), step * channels, np.int64)
    values[-1] = (step if last is None else last) * channels
    tokens = np.asarray(bits_by_bin, float) * values
    share = np.full(channels, 1 / channels) if share is None else np.asarray(share, float)
    return Course(step, values, tokens, tokens.sum() * share, events or {})


def stream(layer=0, kind="key", head=0, bits=8.0, side=0.25, member=0, along=None) -> StreamStats:
    """A stream whose values take ``bits``, ``side`` of them beside what its course holds."""
    along = along or course([bits - side] * 8)
    values = int(along.values.sum())
    events = {what: int(along.events.get(what, np.zeros(1, int)).sum()) for what in EVENTS}
    resets = events.pop("resets")
    spent = {"symbols": bits - side, "side": side}
    entropy = {"sign": 1.0, "exponent": 2.5, "mantissa": 7.0}
    sizes = (values, 16 * values, bits * values)
    return StreamStats(
        member, layer, layer, kind, head, "BF16", *sizes, entropy, spent, events, 3, resets, 5, course=along
    )


def stats(streams=None, name="made.safetensors", layers=3, heads=2, **more) -> Stats:
    """A file of these streams, or of keys and values of so many layers and heads; all of them differ."""
    if streams is None:
        streams = [
            stream(layer, kind, head, 6 + layer + 0.1 * head + 0.5 * (kind == "value"))
            for layer in range(layers)
            for kind in ("key", "value")
            for head in range(heads)
        ]
    return Stats(name, 100_000, 60_000, 3, {"alpha": 1.0}, 0.5, False, 1, streams, **more)
