"""The end of a process: nothing that is broken delays it, and nothing is lost in it."""

import fcntl
import json
import os
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from torch._C import _distributed_c10d as c10d

from tests.helpers import processes
from tests.helpers.runs import status
from translate_ddp.errors import UserError
from translate_ddp.run_settings import DistributedConfig
from translate_ddp.runtime import process_exit
from translate_ddp.runtime.device import write_flight_recorder
from translate_ddp.runtime.peers import Termination
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.supervisor import ExitCode, ProcessExit, open_watchdog
from translate_ddp.runtime.world import open_world


def hang(before: Callable[[], object], folder: str, recorder: Callable[[], str] = str) -> None:
    """Hang until the watchdog ends the process."""
    with open_watchdog() as watchdog:
        watchdog.exit.write_status = RunFolder(folder, "token").write_status
        watchdog.exit.write_flight_recorder = recorder
        before()
        watchdog.timeout_seconds = 0.3
        watchdog.enter_phase("reading a batch", step=3)
        time.sleep(3600)


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


def test_full_pipe_on_stderr_does_not_delay_the_end(tmp_path: Path):
    job = processes.start(hang, tmp_path, 1, None, fill_stderr, str(tmp_path))
    assert job.wait() == [75]
    assert status(tmp_path)["state"] == "failed"


def fail_in_the_watchdog() -> None:
    with open_watchdog() as watchdog:
        watchdog.enter_phase("reading a batch", step=3)
        watchdog._check = lambda now: json.loads("{")
        time.sleep(3600)


def test_exception_in_the_watchdog_thread_ends_the_run_with_a_message(tmp_path: Path):
    job = processes.start(fail_in_the_watchdog, tmp_path, 1)
    assert job.wait() == [1]
    expected = "error: The watchdog of rank 0 failed at step 3, reading a batch: JSONDecodeError"
    assert job.text().startswith(expected) and job.text().count("Traceback") == 1


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


class LostPeers:
    """Ranks whose store does not reply."""

    def try_call(self, call: Callable[[], object]) -> None:
        pass

    claim = send_exit = wait_for_exits = lambda *_: None


def lose_the_store() -> None:
    rank = int(os.environ["RANK"])
    end = ProcessExit(rank, local_rank=rank % 2)
    end.peers = LostPeers()  # pyright: ignore[reportAttributeAccessIssue]
    end.end(Termination("failed", f"Rank {rank} lost the store.", ExitCode.RETRY, rank))


def test_without_a_store_the_first_rank_of_each_node_and_rank_1_report(tmp_path: Path):
    # Rank 1 reports too, since its node's first rank, which serves the store, may be lost.
    job = processes.start(lose_the_store, tmp_path, 4)
    assert job.wait() == [ExitCode.RETRY] * 4
    printed = re.findall(r"^error: Rank (\d) lost the store\.$", job.text(), re.MULTILINE)
    assert printed == ["0", "1", "2"]


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


def test_flight_recorder_is_written_where_torch_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trace = pickle.dumps({"entries": []})
    monkeypatch.setattr(c10d, "_dump_nccl_trace", lambda: trace, raising=False)
    monkeypatch.setenv("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", f"{tmp_path}/new/trace_rank_")
    path = tmp_path / "new" / "trace_rank_12"
    assert write_flight_recorder(12) == str(path)
    assert path.read_bytes() == trace
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", f"{tmp_path}/other_")
    assert write_flight_recorder(12) == f"{tmp_path}/other_12"


def test_flight_recorder_needs_nccl(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(c10d, "_dump_nccl_trace", raising=False)
    assert write_flight_recorder(0) == ""


def write_recorder() -> str:
    return "/traces/rank_0"


def fail_to_write_recorder() -> str:
    raise OSError(28, "No space left on device")


def hang_in_recorder() -> str:
    time.sleep(3600)
    return "/traces/rank_0"


def shorten_recorder_timeout() -> None:
    process_exit.RECORDER_SECONDS = 0.1


@pytest.mark.parametrize("recorder", [write_recorder, fail_to_write_recorder, hang_in_recorder])
def test_hang_prints_the_path_of_the_flight_recorder_which_cannot_prevent_the_end(
    tmp_path: Path, recorder: Callable[[], str]
):
    arguments = (shorten_recorder_timeout, str(tmp_path), recorder)
    job = processes.start(hang, tmp_path, 1, None, *arguments)
    assert job.wait() == [75]
    assert "error: Rank 0 hung at step 3, reading a batch" in job.text()
    line = "NCCL's flight recorder of rank 0: /traces/rank_0\n"
    assert (line in job.text()) == (recorder is write_recorder)
