"""Translates token ids in batches that fit the memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.batches import group_by_tokens, pad
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS
from translate_ddp.modeling.search import Hypothesis, SearchState, beam, greedy, sample
from translate_ddp.runtime.device import FREE_MEMORY, OutOfMemory, explain_out_of_memory
from translate_ddp.settings import NBestConfig

# Tokens decoded at once: source tokens with padding, times the rows of a sentence. On a GPU a step
# of few rows takes as long as one of many.
CPU_MAX_TOKENS, GPU_MAX_TOKENS = 4096, 65_536


def default_max_tokens(device: torch.device) -> int:
    return CPU_MAX_TOKENS if device.type == "cpu" else GPU_MAX_TOKENS


def length_limit(source_tokens: int) -> int:
    """Maximum length of a translation, which depends on its own source only."""
    return 2 * source_tokens + 20


def longest_first(
    sources: Sequence[Sequence[int] | np.ndarray], max_tokens: int, width: int = 1
) -> list[list[int]]:
    """Batches of rows of similar length, the longest first, each of up to `max_tokens`.

    A source takes its tokens and [EOS], padding included, times its `width` hypotheses.
    """
    lengths = np.array([len(source) + 1 for source in sources], dtype=np.int64) * width
    order = np.argsort(-lengths, kind="stable")
    return [rows.tolist() for rows in group_by_tokens(order, lengths, max_tokens)]


@dataclass
class BatchSearch:
    """Searches batches of rows of the sources, in halves where the memory does not suffice.

    Threads share it: `max_tokens` is lowered to the size that fits.
    """

    start: Callable[[Tensor], SearchState]
    sources: Sequence[Sequence[int] | np.ndarray]
    device: torch.device
    config: NBestConfig
    max_tokens: int  # of a batch, padding and hypotheses included

    def search_in_memory(self, rows: list[int]) -> list[list[Hypothesis]]:
        """As `search`, but in halves if the memory does not suffice for all rows at once."""
        width, is_sample = self.config.rows_per_sentence, bool(self.config.temperature)
        length = len(self.sources[rows[0]])  # the longest
        tokens = len(rows) * (length + 1) * width
        name = f"{width} samples" if is_sample else f"a beam of {width}"
        where = f"a sentence of {length} tokens with {name}"
        flag = "--n_best" if is_sample else "--beam_width"
        advice = f"lower {flag}" if width > 1 else FREE_MEMORY
        if len(rows) == 1 or tokens <= self.max_tokens:
            try:
                with explain_out_of_memory(self.device, lambda: where, advice):
                    return self.search(rows)
            except OutOfMemory:
                if len(rows) == 1:
                    raise
                # Later batches of this size are halved without a try.
                self.max_tokens = tokens - 1
        # Outside of the handler, whose traceback keeps the tensors of the failed search alive.
        half = len(rows) // 2
        return self.search_in_memory(rows[:half]) + self.search_in_memory(rows[half:])

    def search(self, rows: list[int]) -> list[list[Hypothesis]]:
        config, device, width = self.config, self.device, self.config.rows_per_sentence
        sentences = [np.asarray(self.sources[row], dtype=np.int64) for row in rows]
        limits = [length_limit(len(sentence)) for sentence in sentences]
        with torch.inference_mode():
            state = self.start(pad(Ragged.of(sentences), last=EOS).to(device))
            if config.temperature:
                seeds = [[config.seed, *sentence.tolist()] for sentence in sentences]
                return sample(state, limits, device, seeds, width, config.temperature)
            if width > 1:
                found = beam(state, limits, device, width, config.length_penalty)
                return [hypotheses[: config.n_best] for hypotheses in found]
            return [[hypothesis] for hypothesis in greedy(state, limits, device)]


def decode_n_best(
    start: Callable[[Tensor], SearchState],
    sources: Sequence[Sequence[int] | np.ndarray],
    device: torch.device,
    config: NBestConfig,
    *,
    max_tokens: int,
    on_done: Callable[[int], None] = lambda count: None,
) -> list[list[Hypothesis]]:
    """`config.n_best` translations of each source, in the order of the sources.

    Those of a beam search are best first, samples in the order in which they were drawn. Those of
    an empty source are empty.

    `start` encodes a padded batch, source_BS, and returns the state before the first target token.
    Sources of similar length form a batch of up to `max_tokens` tokens, padding and beams included.
    On a CPU each thread searches a batch of its own. `on_done` receives the number of sentences of
    each finished batch. Raises OutOfMemory if a single sentence needs too much memory, UserError if
    scores are NaN.
    """
    outputs: dict[int, list[Hypothesis]] = {}
    filled = [source for source in sources if len(source)]
    if empty := len(sources) - len(filled):
        on_done(empty)
    batches = longest_first(filled, max_tokens, config.rows_per_sentence)
    num_threads = min(torch.get_num_threads() if device.type == "cpu" else 1, len(batches))
    search = BatchSearch(start, filled, device, config, max_tokens)
    with thread_map(num_threads) as apply:
        for rows, found in zip(batches, apply(search.search_in_memory, batches), strict=True):
            outputs |= zip(rows, found, strict=True)
            on_done(len(rows))
    found = iter([outputs[row] for row in range(len(filled))])
    nothing = [Hypothesis([], score=None)] * config.n_best
    return [next(found) if len(source) else nothing for source in sources]


@contextmanager
def thread_map(num_threads: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` that runs in this many threads, each with one core."""
    if num_threads <= 1:
        yield map
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(num_threads) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(before)
