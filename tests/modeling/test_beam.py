"""Beam search, against a search with lists."""

import math

import pytest
import torch

from tests.helpers.chains import Chain, ChainState
from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.modeling.search import beam

CPU = torch.device("cpu")


class ChangingChain(ChainState):
    """A chain of its own at each step, so that no two sequences have the same probability."""

    def __init__(self, steps: list[Chain]) -> None:
        super().__init__(steps[:1])
        self.steps = iter(steps)

    def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
        self.chains = [next(self.steps)]
        return super().step(tokens_N)


def plain_beam(steps: list[Chain], width: int) -> list[tuple[list[int], float]]:
    """Beam search with lists: the finished hypotheses with their log-probabilities, best first."""
    beams, finished = [([SOS], 0.0)], []
    for length, chain in enumerate(steps, start=1):
        longer = [
            ([*ids, token], score + math.log(probability))
            for ids, score in beams
            for token, probability in chain[ids[-1]].items()
        ]
        longer.sort(key=lambda each: -each[1])
        at_limit = length == len(steps)
        ended = [(ids[1:], s) for ids, s in longer[:width] if ids[-1] == EOS or at_limit]
        finished += [(ids[:-1] if ids[-1] == EOS else ids, score) for ids, score in ended]
        if len(finished) >= width:
            break
        beams = [each for each in longer if each[0][-1] != EOS][:width]
    return sorted(finished, key=lambda each: -each[1])


@pytest.mark.parametrize("width", [2, 3, 4])
def test_beam_equals_a_search_with_lists(width: int):
    tokens = [EOS, *range(EOS + 1, EOS + 7)]
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        steps: list[Chain] = []
        for _ in range(6):
            rows = (3 * torch.randn(7, 7, generator=random)).softmax(dim=-1).tolist()
            chances = [dict(zip(tokens, row, strict=True)) for row in rows]
            steps.append(dict(zip([SOS, *tokens[1:]], chances, strict=True)))
        ((*found,),) = beam(ChangingChain(steps), [6], CPU, width=width, length_penalty=0.0)
        expected = plain_beam(steps, width)
        assert [each.ids for each in found] == [ids for ids, _ in expected]
        scores = [each.score for each in found]
        assert scores == pytest.approx([score for _, score in expected], abs=1e-4)
