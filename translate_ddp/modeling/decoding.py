"""Greedy and beam search over token ids and scores, independent of the model.

A search works on a `SearchState`: it appends a token to each row, gets the scores of the next one,
and keeps or drops rows.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.batches import group_by_tokens, pad
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.errors import UserError
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, OutOfMemory, explain_out_of_memory
from translate_ddp.settings import SearchConfig

NAN_TOKEN = -1  # in the place of a token whose score is not a number
SCORES_ARE_NAN = (
    "The model's scores are not numbers (NaN), so its weights or its precision are unusable: "
    "use an earlier checkpoint (--preload), or train again with a lower --lr."
)

# A search keeps a multiple of this many rows, some of them finished, or a power of two if few are
# left: dropping rows copies the caches of the others, and every other number of rows makes oneDNN
# compile kernels.
ROW_MULTIPLE = 16

# Tokens decoded at once: source tokens with padding, times the beam width. On a GPU a step of few
# rows takes as long as one of many.
CPU_MAX_TOKENS, GPU_MAX_TOKENS = 4096, 65_536


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation without its final [EOS]."""

    ids: list[int]
    score: float | None  # length-normalised log-probability; None from greedy search


class SearchState(Protocol):
    """N target rows of a search over B sentences; those of one sentence are adjacent."""

    def step(self, tokens_N: Tensor) -> Tensor:
        """Append a token to each row; return logits_NV of the next one, in fp32."""
        ...

    def select(self, sentences_B: Tensor, rows_N: Tensor) -> None:
        """Keep these sentences, in order, and these of their rows.

        A row may be repeated, but all sentences keep the same number of rows.
        """
        ...


def default_max_tokens(device: torch.device) -> int:
    return CPU_MAX_TOKENS if device.type == "cpu" else GPU_MAX_TOKENS


def length_limit(source_tokens: int) -> int:
    """Maximum length of a translation, which depends on its own source only."""
    return 2 * source_tokens + 20


def greedy(state: SearchState, limits: Sequence[int], device: torch.device) -> list[Hypothesis]:
    """For each row the most probable next token, until [EOS] or the row's limit."""
    outputs: list[list[int]] = [[] for _ in limits]
    rows = list(range(len(limits)))
    unfinished = set(rows)
    tokens_N = torch.full((len(rows),), SOS, device=device)
    for length in itertools.count(1):
        best_N, tokens_N = state.step(tokens_N).max(dim=-1)
        tokens_N = tokens_N.masked_fill(best_N.isnan(), NAN_TOKEN)
        for row, token in zip(rows, tokens_N.tolist(), strict=True):
            if token == NAN_TOKEN:
                raise UserError(SCORES_ARE_NAN)
            if row in unfinished and token != EOS:
                outputs[row].append(token)
            if token == EOS or length == limits[row]:
                unfinished.discard(row)
        if not unfinished:
            break
        kept = rows_to_keep([row in unfinished for row in rows], ROW_MULTIPLE)
        if len(kept) < len(rows):
            rows = [rows[index] for index in kept]
            kept_N = torch.tensor(kept, device=device)
            state.select(kept_N, kept_N)
            tokens_N = tokens_N[kept_N]
    return [Hypothesis(ids, score=None) for ids in outputs]


