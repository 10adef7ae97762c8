"""The diagrams of docs/figures: made by their script, of flags that exist."""

import re
from pathlib import Path

from tools.pictures.diagrams import choose, data_flow
from translate_ddp.settings import all_settings

FIGURES = Path(__file__).parents[3] / "docs/figures"
OF_LAUNCHERS = {"nproc_per_node", "nodes", "gpus", "cpus"}  # torchrun, sbatch


def test_files_are_those_of_the_script():
    assert (FIGURES / "choose.svg").read_text() == choose()
    assert (FIGURES / "data_flow.svg").read_text() == data_flow()


def test_choice_names_flags_that_exist():
    flags = set(re.findall(r"--([a-z]\w*)", choose().partition("</style>")[2]))
    assert flags and flags <= {*all_settings(), *OF_LAUNCHERS}
