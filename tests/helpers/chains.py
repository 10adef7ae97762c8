"""Hand-made probabilities of the next token, in place of a model."""

import math
from collections.abc import Sequence

import torch

from tests.helpers.models import VOCABULARY
from translate_ddp.data.tokenizer import EOS, SOS

A, B = 4, 5
Chain = dict[int, dict[int, float]]

# Probabilities of the next token after each token. The greedy path starts with A (0.6), but the
# better path starts with B.
#   A [EOS]   0.6 * 0.4 = 0.24        B [EOS]   0.4 * 0.9 = 0.36
LATTICE: Chain = {
    SOS: {A: 0.6, B: 0.4},
    A: {EOS: 0.4, A: 0.3, B: 0.3},
    B: {EOS: 0.9, A: 0.05, B: 0.05},
}


class ChainState:
    """A state whose next-token scores depend on the last token, by one chain for each sentence."""

    def __init__(self, chains: list[Chain]) -> None:
        self.chains = chains

    def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
        logits_NV = torch.full((len(tokens_N), VOCABULARY), -torch.inf)
        width = len(tokens_N) // len(self.chains)
        for row, token in enumerate(tokens_N.tolist()):
            chain = self.chains[row // width]
            for following, probability in chain.get(token, {EOS: 1.0}).items():
                logits_NV[row, following] = math.log(probability)
        return logits_NV

    def follow(self, rows_BW: torch.Tensor) -> None:
        pass  # the scores depend on the last token only

    def keep(self, sentences: Sequence[int]) -> None:
        self.chains = [self.chains[sentence] for sentence in sentences]
