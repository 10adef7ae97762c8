"""Greedy and beam search over ids and scores; they never see the network.

What they search is a `State`: feed one token a row, get scores of the next, reorder the rows.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.batches import pad
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, OutOfMemory, explain_out_of_memory

LENGTH_REWARD = 0.6  # exponent of Wu et al. 2016, eq. 14

# A search goes on with a multiple of about so many rows, some of them ended, or with a power of two
# where few are left. To leave costs a copy of all that stays, and kernels that were compiled for a
# number of rows serve other batches, too.
ROWS_TOGETHER = 16


# Tokens decoded together, padding and beams included. On a GPU a step of few rows takes as long as
# one of many.
CPU_BATCH_TOKENS, GPU_BATCH_TOKENS = 4096, 65_536


class State(Protocol):
    """N target rows under way for B sentences, those of one sentence side by side."""

    def step(self, tokens_N: Tensor) -> Tensor:
        """Append a token to each row; return logits_NV of the one after it, in fp32."""
        ...

    def select(self, sentences_B: Tensor, rows_N: Tensor) -> None:
        """Go on with these sentences, in the order they had, and with these of their rows.

        A row may be taken twice, but each sentence keeps as many as the others.
        """
        ...


def default_batch_tokens(device: torch.device) -> int:
    return CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS


def length_limit(source_tokens: int) -> int:
    """How long a translation may become: by its own source alone, never by its neighbours'."""
    return 2 * source_tokens + 20


def greedy(state: State, limits: Sequence[int], device: torch.device) -> list[list[int]]:
    """The most probable next token, until [EOS] or a row's limit; ended rows leave by and by."""
    outputs: list[list[int]] = [[] for _ in limits]
    rows = list(range(len(limits)))
    going = set(rows)
    tokens_N = torch.full((len(rows),), SOS, device=device)
    for length in itertools.count(1):
        tokens_N = state.step(tokens_N).argmax(dim=-1)
        for row, token in zip(rows, tokens_N.tolist(), strict=True):
            if row in going:
                if token != EOS:
                    outputs[row].append(token)
                if token == EOS or length == limits[row]:
                    going.remove(row)
        if not going:
            break
        kept = _staying([row in going for row in rows], ROWS_TOGETHER)
        if len(kept) < len(rows):
            rows = [rows[place] for place in kept]
            kept_N = torch.tensor(kept, device=device)
            state.select(kept_N, kept_N)
            tokens_N = tokens_N[kept_N]
    return outputs


