"""Records rewritten with checks that fit: whatever they say, there is an answer or an error of one line, soon."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import made
import numpy as np
import pytest
from apart import put_together, take_apart

import kvzip
from kvzip.container import records
from kvzip.container.shared import rope_payload, tokens_payload
from kvzip.container.structures import Index
from kvzip.container.unit import Unit
from kvzip.predict.rope import Rope, from_spec

SOON = 5.0  # seconds


def base(level):
    """A container with everything in it: rope, tokens, two layers, opaque bytes."""
    tensors = made.tensors(range(2), tokens=48, heads=1, channels=32)
    return kvzip.compress(made.dump([*tensors, ("ids", "I32", (9,), bytes(36))]), level=level, threads=1)


LEVELS = (3, 4, 9)
PARTS = made.Lazy(lambda level: take_apart(base(level)))


def verdict(blob):
    """What both readers make of a container: "" or the error's class; anything but a KvzipError comes through."""
    found = []
    for read in (lambda: kvzip.decompress(blob, threads=1), lambda: every_tensor(blob)):
        began = time.perf_counter()
        try:
            read()
            found.append("")
        except kvzip.KvzipError as error:
            found.append(type(error).__name__ + "\n" * str(error).count("\n"))
        assert time.perf_counter() - began < SOON
    assert "\n" not in "".join(found)
    return found


def every_tensor(blob):
    with kvzip.open(io.BytesIO(blob), threads=1) as reader:
        for name in reader.names():
            reader.tensor(name)


def first(parts, kind):
    return next(i for i, (found, _) in enumerate(parts) if found == kind)


@pytest.mark.parametrize("level", LEVELS)
def test_the_building_is_sound(level):
    blob = put_together(PARTS[level])
    assert take_apart(blob) == PARTS[level]
    assert verdict(blob) == ["", ""]


def mutated(payload, source):
    """One small change near the front, or anywhere."""
    out = bytearray(payload)
    at = int(source.integers(0, min(len(out), source.choice([10, 40, 400, 1 << 20]))))
    what = source.integers(0, 4)
    if what == 0:
        out[at] = source.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, source.integers(0, 256)])
    elif what == 1:
        out[at] ^= 1 << int(source.integers(0, 8))
    elif what == 2:
        del out[at : at + int(source.integers(1, 9))]
    else:
        out[at:at] = source.bytes(int(source.integers(1, 9)))
    return bytes(out)


@pytest.mark.parametrize("kind", [records.SHARED, records.UNIT, records.BLOCK, records.INDEX], ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_mutated_records_are_refused_or_decoded(level, kind):
    parts = PARTS[level]
    places = [i for i, (found, _) in enumerate(parts) if found == kind]
    if not places:
        assert kind == records.UNIT
        return
    source = np.random.default_rng(level * 10 + kind)
    for _ in range(60):
        changed = list(parts)
        at = int(source.choice(places))
        changed[at] = (kind, mutated(parts[at][1], source))
        try:
            verdict(put_together(changed, reindex=False))
        except Exception as error:
            raise AssertionError(f"record {at}: {changed[at][1][:80].hex()}") from error


@pytest.mark.parametrize("level", LEVELS)
def test_records_in_any_order_are_refused_or_decoded(level):
    source = np.random.default_rng(level)
    for _ in range(40):
        parts = list(PARTS[level])
        for _ in range(int(source.integers(1, 3))):
            i, j = source.integers(1, len(parts) - 1, 2)
            what = source.integers(0, 3)
            if what == 0:
                parts[i], parts[j] = parts[j], parts[i]
            elif what == 1:
                parts.insert(int(i), parts[j])
            elif len(parts) > 4:
                del parts[i]
        verdict(put_together(parts))


UNIT_FIELDS = [
    {"first": 1}, {"first": 1 << 20}, {"count": 3}, {"count": 16}, {"rope": 2}, {"rope": 1 << 20}, {"tokens": 2},
    {"step": 1}, {"step": 47}, {"step": 1 << 16}, {"bases": (1,)}, {"bases": (2,)}, {"bases": (1, 1, 1, 1)},
    {"keep": 0}, {"rope": 0}, {"tokens": 0},
]  # fmt: skip


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("fields", UNIT_FIELDS, ids=str)
def test_units_that_say_something_else(fields, number):
    """What cannot be is refused, what can be fails the checks of its values; never anything but an error."""
    parts = list(PARTS[9])
    at = [i for i, (kind, _) in enumerate(parts) if kind == records.UNIT][number]
    unit = Unit.from_bytes(memoryview(parts[at][1]), "")
    if all(getattr(unit, name) == value for name, value in fields.items()):
        return
    parts[at] = (records.UNIT, replace(unit, **fields).to_bytes())
    found = verdict(put_together(parts, reindex=False))
    same = fields.get("step", 0) > 47 or (number == 1 and "keep" in fields)
    assert same or found[0] == "ContainerError"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "payload",
    [
        rope_payload(Rope.of([], [])),
        rope_payload(from_spec("half:theta=1e4", 34)),
        rope_payload(from_spec("interleaved:theta=1e4", 4096)),
        tokens_payload(np.zeros(48, np.int32)),
        tokens_payload(np.zeros(47, np.int32)),
        tokens_payload(np.zeros(0, np.int32)),
    ],
    ids=["no pairs", "wider", "far wider", "one token", "fewer", "none"],
)
def test_shared_records_that_hold_something_else(level, payload):
    parts = list(PARTS[level])
    for i, (kind, there) in enumerate(parts):
        if kind == records.SHARED and there[0] == payload[0]:
            parts[i] = (kind, payload)
    assert verdict(put_together(parts)) == ["ContainerError"] * 2


def test_an_unknown_shared_record_needs_a_newer_kvzip():
    parts = list(PARTS[3])
    parts[first(parts, records.SHARED)] = (records.SHARED, b"\x09")
    assert verdict(put_together(parts)) == ["UnsupportedError"] * 2


@pytest.mark.parametrize("change", ["units", "shared", "extents", "nothing"])
def test_an_index_that_misleads_is_refused(change):
    parts = PARTS[9]
    index = Index.from_bytes(memoryview(parts[-1][1]), "")
    at, extents = index.members[0]
    wrong = {
        "units": Index(index.members, index.shared, index.units[1:], index.digest),
        "shared": Index(index.members, [at], index.units, index.digest),
        "extents": Index([(at, [index.units[1]] * len(extents))], index.shared, index.units, index.digest),
        "nothing": Index([(at, extents)], [], [], index.digest),
    }[change]
    blob = put_together([*parts[:-1], (records.INDEX, wrong.to_bytes())], reindex=False)
    assert verdict(blob) == ["ContainerError"] * 2
