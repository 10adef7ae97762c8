"""Greedy and beam search on scores drawn by hand; no network is involved."""

import itertools
import math
from collections.abc import Iterator

import pytest
import torch

from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.modeling.decoding import LENGTH_REWARD, beam, decode, greedy
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig

CPU = torch.device("cpu")
A, B = 4, 5
VOCABULARY = 8


@pytest.fixture
def restored_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


Chain = dict[int, dict[int, float]]

# Probabilities of the next token after each. The greedy path starts with A (0.6) and then has to
# choose among weak ones; the better path starts with B.
#   A [EOS]   0.6 * 0.4 = 0.24        B [EOS]   0.4 * 0.9 = 0.36
LATTICE: Chain = {
    SOS: {A: 0.6, B: 0.4},
    A: {EOS: 0.4, A: 0.3, B: 0.3},
    B: {EOS: 0.9, A: 0.05, B: 0.05},
}


class ChainState:
    """A state whose next-token scores depend on the last token and on a chain for each sentence."""

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

    def select(self, sentences_B: torch.Tensor, rows_N: torch.Tensor) -> None:
        self.chains = [self.chains[sentence] for sentence in sentences_B.tolist()]


class EndlessState(ChainState):
    """Sentences that end at their limits only, and how many rows there were at each step."""

    def __init__(self, sentences: int) -> None:
        super().__init__([{SOS: {A: 1.0}, A: {A: 1.0}}] * sentences)
        self.counts: list[int] = []

    def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
        self.counts.append(len(tokens_N))
        return super().step(tokens_N)


def random_chain(seed: int) -> Chain:
    random = torch.Generator().manual_seed(seed)
    rows = torch.rand(3, 3, generator=random).softmax(dim=-1).tolist()
    return {
        before: dict(zip((EOS, A, B), row, strict=True))
        for before, row in zip((SOS, A, B), rows, strict=True)
    }


def best_by_enumeration(chain: Chain, limit: int) -> list[int]:
    """The best of all token sequences up to the limit, by the same reward of length."""
    scored = []
    for length in range(limit + 1):
        for words in itertools.product((A, B), repeat=length):
            path = [SOS, *words] + ([EOS] if length < limit else [])
            score = sum(math.log(chain[a].get(b, 1e-30)) for a, b in itertools.pairwise(path))
            tokens = len(path) - 1
            scored.append((score / ((5 + tokens) / 6) ** LENGTH_REWARD, list(words)))
    return max(scored)[1]


def test_greedy_takes_the_best_token_at_each_step():
    assert greedy(ChainState([LATTICE]), [10], CPU) == [[A]]


def test_a_beam_finds_the_better_path_that_starts_worse():
    assert beam(ChainState([LATTICE]), [10], CPU, width=2) == [[B]]


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_is_greedy(seed: int):
    chains = [random_chain(seed), random_chain(seed + 100)]
    by_beam = beam(ChainState(chains), [6, 4], CPU, width=1)
    assert by_beam == greedy(ChainState(chains), [6, 4], CPU)


@pytest.mark.parametrize("seed", range(8))
def test_a_wide_enough_beam_is_enumeration(seed: int):
    chains = [random_chain(seed), random_chain(seed + 100)]
    found = beam(ChainState(chains), [4, 3], CPU, width=40)
    assert found == [best_by_enumeration(chains[0], 4), best_by_enumeration(chains[1], 3)]


def test_a_longer_translation_may_beat_a_more_probable_short_one():
    # A [EOS] has probability 0.30, B c d [EOS] 0.28: rewarded for length, the second is better.
    c, d = 6, 7
    chain: Chain = {SOS: {A: 0.3, B: 0.28}, A: {EOS: 1.0}, B: {c: 1.0}, c: {d: 1.0}, d: {EOS: 1.0}}
    assert beam(ChainState([chain]), [10], CPU, width=2) == [[B, c, d]]


