"""Short sentences that a GPU folds into one are computed as they are one by one."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.helpers.models import VOCABULARY, small_model
from translate_ddp.data.batches import FOLDED, SHORT, collate
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.modeling import folded_attention, kernels, transformer
from translate_ddp.modeling.loss import Objective
from translate_ddp.settings import LossConfig


def pairs_of(count: int, longest: int) -> ParallelDataset:
    random = np.random.default_rng(longest)
    lengths_2N = random.integers(1, longest, (2, count))
    sides = ([random.integers(4, VOCABULARY, n) for n in side] for side in lengths_2N)
    return ParallelDataset(*map(Ragged.of, sides))


@pytest.mark.parametrize("longest", range(2, 22))
@pytest.mark.parametrize("count", [2, 4, 8])
def test_folded_equals_separate(longest: int, count: int, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(longest)
    source_BS, target_BT, *_ = collate(pairs_of(8, longest))
    padding = folded_attention.padding_mask(source_BS, torch.float32)
    masks = folded_attention.folded_masks(source_BS, target_BT, torch.float32, count)
    source, target = source_BS.shape[1], target_BT.shape[1]
    shapes = (source, source, padding), (target, target, None), (target, source, padding)
    for (queries, keys, mask), folded_mask in zip(shapes, masks, strict=True):
        x_3BMHK = torch.randn(3, 8, max(queries, keys), 2, 4, requires_grad=True)
        q, k, v = (x[:, :n] for x, n in zip(x_3BMHK, (queries, keys, keys), strict=True))
        kept = (torch.rand(8, 2, queries, keys) > 0.3) / 0.7
        blocks = kept.unflatten(0, (-1, count)).transpose(1, 2)  # [Z, H, g, T, M]
        diagonal = torch.diag_embed(blocks.movedim(2, -1)).permute(0, 1, 4, 2, 5, 3)
        results = []
        for n, m, dropped in (
            (1, mask, kept),
            (count, folded_mask, diagonal.flatten(4).flatten(2, 3)),
        ):
            monkeypatch.setattr(kernels, "drop", lambda p, _, dropped=dropped: p * dropped)
            rows = (x.unflatten(0, (-1, n)).flatten(1, 2).transpose(1, 2) for x in (q, k, v))
            out = kernels.attention_written_out(*rows, m, m is None, 0.3)  # pyright: ignore
            (grad,) = torch.autograd.grad(out.square().sum(), x_3BMHK, retain_graph=True)
            results.append((out.transpose(1, 2).reshape(q.shape), grad))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("simcut", [0.0, 3.0])
@pytest.mark.parametrize(("count", "longest"), [(2, 12), (8, 5)])
def test_neither_folding_nor_empty_sentences_change_loss_and_gradients(
    count: int, longest: int, simcut: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("translate_ddp.modeling.loss.cutoff", lambda ids, _: ids.clamp(max=30))
    results = []
    for is_filled, is_folded in ((False, False), (True, False), (True, True)):
        if is_folded:
            folded = partial(folded_attention.folded_masks, count=count)
            monkeypatch.setattr(transformer, "attention_masks", folded)
        model, batch = small_model(), collate(pairs_of(11, longest), is_filled)
        assert len(batch.target_BT) == (2 * FOLDED if is_filled else 11)
        sums = Objective(model, LossConfig(simcut=simcut))(batch)
        sums["loss"].backward()
        results.append([*sums.values(), *(p.grad for p in model.parameters())])
    for others in results[1:]:
        torch.testing.assert_close(others, results[0], rtol=1e-4, atol=1e-5)
    assert len(collate(pairs_of(11, 2 * SHORT), filled=True).source_BS) == 11


@pytest.mark.parametrize(
    ("sentences", "source", "target", "count"),
    [(8, 16, 16, 4), (8, 5, 17, 2), (8, 33, 2, 1), (8, 32, 2, 2), (1504, 3, 3, 16), (1, 2, 2, 1)],
)
def test_masks_fold_to_a_tile(sentences: int, source: int, target: int, count: int):
    kinds = [
        (torch.bfloat16, "meta", count),
        (torch.float32, "meta", 1),
        (torch.bfloat16, "cpu", 1),
    ]
    for dtype, device, expected in kinds:
        shapes = (sentences, source), (sentences, target)
        sides = (torch.ones(shape, dtype=torch.int64, device=device) for shape in shapes)
        masks = folded_attention.attention_masks(*sides, dtype)  # pyright: ignore
        assert len(masks.source) == len(masks.cross) == sentences / expected
        assert (masks.target is None) == (expected == 1) and masks.cross.dtype == dtype
        assert {mask.stride(-2) % 8 for mask in masks if mask is not None} == {0}
