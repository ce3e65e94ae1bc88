"""The same for containers that were made with a draft: blocks and units, relative to what both sides have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kvzip
from kvzip.blocks import codec
from kvzip.blocks import drafted as encoder
from kvzip.blocks.codec import Chain
from kvzip.dtypes import DTYPES
from kvzip.pipeline import encode_unit
from kvzip.pipeline.units import PlannedUnit

from . import drafted, unit
from .decoder import decode
from .reading import DamagedError
from .test_prediction import FLOATS, SPECIAL, nearest, stream
from .test_reference import PRIORS, dump

KEY, VALUE = 1, 2
SHAPE = (2, 50, 24)


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    """Use a draft wherever there is one; (near, first row, past the last) of the runs that the reference decodes."""
    found = []
    block, unit_rows = drafted.Drafted._rows, unit.UnitDecoder._decode_rows

    def of_block(self, data, near, start, stop):
        found.append((near, self.token + start, self.token + stop))
        return block(self, data, near, start, stop)

    def of_unit(self, near, data, start, stop):
        found.append((near, start, stop))
        return unit_rows(self, near, data, start, stop)

    monkeypatch.setattr(drafted.Drafted, "_rows", of_block)
    monkeypatch.setattr(unit.UnitDecoder, "_decode_rows", of_unit)
    monkeypatch.setattr(Chain, "promised", lambda self, values: 1 << 40)
    monkeypatch.setattr(codec, "worth", lambda *_: True)
    monkeypatch.setattr(encode_unit, "try_both", lambda *_: (1, 10))
    monkeypatch.setattr(encoder, "try_both", lambda *_: (1, 10))
    monkeypatch.setattr(PlannedUnit, "step", property(lambda self: 40))
    return found


def cache(seed=0, shape=SHAPE, layers=1, turns=4):
    """Numbers (heads, tokens, channels) by layer and kind."""
    out = {}
    for number in range(layers):
        out[number, KEY] = stream(shape, seed + number, turns)
        out[number, VALUE] = stream(shape, seed + number)
    return out


def near(numbers, noise=0.05, seed=7, tokens=None):
    """Numbers about as large."""
    rng = np.random.default_rng(seed)
    return {key: (x + noise * rng.normal(size=x.shape))[:, :tokens] for key, x in numbers.items()}


def bits(numbers, dtype):
    """What the reference takes for a draft, and what a dump of it is made from."""
    return {key: (DTYPES[dtype].id, nearest(dtype, x)) for key, x in numbers.items()}


def saved(given):
    """A dump (batch, head, token, channel) for each layer and kind."""
    names = {row.id: name for name, row in DTYPES.items()}
    return dump(
        **{
            f"layers__{number}__{'key' if kind == KEY else 'value'}": (names[dtype], (1, *x.shape), x.tobytes())
            for (number, kind), (dtype, x) in given.items()
        }
    )


def saved_by_token(given):
    """The same with heads inside of tokens, so that a chain has blocks of every slab."""
    names = {row.id: name for name, row in DTYPES.items()}
    turned = {key: (names[dtype], x.transpose(1, 0, 2).copy()) for key, (dtype, x) in given.items()}
    return dump(
        **{
            f"{'K' if kind == KEY else 'V'}_layer{number}": (name, x.shape, x.tobytes())
            for (number, kind), (name, x) in turned.items()
        }
    )


def arrays(given):
    """The same as arrays, which may be small."""
    types = {
        name: np.dtype(form)
        for name, form in ((15, ml_dtypes.bfloat16), (8, ml_dtypes.float8_e4m3fn), (14, np.float16), (18, np.float32))
    }
    return {
        (number, ["", "key", "value"][kind]): x.view(types[dtype]) for (number, kind), (dtype, x) in given.items()
    }


def check(source, draft, given=None, **options):
    """The reference restores a dump that was compressed with a draft; the container."""
    given = saved(draft) if given is None else given
    container = kvzip.compress(source, draft=given, threads=1, **options)
    assert decode(container, PRIORS, draft=draft) == {"": source}
    return container


@pytest.mark.parametrize("level", [1, 2, 3])
def test_levels(level, runs):
    x = cache()
    check(saved(bits(x, "BF16")), bits(near(x), "BF16"), level=level)
    assert runs == [(True, 0, 50)] * 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float(dtype, runs):
    x = cache(shape=(2, 30, 20))
    other = FLOATS[(FLOATS.index(dtype) + 3) % len(FLOATS)]
    for own, draft in ((dtype, "BF16"), (dtype, other), (dtype, dtype)):
        check(saved(bits(x, own)), bits(near(x), draft))
    assert len(runs) == 6


@pytest.mark.parametrize("block_log2", [12, 21])
@pytest.mark.parametrize("reach", [1, 17, 49, 50, 70])
def test_reach(reach, block_log2, runs):
    x = cache(shape=(2, 70, 10))
    source = {key: numbers[:, :50] for key, numbers in x.items()}
    draft = bits(near(x, tokens=reach), "F16")
    check(saved(bits(source, "BF16")), draft, arrays(draft), block_log2=block_log2)
    assert {run for run in runs if not run[0]} == ({(False, reach, 50)} if reach < 50 else set())


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize(("reach", "same"), [(160, 0), (60, 0), (102, 30), (102, 102), (130, 120)])
def test_chains_of_several_blocks(reach, same, level, runs):
    x = cache(shape=(2, 160, 10))  # 102 tokens a block
    own, draft = bits(x, "BF16"), bits(near(x, tokens=reach), "BF16")
    for key, (_, values) in draft.items():
        values[:, :same] = own[key][1][:, :same]
    check(saved_by_token(own), draft, block_log2=12, level=level)
    first = [(True, same, min(reach, 102))] if same < min(reach, 102) else []
    assert all(run in runs for run in first)
    assert any(not run[0] for run in runs) == (reach < 160)
    assert {stop for _, _, stop in runs} >= {160}


@pytest.mark.parametrize("dtype", ["BF16", "F32", "F8_E4M3"])
def test_identical_rows(dtype, runs):
    x = cache()
    own = bits(x, dtype)
    for same, reach in ((33, 50), (33, 33), (50, 50)):
        draft = {key: (name, values[:, :reach].copy()) for key, (name, values) in own.items()}
        for _, values in draft.values():
            values[:, same:] ^= 1
        container = check(saved(own), draft)
        if same < 50:
            assert (reach > same, same, 50) in runs
    assert len(container) < 600
    # the same again in a chain's later block
    x = cache(shape=(2, 160, 10))
    own = bits(x, dtype)
    draft = {key: (name, values.copy()) for key, (name, values) in own.items()}
    for _, values in draft.values():
        values[:, 95:100] ^= 1
        values[:, 150] ^= 1
    check(saved_by_token(own), draft, block_log2=12)


def test_types_that_are_alike_copy_nothing():
    x = cache()
    own = bits(x, "BF16")
    check(saved(own), {key: (DTYPES["F16"].id, values) for key, (_, values) in own.items()})


@pytest.mark.parametrize("scale", [-0.3, 25.0])
def test_scaled(scale, runs):
    x = cache()
    source = saved(bits({key: numbers / scale for key, numbers in x.items()}, "F8_E4M3"))
    for dtype in ("BF16", "F32"):
        check(source, bits(near(x, 0.02, tokens=40), dtype))
    assert len(runs) == 8


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32", "F8_E5M2", "F8_E4M3"])
def test_any_bits(dtype):
    x = cache()
    rng = np.random.default_rng(0)
    good, other = bits(x, dtype), bits(near(x), dtype)
    size = min(2, good[0, KEY][1].itemsize)

    def spoilt(given):
        out = {}
        for key, (name, values) in given.items():
            special = rng.choice(np.array(SPECIAL[size], values.dtype), values.shape)
            special <<= np.array(8 * (values.itemsize - size), values.dtype)
            out[key] = name, np.where(rng.random(values.shape) < 0.1, special, values)
        return out

    noise = {
        key: (name, rng.integers(0, np.iinfo(values.dtype).max, values.shape, values.dtype, endpoint=True))
        for key, (name, values) in good.items()
    }
    for own, draft in ((spoilt(good), other), (good, spoilt(other)), (noise, other), (good, noise), (noise, noise)):
        check(saved(own), draft)


def test_tails_of_zeros(runs):
    x = cache(shape=(2, 160, 10))
    own = bits(x, "BF16")
    for _, values in own.values():
        values[:, 80:102] = 0  # the end of a block, 150: the end of the last one
        values[:, 150:] = 0
    for reach in (60, 90, 102, 160):
        check(saved_by_token(own), bits(near(x, tokens=reach), "BF16"), block_log2=12)
        assert not any(start < 90 < stop for _, start, stop in runs)


def test_far_rows_learn_from_the_last_512(runs):
    x = cache(shape=(1, 580, 3), turns=1)
    check(saved(bits(x, "BF16")), bits(near(x, tokens=560), "BF16"), rope="none")
    assert runs[1] == (False, 560, 580)


@pytest.mark.parametrize(
    "options",
    [
        {"drift": 1.01, "drift_keep": 0.5, "alpha": 0.97},
        {"drift": 1.01, "beta": 0.5},
        {"theta_low": 0.01, "theta_new": 0.001, "beta": 0.9},
        {"prior_weight": 0, "drift": 1.05},
        {"sampling": 6, "n_update": 7, "table_bits": 14},
    ],
    ids=str,
)
def test_parameters(options):
    x = cache(shape=(2, 160, 10))
    check(saved_by_token(bits(x, "F16")), bits(near(x, tokens=90), "F16"), block_log2=12, **options)


@pytest.mark.parametrize("rope", ["half:theta=10000", "interleaved:theta=500,start=3,dim=4", "none"])
def test_ropes(rope):
    x = cache(turns=5)
    own, draft = bits(x, "BF16"), bits(near(x, tokens=40), "BF16")
    check(saved(own), draft, rope=rope)
    for key, (_, values) in draft.items():
        values[:, :13] = own[key][1][:, :13]
    check(saved(own), draft, rope=rope)


def test_streams_are_paired_by_layer_kind_and_head(runs):
    x = cache(shape=(3, 30, 8), layers=2)
    own, draft = bits(x, "BF16"), bits(near(x), "BF16")
    check(saved_by_token(own), draft)
    joined = np.stack([np.stack([own[layer, kind][1] for kind in (KEY, VALUE)]) for layer in range(2)])
    whole = joined.transpose(0, 1, 3, 2, 4)  # layer, kind, token, head, channel
    check(dump(kv_chunk=("BF16", whole.shape, whole.tobytes())), draft)
    missing = {key: part for key, part in draft.items() if key != (1, KEY)}
    check(saved(own), missing)
    fewer = {**draft, (0, VALUE): (draft[0, VALUE][0], draft[0, VALUE][1][:2])}
    runs.clear()
    check(saved(own), fewer)
    assert len(runs) == 3
    check(saved_by_token(own), draft, saved_by_token(draft))


def test_the_draft_must_be_the_one():
    x = cache(shape=(1, 30, 20), turns=2)
    own, draft = saved(bits(x, "BF16")), bits(near(x), "BF16")
    container = check(own, draft)
    other = {key: (name, values ^ (values == values[0, 3, 0])) for key, (name, values) in draft.items()}
    for wrong in (None, {}, bits(near(x), "F16"), bits(near(x, tokens=29), "BF16"), other):
        with pytest.raises(DamagedError):
            decode(container, PRIORS, draft=wrong)
    for at in range(0, len(container), 37):
        damaged = bytearray(container)
        damaged[at] ^= 0x10
        with pytest.raises(DamagedError):
            decode(bytes(damaged), PRIORS, draft=draft)


@pytest.mark.parametrize(
    ("level", "dtype"), [(4, "BF16"), (6, "F8_E4M3"), (7, "F8_E4M3"), (9, "BF16"), (9, "F8_E4M3")]
)
def test_units(level, dtype, runs):
    x = cache(shape=(1, 70, 16), layers=2, turns=8)
    own = bits(x, dtype)
    for reach, same in ((70, 0), (60, 43), (40, 40)):
        draft = bits(near(x, tokens=reach), dtype)
        for key, (_, values) in draft.items():
            values[:, :same] = own[key][1][:, :same]
        runs.clear()
        check(saved(own), draft, arrays(draft), level=level, rope="half:theta=100")
        assert any(not run[0] for run in runs) == (reach < 70)
        assert any(run[0] for run in runs) == (same < reach)


def test_other_units(runs):
    x = cache(shape=(2, 60, 9), layers=2, turns=4)
    scaled = saved(bits({key: numbers / 25 for key, numbers in x.items()}, "F8_E4M3"))
    check(scaled, bits(near(x, 0.02, tokens=58), "BF16"), level=8)
    check(saved(bits(x, "F32")), bits(near(x, tokens=50), "F32"), level=9)
    check(saved(bits(x, "F8_E5M2")), bits(near(x, tokens=58), "F16"), level=5)
    uneven = bits(near(x), "F16")
    uneven[1, VALUE] = uneven[1, VALUE][0], uneven[1, VALUE][1][:, :30]  # a base that reaches further
    check(saved(bits(x, "BF16")), uneven, arrays(uneven), level=9)
    uneven[0, VALUE] = uneven.pop((1, VALUE))  # a unit without a draft, a base that reaches less
    check(saved(bits(x, "BF16")), uneven, arrays(uneven), level=9)
    assert runs
