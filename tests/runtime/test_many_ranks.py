"""The control plane makes the same few requests with any number of ranks, and prints once.

A real store in one process, and threads as ranks: `benchmarks/control_plane.py`.
"""

import pytest

from benchmarks.control_plane import Simulation, simulate

SIZE, LOST = 128, 64


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    return simulate(SIZE)


def test_ranks_meet_in_a_constant_number_of_requests_without_polling(simulation: Simulation):
    main, *others = simulation.ranks
    assert main.first.counts == {
        "multi_set termination": 1,  # creates all keys
        "wait request": 1,
        "multi_get request": 1,
        "multi_set reply": 1,
        "wait confirmed": 1,
    }
    for rank in others:
        assert rank.first.counts == {
            "set request": 1,
            "wait reply": 1,
            "get reply": 1,
            "set confirmed": 1,
        }


def test_heartbeat_of_a_rank_is_two_requests(simulation: Simulation):
    for rank in simulation.ranks:
        assert rank.heartbeat == {"set heartbeat": 1, "multi_get termination": 1}


def test_one_rank_surveys_and_reports_for_all(simulation: Simulation):
    ended = [rank for rank in simulation.ranks if rank.watchdog.rank != LOST]
    [surveyor] = [rank for rank in ended if rank.surveys]
    survey = {
        "compare_set surveyor": 1,
        "multi_get heartbeat": 2,
        "compare_set termination": 1,
        "set exited": 1,
        "wait exited": 1,
    }
    assert surveyor.verdict == survey
    for rank in ended:
        if rank is not surveyor:
            waits = {"wait exited": 1} if rank.watchdog.rank == 0 else {}
            assert rank.verdict == {"compare_set surveyor": 1, "set exited": 1} | waits


def test_one_message_names_the_lost_rank_and_every_other_rank_exits(simulation: Simulation):
    [message] = [text for text in simulation.messages if "error" in text]
    assert message.startswith(f"error: Rank {LOST} died or disconnected at ")
    stacks = [text for text in simulation.messages if text.startswith("Stack of rank ")]
    assert len(stacks) == len(simulation.messages) - 1 == SIZE - 1
    assert simulation.codes == [75] * (SIZE - 1)


def test_a_rank_has_two_connections_to_the_store(simulation: Simulation):
    ends = 2  # of a connection: the store is in the same process
    assert simulation.descriptors == 2 * ends * SIZE
