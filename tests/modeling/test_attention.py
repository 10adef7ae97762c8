"""The recorded cross-attention is that with which the model computes; its tokens are readable."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.helpers.models import random_ids, small_model
from translate_ddp.data.dataset import ParallelDataset, PreparedData, Ragged
from translate_ddp.data.tokenizer import EOS, SOS, Tokenizer, train_tokenizer
from translate_ddp.modeling.attention import attention_weights, cross_attention
from translate_ddp.modeling.transformer import Transformer, sinusoids
from translate_ddp.settings import TokenizerConfig
from translate_ddp.training.attended import MAX_TOKENS, attention_of, token_texts

SOURCE, TARGET = random_ids(7).tolist(), random_ids(12).tolist()[7:]
LINES = ["the old house is red", "the red house is old", "é un prix", "字典"] * 3


def plain_weights(model: Transformer) -> torch.Tensor:
    """The mean over layers and heads, head by head and row by row."""
    caches, mask_B11S = model.encode(torch.tensor([[*SOURCE, EOS]]))
    target_1T = torch.tensor([[SOS, *TARGET]])
    x_1TD = model.embedding(target_1T) * math.sqrt(model.d_model)
    x_1TD = x_1TD + sinusoids(0, target_1T.shape[1], model.d_model, torch.device("cpu"))
    found = []
    for layer, cache in zip(model._decoder_layers, caches, strict=True):
        normed = layer.self_attention_norm(x_1TD)
        keys_values = layer.self_attention.keys_values(normed)
        x_1TD = x_1TD + layer.self_attention(normed, *keys_values, is_causal=True)
        normed = layer.cross_attention_norm(x_1TD)
        attention = layer.cross_attention
        query_TD = F.linear(normed[0], attention.query.weight, attention.query.bias)
        size = model.d_model // attention.num_heads
        for head in range(attention.num_heads):
            k_SK = cache.source[0][0, head]
            rows = [
                torch.softmax(k_SK @ query_D[head * size : (head + 1) * size] / size**0.5, dim=0)
                for query_D in query_TD
            ]
            found.append(torch.stack(rows))
        x_1TD = x_1TD + attention(normed, *cache.source, mask_B11S)
        x_1TD = x_1TD + layer.feed_forward(layer.feed_forward_norm(x_1TD))
    return torch.stack(found).mean(dim=0)


def test_weights_are_the_mean_of_all_layers_and_heads():
    model = small_model().eval()
    weights_TS = cross_attention(model, SOURCE, TARGET)
    assert weights_TS.shape == (len(TARGET) + 1, len(SOURCE) + 1)
    torch.testing.assert_close(weights_TS, plain_weights(model).detach())
    torch.testing.assert_close(weights_TS.sum(dim=1), torch.ones(len(TARGET) + 1))


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 0.02)])
def test_weights_give_the_output_of_the_layer(dtype: torch.dtype, error: float):
    attention = small_model()._decoder_layers[0].cross_attention.eval()
    x_1TD, memory_1SD = torch.randn(1, 4, 32).to(dtype), torch.randn(1, 6, 32).to(dtype)
    k_1HSK, v_1HSK = attention.keys_values(memory_1SD)
    context_1HTK = attention_weights(attention, x_1TD, k_1HSK) @ v_1HSK.float()
    output = attention.out(context_1HTK.transpose(1, 2).flatten(2).to(dtype))
    expected = attention(x_1TD, k_1HSK, v_1HSK)
    torch.testing.assert_close(output, expected, atol=error, rtol=error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_model_in_training_is_unchanged_and_its_dropout_is_off(dtype: torch.dtype):
    model = small_model(dtype=dtype, dropout=0.5).train()
    plain = small_model(dtype=dtype).eval()
    state = torch.get_rng_state()
    weights_TS = cross_attention(model, SOURCE, TARGET)
    torch.testing.assert_close(weights_TS, cross_attention(plain, SOURCE, TARGET))
    assert model.training and torch.equal(torch.get_rng_state(), state)
    hooks = [layer.cross_attention._forward_pre_hooks for layer in model._decoder_layers]
    assert not any(hooks)
    model(torch.tensor([SOURCE]), torch.tensor([TARGET])).sum().backward()  # can be trained


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, TokenizerConfig(vocab_size=300))


def test_tokens_are_text_and_parts_of_characters_are_together(tokenizer: Tokenizer):
    (ids,) = tokenizer.encode(["the old ḁ字典 x"])
    texts = token_texts(tokenizer, ids)
    assert texts[:2] == ["▁the", "▁old"]
    assert "".join(texts).replace("…", "") == "▁the▁old▁ḁ字典▁x"
    assert len(texts) == len(ids) and "…" in texts
    assert token_texts(tokenizer, []) == []


def test_attention_has_a_row_and_a_column_for_each_token(tokenizer: Tokenizer):
    source = Ragged.of(tokenizer.encode(LINES))
    pairs = ParallelDataset(source, source)
    data = PreparedData(pairs, pairs, LINES, LINES, tokenizer, {}, "", "", [len(pairs)])
    torch.manual_seed(0)
    model = small_model()
    model.embedding = torch.nn.Embedding(len(tokenizer), 32)
    found = attention_of(model, data, 1, "the old house")
    assert found is not None
    assert found.source == ["▁the", "▁red", "▁house", "▁is", "▁old", "[EOS]"]
    assert found.sentence == LINES[1]
    assert found.predicted == ["▁the", "▁old", "▁house", "[EOS]"]
    assert [len(row) for row in found.weights] == [6] * 4
    assert [sum(row) for row in found.weights] == pytest.approx([1] * 4, abs=0.01)
    assert attention_of(model, data, 1, "") is None
    assert attention_of(model, data, 1, "the " * (MAX_TOKENS + 1)) is None