def beam(state: State, limits: Sequence[int], device: torch.device, width: int) -> list[list[int]]:
    """The best of the hypotheses that a beam of `width` finds, by length-rewarded log-probability.

    A sentence is done once `width` of its hypotheses have ended or its limit is reached.
    """
    sentences = list(range(len(limits)))
    going = set(sentences)
    ended: list[list[tuple[float, list[int]]]] = [[] for _ in limits]
    tokens_BW = torch.full((len(limits), width), SOS, device=device)
    # All W rows of a sentence start alike: only the first may speak at first.
    scores_BW = torch.full((len(limits), width), -torch.inf, device=device)
    scores_BW[:, 0] = 0.0
    written_BWT = torch.empty(len(limits), width, 0, dtype=torch.int64, device=device)
    while True:
        log_p_NV = state.step(tokens_BW.flatten()).log_softmax(dim=-1)
        best_BC, beams_BC, tokens_BC = _continuations(log_p_NV, scores_BW)
        _collect(ended, going, sentences, limits, best_BC, beams_BC, tokens_BC, written_BWT)
        if not going:
            break
        # The first W continuations that are not [EOS], best first.
        _, order_BC = (tokens_BC == EOS).sort(dim=1, stable=True)
        chosen_BW = order_BC[:, :width]
        together = max(1, ROWS_TOGETHER // width)
        kept = _staying([sentence in going for sentence in sentences], together)
        kept_B = torch.tensor(kept, device=device)
        beams_BW, tokens_BW, scores_BW = (
            x_BC.gather(1, chosen_BW)[kept_B] for x_BC in (beams_BC, tokens_BC, best_BC)
        )
        scores_BW = scores_BW.masked_fill(tokens_BW == EOS, -torch.inf)
        state.select(kept_B, (kept_B[:, None] * width + beams_BW).flatten())
        history_BWT = written_BWT[kept_B[:, None], beams_BW]
        written_BWT = torch.cat([history_BWT, tokens_BW[..., None]], dim=2)
        sentences = [sentences[place] for place in kept]
    return [max(hypotheses, key=lambda scored: scored[0])[1] for hypotheses in ended]


def _continuations(log_p_NV: Tensor, scores_BW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The C = 2W best continuations of each sentence: their scores, beams and tokens, best first.

    At most W of them can be [EOS], so W that go on are among them. They are also among the C best
    of each beam alone, which need no score of the beam to be found.
    """
    width = scores_BW.shape[1]
    best_NC, tokens_NC = log_p_NV.topk(min(2 * width, log_p_NV.shape[1]))
    totals_BWC = best_NC.unflatten(0, (-1, width)) + scores_BW[..., None]
    totals_BX, tokens_BX = totals_BWC.flatten(1), tokens_NC.view(len(scores_BW), -1)
    best_BC, where_BC = totals_BX.topk(min(2 * width, totals_BX.shape[1]))
    return best_BC, where_BC // best_NC.shape[1], tokens_BX.gather(1, where_BC)


def _collect(
    ended: list[list[tuple[float, list[int]]]],
    going: set[int],
    sentences: list[int],
    limits: Sequence[int],
    best_BC: Tensor,
    beams_BC: Tensor,
    tokens_BC: Tensor,
    written_BWT: Tensor,
) -> None:
    """Add to `ended` what ends among the W best, and take from `going` the sentences now done."""
    _, width, written = written_BWT.shape
    length = written + 1
    reward = ((5 + length) / 6) ** LENGTH_REWARD
    best, beams, tokens = (x_BC[:, :width].tolist() for x_BC in (best_BC, beams_BC, tokens_BC))
    for place, sentence in enumerate(sentences):
        if sentence not in going:
            continue
        is_last = length >= limits[sentence]
        for score, row, token in zip(best[place], beams[place], tokens[place], strict=True):
            if (token == EOS or is_last) and score > -torch.inf:
                before = written_BWT[place, row].tolist()
                words = before if token == EOS else [*before, token]
                ended[sentence].append((score / reward, words))
        if is_last or len(ended[sentence]) >= width:
            going.remove(sentence)


def _staying(going: Sequence[bool], together: int) -> list[int]:
    """The places that stay in a search: all still going, of which there is one at least, and so
    many ended ones, if there are, that the count is a multiple of `together`, or a power of two
    when no more than half of `together` are going.
    """
    count = sum(going)
    if count > together // 2:
        count = math.ceil(count / together) * together
    else:
        count = 1 << (count - 1).bit_length()
    going_first = sorted(range(len(going)), key=lambda place: not going[place])
    return sorted(going_first[:count])


def decode(
    start: Callable[[Tensor], State],
    sources: Sequence[Sequence[int] | np.ndarray],
    device: torch.device,
    *,
    beam_width: int = 1,
    batch_tokens: int = 2048,
    on_done: Callable[[int], None] = lambda count: None,
) -> list[list[int]]:
    """Search a translation for each source, in the order given.

    `start` reads a padded batch of sources, source_BS, and returns the state before the first
    target token. Sources are batched by length, up to `batch_tokens` with padding and beams. The
    threads of a CPU take a batch each, which keeps them busier than one batch for all of them.
    Raises OutOfMemory if a single sentence does not fit the device's memory.
    """
    outputs: list[list[int]] = [[] for _ in sources]

    def search(rows: list[int]) -> list[list[int]]:
        sentences = [np.asarray(sources[row], dtype=np.int64) for row in rows]
        limits = [length_limit(len(sentence)) for sentence in sentences]
        with torch.inference_mode():
            state = start(pad(Ragged.of(sentences), last=EOS).to(device))
            if beam_width == 1:
                return greedy(state, limits, device)
            return beam(state, limits, device, beam_width)

    def search_in_memory(rows: list[int]) -> list[list[int]]:
        """As `search`, by halves where the memory does not suffice for all rows at once."""
        nonlocal batch_tokens
        length = len(sources[rows[0]])  # the longest
        tokens = len(rows) * (length + 1) * beam_width
        where = f"a sentence of {length} tokens with a beam of {beam_width}"
        advice = "lower --beam_width" if beam_width > 1 else FREE_MEMORY
        if len(rows) == 1 or tokens <= batch_tokens:
            try:
                with explain_out_of_memory(device, lambda: where, advice):
                    return search(rows)
            except OutOfMemory:
                if len(rows) == 1:
                    raise
                batch_tokens = tokens - 1  # the batches that follow are not tried as a whole
        # Not in the handler, whose error holds on to what the search had allocated.
        half = len(rows) // 2
        return search_in_memory(rows[:half]) + search_in_memory(rows[half:])

    batches = by_length([len(source) for source in sources], beam_width, batch_tokens)
    at_once = min(torch.get_num_threads() if device.type == "cpu" else 1, len(batches))
    with side_by_side(at_once) as apply:
        for rows, found in zip(batches, apply(search_in_memory, batches), strict=True):
            for row, ids in zip(rows, found, strict=True):
                outputs[row] = ids
            on_done(len(rows))
    return outputs


def by_length(lengths: Sequence[int], beam_width: int, batch_tokens: int) -> list[list[int]]:
    """Rows of about one length together, the longest first."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
    batches: list[list[int]] = []
    while order:
        count = max(1, batch_tokens // ((lengths[order[0]] + 1) * beam_width))
        batches.append(order[:count])
        order = order[count:]
    return batches


@contextmanager
def side_by_side(count: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` that works on `count` items at once; if more than one, with a thread for each."""
    if count <= 1:
        yield map
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(count) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(threads)
