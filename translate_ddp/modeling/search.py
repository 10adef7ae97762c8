"""Greedy search, sampling and beam search over token ids and scores, independent of the model.

A search works on a `SearchState`: it appends a token to each row, gets the scores of the next one,
and keeps or drops rows. In each step the host waits once for the device, to copy what it needs.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.errors import UserError
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


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation without its final [EOS]."""

    ids: list[int]
    score: float | None  # length-normalised log-probability; None unless from a beam search


Choose = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


class SearchState(Protocol):
    """N target rows of a search over B sentences; the rows of one sentence are adjacent."""

    def step(self, tokens_N: Tensor) -> Tensor:
        """Append a token to each row; return logits_NV of the next one, in fp32."""
        ...

    def select(self, sentences_B: Tensor, rows_N: Tensor) -> None:
        """Keep these sentences, in order, and these of their rows.

        A row may be repeated, but all sentences keep the same number of rows.
        """
        ...


def greedy(state: SearchState, limits: Sequence[int], device: torch.device) -> list[Hypothesis]:
    """For each sentence the most probable next token, until [EOS] or the sentence's limit."""

    def most_probable(logits_NV: Tensor, rows_N: Tensor, length: int) -> tuple[Tensor, Tensor]:
        return logits_NV.max(dim=-1)

    return [found for (found,) in _follow(state, limits, device, 1, most_probable)]


def sample(
    state: SearchState,
    limits: Sequence[int],
    device: torch.device,
    seeds: Sequence[Sequence[int]],
    count: int,
    temperature: float,
) -> list[list[Hypothesis]]:
    """For each sentence `count` translations whose tokens are drawn from the model's distribution.

    Its logits are divided by `temperature`. `seeds` holds non-negative integers for each sentence,
    and fixes its translations, whatever the other sentences are.
    """
    draws_TN = np.zeros((max(limits), len(limits) * count))
    for sentence, (seed, limit) in enumerate(zip(seeds, limits, strict=True)):
        rows = slice(sentence * count, (sentence + 1) * count)
        draws_TN[:limit, rows] = np.random.default_rng(seed).random((count, limit)).T
    on_device_TN = torch.from_numpy(draws_TN).to(device)

    def drawn(logits_NV: Tensor, rows_N: Tensor, length: int) -> tuple[Tensor, Tensor]:
        p_NV = (logits_NV.double() / temperature).softmax(dim=-1)
        draw_N1 = on_device_TN[length - 1][rows_N][:, None]
        tokens_N1 = torch.searchsorted(p_NV.cumsum(dim=-1), draw_N1, right=True)
        # Rounding may leave the last sum below the draw.
        tokens_N1 = tokens_N1.clamp(max=p_NV.shape[-1] - 1)
        return p_NV.gather(1, tokens_N1)[:, 0], tokens_N1[:, 0]

    return _follow(state, limits, device, count, drawn)


