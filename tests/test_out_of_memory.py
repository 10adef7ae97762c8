"""Out of memory in training and in decoding."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.helpers import processes
from translate_ddp.data.batches import Step
from translate_ddp.data.tokenizer import EOS
from translate_ddp.modeling.decoding import decode
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.out_of_memory import OutOfMemory, is_out_of_memory
from translate_ddp.settings import ModelConfig, OptimizerConfig
from translate_ddp.training.optimizer import allocate_moments, build_optimizer
from translate_ddp.training.updater import Updater

CPU = torch.device("cpu")


def test_optimizer_moments_allocated_before_the_first_step_change_nothing():
    torch.manual_seed(0)
    transformer = Transformer(ModelConfig(), vocabulary=40)
    before = [parameter.clone() for parameter in transformer.parameters()]
    optimizer = build_optimizer(transformer, OptimizerConfig())
    allocate_moments(optimizer)
    states = list(optimizer.state.values())
    assert len(states) == len(before)
    assert all(torch.equal(a, b) for a, b in zip(before, transformer.parameters(), strict=True))
    assert all(float(state["step"]) == 0 and not state["exp_avg_sq"].any() for state in states)
    transformer(torch.full((2, 5), 7), torch.full((2, 6), 7)).sum().backward()
    optimizer.step()
    moments = [state["exp_avg"].clone() for state in states]
    weights = [parameter.detach().clone() for parameter in transformer.parameters()]
    allocate_moments(optimizer)  # as after a resume
    assert all(float(state["step"]) == 1 for state in states)
    assert all(torch.equal(a, b["exp_avg"]) for a, b in zip(moments, states, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(weights, transformer.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in transformer.parameters())


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        (
            "loss:1@1=oom",
            r"warming up, a pass of \d+ sentences of \d+ source and \d+ target tokens",
        ),
        ("loss:6@1=oom", r"step 5, computing gradients, a pass of \d+ sentences of \d+ source and"),
        ("updated:5@1=oom", "step 5, updating weights: lower --max_tokens, choose a smaller"),
        ("validating:1@0=oom", "step 15, validating: lower --max_tokens, choose a smaller"),
    ],
)
def test_out_of_memory_gives_one_message_with_the_phase(
    tiny_run: list[str], tmp_path: Path, fault: str, where: str
):
    job = processes.train([*tiny_run, "--seq_len", "20"], tmp_path, 2, TRANSLATE_DDP_FAULT=fault)
    output = job.fail()
    assert output.count("error: ") == 1 and "Traceback" not in output
    assert re.search(f"error: Out of memory on cpu, {where}", output), output
    if match := re.search(
        r"of (\d+) sentences of (\d+) source and (\d+) .* --max_tokens (\d+)", output
    ):
        rows, source, target, advised = map(int, match.groups())
        assert advised == rows * max(source, target) // 2  # which gives more passes


def test_decoding_halves_batches_that_do_not_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # one batch at a time
    tried = []

    class Repeat:
        """Translates a source to its first token; out of memory with more than three rows."""

        def __init__(self, source_BS: torch.Tensor) -> None:
            tried.append(len(source_BS))
            if len(source_BS) > 3:
                raise torch.OutOfMemoryError("more than three rows")
            self.first, self.steps = source_BS[:, 0], 0

        def step(self, tokens_N: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            wanted_N = self.first if self.steps == 1 else torch.full_like(self.first, EOS)
            return F.one_hot(wanted_N, 30).float()

        def select(self, sentences_B: torch.Tensor, rows_N: torch.Tensor) -> None:
            self.first = self.first[sentences_B]

    sources = [[n] * 4 for n in range(4, 14)]
    found = decode(Repeat, sources, CPU, max_tokens=1000)
    assert [hypothesis.ids for hypothesis in found] == [[n] for n in range(4, 14)]
    assert tried == [10, 5, *[2, 3] * 2]  # a size that did not fit is not tried again
    tried.clear()
    assert len(decode(Repeat, sources * 2, CPU, max_tokens=50)) == 20
    assert tried == [10, 5, *[2, 3] * 4]  # not by later batches either

    def fail(source_BS: torch.Tensor) -> Repeat:
        raise torch.OutOfMemoryError("not even one")

    with pytest.raises(OutOfMemory, match="a sentence of 4 tokens with a beam of 1: end other"):
        decode(fail, sources, CPU, max_tokens=1000)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA",  # the runtime
        "CUDA driver error: out of memory",  # with expandable segments
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "NCCL error: unhandled cuda error ...\nLast error:\nCuda failure 2 'out of memory'",
        "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory",
    ],
)
def test_messages_of_libraries_are_recognized(message: str):
    assert is_out_of_memory(RuntimeError(message))
    assert is_out_of_memory(type("AcceleratorError", (RuntimeError,), {})(message))
    assert not is_out_of_memory(ValueError(message))


def test_other_errors_are_not_out_of_memory():
    assert not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))


def warm_up_with_check(flags: list[str]) -> None:
    compute_gradients = Updater.compute_gradients

    def check(self: Updater, step: Step) -> dict[str, torch.Tensor]:
        assert len(self.optimizer.state) == len(list(self.objective.parameters()))
        return compute_gradients(self, step)

    Updater.compute_gradients = check
    processes.run_train(flags)


def test_warm_up_runs_with_allocated_moments(tiny_run: list[str], tmp_path: Path):
    processes.start(
        warm_up_with_check, tmp_path, 1, None, [*tiny_run, "--max_steps", "1"]
    ).succeed()
