"""The engine with PyTorch: translations, log-probabilities and attention of a small model."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.helpers.chains import LATTICE, ChainState
from tests.helpers.models import VOCABULARY, decode, random_ids, small_model
from tests.helpers.options import slow
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS, PAD, SOS, Tokenizer, train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding_state import DecodingState
from translate_ddp.modeling.engine import (
    TorchEngine,
    attention_weights,
    cross_attention,
    ready_to_decode,
)
from translate_ddp.modeling.kernels import PackedWeights
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.modeling.transformer import DecoderLayer, Transformer
from translate_ddp.settings import TokenizerConfig
from translate_ddp.training.report_sink import MAX_TOKENS, attention_of, token_texts

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SOURCE, TARGET = random_ids(7).tolist(), random_ids(12).tolist()[7:]
LINES = ["the old house is red", "the red house is old", "é un prix", "字典"] * 3


@pytest.fixture
def model() -> Transformer:
    """With biases, which start as zeros."""
    model = small_model().eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


@pytest.fixture
def not_a_number() -> Transformer:
    """Its scores are not numbers."""
    model = small_model().eval()
    with torch.no_grad():
        model.decoder_norm.bias.fill_(torch.nan)
    return model


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


# --- translations ---


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("beam_width", [1, *slow(3)])
def test_translations_are_those_of_each_source_alone_in_order(beam_width: int):
    model = small_model().eval()
    with torch.no_grad():  # an untrained model would repeat its input
        for name, parameter in model.named_parameters():
            if "cross_attention" in name:
                parameter.mul_(4)
    sources = [torch.randint(4, VOCABULARY, (1 + n % 9,)).tolist() for n in range(27)]

    def translate(some: list[list[int]], max_tokens: int) -> list[list[int]]:
        found = decode(model, some, beam_width=beam_width, max_tokens=max_tokens)
        return [best.ids for best in found]

    alone = [ids for source in sources for ids in translate([source], 500)]
    assert len({tuple(ids) for ids in alone}) > 9  # not the same for sources of one length
    for threads, max_tokens in ((1, 1), (1, 500), (2, 60)):
        torch.set_num_threads(threads)
        assert translate(sources, max_tokens) == alone
        assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("two_threads")
def test_error_of_a_thread_or_callback_ends_decoding():
    def fail(source_BS: torch.Tensor, width: int) -> ChainState:
        raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        decode(small_model(), [[4]] * 8, max_tokens=2, start=fail)
    started: list[int] = []

    def start(source_BS: torch.Tensor, width: int) -> ChainState:
        started.append(torch.get_num_threads())
        return ChainState([LATTICE] * len(source_BS))

    def stop(count: int) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        decode(small_model(), [[4]] * 500, max_tokens=2, on_done=stop, start=start)
    assert len(started) < 500  # the remaining batches were cancelled
    assert set(started) == {1}  # each batch has one core
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("beam_width", [1, 3])
def test_scores_that_are_not_numbers_raise(not_a_number: Transformer, beam_width: int):
    with pytest.raises(UserError, match="NaN"):
        decode(not_a_number, [[5, 6]], beam_width=beam_width, max_tokens=100)
    with pytest.raises(UserError, match="scores are not numbers"):
        TorchEngine(not_a_number, CPU).log_probs([[4]], [[5]])


def test_sample_depends_on_its_own_sentence_and_seed_only():
    def draw(sources: list[list[int]], seed: int, max_tokens: int) -> list[list[list[int]]]:
        config = NBestConfig(n_best=3, temperature=1.0, seed=seed)
        found = TorchEngine(small_model(), CPU, max_tokens).translate(sources, config)
        return [[sample.ids for sample in samples] for samples in found]

    sources = [[4, 5, 6], [7], [4, 5, 6, 7, 4, 5], [6, 6]]
    together = draw(sources, 0, 1000)
    assert together == draw(sources, 0, 8)
    assert together == draw(sources[::-1], 0, 1000)[::-1]
    assert together != draw(sources, 1, 1000)
    assert len({tuple(ids) for ids in together[0]}) > 1


def test_n_best_of_a_beam_are_its_first_ones():
    engine = TorchEngine(small_model(), CPU)
    (three,) = engine.translate([[4, 5]], NBestConfig(4, n_best=3))
    assert engine.translate([[4, 5]], NBestConfig(4)) == [three[:1]]
    assert len({tuple(each.ids) for each in three}) == 3
    scores = [each.score or 0.0 for each in three]
    assert scores == sorted(scores, reverse=True)


# --- log-probabilities ---


def test_log_probabilities_are_those_of_single_pairs():
    model = small_model().eval()
    sources, targets = [[4, 5, 6, 7], [], [5]], [[6], [7, 7, 4, 5, 6], []]
    found = TorchEngine(model, CPU, max_tokens=8).log_probs(sources, targets)
    for source, target, log_probs in zip(sources, targets, found, strict=True):
        hidden = model(torch.tensor([[*source, EOS]]), torch.tensor([[SOS, *target]]))
        expected = model.logits(hidden)[0].log_softmax(dim=-1)
        wanted = [expected[t, token].item() for t, token in enumerate([*target, EOS])]
        assert log_probs.tolist() == pytest.approx(wanted, abs=1e-5)
    assert TorchEngine(model, CPU).log_probs([], []) == []


def test_log_probabilities_of_a_translation_with_padding_are_its_own():
    engine = TorchEngine(small_model(), CPU)
    sources, targets = [[4, 5], [4, 6]], [[PAD, 6], [7, 5, 6]]
    together = engine.log_probs(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = engine.log_probs([source], [target])
        np.testing.assert_allclose(found, alone, atol=1e-5)
        assert len(found) == len(target) + 1


# --- weights for inference ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_ready_model_gives_logits_of_the_model(model: Transformer, dtype: torch.dtype, rows: int):
    source_BS, target_BT = random_ids(rows, 7), random_ids(rows, 5)
    plain_BTV = model.logits(model(source_BS, target_BT))
    model.dtype = dtype
    state = DecodingState(ready_to_decode(model), source_BS, width=1)
    stepwise = [state.step(target_BT[:, t]).float() for t in range(5)]
    within = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(torch.stack(stepwise, dim=1), plain_BTV, rtol=within, atol=within)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ready_to_decode_does_not_change_the_model(model: Transformer, dtype: torch.dtype):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.dtype = dtype
    ready = ready_to_decode(model)
    if ready is not model:
        assert not any(parameter.requires_grad for parameter in ready.parameters())
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, TypeError])
def test_model_is_only_cast_without_packed_products(
    model: Transformer, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    def raise_error(*_: object) -> None:
        raise error("changed by a version of torch")

    monkeypatch.setattr(PackedWeights, "__init__", raise_error)
    model.dtype = torch.bfloat16
    ready = ready_to_decode(model)
    assert {p.dtype for p in ready.parameters()} == {torch.bfloat16}
    assert PackedWeights not in [type(module) for module in ready.modules()]


# --- cross-attention ---


def decoder_layers(model: Transformer) -> list[DecoderLayer]:
    return [layer for layer in model.decoder_layers if isinstance(layer, DecoderLayer)]


def test_weights_are_the_mean_of_all_layers_and_heads():
    model = small_model().eval()
    inputs: list[tuple[torch.Tensor, torch.Tensor]] = []  # queries' inputs and keys of each layer
    for layer in decoder_layers(model):
        layer.cross_attention.register_forward_pre_hook(lambda _, given: inputs.append(given[:2]))
    model(torch.tensor([[*SOURCE, EOS]]), torch.tensor([[SOS, *TARGET]]))
    rows = [
        torch.softmax(k_SK @ q_K / len(q_K) ** 0.5, dim=0)
        for layer, (x_1TD, k_1HSK) in zip(decoder_layers(model), inputs, strict=True)
        for k_SK, q_TK in zip(
            k_1HSK[0],
            layer.cross_attention.query(x_1TD[0]).chunk(len(k_1HSK[0]), dim=-1),
            strict=True,
        )
        for q_K in q_TK
    ]
    expected_TS = torch.stack(rows).view(-1, len(TARGET) + 1, len(SOURCE) + 1).mean(dim=0)
    weights_TS = cross_attention(model, SOURCE, TARGET)
    torch.testing.assert_close(weights_TS, expected_TS.detach())
    torch.testing.assert_close(weights_TS.sum(dim=1), torch.ones(len(TARGET) + 1))


@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 0.02), (torch.float16, 0.002)]
)
def test_weights_give_the_output_of_the_layer(dtype: torch.dtype, error: float):
    attention = decoder_layers(small_model())[0].cross_attention.eval()
    x_1TD, memory_1SD = torch.randn(1, 4, 32).to(dtype), torch.randn(1, 6, 32).to(dtype)
    parts = attention.key_value(memory_1SD).chunk(2, dim=-1)
    k_1HSK, v_1HSK = map(attention.split_heads, parts)
    context_1HTK = attention_weights(attention, x_1TD, k_1HSK) @ v_1HSK.float()
    output = attention.out(context_1HTK.transpose(1, 2).flatten(2).to(dtype))
    expected = attention(x_1TD, k_1HSK, v_1HSK, torch.zeros(1, 1, 1, 6, dtype=dtype))
    torch.testing.assert_close(output, expected, atol=error, rtol=error)


@pytest.mark.parametrize("dtype", DTYPES)
def test_model_in_training_is_unchanged_and_its_dropout_is_off(dtype: torch.dtype):
    model = small_model(dtype=dtype, dropout=0.5).train()
    plain = small_model(dtype=dtype).eval()
    state = torch.get_rng_state()
    weights_TS = cross_attention(model, SOURCE, TARGET)
    torch.testing.assert_close(weights_TS, cross_attention(plain, SOURCE, TARGET))
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert not any(layer.cross_attention._forward_pre_hooks for layer in decoder_layers(model))
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
    torch.manual_seed(0)
    model = small_model()
    model.embedding = torch.nn.Embedding(len(tokenizer) + 1, 32)
    found = attention_of(model, tokenizer, source, 1, "the old house")
    assert found is not None
    assert found.source == ["▁the", "▁red", "▁house", "▁is", "▁old", "[EOS]"]
    assert found.sentence == LINES[1]
    assert found.predicted == ["▁the", "▁old", "▁house", "[EOS]"]
    assert [len(row) for row in found.weights] == [6] * 4
    assert [sum(row) for row in found.weights] == pytest.approx([1] * 4, abs=0.01)
    tagged = Ragged.of([[len(tokenizer), *source[1].tolist()]])
    of_tagged = attention_of(model, tokenizer, tagged, 0, "the old house")
    assert of_tagged and of_tagged.source == ["[TAG]", *found.source]
    assert of_tagged.sentence == found.sentence and len(of_tagged.weights[0]) == 7
    assert attention_of(model, tokenizer, source, 1, "") is None
    assert attention_of(model, tokenizer, source, 1, "the " * (MAX_TOKENS + 1)) is None
