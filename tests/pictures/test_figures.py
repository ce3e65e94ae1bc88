"""What pictures show is what the statistics say: grids, series, bars, and the ranges of their axes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvzip
from kvzip.pictures import colours
from kvzip.pictures.figures import Pictures, colour_range
from kvzip.pictures.ticks import every, ticks

from .made import course, stats, stream

REAL = Path(__file__).resolve().parents[2] / "fixtures" / "real" / "prose_bf16.safetensors"
ALL = ["heads", "channels", "channels-by-layer", "tokens", "parts"]


def figure(found, name):
    return next(own for own in Pictures.of(found).figures if own.id == name)


def test_a_cell_is_what_its_stream_takes():
    maps = figure(stats(layers=3, heads=2), "heads")
    assert [grid.name for grid in maps.grids] == ["keys", "values"]
    assert maps.grids[0].rows == ("0", "1", "2")
    assert maps.grids[1].cells == pytest.approx(np.array([[6.5, 6.6], [7.5, 7.6], [8.5, 8.6]]))


def test_rows_of_both_kinds_are_the_same_layers():
    maps = figure(stats([stream(0, "key"), stream(3, "value", bits=9)]), "heads")
    keys, values = maps.grids
    assert keys.rows == values.rows == ("0", "3")
    assert np.isnan(keys.cells[1, 0])
    assert np.isnan(values.cells[0, 0])
    assert values.cells[1, 0] == 9


def test_parts_of_a_stream_in_several_files_are_one_cell():
    streams = [stream(bits=6, member=0), stream(bits=9, member=1, along=course([8.75] * 4))]
    assert figure(stats(streams), "heads").grids[0].cells.tolist() == [[pytest.approx(7.0)]]


def test_channels_and_tokens_average_to_what_all_values_take():
    found = stats()
    for kind, totals in found.kinds.items():
        expected = totals.bits_per_value - totals.spent["side"]
        by_channel = next(own for own in figure(found, "channels").series if own.kind == kind)
        along = next(own for own in figure(found, "tokens").series if own.kind == kind)
        assert by_channel.bits.mean() == pytest.approx(expected)
        assert np.average(along.bits, weights=np.diff(along.edges)) == pytest.approx(expected)
        grid = next(own for own in figure(found, "channels-by-layer").grids if own.kind == kind)
        assert grid.cells.mean() == pytest.approx(expected)


def test_a_channel_that_costs_more_is_seen():
    found = stats([stream(along=course([8.0] * 3, share=[0.7, 0.1, 0.1, 0.1]))])
    assert figure(found, "channels").series[0].bits == pytest.approx([22.4, 3.2, 3.2, 3.2])


def test_bins_of_different_widths_meet_in_the_widest():
    narrow, wide = course([1, 3, 5, 7], step=2), course([10, 20], step=4)
    series = figure(stats([stream(head=0, along=narrow), stream(head=1, along=wide)]), "tokens").series[0]
    assert series.edges.tolist() == [0, 4, 8]
    assert series.bits == pytest.approx([(2 + 10) / 2, (6 + 20) / 2])


def test_the_last_bin_may_be_short():
    series = figure(stats([stream(along=course([4, 8], step=4, last=1))]), "tokens").series[0]
    assert series.edges.tolist() == [0, 4, 5]
    assert series.bits == pytest.approx([4, 8])


def test_what_happened_is_marked_where_it_did():
    events = {"periodic": np.array([0, 1, 0]), "resets": np.array([0, 0, 2]), "novelty": np.zeros(3, int)}
    marks = figure(stats([stream(along=course([5, 5, 5], events=events))]), "tokens").marks
    assert {own.what: own.counts.tolist() for own in marks} == {"periodic": [0, 1, 0], "resets": [0, 0, 2]}


def test_bars_are_totals():
    found = stats()
    bars = {(bar.kind, bar.what): bar for bar in figure(found, "parts").bars}
    for kind, totals in found.kinds.items():
        assert dict(bars[kind, "order-0 entropy"].parts) == totals.entropy
        assert bars[kind, "spent"].total == pytest.approx(totals.bits_per_value)
        assert list(dict(bars[kind, "spent"].parts))[-1] == "side"
    assert figure(found, "parts").longest == 16


def test_what_is_not_there_is_said():
    bare = stats([stream()])
    bare.streams[0].course = None
    pictures = Pictures.of(bare)
    assert [own.id for own in pictures.figures] == ["heads", "parts"]
    assert "not measured" in pictures.notes[0]
    unknown = Pictures.of(stats([stream(layer=-1, kind="")]))
    assert [own.id for own in unknown.figures] == ["parts"]
    assert "No layout" in unknown.notes[0]
    assert Pictures.of(stats([])).figures == []


def test_of_a_real_dump():
    found = kvzip.stats(REAL)
    pictures = Pictures.of(found)
    assert [own.id for own in pictures.figures] == ALL
    assert not pictures.notes
    grids = figure(found, "heads").grids
    assert [grid.cells.shape for grid in grids] == [(4, 3), (4, 3)]
    assert [grid.cells.shape for grid in figure(found, "channels-by-layer").grids] == [(4, 64), (4, 64)]
    for row, layer in enumerate((0, 7, 15, 29)):
        assert grids[0].cells[row].mean() == pytest.approx(found.layers[layer, "key"].bits_per_value)


def test_one_cheap_layer_does_not_take_the_colours_of_all_others():
    cells = np.full((30, 3), 10.0) + np.arange(90).reshape(30, 3) / 100
    cells[0] = 3.3
    low, high = colour_range(cells)
    assert low > 9
    assert high == cells.max()


@given(st.lists(st.floats(0, 100), max_size=20), st.integers(0, 3))
def test_colours_have_a_range_whatever_there_is(bits, missing):
    low, high = colour_range(np.array([*bits, *[np.nan] * missing]))
    assert np.isfinite([low, high]).all()
    assert low < high


@given(st.floats(-1000, 1000), st.floats(1e-6, 1e6), st.integers(2, 10))
def test_ticks_are_within_and_not_too_many(low, span, most):
    found = ticks(low, low + span, most)
    assert len(found) <= most
    assert all(low - span * 1e-6 - 1e-9 <= mark <= low + span * (1 + 1e-6) + 1e-9 for mark in found)


@given(st.integers(1, 5000), st.integers(1, 40))
def test_every_leaves_out_evenly(count, most):
    assert 1 <= len(every(count, most)) <= most


def test_the_scale_of_colours_grows_lighter():
    light = [
        sum(w * c for w, c in zip((0.21, 0.72, 0.07), colours.rgb(own), strict=True)) for own in colours.scale(96)
    ]
    assert all(a < b + 0.5 for a, b in pairwise(light))
    assert light[-1] - light[0] > 180
