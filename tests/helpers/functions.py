"""Functions that worker processes import."""

import os
import signal
import sys
import time

from translate_ddp.errors import UserError


def process_of(number: int) -> tuple[int, int]:
    time.sleep(0.01 * (number % 3))
    return number, os.getpid()


def gpus_of(number: int) -> str:
    return os.environ["CUDA_VISIBLE_DEVICES"]


def fail(number: int) -> int:
    if number == 17:
        raise UserError("number 17 is unusable")
    return number


def kill_itself(number: int) -> int:
    if number == 17:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def print_and_return(number: int) -> int:
    print("printed", flush=True)
    return number


class Unpicklable(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")  # from which pickle cannot make it again


def fail_with_unpicklable_error(number: int) -> int:
    if number == 17:
        raise Unpicklable(number, 2)
    return number


def return_unpicklable(number: int) -> object:
    return (lambda: number) if number == 17 else number


def exit_with_message(number: int) -> int:
    if number == 17:
        os.write(2, b"a library of C aborts\n")
        os._exit(3)
    return number


def fill_stderr(number: int) -> int:
    sys.stderr.write("x" * 200_000)
    return number


def length(text: str) -> int:
    return len(text)
