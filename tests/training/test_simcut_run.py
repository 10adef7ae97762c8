"""A training run with SimCut: its passes, its record, and its resume."""

import shutil
from pathlib import Path

from config import parse
from tests.helpers.corpora import write_parallel
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_run, records
from translate_ddp.runtime.world import World
from translate_ddp.training.run import build_loader, prepare_data

SIMCUT = ["--simcut", "3"]


def test_killed_run_resumes_exactly(run: Run):
    straight = run.copy("straight")
    straight.start(*SIMCUT, size=2).succeed()
    run.start(*SIMCUT, size=2, fault="batch:7@0=kill").kill_rest()
    run.start(*SIMCUT, size=2).succeed()
    assert_same_run(straight.folder, run.folder)
    logged = [record for record in records(run.folder) if "train/loss" in record]
    assert logged and all(record["train/divergence"] > 0 for record in logged)


def test_first_record_with_simcut_has_only_steps_with_it(run: Run):
    run.start("--max_steps", "4").succeed()  # the last record is of step 3
    each = run.copy("each")
    shutil.copytree(run.folder, each.folder, dirs_exist_ok=True)
    each.start(*SIMCUT, "--max_steps", "6", "--log_every", "1").succeed()
    of_each = [record.get("train/divergence") for record in records(each.folder)]
    fifth, sixth = filter(None, of_each)
    run.start(*SIMCUT, "--max_steps", "6").succeed()
    of_both = [record.get("train/divergence") for record in records(run.folder)]
    (mean,) = filter(None, of_both)
    assert min(fifth, sixth) <= mean <= max(fifth, sixth)


def test_pass_holds_half_of_the_pairs(tmp_path: Path):
    corpus = write_parallel(tmp_path / "train", [(f"one {n}", f"eins {n}") for n in range(100)])
    flags = ["--dataset", corpus, "--lang_src", "en", "--lang_tgt", "de", "--preset", "tiny"]
    flags += ["--max_tokens", "300", "--seq_len", "100", "--validation", "10"]
    flags += ["--model_folder", str(tmp_path / "model")]
    most = []
    for further in ([], SIMCUT):
        config = parse([*flags, *further])
        data = prepare_data(config, tmp_path / "data", World())
        loader = build_loader(config, data, World())
        passes = [batch.source_BS for step in loader for batch in step.micro_batches]
        most.append(max(source.numel() for source in passes))
    assert 150 < most[0] <= 300 and most[1] <= 150
