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
from translate_ddp.modeling.repetition import EVERY, only_repeats
from translate_ddp.modeling.search_options import SearchConfig

NAN_TOKEN = -1  # in the place of a token whose score is not a number
SCORES_ARE_NAN = (
    "The model's scores are not numbers (NaN), so its weights or its precision are unusable: "
    "use an earlier checkpoint (--preload), or train again with a lower --lr."
)

# A search keeps a multiple of this many rows, some of them finished, or a power of two if few are
# left: dropping rows copies the caches of the others, and every other number of rows makes oneDNN
# compile kernels.
ROW_MULTIPLE = 16
BLOCK = 32  # scores of which `top` takes the maximum


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A translation without its final [EOS]."""

    ids: list[int]
    score: float | None  # length-normalised log-probability; None unless from a beam search


Choose = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


class SearchState(Protocol):
    """N target rows of a search over B sentences: the W hypotheses of a sentence are adjacent."""

    def step(self, tokens_N: Tensor) -> Tensor:
        """Append a token to each row; return logits_NV of the next one."""
        ...

    def follow(self, rows_BW: Tensor) -> None:
        """Each hypothesis continues the one at this place of its sentence."""
        ...

    def keep(self, sentences: Sequence[int]) -> None:
        """Keep the rows of these sentences, in this order."""
        ...


def greedy(state: SearchState, limits: Sequence[int], device: torch.device) -> list[Hypothesis]:
    """For each sentence the most probable next token, until [EOS] or the sentence's limit."""

    def most_probable(logits_NV: Tensor, rows_N: Tensor, length: int) -> tuple[Tensor, Tensor]:
        return largest(logits_NV)

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
    next token; it receives the rows' numbers and the token's number, counted from 1.
    """
    limit_N = np.repeat(limits, width)
    outputs_NT = np.full((len(limit_N), max(limits) + 1), EOS)  # each row ends in [EOS]
    is_unfinished_N = np.ones(len(limit_N), dtype=bool)
    rows = np.arange(len(limit_N))
    rows_N = torch.arange(len(rows), device=device)
    tokens_N = torch.full((len(rows),), SOS, device=device)
    for length in itertools.count(1):
        value_N, tokens_N = choose(state.step(tokens_N), rows_N, length)
        tokens = tokens_N.masked_fill(value_N.isnan(), NAN_TOKEN).cpu().numpy()
        if (tokens == NAN_TOKEN).any():
            raise UserError(SCORES_ARE_NAN)
        outputs_NT[rows, length - 1] = np.where(is_unfinished_N[rows], tokens, EOS)
        is_end = (outputs_NT[rows, length - 1] == EOS) | (limit_N[rows] == length)
        if length % EVERY == 0:
            is_end |= only_repeats(outputs_NT[rows, :length])
        is_unfinished_N[rows] &= ~is_end
        if not is_unfinished_N.any():
            break
        sentences = rows.reshape(-1, width)
        is_unfinished_B = is_unfinished_N[sentences].max(axis=1).tolist()
        kept = rows_to_keep(is_unfinished_B, max(1, ROW_MULTIPLE // width))
        if len(kept) < len(sentences):
            rows = sentences[kept].flatten()
            kept_B = torch.tensor(kept, device=device)  # before the device is busy again
            state.keep(kept)
            rows_N, tokens_N = (
                x_N.unflatten(0, (-1, width))[kept_B].flatten() for x_N in (rows_N, tokens_N)
            )
    found = [Hypothesis(ids[: ids.index(EOS)], score=None) for ids in outputs_NT.tolist()]
    return [found[first : first + width] for first in range(0, len(found), width)]


def beam(
    state: SearchState,
    limits: Sequence[int],
    device: torch.device,
    width: int,
    length_penalty: float = SearchConfig.length_penalty,
    unrepeated: int = 0,
) -> list[list[Hypothesis]]:
    """For each sentence the hypotheses of a beam search, at least `width` of them, best first.

    The score of a hypothesis is its log-probability / (number of tokens, [EOS] included) **
    `length_penalty`. A sentence is finished when `width` of its hypotheses are, or at its limit.
    No hypothesis has so many tokens in a row twice as `unrepeated`; 0: any may.
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
        log_p_NV = state.step(tokens_BW.flatten()).float().log_softmax(dim=-1)
        if unrepeated:
            _exclude_repeats(log_p_NV, ids_BWT.reshape(len(log_p_NV), -1), unrepeated)
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
        if len(kept) < len(sentences):
            kept_B = torch.tensor(kept, device=device)
            state.keep(kept)
            following = [x_BW[kept_B] for x_BW in following]
            sentences = [sentences[index] for index in kept]
        scores_BW, beams_BW, tokens_BW = following
        scores_BW = scores_BW.masked_fill(tokens_BW == EOS, -torch.inf)
        state.follow(beams_BW)
        beams, tokens = (x_BW[kept].astype(np.int64) for x_BW in (beams, tokens))
        history_BWT = ids_BWT[np.array(kept)[:, None], beams]
        ids_BWT = np.concatenate([history_BWT, tokens[..., None]], axis=2)
    return [sorted(found, key=attrgetter("score"), reverse=True) for found in finished]


