"""Supervision of one rank: signals, hangs, and an end that nothing broken delays."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.options import slow
from tests.helpers.runs import status
from translate_ddp import errors
from translate_ddp.errors import UserError, cleanup, report_errors
from translate_ddp.runtime import supervisor
from translate_ddp.runtime.launch import Launch
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.runtime.peers import Termination
from translate_ddp.runtime.run_folder import RunFolder, read_json
from translate_ddp.runtime.supervisor import Supervisor, supervise
from translate_ddp.runtime.world import open_world
from translate_ddp.settings import DistributedConfig


def in_step_3(before: Callable[[], object], folder: str, timeout_seconds: float = 0.3) -> None:
    """Hang in a step of a run after `before`."""
    with supervise(timeout_seconds=timeout_seconds) as supervisor:
        write_status = RunFolder(folder, "token").write_status
        supervisor.at_end(lambda end: write_status(end.status, end.message), 5)
        supervisor.enter_phase("reading a batch", step=3)
        before()
        time.sleep(3600)


# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGCHLD, signal.SIGUSR1])
def test_only_stop_signals_stop_and_handlers_are_restored(number: int):
    # SIGCHLD handlers of torch's loader workers, inductor and W&B are called, too.
    def handler(*_: object) -> None: ...

    before = signal.signal(number, handler)
    try:
        with supervise() as supervisor:
            assert (signal.getsignal(number) is handler) == (number == signal.SIGCHLD)
            supervisor.begin_training()  # before that, a stop request ends the process
            for _ in range(3):
                subprocess.run([sys.executable, "-c", ""], check=True)
            os.kill(os.getpid(), signal.SIGUSR1)  # signals are received in order
            while supervisor.stop_reason is None:
                time.sleep(0.01)
            assert supervisor.stop_reason == "SIGUSR1"
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def stop_at_the_start() -> None:
    is_ending, is_training = threading.Event(), threading.Event()

    def end_slowly(_: Termination) -> None:
        is_ending.set()
        is_training.wait(0.5)

    with supervise() as supervisor:
        supervisor.at_end(end_slowly, 60)
        os.kill(os.getpid(), signal.SIGTERM)
        is_ending.wait()
        supervisor.begin_training()
        is_training.set()
        print("a step", flush=True)
        time.sleep(3600)


def test_process_that_was_stopped_at_its_start_takes_no_step(tmp_path: Path):
    job = processes.start(stop_at_the_start, tmp_path, 1)
    assert job.wait() == [0]
    assert "Stopped before the first step" in job.text() and "a step" not in job.text()


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The exit codes of this process, which goes on."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


@pytest.mark.parametrize(
    ("number", "seconds", "on_terminal", "ends"),
    [
        (signal.SIGINT, 1.5, False, True),
        (signal.SIGINT, 0.5, True, False),  # the same Ctrl-C, forwarded by a parent process
        (signal.SIGTERM, 1.5, True, True),  # torchrun's reaction to the second Ctrl-C
        (signal.SIGTERM, 1.5, False, False),  # a scheduler's to a process that does not end
        (signal.SIGUSR1, 1.5, True, False),
    ],
)
def test_only_a_second_ctrl_c_ends_the_process_at_once(
    monkeypatch: pytest.MonkeyPatch,
    codes: list[int],
    number: signal.Signals,
    seconds: float,
    on_terminal: bool,
    ends: bool,
):
    monkeypatch.setattr(os, "isatty", lambda descriptor: on_terminal)
    supervisor = Supervisor(Launch(under_torchrun=True))
    supervisor._on_signal(signal.SIGTERM, 100.0)
    assert not codes
    supervisor._on_signal(signal.SIGINT, 200.0)
    supervisor._on_signal(number, 200.0 + seconds)
    assert codes == [130] * ends


@pytest.mark.parametrize("is_ending", [True, False])
def test_second_ctrl_c_at_the_end_keeps_the_status_of_the_end(codes: list[int], is_ending: bool):
    supervisor = Supervisor()
    written: list[str] = []
    supervisor.at_end(lambda end: written.append(end.status), 5)
    supervisor.begin_training()
    if is_ending:
        supervisor.begin_ending()
    supervisor._on_signal(signal.SIGINT, 100.0)
    supervisor._on_signal(signal.SIGINT, 110.0)
    assert written == ([] if is_ending else ["preempted"])


class Ended(Exception):
    pass


@pytest.mark.parametrize(
    ("reason", "ends"),
    [("SIGTERM", True), ("SIGUSR1", True), ("--max_minutes reached", False)],
)
def test_only_a_stop_by_a_signal_has_a_grace_period(
    monkeypatch: pytest.MonkeyPatch, reason: str, ends: bool
):
    def end(*_: object, **__: object) -> None:
        raise Ended

    supervisor = Supervisor()
    monkeypatch.setattr(supervisor, "_end", end)
    supervisor.begin_training()
    supervisor.request_stop(reason)
    with pytest.raises(Ended) if ends else nullcontext():
        supervisor._check(time.monotonic() + 1000)


def train_in_a_thread(flags: list[str]) -> None:
    thread = threading.Thread(target=processes.run_train, args=(flags,))
    thread.start()
    thread.join()


def test_training_in_a_thread_works_without_signals(run: Run, tmp_path: Path):
    flags = [*run.flags, "--max_steps", "4"]
    output = processes.start(train_in_a_thread, tmp_path, 1, None, flags).succeed()
    assert "Finished at epoch 1, step 4" in output


# --- hangs ---


def compile_and_hang(folder: str) -> None:
    def compile_for_long() -> None:
        with library_call():
            time.sleep(1.0)
        print("read", flush=True)

    with supervise(timeout_seconds=0.5) as supervisor:
        supervisor.enter_phase("compiling", has_timeout=False)
        time.sleep(1.0)
        print("compiled", flush=True)
    in_step_3(compile_for_long, folder, timeout_seconds=0.5)


@pytest.mark.slow
def test_only_phases_and_library_calls_without_a_timeout_may_take_longer(tmp_path: Path):
    job = processes.start(compile_and_hang, tmp_path, 1, None, str(tmp_path))
    assert job.wait() == [75]
    error = "error: Rank 0 hung at step 3, reading a batch: no progress for 0.5 s. "
    assert job.text().startswith(f"compiled\nread\n{error}"), job.text()
    assert "Stack of rank 0" in job.text() and "in compile_and_hang" in job.text()


def work_slowly(folder: str) -> None:
    with open_world(DistributedConfig(timeout_minutes=0.02)) as world:  # 1.2 s
        for number in range(40):
            world.on_main(f"part {number}", lambda: time.sleep(0.1))
            Path(folder, f"started-{world.rank}").touch()
    print("done", flush=True)


@pytest.mark.slow
def test_stopped_and_continued_processes_are_no_hang(tmp_path: Path):
    # As by docker pause, Ctrl-Z, or the lid of a laptop.
    job = processes.start(work_slowly, tmp_path, 2, None, str(tmp_path))
    processes.wait_until(lambda: len(list(tmp_path.glob("started-*"))) == 2, job.text)
    for rank in (0, 1):
        job.signal(signal.SIGSTOP, rank)
    time.sleep(4.0)  # longer than the timeout, and than a check of the supervisor may take
    for rank in (0, 1):
        job.signal(signal.SIGCONT, rank)
    assert "done" in job.succeed()


def wait_for_ever(folder: str, stage: str) -> None:
    """Each rank, of two on a node, waits as in NCCL, which does not return after a rank is lost."""
    rank = int(os.environ["RANK"])
    os.environ.update({"LOCAL_RANK": str(rank % 2), "GROUP_RANK": str(rank // 2)})
    with open_world(DistributedConfig()) as world:
        run_folder = RunFolder(f"{folder}/{rank}", "token")
        run_folder.path.mkdir()
        write_status = run_folder.write_status
        world.supervisor.at_end(lambda end: write_status(end.status, end.message), 5)
        if stage == "training":
            world.supervisor.begin_training()
        world.supervisor.enter_phase("computing gradients", 7)
        Path(folder, f"started-{rank}").touch()
        time.sleep(3600)


@pytest.mark.parametrize(
    ("lost", "message", "stage"),
    [
        ([1], "Rank 1 is lost", "starting"),
        *slow(
            ([2, 3], "Ranks 2, 3 are lost", "training"),  # a node
            # Rank 0 serves the store.
            ([0], "Rank . lost its connection to the others' store", "starting"),
            ([0, 1], "Rank . lost its connection to the others' store", "training"),
        ),
    ],
)
def test_lost_rank_is_no_preemption_of_the_ranks_that_the_launcher_then_signals(
    tmp_path: Path, lost: list[int], message: str, stage: str
):
    grace = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5.5", "LOCAL_WORLD_SIZE": "2"}
    job = processes.start(wait_for_ever, tmp_path, 4, grace, str(tmp_path), stage)
    processes.wait_until(lambda: len(list(tmp_path.glob("started-*"))) == 4, job.text)
    others = [rank for rank in range(4) if rank not in lost]
    for rank in lost:
        job.signal(signal.SIGKILL, rank)
    for rank in others:
        job.signal(signal.SIGTERM, rank)
    assert job.wait() == [-signal.SIGKILL if rank in lost else 75 for rank in range(4)]
    errors = re.findall("^error: .*", job.text(), re.MULTILINE)
    # Without a store, a rank of each node reports.
    assert len(errors) == (len({rank // 2 for rank in others}) if 0 in lost else 1), errors
    for error in errors:
        assert re.match(f"error: {message} at step 7, computing gradients", error)
    for rank in others:
        assert status(tmp_path / str(rank))["state"] == "lost"


# --- the end of the process ---


def fill_stderr() -> None:
    """Replace stderr by a pipe that is full and has no reader."""
    _, inlet = os.pipe()
    fcntl.fcntl(inlet, fcntl.F_SETFL, os.O_NONBLOCK)
    for size in (1 << 16, 1):
        try:
            while True:
                os.write(inlet, bytes(size))
        except BlockingIOError:
            pass
    fcntl.fcntl(inlet, fcntl.F_SETFL, 0)
    os.dup2(inlet, 2)


def close_stderr() -> None:
    os.close(2)


@pytest.mark.slow
@pytest.mark.parametrize("break_stderr", [fill_stderr, close_stderr])
def test_full_or_closed_stderr_does_not_delay_the_end(
    tmp_path: Path, break_stderr: Callable[[], None]
):
    job = processes.start(in_step_3, tmp_path, 1, None, break_stderr, str(tmp_path))
    assert job.wait() == [75]
    assert status(tmp_path)["state"] == "lost"


def fail_in_the_supervisor() -> None:
    def check(self: Supervisor, now: float) -> None:
        json.loads("{")

    Supervisor._check = check
    with supervise() as supervisor:
        supervisor.at_end(lambda end: None, 5)
        time.sleep(3600)


def test_exception_in_the_supervisors_thread_ends_the_run_with_a_message(tmp_path: Path):
    job = processes.start(fail_in_the_supervisor, tmp_path, 1)
    assert job.wait() == [1]
    expected = "error: Rank 0 failed at starting: JSONDecodeError"
    assert job.text().startswith(expected) and job.text().count("Traceback") == 1


def fail_with_actions(in_thread: bool) -> None:
    def hang(_: Termination) -> None:
        time.sleep(3600)

    with supervise(timeout_seconds=0.3 if in_thread else 60) as supervisor:
        supervisor.at_end(lambda end: print(end.status, flush=True), 5)
        supervisor.at_end(lambda end: [][0], 5)
        supervisor.at_end(hang, 0.1)
        supervisor.at_end(lambda end: print("main", flush=True), 5, in_main_thread=True)
        supervisor.at_end(lambda end: print(end.exit_code, flush=True), 5)
        if in_thread:
            time.sleep(3600)
        raise UserError("wrong")


@pytest.mark.parametrize(
    ("in_thread", "printed", "code"),
    [(True, "lost\n75\n", 75), (False, "error: wrong\nfailed\nmain\n2\n", 2)],
)
def test_actions_at_the_end_run_in_order_whatever_others_do(
    tmp_path: Path, in_thread: bool, printed: str, code: int
):
    job = processes.start(fail_with_actions, tmp_path, 1, None, in_thread)
    assert job.wait() == [code]
    assert job.text().endswith(printed)


def fail_where_few_threads_may_start(threads: int, folder: str) -> None:
    start, left = threading.Thread.start, iter(range(threads))

    def start_if_allowed(self: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(self)

    threading.Thread.start = start_if_allowed
    with report_errors(), supervise() as supervisor:
        write_status = RunFolder(folder, "token").write_status
        supervisor.at_end(lambda end: write_status(end.status, end.message), 5)
        raise UserError("wrong")


@pytest.mark.parametrize(
    ("threads", "state", "message"),
    [(0, {}, "can't start new thread: raise ulimit -u"), (1, {"state": "failed"}, "wrong")],
)
def test_where_no_thread_can_start_errors_are_shown_and_recorded(
    tmp_path: Path, threads: int, state: dict[str, str], message: str
):
    output = processes.start(
        fail_where_few_threads_may_start, tmp_path, 1, None, threads, str(tmp_path)
    ).fail()
    assert output.startswith(f"error: {message}") and output.count("\n") == 1
    assert state.items() <= read_json(tmp_path / "STATUS.json").items()


def fail_and_go_on_in_a_notebook(folder: str) -> None:
    errors.IN_NOTEBOOK = supervisor.IN_NOTEBOOK = True  # as under IPython
    for token, error in enumerate([UserError("wrong"), KeyboardInterrupt(), ZeroDivisionError()]):
        try:
            with report_errors(), cleanup, supervise() as world:
                run = RunFolder(folder, str(token))
                run.lock(0)  # it would wait for the lock of the one before
                world.at_end(lambda end, run=run: run.write_status(end.status), 5)
                raise error
        except SystemExit as end:
            print(end.code, read_json(Path(folder) / "STATUS.json")["state"], flush=True)
    with pytest.raises(SystemExit, match="2"), report_errors():
        raise UserError("again")


def test_in_a_notebook_the_process_goes_on_after_the_end_of_a_run(tmp_path: Path):
    text = processes.start(fail_and_go_on_in_a_notebook, tmp_path, 1, None, str(tmp_path)).succeed()
    lines = re.sub(r"(?m)^(Traceback| ).*\n", "", text).splitlines()
    assert lines == [
        *("error: wrong", "2 failed"),
        *("Interrupted. Run the same command to continue.", "130 preempted"),
        *("error: Rank 0 failed at starting: ZeroDivisionError", "ZeroDivisionError"),
        *("1 preempted", "error: again"),
    ]


class HangingTeardown:
    """Hangs when it is deleted, as the destructor of a process group may."""

    def __del__(self) -> None:
        time.sleep(3600)


def fail_with_hanging_teardown() -> None:
    with open_world(DistributedConfig()) as world:
        group = HangingTeardown()
        if world.rank == 1:
            raise RuntimeError(f"failed beside {type(group).__name__}")
        time.sleep(3600)


def test_failing_rank_does_not_hang_in_teardown_and_writes_the_error_file(tmp_path: Path):
    # torchrun prints the content of this file.
    file = tmp_path / "error.json"
    variables = {"TORCHELASTIC_ERROR_FILE": str(file)}
    job = processes.start(fail_with_hanging_teardown, tmp_path, 2, variables)
    assert job.wait() == [1, 1]
    assert job.text().count("error: Rank 1 failed at ") == job.text().count("Traceback") == 1
    recorded = json.loads(file.read_text())["message"]
    assert recorded["message"] == "RuntimeError: failed beside HangingTeardown"
    assert "in fail_with_hanging_teardown" in recorded["extraInfo"]["py_callstack"]


def test_single_process_without_a_run_raises_its_errors(capfd: pytest.CaptureFixture[str]):
    for error in (UserError("wrong"), ZeroDivisionError()):
        with pytest.raises(type(error)), open_world(DistributedConfig()):
            raise error
    assert capfd.readouterr().err == ""


def fail_on_all_ranks() -> None:
    with open_world(DistributedConfig()) as world:
        time.sleep(0.3 * world.rank)
        raise UserError("Two lines:\n\x1b[2Jwrong")


def test_user_error_of_all_ranks_is_printed_once_without_control_characters(tmp_path: Path):
    output = processes.start(fail_on_all_ranks, tmp_path, 3).fail()
    assert output.strip() == "error: Two lines:\n\\x1b[2Jwrong"
