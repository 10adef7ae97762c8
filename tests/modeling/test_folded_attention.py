"""Short sentences that a GPU folds into one are computed as they are one by one."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.models import VOCABULARY, small_model
from translate_ddp.data.batches import FOLDED, SHORT, collate
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, PAD, SOS
from translate_ddp.modeling import kernels, transformer
from translate_ddp.modeling.folded_attention import (
    attention_masks,
    folded_masks,
    padding_mask,
)
from translate_ddp.modeling.kernels import attention_written_out
from translate_ddp.modeling.loss import Objective
from translate_ddp.settings import LossConfig

HEADS, WIDTH = 2, 8


def ragged_pairs(random: np.random.Generator, count: int, longest: int) -> ParallelDataset:
    lengths_2N = random.integers(1, longest, (2, count))
    return ParallelDataset(
        *(Ragged.of(random.integers(4, VOCABULARY, n) for n in side) for side in lengths_2N)
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention_of_folded_sentences_equals_that_of_each(
    seed: int, dropout: float, monkeypatch: pytest.MonkeyPatch
):
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    count = int(random.choice([2, 4, 8]))
    batch = collate(ragged_pairs(random, 8, int(random.integers(2, 20))))
    source_BS, target_BT = batch.source_BS, batch.target_BT
    folded = folded_masks(source_BS, target_BT, torch.float32, count)
    padding = padding_mask(source_BS, torch.float32)
    sides = ((source_BS, source_BS, padding), (target_BT, target_BT, None))
    for (of_q, of_k, mask), block_mask in zip(
        (*sides, (target_BT, source_BS, padding)), folded, strict=True
    ):
        queries, keys = of_q.shape[1], of_k.shape[1]
        q, k, v = (
            torch.randn(8, HEADS, n, WIDTH, requires_grad=True) for n in (queries, keys, keys)
        )
        kept = (torch.rand(8, HEADS, queries, keys) > dropout) / (1 - dropout)
        monkeypatch.setattr(kernels, "drop", lambda p, _, kept=kept: p * kept)
        each = attention_written_out(q, k, v, mask, mask is None, dropout)
        diagonal = torch.eye(count)[None, :, None, None, :, None]  # of sentences
        block_kept = fold(kept, count)[..., None, :] * diagonal  # [Z, g, H, T, g, M]
        block_kept = block_kept.permute(0, 2, 1, 3, 4, 5).flatten(4, 5).flatten(2, 3)
        monkeypatch.setattr(kernels, "drop", lambda p, _, kept=block_kept: p * kept)
        qs, ks, vs = (fold(x, count).transpose(1, 2).flatten(2, 3) for x in (q, k, v))
        together = attention_written_out(qs, ks, vs, block_mask, False, dropout)
        unfolded = together.unflatten(2, (count, queries)).transpose(1, 2).flatten(0, 1)
        torch.testing.assert_close(unfolded, each, rtol=1e-5, atol=1e-6)
        weight = torch.randn_like(each)
        expected, found = (
            torch.autograd.grad((out * weight).sum(), (q, k, v)) for out in (each, unfolded)
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def fold(x: Tensor, count: int) -> Tensor:
    return x.unflatten(0, (-1, count))


@pytest.mark.parametrize("simcut", [0.0, 3.0])
@pytest.mark.parametrize(("count", "longest"), [(2, 12), (8, 5)])
def test_neither_folding_nor_empty_sentences_change_loss_and_gradients(
    count: int, longest: int, simcut: float, monkeypatch: pytest.MonkeyPatch
):
    pairs = ragged_pairs(np.random.default_rng(3), 11, longest)
    monkeypatch.setattr("translate_ddp.modeling.loss.cutoff", lambda ids, _: ids.clamp(max=30))
    results = []
    for is_filled, is_folded in ((False, False), (True, False), (True, True)):
        if is_folded:
            monkeypatch.setattr(transformer, "attention_masks", partial(folded_masks, count=count))
        model = small_model()
        sums = Objective(model, LossConfig(simcut=simcut))(collate(pairs, is_filled))
        sums["loss"].backward()
        results.append([*sums.values(), *(p.grad for p in model.parameters())])
    for others in results[1:]:
        torch.testing.assert_close(others, results[0], rtol=1e-4, atol=1e-5)


def test_only_short_sentences_are_filled_up_to_a_multiple():
    random = np.random.default_rng(0)
    pairs, long = ragged_pairs(random, 11, 9), ragged_pairs(random, 11, 2 * SHORT)
    plain, filled = collate(pairs), collate(pairs, filled=True)
    empty = 2 * FOLDED - 11
    assert (
        filled.source_BS[11:].tolist() == [[EOS] + [PAD] * (plain.source_BS.shape[1] - 1)] * empty
    )
    assert (
        filled.target_BT[11:].tolist() == [[SOS] + [PAD] * (plain.target_BT.shape[1] - 1)] * empty
    )
    same = zip((filled.source_BS[:11], filled.target_BT[:11], *filled[2:]), plain, strict=True)
    assert all(torch.equal(a, b) for a, b in same)
    assert len(collate(long, filled=True).source_BS) == 11


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_masks_have_the_dtype_and_strides_that_the_kernel_reads_and_are_finite(dtype: torch.dtype):
    source_BS, target_BT = torch.ones(8, 7, dtype=torch.int64), torch.ones(8, 5, dtype=torch.int64)
    for mask in folded_masks(source_BS, target_BT, dtype, 2):
        assert (
            mask is not None
            and mask.dtype == dtype
            and mask.isfinite().all()
            and mask.stride(-1) == 1
        )
        assert all(stride % 8 == 0 for stride in mask.stride()[:-1])


@pytest.mark.parametrize(
    ("sentences", "source", "target", "count"),
    [(8, 16, 16, 4), (8, 5, 17, 2), (8, 33, 2, 1), (8, 32, 2, 2), (1504, 3, 3, 16), (1, 2, 2, 1)],
)
def test_as_many_sentences_as_fit_in_a_tile_are_folded_on_a_gpu_in_16_bits(
    sentences: int, source: int, target: int, count: int
):
    shapes = (sentences, source), (sentences, target)
    on_gpu = [torch.zeros(shape, dtype=torch.int64, device="meta") for shape in shapes]
    for dtype, expected in ((torch.bfloat16, count), (torch.float32, 1)):
        masks = attention_masks(*on_gpu, dtype)  # pyright: ignore[reportCallIssue]
        assert len(masks.source) == len(masks.cross) == sentences / expected
        assert (masks.target is None) == (expected == 1)
    on_cpu = [torch.ones(shape, dtype=torch.int64) for shape in shapes]
    mask, own_mask, cross_mask = attention_masks(*on_cpu, torch.bfloat16)  # pyright: ignore
    assert own_mask is None and cross_mask is mask and mask.shape == (sentences, 1, 1, source)


@pytest.mark.parametrize("length", [1, 7, 8, 9])
def test_mask_hides_padding_and_has_aligned_rows(length: int):
    tokens_BM = (torch.arange(length) < torch.tensor([[length], [1], [4]])).long()
    mask_B11M = padding_mask(tokens_BM, torch.float32)
    assert torch.equal(mask_B11M, torch.where(tokens_BM == 0, -torch.inf, 0.0)[:, None, None])
    assert set(mask_B11M.stride()[:-1]) == {-(-length // 8) * 8}
