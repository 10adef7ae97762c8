"""The grader of the lab: right solutions have all points, usual mistakes are named."""

import inspect
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

import tests.helpers.processes  # noqa: F401, the server of its ranks also forks ours
from lab import checks, ranks
from lab.grade import EXERCISES, grade, main
from tests.lab import naive, solutions

ORDER = solutions.indices_of_rank


@pytest.mark.parametrize(
    ("function", "mistakes"),
    [
        (ORDER, []),
        (lambda n, r, p, e: (ORDER(n, 0, 1, e) * 3)[: n - n % -p][r::p], ["You repeated indices"]),
        (lambda n, r, p, e: ORDER(n, 0, 1, e)[: n - n % p][r::p], ["You dropped indices"]),
        (lambda n, r, p, _: torch.randperm(n)[r::p], ["Each rank shuffled for itself"]),
        (lambda n, r, p, e: ORDER(n, r, p, e * (r + 1)), ["Each rank shuffled for itself"]),
        (lambda n, r, p, e: ORDER(n, 0, 1, e)[r * -(-n // p) :][: -(-n // p)], [""]),
        (lambda n, r, p, _: ORDER(n, r, p, 0), ["You forgot the epoch"]),
        (lambda n, r, p, e: sorted(ORDER(n, r, p, 0))[:: (-1) ** e], ["Only the order changed"]),
    ],
)
def test_indices_are_judged(function: Any, mistakes: list[str]):
    facts = [checks.lists_of_rank(function, rank, 3) for rank in range(3)]
    failed = [check.mistake for check in checks.judge_shards(facts) if not check.passed]
    with pytest.raises(ranks.Problem, match="returned None"):
        checks.lists_of_rank(lambda *_: None, 0, 2)
    assert len(failed) == len(mistakes) and all(map(str.startswith, failed, mistakes))


def test_a_vector_is_compared_on_every_rank_and_its_mistake_is_named():
    facts = {"right": [1.0, 2.0], "mistakes": {"means": [3.0, float("nan")]}}
    first, second = facts | {"found": [1.0, 2.0]}, facts | {"found": [3.0, float("nan")]}
    assert checks.judge_vector("", [first, first]).passed
    judged = checks.judge_vector("", [first, second])
    assert (judged.passed, judged.mistake) == (False, "means")


def test_the_cause_of_another_end_is_named():
    states = {n: {"weights": n, "generator": n} for n in range(checks.STEPS)}
    undisturbed = {"states": states, "end": {"weights": 7, "generator": 7}}
    for first, weights, generator, text in [
        (3, 3, 3, ""),
        (0, 0, 0, "It began at step 0: the checkpoint lacks the step, or was not read."),
        (2, 3, 9, "It repeated step 2: save the number of the next step."),
        (4, 3, 9, "It skipped step 3."),
        (3, 0, 9, "At step 3 rank 1 lacks: weights, generator."),
        (2, 2, 2, "Step 2 was lost: save after each step."),
    ]:
        continued = {"states": {first: {"weights": weights, "generator": generator}}, "end": {}}
        assert checks.mistake_of_rank(1, continued, undisturbed) == text


def test_a_hang_names_the_rank_that_misses_a_collective():
    text = ranks.explain_hang([["broadcast"], ["broadcast", "all_reduce"]], {0})
    assert text.startswith("no progress; rank 0 returned after these collectives: broadcast")
    assert text.endswith("Rank 0 misses a collective that others entered")


def test_each_exercise_has_a_file_with_the_function_and_its_solution():
    for exercise in EXERCISES:
        modules = import_module(f"lab.{exercise.file}"), solutions
        assert len({inspect.signature(getattr(m, exercise.function)) for m in modules}) == 1


@pytest.mark.slow
def test_solutions_have_all_points():
    assert main(["--solution"]) == 0


@pytest.mark.slow
def test_usual_mistakes_are_named():
    for function, number, text in [
        (naive.without_epoch, 1, "You forgot the epoch"),
        (naive.wrapped, 2, "DistributedDataParallel, which is forbidden"),
        (naive.state_dict_only, 2, "state_dict() lacks a buffer"),
        (naive.with_grad, 2, "Write it in torch.no_grad()"),
        (naive.misses_a_collective, 2, "Rank 0 misses a collective"),
        (naive.mean_of_means, 2, ": TypeError: mean_of_means() missing"),
        (naive.mean_of_means, 3, "You averaged means"),
        (naive.one_token_at_least, 3, " (on 3 ranks)\n      You counted a rank without tokens"),
        (naive.waits, 4, "Backward waits: use async_op."),
        (naive.sent_by_last_parameter, 4, "FAILED: the mean over ranks, in buckets, in another"),
        (naive.sent_always, 5, "You sent in each micro-batch"),
        (naive.mean_of_micro_batches, 5, "You averaged means"),
        (naive.one_backward, 5, "      came:     forward forward forward backward (on 2"),
        (naive.as_rank_0, 6, ", 7 masks, ranks that save: [0, 1]"),
        (naive.in_place, 6, "passed: weights after a kill in a step\n   FAILED"),
    ]:
        exercise = replace(EXERCISES[number - 1], function=function.__name__)
        points, found = grade(exercise, naive.__name__)
        assert text in found and points < exercise.points, found
