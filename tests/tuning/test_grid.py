"""The values that are tried, and settings in their shortest form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzip.pipeline.options import Options
from kvzip.predict.rope import Rope, from_spec
from kvzip.tuning.grid import LADDERS, ORDER, PRESET, PROBE, candidates, default_of, laid_over, spec_of
from kvzip.windows.parameters import LEVELS, PRESETS, parameters_for

ROPES = ("half:theta=1e5", "interleaved:theta=1e4,dim=64")
SETTINGS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in LADDERS.items()} | {PRESET: st.just("classic")}
)


@pytest.mark.parametrize("level", LEVELS)
def test_every_value_may_be_given_and_the_default_is_tried(level):
    for name in ORDER:
        tried = candidates(level, name, {}, ROPES)
        assert default_of(level, name) in [one.label for one in tried]
        assert len({one.label for one in tried}) == len(tried)
        plain = [one for one in tried if not laid_over(level, {}, one.changes)]
        assert [one.label for one in plain] == [default_of(level, name)]
        for one in tried:
            Options.make(level, **laid_over(level, {}, one.changes))


@given(st.sampled_from(list(LEVELS)), SETTINGS, SETTINGS)
def test_the_shortest_form_means_the_same(level, settings, changes):
    short = laid_over(level, settings, list(changes.items()))
    both = settings | changes
    assert parameters_for(level, **short) == parameters_for(level, **both)
    assert laid_over(level, short, []) == short
    for name in short:
        fewer = {other: value for other, value in short.items() if other != name}
        assert parameters_for(level, **fewer) != parameters_for(level, **short), name


@given(st.sampled_from(list(LEVELS)), SETTINGS)
def test_part_of_a_preset_leaves_what_holds(level, around):
    around = laid_over(level, around, [])
    part = next((one for one in candidates(level, PRESET, around, ()) if one.label.endswith("part")), None)
    if part is None:  # the preset sets nothing else here
        return
    before = parameters_for(level, **around).shown()
    after = parameters_for(level, **laid_over(level, around, part.changes)).shown()
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= set(PRESETS["classic"]) - set(LADDERS)


def test_the_probe_differs_from_every_level():
    for level in LEVELS:
        own = parameters_for(level)
        assert all(getattr(own.of(**PROBE), name) != getattr(own, name) for name in PROBE)


@pytest.mark.parametrize(
    "text",
    [
        "half:theta=10000,dim=64",
        "half:theta=100000,dim=128",
        "interleaved:theta=500000,dim=64,start=512",
        "half:theta=1000000,dim=32",
        "interleaved:theta=12345.678,dim=16",
    ],
)
def test_ropes_as_a_user_writes_them(text):
    assert spec_of(from_spec(text, 640)) == text


def test_ropes_that_cannot_be_written():
    assert spec_of(Rope((), (), (), ())) is None
    assert spec_of(Rope.of([(0, 1), (2, 3)], [1.0, 0.7])) is not None  # two angles are always powers of a theta
    assert spec_of(Rope.of([(0, 1), (2, 3), (4, 5)], [1.0, 0.7, 0.1])) is None
    assert spec_of(Rope.of([(0, 5), (2, 3)], [1.0, 0.5])) is None
    assert spec_of(from_spec("half:theta=500000,dim=64,scaling=llama3:8:1:4:8192", 64)) is None
