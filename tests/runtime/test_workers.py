"""Worker processes: results in order, errors, and processes that die."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.functions import (
    exit_with_message,
    fail,
    fail_with_unpicklable_error,
    fill_stderr,
    gpus_of,
    kill_itself,
    length,
    print_and_return,
    process_of,
    return_unpicklable,
)
from tests.helpers.processes import children_of, wait_until
from translate_ddp.errors import UserError
from translate_ddp.runtime.workers import map_in_processes

ROOT = Path(__file__).parents[2]


def test_results_are_in_order_and_come_from_other_processes():
    found = list(map_in_processes(process_of, range(40), processes=2))
    assert [number for number, _ in found] == list(range(40))
    assert len({pid for _, pid in found} - {os.getpid()}) == 2


def test_each_worker_sees_its_own_gpu_which_its_errors_name():
    gpus = ["5", "GPU-8932f937"]
    assert list(map_in_processes(gpus_of, range(8), gpus=gpus)) == 4 * gpus
    with pytest.raises(UserError, match=r"^With CUDA_VISIBLE_DEVICES=GPU-8932f937: number 17 is"):
        list(map_in_processes(fail, range(40), gpus=gpus))


def test_few_items_need_no_process():
    assert {pid for _, pid in map_in_processes(process_of, range(3), processes=2)} == {os.getpid()}


def test_items_are_read_as_results_are_taken():
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_in_processes(process_of, items(), processes=2)
    for _ in range(10):
        next(results)
    assert len(taken) < 30


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (fail, UserError, "number 17 is unusable"),
        (fail_with_unpicklable_error, RuntimeError, "Unpicklable: 17 and 2"),
        (kill_itself, UserError, r"A worker process has ended \(signal 9\)"),
        (exit_with_message, UserError, r"\(exit code 3\). Its own messages"),
        (return_unpicklable, UserError, r"\(exit code 1\). Its own messages"),
    ],
)
def test_an_exception_or_a_lost_worker_is_raised_and_ends_the_workers(
    function: Callable[[int], object], error: type[Exception], text: str
):
    with pytest.raises(error, match=text):
        list(map_in_processes(function, range(40), processes=2))
    assert not workers_of(os.getpid())


def test_workers_end_with_a_killed_parent_also_within_an_item():
    code = (
        "import itertools, time\n"
        "from translate_ddp.runtime.workers import map_in_processes\n"
        "seconds = itertools.chain([0, 0], itertools.repeat(200))\n"
        "for _ in map_in_processes(time.sleep, seconds, processes=2): print(flush=True)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(2)] == [b"\n", b"\n"]
        workers = workers_of(parent.pid)
        parent.kill()
    assert len(workers) == 2
    wait_until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers))


def test_workers_end_without_a_message_when_their_parent_is_killed_at_any_time():
    code = (
        "import itertools, os, signal, threading; from tests.helpers.functions import length\n"
        "from translate_ddp.runtime.workers import map_in_processes\n"
        "threading.Timer({}, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "for _ in map_in_processes(length, itertools.repeat('x' * 500_000), processes=3): pass"
    )
    for seconds in (0.01, 0.1, 0.5):
        command = [sys.executable, "-c", code.format(seconds)]
        ended = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, timeout=60)
        assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, b"")  # at the end of workers


def test_an_exception_of_the_items_or_of_the_caller_ends_the_workers():
    def items() -> Iterator[str]:
        yield from ["x" * 1_000_000] * 20  # the pipes are full
        raise UserError("line 21 cannot be read")

    with pytest.raises(UserError, match="line 21"):
        list(map_in_processes(length, items(), processes=2))
    assert not workers_of(os.getpid())
    results = map_in_processes(length, itertools.repeat("x" * 1_000_000), processes=2)
    assert next(results) == 1_000_000
    results.close()
    assert not workers_of(os.getpid())


def test_processes_that_cannot_be_started_are_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/absent/python")
    with pytest.raises(UserError, match=r"cannot be started: No such file.* ulimit"):
        list(map_in_processes(process_of, range(40), processes=2))


@pytest.mark.parametrize(
    ("function", "printed"), [(print_and_return, "printed\n"), (fill_stderr, "x" * 200_000)]
)
def test_output_of_the_function_is_printed_and_does_not_mix_with_results(
    capfd: pytest.CaptureFixture[str], function: Callable[[int], int], printed: str
):
    assert list(map_in_processes(function, range(8), processes=2)) == list(range(8))
    assert capfd.readouterr().err == 8 * printed


@pytest.mark.parametrize("flags", [[], ["-I"], ["-P"]])
def test_workers_import_the_modules_of_this_process(tmp_path: Path, flags: list[str]):
    for name in ("numpy", "pickle", "queue", "translate_ddp"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('a file of the user')")
    code = (
        f"import sys; sys.path[:] = [{str(ROOT)!r}, *filter(None, sys.path)]\n"
        "from tests.helpers.functions import length\n"
        "from translate_ddp.runtime.workers import map_in_processes\n"
        "print(sum(map_in_processes(length, ['ab'] * 20, processes=2)))"
    )
    command = [sys.executable, *flags, "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("40\n", "")


def workers_of(pid: int) -> list[int]:
    command = b"from translate_ddp.runtime.workers"
    return [c for c in children_of(pid) if command in Path(f"/proc/{c}/cmdline").read_bytes()]
