"""The cross-attention of a translation: which source tokens each target token is predicted from."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.modeling.transformer import Attention, Transformer


def cross_attention(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int]
) -> Tensor:
    """The mean weights of all decoder layers and heads, weights_TS, in fp32 on the CPU.

    A row for the prediction of each target token and of the final [EOS]; a column for each source
    token and the final [EOS]. Each row sums to 1. The ids have no start and end markers.
    """
    device = model.embedding.weight.device
    source_1S = torch.tensor([[*source_ids, EOS]], device=device)
    target_1T = torch.tensor([[SOS, *target_ids]], device=device)
    weights_1HTS: list[Tensor] = []  # of each layer

    # The model's own attention does not return its weights.
    def record(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        assert isinstance(layer, Attention)
        weights_1HTS.append(attention_weights(layer, *inputs[:2]))

    was_training = model.training
    with ExitStack() as stack, torch.inference_mode():
        stack.callback(model.train, was_training)
        for layer in model.decoder_layers:
            attention = layer.get_submodule("cross_attention")
            stack.enter_context(attention.register_forward_pre_hook(record))
        model.eval()
        model.decode(target_1T, *model.encode(source_1S))
    return torch.stack(weights_1HTS).mean(dim=(0, 1, 2)).cpu()


def attention_weights(attention: Attention, x_1TD: Tensor, k_1HSK: Tensor) -> Tensor:
    """softmax(q k / sqrt(K)), weights_1HTS in fp32 (Vaswani et al. 2017, eq. 1)."""
    q_1HTK = attention.split_heads(attention.query(x_1TD))
    scores_1HTS = q_1HTK.float() @ k_1HSK.float().transpose(-1, -2)
    return (scores_1HTS * q_1HTK.shape[-1] ** -0.5).softmax(dim=-1)
