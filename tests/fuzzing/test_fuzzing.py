"""A short seeded run of what ``run.py`` does for hours; what fails says by which seed and case it is made again."""

from __future__ import annotations

import os
from random import Random

import pytest
from apart import put_together

import kvzip
from fuzzing import judge as judging
from fuzzing import seeds as seeding
from fuzzing.judge import Claims, Verdict, judge
from fuzzing.mutate import mutate, split
from kvzip.container import records

SEED = os.environ.get("KVZIP_FUZZ_SEED", "1")  # of the cases; another one makes other cases
CASES, TRACED = 600, 40
LOTS = 12


@pytest.fixture(scope="module")
def seeds():
    return seeding.made(fixtures=False)


@pytest.fixture(scope="module")
def bases(seeds):
    """What is mutated, in one order."""
    return [seeds.blobs[name] for name in sorted(seeds.blobs)]


def run(seeds, bases, case, tmp_path, **how):
    """Judge one case; a find is kept and named."""
    source = Random(f"{SEED}-{case}")
    blob = mutate(source.choice(bases), bases, source)
    try:
        return judge(blob, seeds.known, seeds.needs, **how)
    except Verdict as verdict:
        path = tmp_path / f"find-{SEED}-{case}"
        path.write_bytes(blob)
        pytest.fail(f"seed {SEED}, case {case}: {verdict}; again: python tests/fuzzing/run.py {path}")


def test_whole_seeds_are_read_by_everything(seeds):
    for name, blob in seeds.blobs.items():
        assert set(judge(blob, seeds.known, seeds.needs, measured=False).values()) == {""}, name


@pytest.mark.parametrize("lot", range(LOTS))
def test_mutated_containers_are_refused_or_right(seeds, bases, lot, tmp_path):
    for case in range(lot, CASES, LOTS):
        run(seeds, bases, case, tmp_path, measured=False)


def test_they_take_no_more_memory_than_they_have_earned(seeds, bases, tmp_path):
    for case in range(CASES, CASES + TRACED):
        run(seeds, bases, case, tmp_path)


def test_garbage_that_passes_for_right_does_no_harm(seeds, bases, tmp_path, monkeypatch):
    """Without the checks of values, blocks go on from garbage."""
    for module in ("decode_extent", "decode_unit"):
        monkeypatch.setattr(f"kvzip.pipeline.{module}.require_check", lambda values, head, where: None)
    for case in range(CASES, CASES + 150):
        run(seeds, bases, case, tmp_path, measured=False, right=False)


def test_mutations_come_far(seeds, bases):
    """They are known by their seed, most pass the checks of records, and many come as far as to a block's values."""
    found = []
    for case in range(200):
        blob = mutate(bases[case % len(bases)], bases, Random(f"far-{case}"))
        assert blob == mutate(bases[case % len(bases)], bases, Random(f"far-{case}"))
        try:
            kvzip.stats(blob, threads=1, draft=seeds.needs.draft)
            found.append("")
        except kvzip.KvzipError as error:
            found.append(str(error))
    unread = [line for line in found if ("fails its check" in line and "record" in line) or "cut short" in line]
    assert len(unread) < len(found) / 4
    assert sum("block" in line for line in found) > len(found) / 6


def test_containers_are_split_and_put_together(seeds):
    for name, blob in seeds.blobs.items():
        assert put_together(split(blob)) == blob, name


class TestTheJudge:
    """It notices what must not be."""

    def judged(self, seeds, **how):
        return judge(seeds.blobs["level-3"], how.pop("known", seeds.known), seeds.needs, measured=False, **how)

    @pytest.mark.parametrize("error", [ValueError("x"), IndexError("x"), MemoryError(), RecursionError("x")])
    def test_other_exceptions(self, seeds, monkeypatch, error):
        def broken(*args, **options):
            raise error

        monkeypatch.setattr(kvzip, "stats", broken)
        with pytest.raises(Verdict, match=type(error).__name__):
            self.judged(seeds)

    @pytest.mark.parametrize("line", ["", "two\nlines", "\x1b[31mred"])
    def test_errors_that_are_no_line(self, seeds, monkeypatch, line):
        def refuse(*args, **options):
            raise kvzip.ContainerError(line)

        monkeypatch.setattr(judging, "listings", refuse)
        with pytest.raises(Verdict, match="no line"):
            self.judged(seeds)

    def test_another_output(self, seeds):
        with pytest.raises(Verdict, match="not what was compressed"):
            self.judged(seeds, known=dict.fromkeys(seeds.known, "0" * 64))

    def test_output_that_has_not_the_digest(self, seeds, monkeypatch):
        monkeypatch.setattr(judging, "_restored", lambda *args: {"": b"other"})
        monkeypatch.setattr(judging, "_require_nothing_beside", lambda *args, **more: None)
        with pytest.raises(Verdict, match="was accepted"):
            self.judged(seeds)

    def test_tensors_of_other_data(self, seeds, monkeypatch):
        monkeypatch.setattr(judging, "_opened", lambda *args: [("", 0, 4, b"none")])
        with pytest.raises(Verdict, match="tensor"):
            self.judged(seeds)

    def test_readers_that_disagree(self, seeds, monkeypatch):
        def refuse(*args):
            raise kvzip.ContainerError("x")

        monkeypatch.setattr(judging, "check_container", refuse)
        with pytest.raises(Verdict, match="disagree"):
            self.judged(seeds)

    def test_something_beside_the_target(self, seeds, monkeypatch):
        monkeypatch.setattr(judging, "listings", lambda name: open(name + "2", "wb").close())
        with pytest.raises(Verdict, match=r"left \['in.kvz2'\]"):
            self.judged(seeds)

    def test_memory(self, seeds, monkeypatch):
        monkeypatch.setattr(judging, "listings", lambda name: bytes(100 << 20))
        with pytest.raises(Verdict, match="MiB were earned"):
            judge(seeds.blobs["nothing"], seeds.known, seeds.needs)

    def test_time(self, seeds, monkeypatch):
        monkeypatch.setattr(judging, "SECONDS", 0.0)
        monkeypatch.setattr(judging, "SPEED", 1 << 40)
        with pytest.raises(Verdict, match="s were earned"):
            self.judged(seeds)

    def test_what_is_only_said_earns_nothing(self, seeds):
        blob = seeds.blobs["level-3"]
        assert len(blob) < Claims.of(blob).earned < 8 * len(blob)
        parts = [part for part in split(blob) if part[0] != records.BLOCK]
        left = put_together(parts)
        assert Claims.of(left).earned < 2 * len(blob)