def beam(
    state: SearchState,
    limits: Sequence[int],
    device: torch.device,
    width: int,
    length_penalty: float = SearchConfig.length_penalty,
) -> list[Hypothesis]:
    """For each sentence the best hypothesis of a beam search.

    The score of a hypothesis is its log-probability / (number of tokens, [EOS] included) **
    `length_penalty`. A sentence is finished when `width` of its hypotheses are, or at its limit.
    """
    sentences = list(range(len(limits)))
    unfinished = set(sentences)
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    tokens_BW = torch.full((len(limits), width), SOS, device=device)
    # All W rows of a sentence start alike: only the first may be continued at first.
    scores_BW = torch.full((len(limits), width), -torch.inf, device=device)
    scores_BW[:, 0] = 0.0
    ids_BWT = torch.empty(len(limits), width, 0, dtype=torch.int64, device=device)
    while True:
        log_p_NV = state.step(tokens_BW.flatten()).log_softmax(dim=-1)
        best_BC, beams_BC, tokens_BC = _continuations(log_p_NV, scores_BW)
        best = (best_BC, beams_BC, tokens_BC)
        _collect(finished, unfinished, sentences, limits, best, ids_BWT, length_penalty)
        if not unfinished:
            break
        # The first W continuations that are not [EOS], best first.
        _, order_BC = (tokens_BC == EOS).sort(dim=1, stable=True)
        chosen_BW = order_BC[:, :width]
        multiple = max(1, ROW_MULTIPLE // width)
        kept = rows_to_keep([sentence in unfinished for sentence in sentences], multiple)
        kept_B = torch.tensor(kept, device=device)
        beams_BW, tokens_BW, scores_BW = (
            x_BC.gather(1, chosen_BW)[kept_B] for x_BC in (beams_BC, tokens_BC, best_BC)
        )
        scores_BW = scores_BW.masked_fill(tokens_BW == EOS, -torch.inf)
        state.select(kept_B, (kept_B[:, None] * width + beams_BW).flatten())
        history_BWT = ids_BWT[kept_B[:, None], beams_BW]
        ids_BWT = torch.cat([history_BWT, tokens_BW[..., None]], dim=2)
        sentences = [sentences[index] for index in kept]
    return [max(hypotheses, key=attrgetter("score")) for hypotheses in finished]


def _continuations(log_p_NV: Tensor, scores_BW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The C = 2W best continuations of each sentence: scores, beams and tokens, best first.

    At most W of them are [EOS], so at least W can be continued. All of them are also among the C
    best of their own beam, which can be found before the beams' scores are added.
    """
    width = scores_BW.shape[1]
    best_NC, tokens_NC = log_p_NV.topk(min(2 * width, log_p_NV.shape[1]))
    totals_BWC = best_NC.unflatten(0, (-1, width)) + scores_BW[..., None]
    totals_BX, tokens_BX = totals_BWC.flatten(1), tokens_NC.view(len(scores_BW), -1)  # X = W * C
    best_BC, where_BC = totals_BX.topk(min(2 * width, totals_BX.shape[1]))
    return best_BC, where_BC // best_NC.shape[1], tokens_BX.gather(1, where_BC)


def _collect(
    finished: list[list[Hypothesis]],
    unfinished: set[int],
    sentences: list[int],
    limits: Sequence[int],
    continuations: tuple[Tensor, Tensor, Tensor],
    ids_BWT: Tensor,
    length_penalty: float,
) -> None:
    """Add the hypotheses that end among the W best; remove finished sentences from `unfinished`."""
    _, width, length_before = ids_BWT.shape
    length = length_before + 1
    best, beams, tokens = (x_BC[:, :width].tolist() for x_BC in continuations)
    for index, sentence in enumerate(sentences):
        if any(map(math.isnan, best[index])):
            raise UserError(SCORES_ARE_NAN)
        if sentence not in unfinished:
            continue
        at_limit = length >= limits[sentence]
        for score, row, token in zip(best[index], beams[index], tokens[index], strict=True):
            if (token == EOS or at_limit) and score > -torch.inf:
                ids = ids_BWT[index, row].tolist() + ([] if token == EOS else [token])
                finished[sentence].append(Hypothesis(ids, score / length**length_penalty))
        if at_limit or len(finished[sentence]) >= width:
            unfinished.remove(sentence)


def rows_to_keep(is_unfinished: Sequence[bool], multiple: int) -> list[int]:
    """Indices of all unfinished rows, of which there are some, and of finished ones to fill up.

    Up to a multiple of `multiple`, or to a power of two if at most half of it are unfinished.
    """
    count = sum(is_unfinished)
    is_many = count > multiple // 2
    count = math.ceil(count / multiple) * multiple if is_many else 1 << (count - 1).bit_length()
    unfinished_first = sorted(range(len(is_unfinished)), key=lambda index: not is_unfinished[index])
    return sorted(unfinished_first[:count])


def decode(
    start: Callable[[Tensor], SearchState],
    sources: Sequence[Sequence[int] | np.ndarray],
    device: torch.device,
    *,
    max_tokens: int,
    beam_width: int = 1,
    length_penalty: float = SearchConfig.length_penalty,
    on_done: Callable[[int], None] = lambda count: None,
) -> list[Hypothesis]:
    """The best translation of each source, in the order of the sources; a width of 1 is greedy.

    `start` encodes a padded batch, source_BS, and returns the state before the first target token.
    Sources of similar length form a batch of up to `max_tokens` tokens, padding and beams included.
    On a CPU each thread searches a batch of its own. `on_done` receives the number of sentences of
    each finished batch. Raises OutOfMemory if a single sentence needs too much memory, UserError if
    scores are NaN.
    """
    outputs: dict[int, Hypothesis] = {}

    def search(rows: list[int]) -> list[Hypothesis]:
        sentences = [np.asarray(sources[row], dtype=np.int64) for row in rows]
        limits = [length_limit(len(sentence)) for sentence in sentences]
        with torch.inference_mode():
            state = start(pad(Ragged.of(sentences), last=EOS).to(device))
            if beam_width > 1:
                return beam(state, limits, device, beam_width, length_penalty)
            return greedy(state, limits, device)

    def search_in_memory(rows: list[int]) -> list[Hypothesis]:
        """As `search`, but in halves if the memory does not suffice for all rows at once."""
        nonlocal max_tokens
        length = len(sources[rows[0]])  # the longest
        tokens = len(rows) * (length + 1) * beam_width
        where = f"a sentence of {length} tokens with a beam of {beam_width}"
        advice = "lower --beam_width" if beam_width > 1 else FREE_MEMORY
        if len(rows) == 1 or tokens <= max_tokens:
            try:
                with explain_out_of_memory(device, lambda: where, advice):
                    return search(rows)
            except OutOfMemory:
                if len(rows) == 1:
                    raise
                max_tokens = tokens - 1  # later batches of this size are halved without a try
        # Outside of the handler, whose traceback keeps the tensors of the failed search alive.
        half = len(rows) // 2
        return search_in_memory(rows[:half]) + search_in_memory(rows[half:])

    lengths = np.array([len(source) + 1 for source in sources], dtype=np.int64) * beam_width
    longest_first = np.argsort(-lengths, kind="stable")
    batches = [rows.tolist() for rows in group_by_tokens(longest_first, lengths, max_tokens)]
    num_threads = min(torch.get_num_threads() if device.type == "cpu" else 1, len(batches))
    with thread_map(num_threads) as apply:
        for rows, found in zip(batches, apply(search_in_memory, batches), strict=True):
            outputs |= zip(rows, found, strict=True)
            on_done(len(rows))
    return [outputs[row] for row in range(len(sources))]


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
