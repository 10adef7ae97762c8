"""Grade the exercises of the lab, each on two and on three ranks on the CPU.

The exit code is 0 if all points are reached.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lab import checks
from lab.checks import Check, first_failed
from lab.ranks import CONTEXT, PRELOAD, Facts, Problem, call_student, launch


@dataclass(frozen=True)
class Exercise:
    """One file, the function in it, and the points, one for each check of its judge."""

    file: str
    function: str
    points: int
    theory: str


EXERCISES = (
    Exercise("exercise1_shards", "indices_of_rank", 3, "The same pure function on all ranks"
             " needs no communication."),
    Exercise("exercise2_start", "copy_from_rank_0", 3, "Equal gradients keep weights equal only"
             " if the weights were equal at the start."),
    Exercise("exercise3_average", "gradient_of_step", 2, "The mean of the ranks' means is not"
             " sum(losses) / sum(tokens) of all ranks."),
    Exercise("exercise4_buckets", "send_gradients", 5, "Few large messages have less latency;"
             " an early message is sent while backward computes."),
    Exercise("exercise5_accumulate", "accumulate", 3, "A sum of sums is the same in any order,"
             " so one all-reduce is enough."),
    Exercise("exercise6_resume", "train", 3, "A checkpoint is complete if the next step depends"
             " on nothing else: weights, optimizer, step, random numbers."),
)  # fmt: skip


def grade(exercise: Exercise, module: str) -> tuple[int, str]:
    """The points of the function in this module, and what the student reads."""
    found: list[Check] = []
    try:
        found, sent = run(exercise, module)
        last = f"measured: rank 0 of 2 sent {sent}"
    except Problem as problem:
        last = f"stopped: {problem}"
    points = sum(check.passed for check in found)
    text = f"lab/{exercise.file}.py: {points} of {exercise.points} points\n"
    for check in found:
        text += f"   {'passed' if check.passed else 'FAILED'}: {check.claim}\n"
        if not check.passed:
            text += f"      expected: {check.expected}\n      came:     {check.found}\n"
            text += f"      {check.mistake}\n" if check.mistake else ""
    return points, f"{text}   theory: {exercise.theory}\n   {last}\n"


def run(exercise: Exercise, module: str) -> tuple[list[Check], str]:
    """The checks, each of the number of ranks where it fails, and what rank 0 of 2 sent.

    Raises Problem if the function does not end as it should.
    """
    subject = exercise.file.partition("_")[2]
    measure, judge = (getattr(checks, f"{verb}_{subject}") for verb in ("measure", "judge"))
    of_sizes: list[list[Check]] = []
    sent = ""
    for size in (2, 3):
        on_ranks = partial(launch, call_student, size, module, exercise.function, measure)
        facts = run_lives(on_ranks) if subject == "resume" else on_ranks()
        on_size = f" (on {size} ranks)"
        of_sizes.append([replace(each, found=each.found + on_size) for each in judge(facts)])
        sent = sent or (facts["whole"] if isinstance(facts, dict) else facts)[0]["sent"]
    both = zip(*of_sizes, strict=True)
    return list(map(first_failed, both)), sent


def run_lives(run: Callable[..., list[Facts]]) -> dict[str, list[Facts]]:
    """The training of exercise 6 undisturbed, and its ends after a kill in a step and in a save."""
    with tempfile.TemporaryDirectory() as folder:
        whole, once, twice = (Path(folder, name) for name in ("whole", "once", "twice"))
        whole.mkdir()
        once.mkdir()
        lives = {"whole": run(f"{whole}/checkpoint.pt", "whole")}
        run(f"{once}/checkpoint.pt", "killed in a step", dies=True)
        shutil.copytree(once, twice)
        run(f"{twice}/checkpoint.pt", "killed in a save", dies=True)
        for path, life in ((once, "after a kill in a step"), (twice, "after a kill in a save")):
            lives[life] = run(f"{path}/checkpoint.pt", life)
    return lives


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m lab.grade", description=__doc__)
    parser.add_argument("number", nargs="*", type=int, help="exercises: 1 to 6, or all")
    parser.add_argument("--solution", action="store_true", help="grade tests/lab/solutions.py")
    flags = parser.parse_args(arguments)
    numbers = range(1, len(EXERCISES) + 1)
    if not set(flags.number) <= set(numbers):
        parser.error(f"the exercises are 1 to {len(EXERCISES)}")
    chosen = [EXERCISES[number - 1] for number in flags.number or numbers]
    reached = 0
    for exercise in chosen:
        module = "tests.lab.solutions" if flags.solution else f"lab.{exercise.file}"
        found, text = grade(exercise, module)
        print(text, flush=True)
        reached += found
    points = sum(exercise.points for exercise in chosen)
    print(f"{reached} of {points} points")
    return 0 if reached == points else 1


if __name__ == "__main__":
    CONTEXT.set_forkserver_preload(PRELOAD)
    raise SystemExit(main())
