"""Greedy search, sampling and beam search on hand-made and random scores, without a model."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

from tests.helpers.chains import LATTICE, A, B, Chain, ChainState
from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.modeling import search
from translate_ddp.modeling.repetition import until_repetition
from translate_ddp.modeling.search import Hypothesis, _exclude_repeats, beam, greedy, sample
from translate_ddp.modeling.search_options import NBestConfig

CPU = torch.device("cpu")


def random_chain(seed: int, tokens: int = 3) -> Chain:
    """Probabilities of each token, [EOS] among them, after [SOS] and the others."""
    random = torch.Generator().manual_seed(seed)
    rows = (3 * torch.randn(tokens, tokens, generator=random)).softmax(dim=-1).tolist()
    words = [EOS, *range(A, A + tokens - 1)]
    chances = [dict(zip(words, row, strict=True)) for row in rows]
    return dict(zip([SOS, *words[1:]], chances, strict=True))


def by_enumeration(chain: Chain, limit: int, length_penalty: float) -> dict[tuple[int, ...], float]:
    """The scores of all sequences of A and B up to the limit."""
    scores: dict[tuple[int, ...], float] = {}
    for length in range(limit + 1):
        for words in itertools.product((A, B), repeat=length):
            path = [SOS, *words] + ([EOS] if length < limit else [])
            score = sum(math.log(chain[a].get(b, 1e-30)) for a, b in itertools.pairwise(path))
            scores[words] = score / (len(path) - 1) ** length_penalty
    return scores


def ids_of(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [hypothesis.ids for hypothesis in hypotheses]


def test_greedy_takes_most_probable_token_at_each_step():
    assert greedy(ChainState([LATTICE]), [10], CPU) == [Hypothesis([A], score=None)]


@pytest.mark.parametrize("seed", range(8))
def test_beam_of_width_one_equals_greedy(seed: int):
    chains = [random_chain(seed), random_chain(seed + 100)]
    found = beam(ChainState(chains), [6, 4], CPU, width=1)
    best = [hypotheses[0] for hypotheses in found]
    assert ids_of(best) == ids_of(greedy(ChainState(chains), [6, 4], CPU))


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_wide_enough_beam_lists_the_best_sequences_in_order(seed: int, length_penalty: float):
    chains, limits = [LATTICE, random_chain(seed)], [3, 4]
    found = beam(ChainState(chains), limits, CPU, width=40, length_penalty=length_penalty)
    for hypotheses, chain, limit in zip(found, chains, limits, strict=True):
        expected = by_enumeration(chain, limit, length_penalty)
        scores = {tuple(each.ids): each.score for each in hypotheses[:8]}
        assert scores == pytest.approx({ids: expected[ids] for ids in scores}, abs=1e-4)
        best = sorted(expected.values(), reverse=True)[:8]
        assert [*scores.values()] == pytest.approx(best, abs=1e-4)


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
    for seed in range(20):
        steps = [random_chain(100 * seed + step, tokens=7) for step in range(6)]
        ((*found,),) = beam(ChangingChain(steps), [6], CPU, width=width, length_penalty=0.0)
        expected = plain_beam(steps, width)
        assert ids_of(found) == [ids for ids, _ in expected]
        scores = [each.score for each in found]
        assert scores == pytest.approx([score for _, score in expected], abs=1e-4)


ENDLESS = [A + n % 15 for n in range(40)]  # of a longer unit than those that end a search


class EndlessState(ChainState):
    """Sentences that end only at their limits; records the number of rows of each step."""

    def __init__(self, sentences: int) -> None:
        chain = {word: {after: 1.0} for word, after in itertools.pairwise([SOS, *ENDLESS])}
        super().__init__([chain] * sentences)
        self.counts: list[int] = []

    def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
        self.counts.append(len(tokens_N))
        return super().step(tokens_N)


def test_sentences_end_at_their_limits_and_finished_rows_are_dropped_in_multiples():
    # The limits are out of order, and one sentence is finished at each step.
    limits = [1 + n * 7 % 40 for n in range(40)]
    state = EndlessState(40)
    assert ids_of(greedy(state, limits, CPU)) == [ENDLESS[:limit] for limit in limits]
    assert state.counts == [40] * 8 + [32] * 16 + [16] * 8 + [8] * 4 + [4] * 2 + [2, 1]

    limits = [3, 9, 1, 7, 5, 2, 8, 6, 4, 10]
    state = EndlessState(10)
    best = [hypotheses[0] for hypotheses in beam(state, limits, CPU, width=5)]
    assert ids_of(best) == [ENDLESS[:limit] for limit in limits]
    assert state.counts == [5 * sentences for sentences in [10, 9, 9, 9, 6, 6, 6, 3, 2, 1]]


@pytest.mark.parametrize("columns", [9, 700, 8000])
def test_best_tokens_are_those_of_sorted_scores(columns: int):
    scores_NV = torch.randn(6, columns, generator=torch.Generator().manual_seed(columns))
    scores_NV[0, -3:] = 9.0 + torch.arange(3)  # the last ones are in no block of columns
    scores_NV[1, 4] = torch.nan
    order = scores_NV.nan_to_num(torch.inf).argsort(dim=-1, descending=True)
    assert search.largest(scores_NV)[1].tolist() == order[:, 0].tolist()
    assert search.largest(scores_NV)[0][1].isnan()
    values_NC, tokens_NC = search.top(scores_NV, 5)
    assert tokens_NC.tolist() == order[:, :5].tolist()
    torch.testing.assert_close(values_NC, scores_NV.gather(1, order[:, :5]), equal_nan=True)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize(("unit", "length"), [(1, 32), (2, 32), (5, 32), (12, 56), (13, 100)])
def test_search_ends_if_it_only_repeats(unit: int, length: int, width: int):
    # Three tokens, then the unit again and again: at least 24 tokens and 4 times, but of 13 tokens.
    words = list(range(A, A + 3 + unit))
    chain: Chain = {before: {after: 1.0} for before, after in itertools.pairwise([SOS, *words])}
    chain[words[-1]] = {words[3]: 1.0}
    expected = [*words[:3], *words[3:] * 100][:length]
    if width == 1:
        ((found,),) = [greedy(ChainState([chain]), [100], CPU)]
    else:
        ((found, *_),) = beam(ChainState([chain]), [100], CPU, width)
    assert found.ids == expected == until_repetition([*words[:3], *words[3:] * 100][:100])


def test_samples_have_the_probabilities_of_the_model():
    count = 20_000
    (found,) = sample(ChainState([LATTICE]), [2], CPU, [[0]], count, temperature=1.0)
    shares = Counter(tuple(each.ids) for each in found)
    expected = {(A,): 0.24, (A, A): 0.18, (A, B): 0.18, (B,): 0.36, (B, A): 0.02, (B, B): 0.02}
    assert shares.keys() == expected.keys()
    for tokens, probability in expected.items():
        spread = math.sqrt(probability * (1 - probability) / count)
        assert abs(shares[tokens] / count - probability) < 5 * spread


def test_low_temperature_samples_the_greedy_translation():
    (greedy_ids,) = greedy(ChainState([LATTICE]), [4], CPU)
    (found,) = sample(ChainState([LATTICE]), [4], CPU, [[1]], 10, temperature=0.01)
    assert found == [greedy_ids] * 10


def test_samples_may_be_more_than_hypotheses():
    assert NBestConfig(beam_width=1, n_best=5, temperature=0.7).rows_per_sentence == 5


def test_tokens_that_would_repeat_an_n_gram_are_excluded():
    for size, excluded in {1: [[1, 2], [3, 4]], 2: [[2], []], 3: [[2], []], 9: [[], []]}.items():
        log_p_NV = torch.zeros(2, 5)
        _exclude_repeats(log_p_NV, np.array([[2, 1, 2, 1], [3, 3, 3, 4]]), size)
        assert [row.isinf().nonzero()[:, 0].tolist() for row in log_p_NV] == excluded
