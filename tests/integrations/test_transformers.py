"""Caches of transformers come back bit for bit, and a model goes on as if they had never left."""

from __future__ import annotations

import pytest

import kvzip

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from kvzip.integrations.transformers import load_cache, save_cache  # noqa: E402


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("level", [1, 3, 9])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_model_goes_on(model, tmp_path, dtype, level):
    model = model.to(getattr(torch, dtype))
    ids = torch.randint(0, 97, (2, 40), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        cache = model(ids[:, :32], use_cache=True).past_key_values
        size = save_cache(cache, tmp_path / "x.kvz", level=level)
        assert size == (tmp_path / "x.kvz").stat().st_size
        again = load_cache(tmp_path / "x.kvz")
        assert again.get_seq_length() == 32
        for mine, theirs in zip(cache.layers, again.layers, strict=True):
            assert mine.keys.dtype == theirs.keys.dtype
            assert torch.equal(bits(mine.keys), bits(theirs.keys))
            assert torch.equal(bits(mine.values), bits(theirs.values))
        one = model(ids[:, 32:], past_key_values=cache).logits
        other = model(ids[:, 32:], past_key_values=again).logits
    assert torch.equal(bits(one), bits(other))


def test_special_bits_and_empty_caches(tmp_path):
    cache = transformers.DynamicCache()
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(torch.bfloat16).reshape(1, 2, 512, 64)
    cache.update(every, every.flip(2), 0)
    save_cache(cache, tmp_path / "x.kvz")
    again = load_cache(tmp_path / "x.kvz")
    assert torch.equal(bits(cache.layers[0].values), bits(again.layers[0].values))
    save_cache(transformers.DynamicCache(), tmp_path / "empty.kvz")
    assert load_cache(tmp_path / "empty.kvz").get_seq_length() == 0


def test_what_cannot_be_saved_or_loaded(tmp_path):
    cache = transformers.DynamicCache()
    cache.update(torch.zeros((1, 1, 2, 4), dtype=torch.int32), torch.zeros((1, 1, 2, 4), dtype=torch.int32), 0)
    with pytest.raises(kvzip.DumpError, match="int32"):
        save_cache(cache, tmp_path / "x.kvz")
    assert not (tmp_path / "x.kvz").exists()
    from kvzip.dumps.safetensors import dump_bytes

    kvzip.compress(dump_bytes([("x", "F32", (4,), bytes(16))]), tmp_path / "y.kvz")
    with pytest.raises(kvzip.ContainerError, match="save_cache"):
        load_cache(tmp_path / "y.kvz")
    (tmp_path / "z.kvz").write_bytes((tmp_path / "y.kvz").read_bytes()[:-1])
    with pytest.raises(kvzip.ContainerError):
        load_cache(tmp_path / "z.kvz")
