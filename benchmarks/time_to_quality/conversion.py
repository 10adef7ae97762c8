"""Weights of other programs as weights of our Transformer, which computes the same logits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.time_to_quality.scoring import Weights, build_model
from benchmarks.trainers.task import Task
from translate_ddp.data.batches import pad
from translate_ddp.data.dataset import Ragged, load_prepared
from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.modeling.transformer import Transformer

SENTENCES, TOKENS = 8, 4  # of the check
TOLERANCE = 1e-3  # mean difference of the logits by their mean size, in fp32


@dataclass(frozen=True)
class Names:
    """How another program names the tensors of the same architecture."""

    parts: Mapping[str, str]  # part of our name -> theirs, in the order of replacement
    keys: str
    values: str

    def of(self, name: str) -> str:
        for ours, theirs in self.parts.items():
            name = name.replace(ours, theirs)
        return name


def to_ours(theirs: Weights, names: Names, task: Task) -> Weights:
    """Their weights by our names. Their keys and values have biases, ours do not.

    A bias of the keys adds the same to all scores of a query, so it has no effect. One of the
    values adds a constant to the context, since attention weights sum to 1: it becomes part of the
    bias of the output projection.
    """
    found = {}
    for name in Transformer(task.model, task.vocabulary).state_dict():
        if "key_value" in name:
            parts = (names.of(name).replace("key_value", p) for p in (names.keys, names.values))
            found[name] = torch.cat([theirs[part] for part in parts])
        elif name.endswith("attention.out.bias"):
            projection = theirs[names.of(name.replace("bias", "weight"))]
            value_bias = names.of(name.replace("out", "key_value")).replace(
                "key_value", names.values
            )
            found[name] = theirs[names.of(name)] + projection @ theirs[value_bias]
        else:
            found[name] = theirs[names.of(name)]
    return found


@torch.inference_mode()
def check_weights(
    weights: Weights, task: Task, their_logits: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """End the program if our model computes other logits than theirs, on some validation pairs.

    `their_logits` computes logits_BTV of source_BS, padded and with end markers, and target_BT,
    which is not padded.
    """
    pairs = load_prepared(Path(task.prepared)).validation
    chosen = [pairs[row] for row in range(len(pairs)) if len(pairs.target[row]) >= TOKENS]
    chosen = chosen[:SENTENCES]
    source_BS = pad(Ragged.of([source.tolist() for source, _ in chosen]), last=EOS)
    target_BT = torch.tensor([[SOS, *target[: TOKENS - 1].tolist()] for _, target in chosen])
    model = build_model(weights, task.model, task.vocabulary, torch.float32).eval()
    with sdpa_kernel(SDPBackend.MATH):  # Eole turns off what a CPU has
        ours_BTV = model.logits(model(source_BS, target_BT))
    theirs_BTV = their_logits(source_BS, target_BT).float().cpu()
    difference = float((ours_BTV - theirs_BTV).abs().mean() / theirs_BTV.abs().mean())
    if not difference < TOLERANCE:
        raise SystemExit(f"The converted weights give other logits, by {difference:.1%}.")