@pytest.mark.parametrize("width", [1, 3])
def test_no_row_grows_beyond_its_limit(width: int):
    endless: Chain = {SOS: {A: 1.0}, A: {A: 1.0}}
    found = beam(ChainState([endless, endless]), [3, 5], CPU, width)
    assert found == [[A] * 3, [A] * 5]
    assert greedy(ChainState([endless, endless]), [3, 5], CPU) == found


def test_rows_that_have_ended_leave_the_search_together():
    limits = [1 + n * 7 % 40 for n in range(40)]  # 1 to 40, out of order: one ends at each step
    state = EndlessState(40)
    found = greedy(state, limits, CPU)
    assert found == [[A] * limit for limit in limits]
    assert state.counts == [40] * 8 + [32] * 16 + [16] * 8 + [8] * 4 + [4] * 2 + [2, 1]


def test_sentences_that_are_done_leave_a_beam_together():
    limits = [3, 9, 1, 7, 5, 2, 8, 6, 4, 10]  # one is done at each step
    state = EndlessState(10)
    found = beam(state, limits, CPU, width=5)
    assert found == [[A] * limit for limit in limits]
    assert state.counts == [5 * sentences for sentences in [10, 9, 9, 9, 6, 6, 6, 3, 3, 1]]


@pytest.mark.parametrize("beam_width", [1, 2])
def test_sources_keep_their_order_whatever_the_batches(beam_width: int):
    # Each source is "translated" to its first token, once for each of its tokens.
    class Repeat:
        def __init__(self, source_BS: torch.Tensor) -> None:
            self.left = (source_BS > EOS).sum(dim=1)
            self.first = source_BS[:, 0]

        def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
            logits_NV = torch.zeros(len(tokens_N), 30)
            wanted_B = torch.where(self.left > 0, self.first, EOS)
            wanted_N = wanted_B.repeat_interleave(len(tokens_N) // len(wanted_B))
            logits_NV[torch.arange(len(tokens_N)), wanted_N] = 20.0
            self.left = self.left - 1
            return logits_NV

        def select(self, sentences_B: torch.Tensor, rows_N: torch.Tensor) -> None:
            self.left, self.first = self.left[sentences_B], self.first[sentences_B]

    sources = [[n] * (1 + n % 7) for n in range(4, 29)]
    for batch_tokens in (1, 30, 1000):
        found = decode(Repeat, sources, CPU, beam_width=beam_width, batch_tokens=batch_tokens)
        assert found == sources


@pytest.mark.parametrize("beam_width", [1, 3])
def test_threads_share_the_batches_and_change_no_translation(
    beam_width: int, restored_threads: None
):
    torch.manual_seed(0)
    plain = Transformer(ModelConfig(d_model=32, num_heads=2, d_ff=64), vocabulary=40).eval()
    model = ready_to_decode(plain)
    sources = [torch.randint(4, 40, (1 + n % 9,)).tolist() for n in range(40)]
    found = []
    for threads, batch_tokens in ((1, 1), (1, 500), (4, 60)):
        torch.set_num_threads(threads)
        found.append(
            decode(model.start, sources, CPU, beam_width=beam_width, batch_tokens=batch_tokens)
        )
        assert torch.get_num_threads() == threads
    assert found[0] == found[1] == found[2]


def test_what_a_thread_or_a_listener_raises_ends_the_search(restored_threads: None):
    torch.set_num_threads(2)

    def refuse(source_BS: torch.Tensor) -> ChainState:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        decode(refuse, [[4]] * 8, CPU, batch_tokens=2)
    started: list[int] = []

    def start(source_BS: torch.Tensor) -> ChainState:
        started.append(torch.get_num_threads())
        return ChainState([LATTICE] * len(source_BS))

    def stop(count: int) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        decode(start, [[4]] * 500, CPU, batch_tokens=2, on_done=stop)
    assert len(started) < 500  # the rest was called off
    assert set(started) == {1}  # each has a core to itself
    assert torch.get_num_threads() == 2
