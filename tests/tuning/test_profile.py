"""Profiles: what is written is read back, and what is wrong is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvzip
from kvzip.tuning.grid import LADDERS
from kvzip.tuning.profile import KEYS, TEXTS, WHOLES, profile_text, read_profile
from kvzip.windows.parameters import BY_NAME

try:
    import tomllib
except ImportError:
    import tomli as tomllib


def value_of(name: str):
    if name == "level":
        return st.integers(1, 9)
    if name in TEXTS:
        texts = {"preset": ["classic"], "layout": ["vllm", "vllm:head_dim=64", "opaque"]}
        return st.sampled_from(texts.get(name, ["none", "auto", "half:theta=1e5", "interleaved:theta=1e4,dim=64"]))
    if name == "classes":
        return st.sampled_from([1, 2, 4, 8, 16])
    setting = BY_NAME[name.replace("-", "_")]
    if name in WHOLES:
        return st.integers(int(setting.low), int(setting.high))
    return st.floats(setting.low, setting.high, allow_nan=False)


SETTINGS = st.fixed_dictionaries({}, optional={name.replace("-", "_"): value_of(name) for name in KEYS})
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
MEASURED = st.dictionaries(
    st.from_regex("[a-z][a-z-]{0,9}", fullmatch=True),
    st.one_of(TEXT, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.booleans(), st.lists(TEXT)),
)


@given(SETTINGS, MEASURED, st.lists(st.text()))
def test_what_is_written_is_read_back(settings, measured, comments):
    text = profile_text(settings, measured, comments)
    data = text.encode()
    assert read_profile(data) == settings
    assert tomllib.loads(text)["measured"] == measured


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("level = 3", ["'level'", "below [compress]"]),
        ("[compres]\nlevel = 3", ["compres", "did you mean compress?"]),
        ("[compress]\nlevle = 3", ["levle", "did you mean level?"]),
        ("[compress]\nn_update = 3", ["n_update", "did you mean n-update?"]),
        ("[compress]\nthreads = 3", ["threads", "known are level"]),
        ("[compress]\nlevel = '3'", ["level", "whole number"]),
        ("[compress]\nlevel = true", ["level", "whole number"]),
        ("[compress]\nlevel = 3.0", ["level", "whole number"]),
        ("[compress]\nlevel = 0", ["--level 0", "1 to 9"]),
        ("[compress]\nalpha = nan", ["alpha", "a number"]),
        ("[compress]\nalpha = 3", ["--alpha 3", "0.5 to 1"]),
        ("[compress]\nalpha = [1]", ["alpha", "a number"]),
        ("[compress]\nrope = 3", ["rope", "text"]),
        ("[compress]\nrope = 'x'", ["unknown rope"]),
        ("[compress]\nlayout = 'x'", ["unknown layout"]),
        ("[compress]\npreset = 'x'", ["--preset x"]),
        ("[compress]\nclasses = 3", ["--classes 3"]),
        ("[compress]\nn-update = 1" + "0" * 400, ["n-update"]),
        ("compress = 3", ["no table"]),
        ("[compress\nlevel = 3", ["no profile", "line 1"]),
        ("\0", ["no profile"]),
        ("a = " + "[" * 100_000, ["no profile"]),
        ("#" * (1 << 20) + "#", ["too large"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, text, words):
    path = tmp_path / "our.toml"
    path.write_text(text)
    with pytest.raises(kvzip.OptionError) as raised:
        read_profile(path)
    said = str(raised.value)
    assert "\n" not in said
    assert "our.toml" in said
    assert all(word in said for word in words), said


def test_what_is_no_profile_at_all(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    for name, word in (("a.toml", "no text"), ("b.toml", "did you mean"), (".", "folder")):
        with pytest.raises(kvzip.OptionError, match=word):
            kvzip.read_profile(tmp_path / name)


def test_an_empty_profile_changes_nothing():
    assert read_profile(b"") == {} == read_profile(b"[compress]\n[measured]\nlevel = 99\n")


def test_only_options_can_be_written():
    with pytest.raises(kvzip.OptionError, match="threads"):
        profile_text({"threads": 2}, {}, [])


def test_python_takes_it():
    dump = b"\x02\0\0\0\0\0\0\0{}"
    options = read_profile(b"[compress]\nlevel = 2\nn-update = 64\nrope = 'none'\n")
    assert kvzip.decompress(kvzip.compress(dump, **options)) == dump
    assert kvzip.stats(dump, **options).parameters["n_update"] == 64


def test_it_knows_every_option_of_the_estimator():
    own = {name.replace("-", "_") for name in KEYS} - {"level", *TEXTS}
    assert own == {name for name in BY_NAME if name not in ("drift_keep", "sampling", "table_bits")} == set(LADDERS)
