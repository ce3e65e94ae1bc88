"""Tuning: never worse than the defaults, whatever the data; and what it is told it keeps to."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvzip
from kvzip.tuning import measure, search
from kvzip.tuning import tune as module
from kvzip.tuning.measure import Pace
from kvzip.tuning.result import Best, Finding, LevelFigures, Trial

from .made import DUMPS, dump, noise, numbered

REAL = Path(__file__).resolve().parents[2] / "fixtures/real"


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    """Speeds that do not depend on the machine, and hardly any time spent on them."""
    monkeypatch.setattr(measure, "RUNS", 1)
    monkeypatch.setattr(measure, "KEPT_SPEED", 0.0)


@pytest.fixture
def few(monkeypatch):
    """A smaller grid."""
    monkeypatch.setattr(search.grid, "LADDERS", {"n_update": (64, 256), "alpha": (0.99, 1), "symbol_bits": (8, 11)})
    monkeypatch.setattr(search.grid, "ORDER", ("rope", "preset", "n_update", "alpha", "symbol_bits"))


def size(data: bytes, options) -> int:
    return len(kvzip.compress(data, **options))


@pytest.mark.parametrize("level", [1, 2, 3, 6])
@pytest.mark.parametrize("name", DUMPS)
def test_never_worse_than_the_level_s_defaults(name, level, few):
    data = DUMPS[name]
    found = kvzip.tune(data, levels=[level])
    assert found.level == level
    assert found.whole
    assert found.tuned_bytes == size(data, found.options) <= found.default_bytes == size(data, {"level": level})
    assert (found.tuned_bytes < found.default_bytes) == bool(found.settings)
    assert 0 <= found.gain < 1


@pytest.mark.parametrize("name", ["cache", "noise", "strange", "empty"])
def test_never_worse_than_all_defaults(name, few):
    data = DUMPS[name]
    found = kvzip.tune(data)
    assert found.tuned_bytes == size(data, found.options) <= size(data, {}) == found.plain_bytes


def _worse_at_the_end(real):
    def size(self, data, level, settings):
        small = sum(one.nbytes for one in data) < 900_000
        return real(self, data, level, {}) + (-1000 if small else 1000) * bool(settings)

    return size


def test_settings_that_do_not_hold_on_all_of_it_are_dropped(few, monkeypatch):
    monkeypatch.setattr(module, "QUICK_BYTES", 100_000)
    monkeypatch.setattr(module, "BROAD_BYTES", 200_000)
    monkeypatch.setattr(module.Bench, "size", _worse_at_the_end(module.Bench.size))
    found = kvzip.tune(dump([(f"layers.{i}.key", "BF16", numbered((1, 2, 1100, 32))) for i in range(9)]), levels=[1])
    assert found.sample_gain > 0
    assert found.settings == {}
    assert found.tuned_bytes == found.default_bytes


def test_huge_data_is_checked_in_part(few, monkeypatch):
    for name in ("CHECK_BYTES", "MOST_CHECKED", "BROAD_BYTES", "QUICK_BYTES"):
        monkeypatch.setattr(module, name, 200_000)
    data = dump([(f"layers.{i}.key", "BF16", numbered((1, 2, 1100, 32))) for i in range(9)])
    found = kvzip.tune(data, levels=[1])
    assert not found.whole
    assert found.digests == {}
    assert found.checked_bytes < found.total_bytes == len(data)
    assert found.tuned_bytes <= found.default_bytes


def test_the_same_twice(few):
    told = [[], []]
    found = [kvzip.tune(DUMPS["cache"], levels=[3], threads=n + 1, watch=told[n].append) for n in (0, 1)]
    assert found[0].options == found[1].options
    trials = [[event for event in events if isinstance(event, Trial)] for events in told]
    assert trials[0] == trials[1] != []


def test_it_finds_what_is_there_to_find():
    """At level 1 this dump is better off with more bits modelled: its mantissas are seldom large."""
    random = np.random.default_rng(2)
    bits = random.normal(size=(1, 2, 600, 64)).astype("<f4").view("<u4") >> 16
    large = random.random(bits.shape) < 0.05
    bits = np.where(large, bits, bits & 0xFF8F).astype("<u2")
    data = dump([(f"layers.{i}.key", "BF16", bits) for i in range(3)])
    found = kvzip.tune(data, levels=[1])
    assert found.gain > 0.05
    assert "symbol_bits" in found.settings


def test_what_is_told_on_the_way(few):
    events = []
    found = kvzip.tune(DUMPS["cache"], levels=[1, 3], watch=events.append)
    assert [e.level for e in events if isinstance(e, LevelFigures)] == [1, 3]
    assert [e for e in events if isinstance(e, Finding)] == found.findings
    assert {f.name for f in found.findings} == {"rope", "preset", "n_update", "alpha", "symbol_bits"}
    last = [e for e in events if isinstance(e, Best)][-1]
    assert {"level": last.level} | last.settings == found.options
    row = found.to_json()
    assert row["ratio"] == found.ratio
    assert row["settings"] == found.settings


def test_windows_are_left_alone_where_prediction_is_linear(few):
    found = kvzip.tune(DUMPS["cache"], levels=[6])
    assert [f.name for f in found.findings] == ["rope"]


def test_too_little_time_gives_the_defaults(few):
    found = kvzip.tune(DUMPS["cache"], levels=[1, 2, 3], seconds=1e-9)
    assert not found.complete
    assert found.settings == {}
    assert found.tuned_bytes == found.default_bytes == size(DUMPS["cache"], found.options)


def test_speeds_asked_for(few):
    with pytest.raises(
        kvzip.OptionError, match=r"no level reaches 9e\+09 MB/s both ways.* the fastest is level \d, .* MB/s in"
    ):
        kvzip.tune(DUMPS["cache"], levels=[1, 2, 3], min_speed=9e15)
    with pytest.raises(kvzip.OptionError, match="level 4 does not reach"):
        kvzip.tune(DUMPS["cache"], levels=[4], min_speed=9e15)
    found = kvzip.tune(DUMPS["cache"], levels=[1, 2], min_speed=1)
    assert all(one.fast_enough for one in found.levels)


def test_levels_above_one_that_is_too_slow_are_not_tried(few, monkeypatch):
    monkeypatch.setattr(module.Bench, "measured", lambda self, data, level: (100 - level, 1e9 / level, 1e9 / level))
    found = kvzip.tune(DUMPS["noise"], min_speed=1e9 / 3.5)
    assert [one.level for one in found.levels] == [1, 2, 3, 4]
    assert found.level == 3


@pytest.mark.parametrize(
    ("pace", "floor", "gain", "enough"),
    [
        (Pace(80, 80, 100, 100), None, 0.0, True),
        (Pace(70, 100, 100, 100), None, 0.5, False),
        (Pace(100, 70, 100, 100), None, 0.5, False),
        (Pace(80, 80, 100, 100), 79, 0.0, True),
        (Pace(80, 78, 100, 100), 79, 0.5, False),
        (Pace(50, 100, 100, 100), 40, 0.011, True),
        (Pace(50, 100, 100, 100), 40, 0.009, False),
        (Pace(150, 150, 100, 100), 0, 0.0, True),
    ],
)
def test_what_is_fast_enough(pace, floor, gain, enough, monkeypatch):
    monkeypatch.setattr(measure, "KEPT_SPEED", 0.75)
    assert pace.enough(floor, gain) is enough


def test_several_dumps_folders_and_files(few, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.safetensors").write_bytes(DUMPS["cache"])
    (tmp_path / "d/readme").write_bytes(b"hello")
    (tmp_path / "b.safetensors").write_bytes(DUMPS["fp8"])
    found = kvzip.tune([tmp_path / "d", str(tmp_path / "b.safetensors"), io.BytesIO(DUMPS["noise"])], levels=[1])
    assert found.total_bytes == len(DUMPS["cache"]) + 5 + len(DUMPS["fp8"]) + len(DUMPS["noise"])
    assert len(found.digests) == 3
    assert found.whole


def test_real_caches_are_never_worse(few):
    for name in ("prose_bf16", "chat_fp8", "prose_bf16_vllm"):
        path = REAL / name if (REAL / name).is_dir() else REAL / f"{name}.safetensors"
        found = kvzip.tune(path, levels=[3])
        assert found.tuned_bytes <= found.default_bytes
        assert found.level == 3


@pytest.mark.parametrize(
    "wrong",
    [{"levels": []}, {"levels": [0]}, {"levels": [3, 10]}, {"seconds": 0}, {"min_speed": -1}, {"threads": -1}],
)
def test_wrong_options(wrong):
    with pytest.raises(kvzip.OptionError):
        kvzip.tune(noise(), **wrong)


def test_no_dump():
    with pytest.raises(kvzip.DumpError):
        kvzip.tune(b"nothing of the kind")
    with pytest.raises(kvzip.DumpError):
        kvzip.tune("no/such/file")
    with pytest.raises(kvzip.DumpError):
        kvzip.tune(DUMPS["cache"][:-1])


def test_reading_a_profile_needs_no_kernels():
    code = (
        "import sys, kvzip\nkvzip.read_profile(b'[compress]\\nlevel = 3\\n')\n"
        "assert 'kvzip.tuning.tune' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
