"""Greedy and beam search on hand-made and random scores, without a model."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from tests.helpers.chains import LATTICE, A, B, Chain, ChainState
from tests.helpers.models import VOCABULARY, decode, small_model
from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding import decode_n_best
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.search import Hypothesis, beam, greedy, sample
from translate_ddp.settings import NBestConfig, SearchConfig

CPU = torch.device("cpu")


def random_chain(seed: int) -> Chain:
    random = torch.Generator().manual_seed(seed)
    rows = torch.rand(3, 3, generator=random).softmax(dim=-1).tolist()
    return {
        before: dict(zip((EOS, A, B), row, strict=True))
        for before, row in zip((SOS, A, B), rows, strict=True)
    }


def best_by_enumeration(chain: Chain, limit: int) -> Hypothesis:
    """The best of all token sequences up to the limit, by the same length normalisation."""
    scored = []
    for length in range(limit + 1):
        for words in itertools.product((A, B), repeat=length):
            path = [SOS, *words] + ([EOS] if length < limit else [])
            score = sum(math.log(chain[a].get(b, 1e-30)) for a, b in itertools.pairwise(path))
            tokens = len(path) - 1
            scored.append((score / tokens**SearchConfig.length_penalty, list(words)))
    score, ids = max(scored)
    return Hypothesis(ids, score)


def best_of(found: list[list[Hypothesis]]) -> list[Hypothesis]:
    return [hypotheses[0] for hypotheses in found]


def ids_of(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [hypothesis.ids for hypothesis in hypotheses]


def test_greedy_takes_most_probable_token_at_each_step():
    assert greedy(ChainState([LATTICE]), [10], CPU) == [Hypothesis([A], score=None)]


def test_beam_finds_better_path_with_worse_start():
    score = math.log(0.4 * 0.9) / 2  # two tokens: B [EOS]
    ((found, *_),) = beam(ChainState([LATTICE]), [10], CPU, width=2)
    assert found.ids == [B] and found.score == pytest.approx(score)


@pytest.mark.parametrize("seed", range(8))
def test_beam_of_width_one_equals_greedy(seed: int):
    chains = [random_chain(seed), random_chain(seed + 100)]
    by_beam = best_of(beam(ChainState(chains), [6, 4], CPU, width=1))
    assert ids_of(by_beam) == ids_of(greedy(ChainState(chains), [6, 4], CPU))


@pytest.mark.parametrize("seed", range(8))
def test_wide_enough_beam_equals_enumeration(seed: int):
    chains = [random_chain(seed), random_chain(seed + 100)]
    found = best_of(beam(ChainState(chains), [4, 3], CPU, width=40))
    expected = [best_by_enumeration(chains[0], 4), best_by_enumeration(chains[1], 3)]
    assert ids_of(found) == ids_of(expected)
    for ours, best in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(best.score)


class EndlessState(ChainState):
    """Sentences that end only at their limits; records the number of rows of each step."""

    def __init__(self, sentences: int) -> None:
        super().__init__([{SOS: {A: 1.0}, A: {A: 1.0}}] * sentences)
        self.counts: list[int] = []

    def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
        self.counts.append(len(tokens_N))
        return super().step(tokens_N)


def test_sentences_end_at_their_limits_and_finished_rows_are_dropped_in_multiples():
    # The limits are out of order, and one sentence is finished at each step.
    limits = [1 + n * 7 % 40 for n in range(40)]
    state = EndlessState(40)
    assert ids_of(greedy(state, limits, CPU)) == [[A] * limit for limit in limits]
    assert state.counts == [40] * 8 + [32] * 16 + [16] * 8 + [8] * 4 + [4] * 2 + [2, 1]

    limits = [3, 9, 1, 7, 5, 2, 8, 6, 4, 10]
    state = EndlessState(10)
    assert ids_of(best_of(beam(state, limits, CPU, width=5))) == [[A] * limit for limit in limits]
    assert state.counts == [5 * sentences for sentences in [10, 9, 9, 9, 6, 6, 6, 3, 3, 1]]


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("beam_width", [1, 3])
def test_translations_are_those_of_each_source_alone_in_order(beam_width: int):
    model = small_model().eval()
    with torch.no_grad():  # an untrained model would repeat its input
        for name, parameter in model.named_parameters():
            if "cross_attention" in name:
                parameter.mul_(4)
    model = ready_to_decode(model)
    sources = [torch.randint(4, VOCABULARY, (1 + n % 9,)).tolist() for n in range(27)]

    def translate(some: list[list[int]], max_tokens: int) -> list[list[int]]:
        return ids_of(decode(model.start, some, beam_width=beam_width, max_tokens=max_tokens))

    alone = [ids for source in sources for ids in translate([source], 500)]
    assert len({tuple(ids) for ids in alone}) > 9  # not the same for sources of one length
    for threads, max_tokens in ((1, 1), (1, 500), (2, 60)):
        torch.set_num_threads(threads)
        assert translate(sources, max_tokens) == alone
        assert torch.get_num_threads() == threads


@pytest.mark.usefixtures("two_threads")
def test_error_of_a_thread_or_callback_ends_decoding():
    def fail(source_BS: torch.Tensor) -> ChainState:
        raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        decode(fail, [[4]] * 8, max_tokens=2)
    started: list[int] = []

    def start(source_BS: torch.Tensor) -> ChainState:
        started.append(torch.get_num_threads())
        return ChainState([LATTICE] * len(source_BS))

    def stop(count: int) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        decode(start, [[4]] * 500, max_tokens=2, on_done=stop)
    assert len(started) < 500  # the remaining batches were cancelled
    assert set(started) == {1}  # each batch has one core
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("beam_width", [1, 3])
def test_scores_that_are_not_numbers_raise(beam_width: int):
    model = small_model().eval()
    with torch.no_grad():
        model.decoder_norm.bias.fill_(torch.nan)
    with pytest.raises(UserError, match="NaN"):
        decode(model.start, [[5, 6]], beam_width=beam_width, max_tokens=100)


def test_higher_length_penalty_prefers_the_longer_hypothesis():
    # Log-probabilities: [EOS] at once log 0.5; A [EOS] log 0.5 + log 0.9.
    chain: Chain = {SOS: {EOS: 0.5, A: 0.5}, A: {EOS: 0.9, A: 0.1}}
    found = [
        beam(ChainState([chain]), [5], CPU, width=3, length_penalty=a)[0][0].ids for a in (0.0, 1.0)
    ]
    assert found == [[], [A]]


def test_beam_lists_the_best_sequences_in_order():
    ((*found,),) = beam(ChainState([LATTICE]), [3], CPU, width=40, length_penalty=0.0)
    expected: dict[tuple[int, ...], float] = {}
    for length in range(4):
        for tokens in itertools.product((A, B), repeat=length):
            path = [SOS, *tokens] + ([EOS] if length < 3 else [])
            steps = [LATTICE[a].get(b, 0.0) for a, b in itertools.pairwise(path)]
            expected[tokens] = math.prod(steps)
    best = sorted(expected, key=lambda tokens: expected[tokens], reverse=True)[:8]
    assert [tuple(each.ids) for each in found[:8]] == best
    probabilities = [math.exp(each.score or 0.0) for each in found[:8]]
    assert probabilities == pytest.approx([expected[tokens] for tokens in best])


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


def test_sample_depends_on_its_own_sentence_and_seed_only():
    model = ready_to_decode(small_model())

    def draw(sources: list[list[int]], seed: int, max_tokens: int) -> list[list[list[int]]]:
        config = NBestConfig(n_best=3, temperature=1.0, seed=seed)
        found = decode_n_best(model.start, sources, CPU, config, max_tokens=max_tokens)
        return [ids_of(samples) for samples in found]

    sources = [[4, 5, 6], [7], [4, 5, 6, 7, 4, 5], [6, 6]]
    together = draw(sources, 0, 1000)
    assert together == draw(sources, 0, 8)
    assert together == draw(sources[::-1], 0, 1000)[::-1]
    assert together != draw(sources, 1, 1000)
    assert len({tuple(ids) for ids in together[0]}) > 1


def test_n_best_of_a_beam_are_its_first_ones():
    model = ready_to_decode(small_model())
    (three,) = decode_n_best(model.start, [[4, 5]], CPU, NBestConfig(4, n_best=3), max_tokens=100)
    assert (
        len(three) == 3
        and three[0] == decode(model.start, [[4, 5]], beam_width=4, max_tokens=100)[0]
    )
    assert len({tuple(each.ids) for each in three}) == 3
    scores = [each.score or 0.0 for each in three]
    assert scores == sorted(scores, reverse=True)


def test_more_translations_than_hypotheses_are_rejected():
    with pytest.raises(ValueError, match="n_best 5 is more than beam_width 4: pass --beam_width 5"):
        NBestConfig(beam_width=4, n_best=5)
    assert NBestConfig(beam_width=1, n_best=5, temperature=0.7).rows_per_sentence == 5


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
    model = small_model().eval()
    sources, targets = [[4, 5], [4, 6]], [[PAD, 6], [7, 5, 6]]
    together = TorchEngine(model, CPU).log_probs(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = TorchEngine(model, CPU).log_probs([source], [target])
        assert found.tolist() == pytest.approx(alone.tolist(), abs=1e-5)
        assert len(found) == len(target) + 1


def test_log_probabilities_that_are_not_numbers_are_an_error():
    model = small_model()
    with torch.no_grad():
        model.decoder_norm.bias.fill_(torch.nan)
    with pytest.raises(UserError, match="scores are not numbers"):
        TorchEngine(model, CPU).log_probs([[4]], [[5]])
