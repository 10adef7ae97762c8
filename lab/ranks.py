"""Ranks of the lab: processes that are joined by gloo, their collectives recorded."""

import functools
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import wait
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

Facts = dict[str, Any]  # what was measured on one rank

CONTEXT = multiprocessing.get_context("forkserver")
PRELOAD = ["torch._dynamo", "lab.checks"]  # imported once, by the server; for programs to set
HANG_SECONDS = 15  # without a collective or a result of any rank
COLLECTIVES = "all_reduce broadcast reduce all_gather barrier all_gather_object gather".split()
FORBIDDEN = {"DistributedDataParallel", "DDP", "DistributedSampler"}


class Problem(Exception):
    """What ended an exercise, for the student: one message."""


@dataclass
class Recorder:
    """The collectives that this rank entered."""

    sent: list[Facts] = field(default_factory=list)
    bytes: int = 0
    watched: list[nn.Parameter] = field(default_factory=list)
    pipe: Any = None  # to the grader

    def patch(self) -> None:
        for name in COLLECTIVES:
            setattr(dist, name, self._recorded(name, getattr(dist, name)))

    def _recorded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*values: Any, **options: Any) -> Any:
            tensor = [*values, *options.values(), None][0]
            is_tensor = isinstance(tensor, torch.Tensor)
            ready = sum(each.grad is not None for each in self.watched)
            facts = {"numbers": tensor.numel() if is_tensor else 0, "ready": ready}
            self.sent.append(facts | {"async": options.get("async_op", values[3:4] == (True,))})
            self.bytes += tensor.nbytes if is_tensor else 0
            self.pipe.send(("collective", name))
            return function(*values, **options)

        return call


RECORDER = Recorder()  # of this process


def launch(work: Callable[..., Facts], size: int, *values: Any, dies: bool = False) -> list[Facts]:
    """The results of `work(*values)` on ranks 0 to size - 1.

    Raises Problem at an error or a hang. With `dies`, it ends when a rank is killed: no results.
    """
    pipes, processes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(size):
            pipe, other = CONTEXT.Pipe()
            arguments = (other, rank, size, f"{folder}/store", work, values)
            process = CONTEXT.Process(target=_run_rank, args=arguments, daemon=True)
            process.start()
            other.close()
            pipes.append(pipe)
            processes.append(process)
        try:
            return _collect(pipes, dies)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _collect(pipes: list[Any], dies: bool) -> list[Facts]:
    results: dict[int, Any] = {}
    problems: dict[int, str] = {}
    entered: list[list[str]] = [[] for _ in pipes]
    for pipe in pipes:
        pipe.recv()  # it has started, which may take long
    while running := set(range(len(pipes))) - results.keys() - problems.keys():
        # After a problem of one rank, another may report the cause.
        ready = wait([pipes[rank] for rank in running], 0.5 if problems else HANG_SECONDS)
        if not ready:
            problems = problems or {0: explain_hang(entered, set(results))}
            break
        for rank in (rank for rank in running if pipes[rank] in ready):
            try:
                kind, value = pipes[rank].recv()
            except EOFError:
                if dies:
                    return []
                names = ", ".join(entered[rank]) or "none"
                kind, value = "problem", f"died after: {names}. Do ranks send tensors of one size?"
            if kind == "collective":
                entered[rank].append(value)
            elif kind == "result":
                results[rank] = value
            else:
                problems[rank] = f"rank {rank}: {value}"
    if problems:
        raise Problem(min(problems.values(), key=lambda text: "gloo" in text or "peer" in text))
    return [results[rank] for rank in range(len(pipes))]


def explain_hang(entered: list[list[str]], returned: set[int]) -> str:
    """Which ranks entered fewer collectives, when none has done anything for long."""
    text, counts = "no progress", [len(names) for names in entered]
    for rank, names in enumerate(entered):
        state = "returned" if rank in returned else "hangs"
        text += f"; rank {rank} {state} after these collectives: {', '.join(names) or 'none'}"
    for rank in [rank for rank, count in enumerate(counts) if count < max(counts)]:
        text += f". Rank {rank} misses a collective that others entered"
    return text


def _run_rank(pipe: Any, rank: int, size: int, store: str, work: Any, values: Any) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # gloo's own traces
    sys.stderr = sys.stdout
    torch.set_num_threads(1)
    pipe.send("started")
    try:
        dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
        RECORDER.pipe = pipe
        RECORDER.patch()
        pipe.send(("result", work(*values)))
    except Exception as error:
        pipe.send(("problem", str(error) or type(error).__name__))
    sys.stdout.flush()
    pipe.poll(None)  # until the grader ends all ranks: others may still need this one


def call_student(module: str, name: str, measure: Callable[..., Facts], *values: Any) -> Facts:
    """The facts of `measure` with the student's function, and what this rank sent."""
    try:
        function = getattr(import_module(module), name)
        if used := FORBIDDEN & set(function.__code__.co_names):
            raise Problem(f"{name} uses {', '.join(used)}, which is forbidden here")
        facts = measure(function, *values)
    except NotImplementedError:
        raise Problem("not written yet") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        file = getattr(sys.modules.get(module), "__file__", None)
        lines = [f"line {frame.lineno}: " for frame in frames if frame.filename == file]
        text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        text += " Write it in torch.no_grad()." if "leaf Variable" in text else ""
        raise error if isinstance(error, Problem) else Problem("".join(lines[-1:]) + text) from None
    return facts | {"sent": f"{RECORDER.bytes:,} bytes in {len(RECORDER.sent)} collective(s)"}
