"""The Transformer: which inputs an output depends on, caches, positions, and sizes."""

import math

import pytest
import torch

from tests.helpers.models import random_ids as ids
from tests.helpers.models import small_model
from translate_ddp.modeling import kernels
from translate_ddp.modeling.decoding_state import DecodingState
from translate_ddp.modeling.engine import ready_to_decode
from translate_ddp.modeling.transformer import Transformer, sinusoids
from translate_ddp.presets import PRESETS
from translate_ddp.settings import ModelConfig


@pytest.fixture
def model() -> Transformer:
    return small_model().eval()


def test_a_position_depends_on_the_source_and_earlier_target_tokens(model: Transformer):
    # The gradient of one position's output is zero for the inputs it does not depend on.
    inputs: list[torch.Tensor] = []
    model.embedding.register_forward_hook(lambda *call: inputs.append(call[-1]))
    hidden_BTD = model(ids(1, 5), ids(1, 6))
    (gradient_ND,) = torch.autograd.grad(hidden_BTD[0, 3].square().sum(), inputs)
    depends_N = (gradient_ND.abs().sum(dim=-1) > 0).tolist()
    assert depends_N[:5] == [True] * 5  # of the source
    assert depends_N[5:] == [True] * 4 + [False] * 2


def test_padding_and_other_rows_do_not_change_a_sentence(model: Transformer):
    source_BS, target_BT = ids(1, 5), ids(1, 6)
    alone_TV = model.logits(model(source_BS, target_BT))[0]
    longer_neighbour = (ids(1, 9), ids(1, 11))
    padded = [
        torch.cat([torch.nn.functional.pad(x, (0, y.shape[1] - x.shape[1])), y])
        for x, y in zip((source_BS, target_BT), longer_neighbour, strict=True)
    ]
    beside_TV = model.logits(model(*padded))[0, :6]
    torch.testing.assert_close(beside_TV, alone_TV, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source_length", [7, 20])
def test_hypotheses_that_continue_others_have_logits_of_one_full_pass(
    model: Transformer, source_length: int
):
    # Three sentences with two hypotheses each. After some steps each continues another one; later
    # sentence 0 is dropped, whose place sentence 2 takes, and again each continues another one.
    source_BS, target_NT = ids(3, source_length), ids(6, 40)
    source_BS[1, 4:] = 0
    state = DecodingState(ready_to_decode(model.eval()), source_BS, width=2)
    rows = torch.arange(6)
    for t, (followed, kept) in enumerate(
        [([[1, 0], [1, 1], [0, 0]], [0, 1, 2]), ([[0, 1], [1, 0], [0, 1]], [2, 1])]
    ):
        for position in range(3 * t, 3 * t + 3):
            state.step(target_NT[rows, position])
        state.follow(torch.tensor(followed))
        state.keep(kept)
        rows = rows.view(-1, 2).gather(1, torch.tensor(followed))[kept].flatten()
    # Enough steps for more room than at first.
    stepwise = [state.step(target_NT[rows, t]) for t in range(6, 40)]
    source_NS = source_BS[[2, 1]].repeat_interleave(2, dim=0)
    full_NTV = model.logits(model(source_NS, target_NT[rows]))[:, 6:]
    torch.testing.assert_close(torch.stack(stepwise, dim=1), full_NTV, rtol=1e-5, atol=1e-5)


def test_sinusoids_are_those_of_the_paper_with_sines_first():
    encoding_TD = sinusoids(first=5, count=2, d_model=6, device=torch.device("cpu"))
    for row, position in enumerate((5, 6)):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert encoding_TD[row, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert encoding_TD[row, 3 + i].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_embeddings_sublayers_attention_weights_and_feed_forward_have_dropout(
    monkeypatch: pytest.MonkeyPatch,
):
    dropped: list[tuple[int, ...]] = []

    def record(input: torch.Tensor, p: float, residual: torch.Tensor | None = None) -> torch.Tensor:
        assert p == 0.3
        dropped.append(tuple(input.shape))
        return input if residual is None else residual + input

    monkeypatch.setattr(kernels, "drop", record)
    model = small_model(dropout=0.3, layers=2)
    (batch, s, t, d, heads) = (3, 5, 7, 32, 2)
    source, target = (batch, s, d), (batch, t, d)
    encoder_layer = [(batch, heads, s, s), source, (batch, s, 2 * d), source]
    decoder_layer = [(batch, heads, t, t), target, (batch, heads, t, s), target]
    decoder_layer += [(batch, t, 2 * d), target]
    model(ids(batch, s), ids(batch, t))
    assert dropped == [source, *encoder_layer * 2, target, *decoder_layer * 2]
    dropped.clear()
    model.eval()(ids(batch, s), ids(batch, t))
    assert dropped == []


def test_initial_weights_have_the_spread_of_glorot_and_embeddings_that_of_the_paper():
    model = small_model(d_model=256)
    for name, parameter in model.named_parameters():
        if name == "embedding.weight":
            assert float(parameter.detach().std()) == pytest.approx(256**-0.5, rel=0.03)
        elif parameter.ndim == 1:
            is_scale = name.endswith("norm.weight")
            assert parameter.tolist() == [1.0 if is_scale else 0.0] * len(parameter), name
        else:
            blocks = parameter.chunk(2) if "key_value" in name else [parameter]
            for block in blocks:  # uniform in +-sqrt(6 / (inputs + outputs))
                limit = math.sqrt(6 / sum(block.shape))
                assert 0.99 * limit < float(block.detach().abs().max()) <= limit, name
                assert float(block.detach().std()) == pytest.approx(
                    limit / math.sqrt(3), rel=0.03
                ), name


def counted_by_hand(d: int, ff: int, layers: int, vocabulary: int) -> int:
    """Weights and biases of Vaswani et al. 2017 with one shared embedding and pre-norm.

    Keys and values have no bias.
    """
    attention = 4 * d * d + 2 * d
    feed_forward = (d * ff + ff) + (ff * d + d)
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    return vocabulary * d + layers * (encoder_layer + decoder_layer) + 2 * norm


@pytest.mark.parametrize(
    ("preset", "d", "ff", "paper"), [("base", 512, 2048, 65e6), ("big", 1024, 4096, 213e6)]
)
def test_presets_have_the_parameter_counts_of_the_paper(preset: str, d: int, ff: int, paper: float):
    names = ModelConfig.__annotations__.keys() - {"dropout"}
    fields = {name: int(PRESETS[preset][name]) for name in names}
    with torch.device("meta"):  # shapes without memory
        model = Transformer(ModelConfig(**fields), vocabulary=37_000)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == counted_by_hand(d, ff, layers=6, vocabulary=37_000)
    assert count == pytest.approx(paper, rel=0.04)  # table 3 rounds; its vocabulary is approximate