def _exclude_repeats(log_p_NV: Tensor, ids_NT: np.ndarray, size: int) -> None:
    """Exclude the tokens that would end an n-gram of this size which its row has already."""
    starts = max(0, ids_NT.shape[1] - size + 1)  # of n-grams; the next one has the same number
    is_repeated_NX = np.ones((len(ids_NT), starts), dtype=bool)
    for place in range(size - 1):
        is_repeated_NX &= ids_NT[:, place : place + starts] == ids_NT[:, starts + place :][:, :1]
    rows, first = is_repeated_NX.nonzero()
    if len(rows):
        # One operation, and a copy to the device for which the host does not wait.
        places_2X = torch.from_numpy(np.stack([rows, ids_NT[rows, first + size - 1]]))
        row_X, token_X = places_2X.to(log_p_NV.device, non_blocking=True)
        log_p_NV.index_put_((row_X, token_X), log_p_NV.new_full((), -torch.inf))


def _continuations(log_p_NV: Tensor, scores_BW: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The C = 2W best continuations of each sentence: scores, beams and tokens, best first.

    At most W of them are [EOS], so at least W can be continued. All of them are also among the C
    best of their own beam, which can be found before the beams' scores are added.
    """
    width = scores_BW.shape[1]
    best_NC, tokens_NC = top(log_p_NV, min(2 * width, log_p_NV.shape[1]))
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
    if length % EVERY == 0:
        # The search only repeats if its best hypothesis does: others differ in their last tokens.
        best_BT = ids_BWT[np.arange(len(beams_BW)), beams_BW[:, 0].astype(np.int64)]
        at_limit_B |= only_repeats(np.column_stack([best_BT, tokens_BW[:, 0]]))
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

    Up to a multiple of `multiple`, or of an eighth of the next power of two if that is more, or to
    a power of two below it. Rows keep their places, but the last ones replace finished rows.
    """
    count = sum(is_unfinished)
    power = 1 << (count - 1).bit_length()
    multiple = max(power // 8, min(power, multiple))
    kept = list(range(len(is_unfinished)))[: math.ceil(count / multiple) * multiple]
    last = iter([row for row in range(len(kept), len(is_unfinished)) if is_unfinished[row]])
    return [row if is_unfinished[row] else next(last, row) for row in kept]


def top(scores_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `topk`. On a CPU, from the `count` columns of blocks that have the largest maxima."""
    width = scores_NV.shape[1] // BLOCK
    if scores_NV.device.type != "cpu" or width <= count:
        return scores_NV.topk(count)
    # PyTorch sorts whole rows; a maximum takes a twentieth of the time.
    blocks_NX = scores_NV[:, : BLOCK * width].unflatten(1, (BLOCK, width)).amax(dim=1)
    starts_NC1 = blocks_NX.topk(count, sorted=False).indices[..., None]
    columns_NX = (starts_NC1 + torch.arange(0, BLOCK * width, width)).flatten(1)
    rest_X = torch.arange(BLOCK * width, scores_NV.shape[1]).expand(len(scores_NV), -1)
    columns_NX = torch.cat([columns_NX, rest_X], dim=1)
    best_NC, where_NC = scores_NV.gather(1, columns_NX).topk(count)
    return best_NC, columns_NX.gather(1, where_NC)


def largest(logits_NV: Tensor) -> tuple[Tensor, Tensor]:
    """The value and the index of each row's maximum, the first of equal ones; NaN is larger."""
    if logits_NV.device.type != "cpu":
        return logits_NV.max(dim=-1)
    # NumPy compares as many numbers at once as a register holds: a tenth of the time.
    where_N = torch.from_numpy(logits_NV.float().numpy().argmax(axis=-1))
    return logits_NV.gather(1, where_N[:, None])[:, 0], where_N
