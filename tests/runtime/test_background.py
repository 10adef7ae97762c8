"""Calls on a thread that can be abandoned."""

import threading
import time

import pytest

from translate_ddp.runtime.long_calls import BackgroundThread


def test_calls_run_in_order_and_return_their_results():
    thread = BackgroundThread("test")
    done: list[int] = []
    futures = [thread.submit(lambda n=n: done.append(n) or n * n) for n in range(5)]
    assert thread.result(lambda: list(done), timeout=30) == [0, 1, 2, 3, 4]
    assert [future.result() for future in futures] == [0, 1, 4, 9, 16]


def test_call_that_takes_too_long_raises_a_timeout_error_with_text():
    thread = BackgroundThread("test")
    hung = threading.Event()
    with pytest.raises(TimeoutError, match=r"no result after 0\.05 s"):
        thread.result(hung.wait, timeout=0.05)
    with pytest.raises(TimeoutError, match=r"no result after 0\.05 s"):
        thread.result(lambda: None, timeout=0.05)  # the call before it still runs
    hung.set()
    assert thread.result(lambda: 7, timeout=30) == 7


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_errors_of_calls_reach_the_caller(error: BaseException):
    def fail() -> None:
        raise error

    thread = BackgroundThread("test")
    with pytest.raises(type(error)):
        thread.result(fail, timeout=30)
    assert thread.error is None
    assert thread.result(lambda: 7, timeout=30) == 7


def test_no_call_runs_after_an_error_if_the_thread_stops_after_errors():
    thread = BackgroundThread("test", stop_after_error=True)
    ran: list[str] = []
    failed = thread.submit(lambda: 1 // 0)
    later = thread.submit(lambda: ran.append("later"))
    assert isinstance(later.exception(timeout=30), ZeroDivisionError)
    assert failed.exception() is later.exception() is thread.error
    assert not ran


def test_close_ends_the_thread_and_abandons_a_hung_call():
    def is_running(name: str) -> bool:
        return any(thread.name == name for thread in threading.enumerate())

    idle = BackgroundThread("idle")
    idle.close(timeout=30)
    assert not is_running("idle")
    stuck, hung = BackgroundThread("stuck"), threading.Event()
    stuck.submit(hung.wait)
    stuck.close(timeout=0.05)
    assert is_running("stuck")
    hung.set()
    while is_running("stuck"):
        time.sleep(0.01)
