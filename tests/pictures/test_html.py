"""The report: well-formed, whole, accessible, of bounded size, and without a way in for a name."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from kvzip.blocks.course import EVENTS
from kvzip.pictures.figures import Pictures
from kvzip.pictures.formats import drawn
from kvzip.pictures.html import report

from .made import HOSTILE, course, stats, stream

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "br", "img"}


class Outline(HTMLParser):
    """Elements in order, and that each is closed where it must be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def page(*found) -> str:
    return report([Pictures.of(own) for own in found or [stats()]])


def charts(text: str) -> list[ElementTree.Element]:
    """Every svg that stands in the page, parsed as XML."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"<svg\b|</svg>", text):
        start = match.start() if depth == 0 else start
        depth += 1 if match[0] == "<svg" else -1
        if depth == 0:
            found.append(
                ElementTree.fromstring(text[start : match.end()].replace("<svg viewBox", '<svg x="" viewBox'))
            )
    return found


def test_it_is_well_formed():
    text = page()
    outline = Outline(text)
    ids = [attrs["id"] for _, attrs in outline.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    drawings = [own for own in charts(text) if own.get("role") == "img"]
    assert len(drawings) == 2 + 1 + 1 + 2 + 1 + 1 + 1  # two of them with a scale of colours
    for own in drawings:
        named = own.get("aria-labelledby").split()
        assert {child.get("id") for child in own[:2]} == set(named)
        assert all(child.text for child in own[:2])


def test_every_reference_within_the_page_leads_somewhere():
    elements = Outline(page(stats(), stats(name="b"))).elements
    ids = {attrs["id"] for _, attrs in elements if "id" in attrs}
    wanted = {attrs["data-table"] for _, attrs in elements if "data-table" in attrs}
    wanted |= {attrs["href"][1:] for tag, attrs in elements if tag == "a"}
    assert wanted
    assert wanted <= ids


def test_numbers_are_in_tables():
    words = Outline(page(stats(layers=3, heads=2))).words
    for bits in ("6.000", "8.600", "100,000 bytes", "60,000 bytes", "1.6667x"):
        assert bits in words


def test_cells_are_drawn_once_each():
    text = page(stats(layers=5, heads=3))
    grid = next(own for own in charts(text) if own.get("data-shape") == "grid")
    drawn_cells = "".join(path.get("d") for path in grid.iter(f"{SVG}path"))
    assert sum(int(wide) for wide in re.findall(r"h(\d+)v1", drawn_cells)) == 5 * 3


@pytest.mark.parametrize("place", ["name", "draft", "kind"])
def test_no_name_gets_out_of_its_place(place):
    plain, hostile = stats(), stats()
    for own, words in ((plain, "key" if place == "kind" else "x"), (hostile, HOSTILE)):
        if place == "kind":
            for each in own.streams[:2]:
                each.kind = words
        else:
            setattr(own, place, words)
    text = page(hostile)
    text.encode()
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\u202e]", text)
    outline, expected = Outline(text), Outline(page(plain))
    unwanted = {(tag, name) for tag, attrs in outline.elements for name in attrs if name.startswith("on")}
    assert not unwanted
    assert [tag for tag, _ in outline.elements if tag in ("script", "img", "style")] == ["style", "script"]
    if place != "kind":  # its streams then sort elsewhere
        assert [tag for tag, _ in outline.elements] == [tag for tag, _ in expected.elements]
    assert any("alert(1)" in words for words in outline.words)
    charts(text)


def test_it_needs_nothing_from_elsewhere_and_says_so():
    text = page()
    elements = Outline(text).elements
    assert not re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    assert not {(tag, name) for tag, attrs in elements for name in attrs if name in ("src", "style")}
    assert [attrs["href"] for tag, attrs in elements if tag == "link"] == ["data:,"]
    policy = next(attrs["content"] for tag, attrs in elements if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_several_files_have_a_section_each():
    outline = Outline(page(stats(name="one"), stats(name="two")))
    assert [attrs["href"] for tag, attrs in outline.elements if tag == "a"] == ["#file-0", "#file-1"]
    assert sum(tag == "section" for tag, _ in outline.elements) == 2


def test_a_large_cache_stays_below_a_megabyte():
    random = np.random.default_rng(0)
    streams = []
    for layer in range(32):
        for kind in ("key", "value"):
            for head in range(8):
                events = {what: random.integers(0, 2, 256) for what in EVENTS}
                share = random.random(128)
                along = course(8 + random.random(256), 128, 8, events=events, share=share / share.sum())
                streams.append(stream(layer, kind, head, 8 + random.random(), along=along))
    assert len(drawn([stats(streams)], "html")) < 1_000_000


@pytest.mark.parametrize("streams", [[], [stream(-1, "")], [stream()], [stream(5, "latent", bits=0.01, side=0)]])
def test_of_little(streams):
    Outline(page(stats(streams)))
    charts(page(stats(streams)))