def _follow(
    state: SearchState, limits: Sequence[int], device: torch.device, width: int, choose: Choose
) -> list[list[Hypothesis]]:
    """Extend `width` rows of each sentence by one token at a time, until [EOS] or its limit.

    `choose` returns, for the logits_NV of rows, a value that is NaN if they are unusable, and the
    next token; it receives the numbers of the rows and that of the token, counted from 1.
    """
    outputs: list[list[int]] = [[] for _ in range(len(limits) * width)]
    rows = list(range(len(outputs)))
    unfinished = set(rows)
    rows_N = torch.arange(len(rows), device=device)
    tokens_N = torch.full((len(rows),), SOS, device=device)
    for length in itertools.count(1):
        value_N, tokens_N = choose(state.step(tokens_N), rows_N, length)
        tokens_N = tokens_N.masked_fill(value_N.isnan(), NAN_TOKEN)
        for row, token in zip(rows, tokens_N.cpu().tolist(), strict=True):
            if token == NAN_TOKEN:
                raise UserError(SCORES_ARE_NAN)
            if row in unfinished and token != EOS:
                outputs[row].append(token)
            if token == EOS or length == limits[row // width]:
                unfinished.discard(row)
        if not unfinished:
            break
        sentences = [rows[first : first + width] for first in range(0, len(rows), width)]
        kept = rows_to_keep(
            [not unfinished.isdisjoint(sentence) for sentence in sentences],
            max(1, ROW_MULTIPLE // width),
        )
        if len(kept) < len(sentences):
            rows = [row for index in kept for row in sentences[index]]
            kept_B = torch.tensor(kept, device=device)
            places_N = (kept_B[:, None] * width + torch.arange(width, device=device)).flatten()
            state.select(kept_B, places_N)
            rows_N, tokens_N = rows_N[places_N], tokens_N[places_N]
    found = [Hypothesis(ids, score=None) for ids in outputs]
    return [found[first : first + width] for first in range(0, len(found), width)]


def beam(
    state: SearchState,
    limits: Sequence[int],
    device: torch.device,
    width: int,
    length_penalty: float = SearchConfig.length_penalty,
) -> list[list[Hypothesis]]:
    """For each sentence the hypotheses of a beam search, at least `width` of them, best first.

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
    ids_BWT = np.empty((len(limits), width, 0), dtype=np.int64)
    while True:
        log_p_NV = state.step(tokens_BW.flatten()).log_softmax(dim=-1)
        best = _continuations(log_p_NV, scores_BW)
        # The first W continuations that are not [EOS], best first.
        _, order_BC = (best[2] == EOS).sort(dim=1, stable=True)
        following = [x_BC.gather(1, order_BC[:, :width]) for x_BC in best]
        # One copy, as the host waits for each. A double holds these numbers exactly.
        copied = [*(x_BC[:, :width].double() for x_BC in best), *following[1:]]
        *ended, beams, tokens = torch.stack(copied).cpu().numpy()
        _collect(finished, unfinished, sentences, limits, ended, ids_BWT, length_penalty)
        if not unfinished:
            break
        multiple = max(1, ROW_MULTIPLE // width)
        kept = rows_to_keep([sentence in unfinished for sentence in sentences], multiple)
        kept_B = torch.arange(len(sentences), device=device)
        if len(kept) < len(sentences):
            kept_B = torch.tensor(kept, device=device)
            following = [x_BW[kept_B] for x_BW in following]
            sentences = [sentences[index] for index in kept]
        scores_BW, beams_BW, tokens_BW = following
        scores_BW = scores_BW.masked_fill(tokens_BW == EOS, -torch.inf)
        state.select(kept_B, (kept_B[:, None] * width + beams_BW).flatten())
        beams, tokens = (x_BW[kept].astype(np.int64) for x_BW in (beams, tokens))
        history_BWT = ids_BWT[np.array(kept)[:, None], beams]
        ids_BWT = np.concatenate([history_BWT, tokens[..., None]], axis=2)
    return [sorted(found, key=attrgetter("score"), reverse=True) for found in finished]


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
    best: Sequence[np.ndarray],  # scores_BW, beams_BW and tokens_BW
    ids_BWT: np.ndarray,
    length_penalty: float,
) -> None:
    """Add the hypotheses that end among the W best; remove finished sentences from `unfinished`."""
    _, width, length_before = ids_BWT.shape
    length, (scores_BW, beams_BW, tokens_BW) = length_before + 1, best
    if np.isnan(scores_BW).any():
        raise UserError(SCORES_ARE_NAN)
    at_limit_B = np.array([length >= limits[sentence] for sentence in sentences])
    is_end_BW = ((tokens_BW == EOS) | at_limit_B[:, None]) & (scores_BW > -np.inf)
    for index, place in np.argwhere(is_end_BW).tolist():
        if (sentence := sentences[index]) in unfinished:
            token = int(tokens_BW[index, place])
            ids = ids_BWT[index, int(beams_BW[index, place])].tolist()
            score = float(scores_BW[index, place]) / length**length_penalty
            finished[sentence].append(Hypothesis(ids + [token] * (token != EOS), score))
    for sentence, at_limit in zip(sentences, at_limit_B, strict=True):
        if at_limit or len(finished[sentence]) >= width:
            unfinished.discard(sentence)


def rows_to_keep(is_unfinished: Sequence[bool], multiple: int) -> list[int]:
    """Indices of all unfinished rows, of which there are some, and of finished ones to fill up.

    Up to a multiple of `multiple`, or to a power of two if at most half of it are unfinished.
    """
    count = sum(is_unfinished)
    is_many = count > multiple // 2
    count = math.ceil(count / multiple) * multiple if is_many else 1 << (count - 1).bit_length()
    unfinished_first = sorted(range(len(is_unfinished)), key=lambda index: not is_unfinished[index])
    return sorted(unfinished_first[:count])
