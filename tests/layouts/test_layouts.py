"""Each producer's tensors are recognised with the right axes; what is no cache is left alone."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import TensorEntry, read_header
from kvzip.errors import OptionError
from kvzip.layouts.registry import LAYOUTS, OPAQUE, recognise

SAMPLES = Path(__file__).parent / "../../../shared/data/small"  # beside the checkout, if there at all
VLLM_FILE = "dir/layers.99/model.layers.7.self_attn.attn.safetensors"


def tensor(name, dtype, shape):
    return TensorEntry(name, dtype, tuple(shape), 0, math.prod(shape) * DTYPES[dtype].bits // 8)


def read(name, shape, dtype="BF16", path="dump.safetensors", layout=None):
    """The layout of one tensor as (id, "label size ...", layer, kind), or None."""
    found = recognise([tensor(name, dtype, shape)], path, layout).get(name)
    if found is None:
        return None
    assert math.prod(axis.size for axis in found.axes) == math.prod(shape)
    return found.layout, " ".join(f"{axis.label} {axis.size}" for axis in found.axes), found.layer, found.kind


BHTD = (1, 3, 256, 64)
BHTD_AXES = "batch 1 head 3 token 256 channel 64"


@pytest.mark.parametrize(
    ("name", "layer", "kind"),
    [
        ("layers.0.key", 0, "key"),
        ("layers.10.value", 10, "value"),
        ("layers.2.keys", 2, "key"),
        ("layers.2.values", 2, "value"),
        ("model.layers.31.self_attn.k_cache", 31, "key"),
        ("model.layers.31.self_attn.value_cache", 31, "value"),
        ("model.layers.3.attn.key_states", 3, "key"),
        ("key_cache.5", 5, "key"),
        ("cache.value_cache.5", 5, "value"),
        ("past_key_values.7.key", 7, "key"),
        ("past_key_values.7.value", 7, "value"),
        ("past_key_values.7.0", 7, "key"),
        ("past_key_values.7.decoder.value", 7, "value"),
        ("K_layer4", 4, "key"),
        ("V_layer4", 4, "value"),
    ],
)
def test_huggingface_names(name, layer, kind):
    assert read(name, BHTD) == ("huggingface", BHTD_AXES, layer, kind)


def test_huggingface_never_guesses_the_order_of_axes():
    assert read("layers.0.key", (1, 128, 7, 64))[1] == "batch 1 head 128 token 7 channel 64"
    assert read("layers.0.key", (8, 1, 128))[1] == "head 8 token 1 channel 128"


@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_and_bytes_are_recognised_and_nothing_else(dtype):
    floats = {"F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F16", "BF16", "F32", "F64"}
    for name, shape in [
        ("layers.0.key", BHTD),
        ("kv_cache", (2, 48, 256)),
        ("my_key", (16, 8)),
        ("0.0", BHTD),
    ]:
        assert (read(name, shape, dtype) is not None) == (dtype in floats | {"U8"})


def test_mlx():
    assert read("12.0", BHTD) == ("mlx", BHTD_AXES, 12, "key")
    assert read("12.1", BHTD) == ("mlx", BHTD_AXES, 12, "value")
    assert read("12.2", BHTD) is None
    assert read("12.0", (1, 40, 3)) is None  # the state of a Mamba layer


def test_mlx_quantised_beside_unquantised_and_empty():
    shapes = {"0": ("U32", 16), "1": ("BF16", 2), "2": ("BF16", 2)}
    entries = [tensor(f"0.{k}.{p}", d, (1, 2, 64, n)) for k in "01" for p, (d, n) in shapes.items()]
    entries += [tensor("1.0", "F16", (1, 2, 32, 64)), tensor("2.0.0", "U32", (1, 2, 0, 16))]
    found = recognise(entries, "cache.safetensors")
    kinds = {name: (layout.kind, layout.axes[-1].size) for name, layout in found.items()}
    assert kinds == {
        "0.0.0": ("key", 16),
        "0.0.1": ("scale", 2),
        "0.0.2": ("bias", 2),
        "0.1.0": ("value", 16),
        "0.1.1": ("scale", 2),
        "0.1.2": ("bias", 2),
        "1.0": ("key", 64),
    }
    assert {layout.layout for layout in found.values()} == {"mlx"}
    assert read("0.0.0", (1, 2, 64, 16), "BF16") is None
    assert read("0.0.1", (1, 2, 64, 2), "U32") is None


def test_vllm():
    assert read("kv_cache", (2, 256, 192), path=VLLM_FILE) == (
        "vllm", "kind 2 token 256 head 3 channel 64", 7, None,
    )  # fmt: skip
    assert read("kv_cache", (256, 3, 128), path=VLLM_FILE) == (
        "vllm", "token 256 head 3 kind 2 channel 64", 7, None,
    )  # fmt: skip
    assert read("kv_cache", (2, 48, 4, 64))[1] == "kind 2 token 48 head 4 channel 64"
    assert read("kv_cache", (2, 48, 256), "U8") == ("vllm", "kind 2 token 48 head 2 channel 128", None, None)
    assert read("model.layers.3.self_attn.attn.kv_cache", (2, 48, 256), path=VLLM_FILE)[2] == 3
    assert read("kv_cache", (48, 4, 127)) == ("generic", "token 48 head 4 channel 127", None, None)


@pytest.mark.parametrize(
    ("width", "heads", "dim"),
    [
        (1024, 8, 128),
        (512, 4, 128),
        (192, 3, 64),
        (320, 5, 64),
        (80, 1, 80),
        (288, 3, 96),
        (112, 1, 112),
        (7, 1, 7),
    ],
)
def test_head_dim_is_the_first_usual_size_that_divides(width, heads, dim):
    assert read("kv_cache", (2, 16, width))[1] == f"kind 2 token 16 head {heads} channel {dim}"


def test_mla():
    assert read("kv_cache", (48, 576), path=VLLM_FILE) == ("mla", "token 48 channel 576", 7, "latent")
    assert read("kv_cache", (48, 656), "U8") == ("mla", "token 48 channel 656", None, "latent")
    assert read("layers.2.self_attn.kv_c", (48, 576)) == ("mla", "token 48 channel 576", 2, "latent")
    assert read("kv_cache", (48, 1, 576))[1] == "token 48 head 1 channel 576"
    assert read("kv_cache", (1, 48, 576))[1] == "batch 1 token 48 channel 576"
    assert read("kv_cache", (48, 656))[0] == "generic"  # records are bytes
    assert read("kv_cache", (2, 48, 576))[0] == "vllm"  # nine heads of 64


def test_lmcache():
    assert read("kv_chunk", (32, 2, 256, 8, 128)) == (
        "lmcache", "layer 32 kind 2 token 256 head 8 channel 128", None, None,
    )  # fmt: skip
    assert read("kv_chunk", (32, 2, 8, 256, 128))[1] == "layer 32 kind 2 head 8 token 256 channel 128"
    assert read("kv_chunk", (32, 2, 17, 8, 128))[1] == "layer 32 kind 2 token 17 head 8 channel 128"
    assert read("kv_chunk", (32, 2, 8, 8, 128))[1] == "layer 32 kind 2 token 8 head 8 channel 128"
    assert read("kvcache", (2, 2, 16, 128))[1] == "kind 2 layer 2 token 16 head 1 channel 128"
    assert read("kvcache", (2, 30, 16, 192))[1] == "kind 2 layer 30 token 16 head 3 channel 64"
    assert read("kvcache", (30, 2, 16, 192))[1] == "layer 30 kind 2 token 16 head 3 channel 64"
    assert read("kvcache", (1, 27, 16, 576)) == (
        "lmcache", "batch 1 layer 27 token 16 channel 576", None, "latent",
    )  # fmt: skip


def test_omlx():
    for name, kind in [("keys", "key"), ("values", "value"), ("state_0", "key"), ("state_1", "value")]:
        assert read(f"layer_3_{name}", BHTD, "F32") == ("omlx", BHTD_AXES, 3, kind)
    assert read("layer_3_state_2", BHTD) is None


def test_research():
    assert read("K_layer3", (48, 8, 128)) == ("research", "token 48 head 8 channel 128", 3, "key")
    assert read("V_layer3", (8, 48, 128)) == ("research", "head 8 token 48 channel 128", 3, "value")
    assert read("K_layer3", (8, 8, 128))[1] == "token 8 head 8 channel 128"


def test_generic():
    assert read("my.key", (40, 64)) == ("generic", "token 40 channel 64", None, "key")
    assert read("past_v_3", (1, 4, 40, 64)) == (
        "generic",
        "batch 1 head 4 token 40 channel 64",
        None,
        "value",
    )
    assert read("past_v_3", (1, 40, 4, 64))[1] == "batch 1 token 40 head 4 channel 64"
    assert read("k", (9, 9, 64))[1] == "head 9 token 9 channel 64"
    assert read("layer_7.key_value_cache", (2, 5, 4, 40, 64)) == (
        "generic", "batch 2 batch 5 head 4 token 40 channel 64", 7, None,
    )  # fmt: skip
    for name in ("monkey", "q_proj", "token_ids", "value2d", "", "\n"):
        assert (read(name, (40, 64)) is None) == (name != "value2d")
    assert read("k" * 2000 + ".key", (40, 64)) is None


@pytest.mark.parametrize("shape", [(), (0,), (64,), (0, 64), (1, 2, 0, 64)])
def test_no_elements_or_no_tokens_is_no_cache(shape):
    for name in ("layers.0.key", "0.0", "kv_cache", "kv_chunk", "key"):
        assert read(name, shape) is None


def test_a_file_may_mix_layouts():
    entries = [
        tensor("layers.0.key", "BF16", BHTD),
        tensor("token_ids", "I32", (48,)),
        tensor("K_layer0", "F16", (48, 2, 64)),
        tensor("layer_1_keys", "F32", BHTD),
    ]
    found = {name: layout.layout for name, layout in recognise(entries, "-").items()}
    assert found == {"layers.0.key": "huggingface", "K_layer0": "research", "layer_1_keys": "omlx"}


# --- the choice by hand


def test_a_forced_layout_is_the_only_one():
    assert read("layers.0.key", BHTD, layout="generic")[0] == "generic"
    assert read("layers.0.key", BHTD, layout="vllm") is None
    assert read("layers.0.key", BHTD, layout=OPAQUE) is None


def test_head_dim_by_hand():
    assert read("kv_cache", (2, 48, 256), layout="vllm:head_dim=64")[1] == "kind 2 token 48 head 4 channel 64"
    assert read("kvcache", (2, 4, 48, 256), layout="lmcache:head_dim=256")[1].endswith("head 1 channel 256")
    with pytest.raises(OptionError, match="head_dim 60 does not divide 256 channels: tensor 'kv_cache'; "):
        read("kv_cache", (2, 48, 256), layout="vllm:head_dim=60")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("nope", "unknown layout: 'nope'; choose one of huggingface, .*, opaque"),
        ("", "unknown layout"),
        ("opaque:x=1", "unknown layout"),
        ("vllm:heads=3", "unknown option of layout vllm: 'heads'; it knows head_dim"),
        ("mlx:head_dim=3", "unknown option of layout mlx: 'head_dim'; it knows none"),
        *(
            (f"vllm:head_dim{tail}", "no whole number above 0")
            for tail in ("", "=", "=0", "=-1", "=6.5", "=" + "9" * 5000)
        ),
    ],
)
def test_a_wrong_choice_is_a_usage_error(layout, message):
    with pytest.raises(OptionError, match=message) as error:
        recognise([], "file", layout)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_registry():
    assert list(LAYOUTS) == [layout.id for layout in LAYOUTS.values()]
    assert list(LAYOUTS)[-1] == "generic"
    assert OPAQUE not in LAYOUTS


# --- what every match promises

NAMES = some.one_of(
    some.sampled_from(["layers.0.key", "key_cache.1", "past_key_values.1.0", "K_layer2", "0.0", "0.1.0", "0.1.1"]),
    some.sampled_from(["0.1.2", "kv_cache", "x.kv_cache", "latent", "kv_chunk", "kvcache", "layer_3_keys"]),
    some.sampled_from(["layer_3_state_1", "cache", "v", "my_keys", "other"]),
)
SIZES = some.lists(some.sampled_from([0, 1, 2, 3, 8, 64, 96, 256, 576, 656]), max_size=6)


@given(NAMES, some.sampled_from(list(DTYPES)), SIZES, some.sampled_from([None, *LAYOUTS]))
def test_axes_describe_the_tensor(name, dtype, shape, layout):
    for found in recognise([tensor(name, dtype, shape)], "f", layout).values():
        labels = [axis.label for axis in found.axes]
        assert math.prod(axis.size for axis in found.axes) == math.prod(shape)
        assert set(labels) <= {"batch", "layer", "kind", "head", "token", "channel"}
        assert labels.count("token") == labels.count("channel") == 1
        assert labels[-1] == "channel"
        assert max(map(labels.count, ("layer", "kind", "head"))) <= 1
        assert found.layer is None or "layer" not in labels
        assert found.kind is None or "kind" not in labels
        assert all(axis.size == 2 for axis in found.axes if axis.label == "kind")
        assert found.layout in LAYOUTS


@pytest.mark.skipif(not SAMPLES.exists(), reason="sample dumps are not part of the package")
def test_sample_dumps_are_recognised_whole():
    for path in sorted(SAMPLES.rglob("*.safetensors")):
        with path.open("rb") as file:
            entries = read_header(file, str(path)).entries
        found = recognise(entries, str(path))
        assert len(found) == len(entries)
        heads = {axis.size for layout in found.values() for axis in layout.axes if axis.label == "head"}
        assert heads == {3}
        assert all(layout.layer is not None for layout in found.values())
