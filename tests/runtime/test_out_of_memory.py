"""Out of memory in training and in decoding."""

import re
from pathlib import Path

import pytest
import torch

from tests.faults import out_of_memory
from tests.helpers import processes
from tests.helpers.little_memory import train_in_little_memory
from tests.helpers.models import decode, small_model
from tests.helpers.options import slow
from tests.helpers.runs import last_state
from translate_ddp.modeling.decoding_state import DecodingState
from translate_ddp.modeling.engine import ready_to_decode
from translate_ddp.modeling.search import SearchState
from translate_ddp.runtime.device import OutOfMemory, is_out_of_memory

MICRO_BATCH = (
    r"a micro-batch of (\d+) sentences of (\d+) source and (\d+) target tokens.* --max_tokens (\d+)"
)


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        (out_of_memory("loss", rank=1), f"warming up, {MICRO_BATCH}"),
        *slow(
            (out_of_memory("loss", time=6, rank=1), f"step 5, computing gradients, {MICRO_BATCH}"),
            (out_of_memory("validating", rank=0), "step 4, validating: lower --max_tokens, choose"),
        ),
    ],
)
def test_out_of_memory_gives_one_message_with_the_phase(
    tiny_run: list[str], tmp_path: Path, fault: str, where: str
):
    flags = [*tiny_run, "--batch_tokens", "500"]
    job = processes.train(flags, tmp_path, 2, TRANSLATE_DDP_FAULT=fault)
    output = job.fail()
    assert output.count("error: ") == 1 and "Traceback" not in output
    match = re.search(f"error: Out of memory on cpu, {where}", output)
    assert match, output
    if MICRO_BATCH in where:
        rows, source, target, advised = map(int, match.groups())
        assert advised == rows * max(source, target) // 2  # which gives more micro-batches


def test_decoding_halves_batches_that_do_not_fit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # one batch at a time
    model = small_model().eval()
    ready = ready_to_decode(model)
    tried = []

    def start(source_BS: torch.Tensor, width: int) -> SearchState:
        tried.append(len(source_BS))
        if len(source_BS) > 3:
            raise torch.OutOfMemoryError("more than three rows")
        return DecodingState(ready, source_BS, width)

    sources = [[n] * 4 for n in range(4, 14)]
    expected = decode(model, sources, max_tokens=1000)
    assert decode(model, sources, max_tokens=1000, start=start) == expected
    assert tried == [10, 5, *[2, 3] * 2]  # a size that did not fit is not tried again
    tried.clear()
    assert decode(model, sources * 2, max_tokens=50, start=start) == expected * 2
    assert tried == [10, 5, *[2, 3] * 4]  # not by later batches either

    def fail(source_BS: torch.Tensor, width: int) -> SearchState:
        raise torch.OutOfMemoryError("not even one")

    with pytest.raises(OutOfMemory, match="a sentence of 4 tokens with a beam of 1: end other"):
        decode(model, sources, max_tokens=1000, start=fail)


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
def test_only_out_of_memory_errors_of_libraries_are_recognized(message: str):
    assert is_out_of_memory(RuntimeError(message))
    assert is_out_of_memory(type("AcceleratorError", (RuntimeError,), {})(message))
    assert not is_out_of_memory(ValueError(message))
    assert not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))


@pytest.mark.slow
def test_all_ranks_divide_micro_batches_if_one_lacks_memory(tiny_run: list[str], tmp_path: Path):
    halved, given = tmp_path / "halved", tmp_path / "given"
    flags = [*tiny_run, *"--seq_len 8 --batch_tokens 400 --model_folder".split()]
    flags += [str(halved), "--max_steps"]
    job = processes.start(train_in_little_memory, halved, 2, None, [*flags, "4"], 80, 0)
    output = job.succeed()
    used = re.findall(r"do not fit .* as with --max_tokens (\d+)", output)
    assert len(used) == 1 and 40 <= int(used[0]) <= 80
    # A resume on more memory has the same micro-batches, on which dropout's draws depend.
    output = processes.train([*flags, "8"], halved, 2).succeed()
    assert f"Micro-batches have up to {used[0]} tokens a side" in output
    assert "not equal bit for bit" not in output
    flags += ["8", "--max_tokens", used[0], "--model_folder", str(given)]
    processes.train(flags, given, 2).succeed()
    weights, expected = (last_state(folder)["model"] for folder in (halved, given))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_model_that_fits_in_no_memory_ends_with_an_error(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--model_folder", str(tmp_path)]
    output = processes.start(train_in_little_memory, tmp_path, 2, None, flags, 0, 100).fail()
    assert re.search("Out of memory on cpu, warming up, .*: lower --seq_len, or choose", output)
