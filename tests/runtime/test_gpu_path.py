"""The GPU's code path without a GPU, on fake tensors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from tests.helpers import processes
from tests.helpers.chains import A
from tests.helpers.fake_gpu import Launches, base_model, fake_batch, fake_gpu
from translate_ddp.modeling.decoding_state import DecodingState
from translate_ddp.modeling.engine import ready_to_decode
from translate_ddp.modeling.loss import Objective, at_real_positions
from translate_ddp.modeling.search import SearchState, beam, greedy, sample
from translate_ddp.runtime.world import World
from translate_ddp.settings import LossConfig, OptimizerConfig
from translate_ddp.training.meters import StepMeters
from translate_ddp.training.optimizer import build_optimizer, skip_if
from translate_ddp.training.step import StepFlags


def train_one_step() -> None:
    with fake_gpu() as device:
        transformer = base_model(device).train()
        objective = Objective(transformer, LossConfig())
        counts, forward_and_backward = [], Launches()
        for target in (31, 33):  # two sentences of 31 tokens are folded into one
            batch = fake_batch(device, rows=64, source=30, target=target, real=1900)
            for _ in range(2):  # masks and positions of a length are kept
                transformer.zero_grad()
                forward_and_backward.counts.clear()
                with forward_and_backward:
                    (objective(batch)["loss"] * 1e-3).backward()
            counts.append(forward_and_backward.counts.total())
        assert counts == [617, 611]
        assert 32_000 in forward_and_backward.columns_of_products
        assert 31_990 not in forward_and_backward.columns_of_products
        grads = [p.grad for p in transformer.parameters() if p.grad is not None]
        assert {grad.dtype for grad in grads} == {torch.float32}
        assert len(grads) == len(list(transformer.parameters()))

        optimizer = build_optimizer(transformer, OptimizerConfig())
        skip_if(torch.ones((), device=device), optimizer)
        optimizer.step()  # as `allocate_moments` does
        meters = StepMeters(20, World(device=device))
        losses = {"loss": torch.ones((), dtype=torch.float64, device=device)}
        meters.add(2, losses, tokens=1900, skipped=torch.zeros((), device=device))
        with Launches() as update:
            norm = torch.nn.utils.clip_grad_norm_(transformer.parameters(), 1.0)
            total = StepFlags(World(device=device)).share(~norm.isfinite(), True, False, False)
            skipped = (total > 0).float()
            meters.add(3, losses, tokens=1900, skipped=skipped)
            skip_if(skipped, optimizer)
            optimizer.step()
        assert update.counts.total() < 45, update.counts

        muon = build_optimizer(transformer, OptimizerConfig(optimizer="muon"), torch.bfloat16)
        skip_if(skipped, muon)
        muon.step()
        objective(batch)["loss"].backward()
        with Launches() as update:
            muon.step()
        assert update.counts.total() < 180, update.counts  # for 78 matrices of four shapes


def validate_and_decode() -> None:
    with fake_gpu() as device:
        ready = ready_to_decode(base_model(device).eval())
        assert {parameter.dtype for parameter in ready.parameters()} == {torch.bfloat16}
        with torch.inference_mode():
            batch = fake_batch(device, rows=8, source=30, target=33, real=200)
            hidden_RD = at_real_positions(ready(batch.source_BS, batch.target_BT), batch)
            assert ready.logits(hidden_RD).shape == (200, 31_990)
            source_BS = torch.ones(8, 30, dtype=torch.int64, device=device)
            tokens_N = torch.ones(8, dtype=torch.int64, device=device)
            DecodingState(ready, source_BS, width=1).step(tokens_N)  # positions are kept
            state = DecodingState(ready, source_BS, width=1)
            with Launches() as step:
                assert state.step(tokens_N).shape == (8, 31_990)
            assert step.counts.total() == 103, step.counts
            state.keep([0, 1, 2, 7])
            state.step(tokens_N[:4])


class HostCopy(np.ndarray):
    """A copy of a fake tensor on the host, with values."""

    def numpy(self) -> np.ndarray:
        return self


def search_with_one_wait_a_step() -> None:
    with fake_gpu() as device:
        ready = ready_to_decode(base_model(device).eval())
        copies: list[torch.Size] = []

        # Any other request for a value raises.
        def copy(tensor: FakeTensor) -> HostCopy:
            copies.append(tensor.shape)
            return np.full(tensor.shape, A).view(HostCopy)

        FakeTensor.cpu = copy  # pyright: ignore[reportAttributeAccessIssue]
        limits, seeds = [5, 9, 3, 5], [[0]] * 4  # rows are dropped on the way
        searches: list[tuple[int, Callable[[SearchState], object]]] = [
            (1, lambda state: greedy(state, limits, device)),
            (6, lambda state: sample(state, limits, device, seeds, 6, temperature=1.0)),
            (6, lambda state: beam(state, limits, device, width=6)),
            (6, lambda state: beam(state, limits, device, width=6, unrepeated=2)),
        ]
        source_BS = torch.ones(4, 30, dtype=torch.int64, device=device)
        for width, search in searches:
            copies.clear()
            with torch.inference_mode():
                search(DecodingState(ready, source_BS, width))
            assert len(copies) == max(limits) and len(set(copies)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("work", [train_one_step, validate_and_decode, search_with_one_wait_a_step])
def test_gpu_path_has_no_cpu_tensor_no_wait_and_few_launches(
    work: Callable[[], None], tmp_path: Path
):
    processes.start(work, tmp_path, 1).succeed()
