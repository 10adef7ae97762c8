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
from lab.measure import total
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
    ranks = [checks.lists_of_rank(function, rank, 3) for rank in range(3)]
    failed = [check.mistake for check in checks.judge_shards(ranks) if not check.passed]
    assert len(failed) == len(mistakes) and all(map(str.startswith, failed, mistakes))


def test_a_vector_is_compared_on_every_rank_and_its_mistake_is_named():
    facts = {"right": [1.0, 2.0], "mistakes": {"means": [3.0, float("nan")]}}
    first, second = facts | {"found": [1.0, 2.0]}, facts | {"found": [3.0, float("nan")]}
    assert checks.judge_vector("", [first, first]).passed
    judged = checks.judge_vector("", [first, second])
    assert (judged.passed, judged.mistake) == (False, "means")


def test_a_hang_names_the_rank_that_misses_a_collective():
    text = ranks.explain_hang([["broadcast"], ["broadcast", "all_reduce"]], {0})
    assert (
        "rank 0 returned" in text
        and "rank 1 hangs after these collectives: broadcast, all_reduce" in text
    )
    assert text.endswith("Rank 0 misses a collective that others entered")


def test_spans_that_overlap_count_once():
    assert total([(0, 4), (1, 2), (3, 6), (8, 9)]) == 7


def test_each_exercise_has_a_file_with_the_function_and_its_solution():
    for exercise in EXERCISES:
        function = getattr(import_module(f"lab.{exercise.file}"), exercise.function)
        solution = getattr(solutions, exercise.function)
        assert inspect.signature(function) == inspect.signature(solution)


@pytest.mark.slow
def test_solutions_have_all_points(capsys: pytest.CaptureFixture[str]):
    assert main(["--solution"]) == 0
    assert "19 of 19 points" in capsys.readouterr().out


@pytest.mark.slow
def test_usual_mistakes_are_named():
    for function, number, text in [
        (naive.without_epoch, 1, "You forgot the epoch"),
        (naive.returns_nothing, 1, "stopped: returned None, not a list"),
        (naive.wrapped, 2, "DistributedDataParallel, which is forbidden"),
        (naive.state_dict_only, 2, "state_dict() lacks a buffer"),
        (naive.with_grad, 2, "Write it in torch.no_grad()"),
        (naive.misses_a_collective, 2, "Rank 0 misses a collective"),
        (naive.mean_of_means, 2, ": TypeError: mean_of_means() missing"),
        (naive.mean_of_means, 3, "You averaged means"),
        (naive.one_token_at_least, 3, " (on 3 ranks)\n      You counted a rank without tokens"),
        (naive.waits, 4, "Backward waits: use async_op."),
        (naive.sent_by_last_parameter, 4, "you sent a bucket before its last one was ready"),
        (naive.sent_always, 5, "You sent in each micro-batch"),
        (naive.mean_of_micro_batches, 5, "You averaged means"),
        (naive.concatenated, 5, "      came:     forward backward (on 2"),
        (naive.one_backward, 5, "      came:     forward forward forward backward (on 2"),
        (naive.never_read, 6, "It began at step 0"),
        (naive.without_optimizer, 6, "rank 0 lacks: optimizer."),
        (naive.without_generator, 6, "rank 0 lacks: generator."),
        (naive.in_place, 6, "passed: weights after a kill in a step\n   FAILED"),
    ]:
        exercise = replace(EXERCISES[number - 1], function=function.__name__)
        points, found = grade(exercise, naive.__name__)
        assert text in found and points < exercise.points, found
