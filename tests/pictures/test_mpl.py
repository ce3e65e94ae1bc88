"""matplotlib's pictures: of the right kind, well-formed, the same each time, and indifferent to names."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from kvzip.blocks.course import EVENTS
from kvzip.pictures.formats import drawn

from .made import HOSTILE, course, stats, stream

pytest.importorskip("matplotlib")


def test_svg_says_what_it_shows():
    data = drawn([stats()], "svg")
    root = ElementTree.fromstring(data)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = {"".join(own.itertext()).strip() for own in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"made.safetensors", "Bits by layer and head", "Bits along the tokens", "keys: spent", "layer"} <= words
    assert drawn([stats()], "svg") == data


def test_png_is_one():
    assert drawn([stats()], "png").startswith(b"\x89PNG\r\n\x1a\n")


def test_hostile_names_are_text():
    root = ElementTree.fromstring(drawn([stats(name=HOSTILE, draft=HOSTILE)], "svg"))
    assert not [own for own in root.iter() if own.tag.endswith("script")]
    assert any("$x^2$" in (own.text or "") for own in root.iter())


@pytest.mark.parametrize("streams", [[], [stream(-1, "")], [stream()], [stream(head=70), stream(90, "value")]])
def test_of_little_and_of_much(streams):
    ElementTree.fromstring(drawn([stats(streams)], "svg"))


def test_everything_that_may_happen():
    events = {what: np.array([0, 1, 7, 0]) for what in EVENTS}
    data = drawn([stats([stream(along=course([5, 6, 7, 8], events=events))])], "svg")
    assert b"drift resets: keys 8" in data
