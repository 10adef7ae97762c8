"""The variables of torchrun and Slurm."""

import pytest

from translate_ddp.errors import UserError
from translate_ddp.runtime.launcher import Launch, first_slurm_host, read_launch


def test_variables_of_torchrun():
    variables = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_launch(variables) == Launch(rank=5, size=8, local_rank=1, local_size=4)
    restarts = {"TORCHELASTIC_RESTART_COUNT": "1", "SLURM_RESTART_COUNT": "2"}  # a requeued job
    assert read_launch(variables | restarts).restarts == 3
    assert read_launch(variables | {"TORCHELASTIC_RUN_ID": "none"}).under_torchrun


def test_variables_of_slurm_when_srun_starts_the_ranks():
    variables = {
        "SLURM_PROCID": "9",
        "SLURM_NTASKS": "11",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    }
    assert read_launch(variables) == Launch(rank=9, size=11, local_rank=1, local_size=3)
    assert read_launch(variables | {"SLURM_NTASKS": "1"}) == Launch()  # an interactive shell


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("gpu[07-09,12],big1", "gpu07"), ("node3", "node3"), ("a1,a2", "a1"), ("n-[1,3]", "n-1")],
)
def test_first_host_of_a_slurm_node_list(nodelist: str, host: str):
    assert first_slurm_host(nodelist) == host


def test_empty_slurm_node_list_is_an_error():
    with pytest.raises(UserError, match="SLURM_STEP_NODELIST contains no host: ''"):
        first_slurm_host("")
