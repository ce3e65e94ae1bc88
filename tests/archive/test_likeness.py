"""The most like is found: the same tokens by whatever kernels and weights, as far as they go."""

from __future__ import annotations

import pytest

from kvzip.archive.likeness import FEWEST, best_of, rows_of
from kvzip.pipeline.draft import open_draft

from .conftest import TOKENS, cache


def rows(data):
    with open_draft(data) as draft:
        return rows_of(draft)


@pytest.fixture(scope="module")
def known(caches):
    return {name.partition(".")[0]: rows(data) for name, data in caches.items()}


def test_the_same_tokens_are_alike_whatever_the_weights(known):
    for name in ("served", "rounded", "longer"):
        worth, tokens = known["whole"].likeness(known[name])
        assert tokens == TOKENS
        assert worth > TOKENS * 0.6
    assert known["whole"].likeness(known["longer"])[0] > known["whole"].likeness(known["rounded"])[0]


def test_as_far_as_they_go(known):
    assert known["whole"].likeness(known["prefix"])[1] == TOKENS // 2
    assert abs(known["whole"].likeness(known["sibling"])[1] - TOKENS // 2) <= 2


def test_other_tokens_are_not(known, prompts):
    assert known["whole"].likeness(known["stranger"]) == (0.0, 0)
    shifted = rows(cache(prompts[0][3 : 3 + TOKENS]))
    assert known["whole"].likeness(shifted) == (0.0, 0)
    few = rows(cache(prompts[0][: FEWEST - 1]))
    assert known["whole"].likeness(few) == (0.0, 0)


def test_the_best_is_the_nearest_with_the_fewest_steps(known):
    earlier = [(1, known["whole"]), (0, known["rounded"]), (0, known["whole"]), (0, known["stranger"])]
    assert best_of(known["longer"], earlier) == (2, 0)
    assert best_of(known["stranger"], earlier[:3]) is None
    place, tokens = best_of(known["sibling"], earlier[2:])
    assert place in (0, 1)
    assert abs(tokens - TOKENS // 2) <= 2 or place == 1


def test_caches_of_other_shapes_are_not_compared(known):
    from kvzip.archive.likeness import Rows

    narrow = Rows(known["whole"].exact, known["whole"].rough[:, :2])
    assert known["whole"].likeness(narrow) == (0.0, 0)
