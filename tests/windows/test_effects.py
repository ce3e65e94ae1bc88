"""Each parameter of the estimator changes what it should, seen in counters and sizes."""

from __future__ import annotations

import numpy as np
from test_loop import BF16, BYTES, bell, round_trip

from kvzip.windows import triggers

CHANNELS, TOKENS = 16, 400


def calm(seed=0):
    return bell(np.random.default_rng(seed), TOKENS * CHANNELS)


def broad():
    """A long run of many symbols."""
    return bell(np.random.default_rng(0), 5 * TOKENS * CHANNELS, 120, 12)


def topic_change():
    """The exponent falls by 12 in the middle."""
    rng = np.random.default_rng(7)
    half = TOKENS // 2 * CHANNELS
    return np.concatenate([bell(rng, half, 120), bell(rng, half, 108, 1.0)])


def run(symbols, **values):
    """Counters by name and the coded size."""
    encoder, coded = round_trip(symbols, [len(symbols) // CHANNELS], CHANNELS, **{"sampling": 0, **values})
    names = ("PERIODIC", "CONFIDENCE", "NOVELTY", "REBUILDS", "RESETS", "ESCAPES")
    return {name.lower(): int(encoder.states[0, getattr(triggers, name)]) for name in names} | {"size": coded.size}


def test_n_update_is_the_number_of_tokens_between_updates():
    """Updates after 1, 2, 3, 4, 6, 9, 13... tokens, the gap half of what was seen but at most n_update."""
    for n_update in (1, 10, 100):
        token, since, expected = 0, 0, 0
        for token in range(1, TOKENS + 1):
            since += 1
            if since >= min(n_update, max(1, token // 2)):
                expected, since = expected + 1, 0
        assert run(calm(), n_update=n_update)["periodic"] == expected


def test_warmup_holds_updates_back():
    free, held = run(calm(), n_update=10), run(calm(), n_update=10, warmup=300)
    assert held["periodic"] == 11  # at tokens 300, 310 ... 400
    assert held["periodic"] < free["periodic"]
    assert run(calm(), warmup=TOKENS + 1)["rebuilds"] == 4  # the first table of each class and no other


def test_theta_low_fires_when_rare_symbols_come():
    symbols = calm()
    assert run(symbols)["confidence"] == 0
    low = [run(symbols, theta_low=theta)["confidence"] for theta in (0.0005, 0.01, 0.1)]
    assert low == sorted(low)
    assert low[-1] > 100
    rare = symbols.copy()
    rare[200 * CHANNELS :: 10 * CHANNELS] = 60  # one strange symbol every ten tokens
    assert run(rare, theta_low=0.004)["confidence"] > run(symbols, theta_low=0.004)["confidence"]
    assert run(rare, theta_low=0.004)["size"] < run(rare)["size"]


def test_theta_new_fires_on_unseen_symbols():
    strange = calm()
    strange[200 * CHANNELS : 202 * CHANNELS] = np.arange(2 * CHANNELS) + 5
    seen, usual = (run(symbols, theta_new=0.02, n_update=65536) for symbols in (strange, calm()))
    assert seen["novelty"] == usual["novelty"] + 1
    assert seen["escapes"] >= usual["escapes"] + 2 * CHANNELS - 4
    assert run(strange, n_update=65536)["novelty"] == 0


def test_drift_resets_on_a_topic_change_and_helps():
    options = {"n_update": 64, "prior_weight": 16}
    without = run(topic_change(), **options)
    with_drift = run(topic_change(), drift=1.25, **options)
    assert without["resets"] == 0
    assert with_drift["resets"] >= 1
    assert with_drift["size"] < 0.9 * without["size"]
    assert run(calm(), drift=1.25, **options)["resets"] == 0


def test_drift_keep_is_what_counts_keep():
    sizes = {run(topic_change(), drift=1.25, drift_keep=keep)["size"] for keep in (0.0, 0.5, 1.0)}
    assert len(sizes) == 3


def test_alpha_forgets_which_helps_when_the_source_changes_and_costs_when_not():
    assert run(topic_change(), alpha=0.97)["size"] < run(topic_change())["size"] * 0.97
    assert run(calm(), alpha=0.9)["size"] > run(calm())["size"]


def test_beta_smooths():
    """A smoothed table follows a change more slowly, and changes less from one update to the next."""
    sudden, smooth = (run(topic_change(), alpha=0.9, n_update=4, beta=beta) for beta in (0.0, 0.98))
    assert smooth["size"] > sudden["size"]
    noisy, calmed = (run(calm(), alpha=0.8, n_update=4, beta=beta)["size"] for beta in (0.0, 0.9))
    assert calmed < noisy


def test_sampling_counts_fewer_tokens():
    """Counting every 2^n-th token of a long stream leaves the start alone and changes the rest a little."""
    sizes = [run(broad(), sampling=n)["size"] for n in (0, 2, 6)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] < sizes[0] * 1.05
    short = calm()[: 64 * CHANNELS]
    assert run(short, sampling=6) == run(short, sampling=0)


def test_larger_tables_are_more_exact():
    sizes = [run(broad(), table_bits=bits)["size"] for bits in (10, 12, 14)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_classes_pay_when_channels_differ():
    rng = np.random.default_rng(8)
    rows = np.stack([bell(rng, TOKENS, 90 + 10 * (c % 4), 1.5) for c in range(CHANNELS)], 1)
    sizes = [run(rows.reshape(-1), classes=classes)["size"] for classes in (1, 2, 4)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1.2 * sizes[-1]


def test_a_prior_pays_at_the_start():
    """With a heavy prior the first tokens of a Gaussian's exponents cost less."""
    exponents = np.frexp(np.random.default_rng(9).normal(size=16 * CHANNELS))[1] + 126
    few = exponents.astype(np.uint8)
    assert run(few, prior_weight=64)["size"] < run(few, fields=BYTES, prior_weight=64)["size"] * 0.7
    assert run(few, prior_weight=4096)["size"] != run(few, prior_weight=4)["size"]


def test_no_prior_starts_empty():
    symbols = calm()
    seen = run(symbols, prior_weight=0, fields=BF16)
    assert seen["escapes"] >= CHANNELS
