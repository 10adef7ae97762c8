"""The control plane makes the same few requests with any number of ranks, and prints once.

A real store in one process, and threads as ranks: `tests/helpers/many_ranks.py`.
"""

import pytest

from tests.helpers.many_ranks import Simulation, simulate

SIZE, LOST = 64, 32
pytestmark = pytest.mark.slow  # one simulation for all


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


def test_heartbeats_and_the_end_of_a_rank_are_a_few_requests(simulation: Simulation):
    for rank in simulation.ranks:
        assert rank.heartbeat == {"set heartbeat": 1, "multi_get termination": 1}
        # Less where the termination of another rank was read first.
        assert rank.verdict.total() <= 3
        assert rank.verdict.keys() <= {"multi_get heartbeat", "compare_set termination"}


def test_one_message_names_the_lost_rank_and_every_other_rank_exits(simulation: Simulation):
    [message] = [text for text in simulation.messages if text.startswith("error: ")]
    assert message.startswith(f"error: Rank {LOST} is lost at ")
    stacks = [text for text in simulation.messages if text.startswith("Stack of rank ")]
    assert len(stacks) == len(simulation.messages) - 1 == SIZE - 1
    assert simulation.codes == [75] * (SIZE - 1)


def test_a_rank_has_two_connections_to_the_store(simulation: Simulation):
    ends = 2  # of a connection: the store is in the same process
    assert simulation.descriptors == 2 * ends * SIZE
