"""Break-even bandwidths: the choice is the true minimum at every bandwidth, and bounds are where two are equal."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzip.bench.breakeven import DIRECTIONS, RAW, Choice, fastest, pays_below, seconds

RATES = st.floats(1e5, 1e11)
CHOICES = st.lists(st.tuples(st.floats(0.5, 20), RATES, RATES), max_size=12).map(
    lambda rows: [Choice(f"c{at}", *row) for at, row in enumerate(rows)]
)
WAYS = [(direction, overlap) for direction in DIRECTIONS for overlap in (False, True)]
GRID = [10 ** (exponent / 8) for exponent in range(8 * 2, 8 * 13)]


@pytest.mark.parametrize(("direction", "overlap"), WAYS)
@given(choices=CHOICES)
def test_the_choice_is_the_minimum(direction, overlap, choices):
    by_name = {each.name: each for each in (*choices, RAW)}
    bands = fastest(choices, direction, overlap)
    for bandwidth in [*GRID, *(band.low * 1.001 for band in bands[1:]), *(band.high * 0.999 for band in bands[:-1])]:
        (band,) = [each for each in bands if each.low <= bandwidth < each.high]
        least = min(seconds(each, direction, overlap, bandwidth) for each in by_name.values())
        assert seconds(by_name[band.name], direction, overlap, bandwidth) <= least * (1 + 1e-9)


@pytest.mark.parametrize(("direction", "overlap"), WAYS)
@given(choices=CHOICES)
def test_bands_cover_every_bandwidth_once(direction, overlap, choices):
    bands = fastest(choices, direction, overlap)
    assert bands[0].low == 0
    assert bands[-1].high == math.inf
    assert bands[-1].name == "raw"
    assert all(before.high == after.low and before.low < before.high for before, after in pairwise(bands))
    assert len({band.name for band in bands}) == len(bands)


@pytest.mark.parametrize(("direction", "overlap"), WAYS)
@given(ratio=st.floats(1.01, 20), into=RATES, out=RATES)
def test_pays_below_and_not_above(direction, overlap, ratio, into, out):
    choice = Choice("c", ratio, into, out)
    bound = pays_below(choice, direction, overlap)
    for factor, pays in ((0.99, True), (1.01, False)):
        raw = seconds(RAW, direction, overlap, bound * factor)
        assert (seconds(choice, direction, overlap, bound * factor) < raw) is pays


@pytest.mark.parametrize(("direction", "overlap"), WAYS)
@given(ratio=st.floats(0.5, 1.0), into=RATES, out=RATES)
def test_what_does_not_shrink_never_pays(direction, overlap, ratio, into, out):
    choice = Choice("c", ratio, into, out)
    assert pays_below(choice, direction, overlap) == 0
    assert [band.name for band in fastest([choice], direction, overlap)] == ["raw"]


def test_by_hand():
    """Half the size at 100 in and 200 out: where it overlaps, it pays as long as it keeps up."""
    half = Choice("half", 2.0, 100.0, 200.0)
    found = {way: pays_below(half, *way) for way in WAYS}
    assert found == pytest.approx(
        {
            ("write", True): 100,
            ("read", True): 200,
            ("send", True): 100,
            ("write", False): 50,  # 1/100 + 1/(2 * 50) = 1/50
            ("read", False): 100,
            ("send", False): 100 / 3,
        }
    )
    small = Choice("small", 4.0, 10.0, 10.0)
    bounds = [(band.name, band.high) for band in fastest([half, small], "write", overlap=True)]
    assert bounds == [("small", pytest.approx(10 / 2)), ("half", pytest.approx(100)), ("raw", math.inf)]
