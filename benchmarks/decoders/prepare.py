"""The model and the sentences of a decoding benchmark."""

import itertools
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, as_flags, python
from benchmarks.decoders.task import Ids, Task, Trained
from benchmarks.report import short
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.inputs import read_given_pairs
from translate_ddp.data.preparation import prepare
from translate_ddp.errors import UserError
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.settings import AugmentConfig, CorpusConfig, TokenizerConfig
from translate_ddp.training.checkpoint import CheckpointStore

DEMO_STEPS = 300
PEERS = ("transformers", "ctranslate2")


def train_demo(folder: Path) -> str:
    """Train a model of the embedded corpus in the folder; a run that is there is resumed."""
    flags = {"model_folder": folder, "max_steps": DEMO_STEPS, "wandb_mode": "disabled"}
    command = [*python(), "train.py", *as_flags(flags)]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        raise UserError("Training the demo failed: see the message above.")
    return str(folder)


def prepare_task(
    work: Path, model_folder: Path, source: str, reference: str, sentences: int
) -> tuple[Trained, Task, list[str]]:
    """The model, the task, which is saved in `work`, and the references, if there are any.

    The sentences are those of the file `source`, or, if '', of the corpus of the training run.
    """
    checkpoint, _ = CheckpointStore(CheckpointConfig(str(model_folder))).find("latest")
    task = Task(work, str(checkpoint.path.absolute()), [])
    trained = task.trained()
    if source:
        pairs = read_given_pairs(source, reference or source, ("src", "tgt"))
        sources = trained.tokenizer.encode(pairs[0])
        references = pairs[1] if reference else []
    else:
        sources, references = read_corpus(model_folder, trained, sentences)
    task.sources.extend(sources[:sentences])
    task.save()
    return trained, task, references[:sentences]


def read_corpus(folder: Path, trained: Trained, count: int) -> tuple[Ids, list[str]]:
    """The first `count` pairs of the run's validation set, then of its training set."""
    run = trained.config
    corpus, tokenizer = CorpusConfig.of(run["corpus"]), TokenizerConfig(**run["tokenizer"])
    seq_len, augment = run["batches"]["seq_len"], AugmentConfig(**run.get("augment", {}))
    data = load_prepared(prepare(corpus, tokenizer, seq_len, folder / "data", augment))
    parts = (data.validation, data.train)
    pairs = (part[row] for part in parts for row in range(len(part)))
    sources, targets = zip(*itertools.islice(pairs, count), strict=True)
    references = trained.tokenizer.decode([ids.tolist() for ids in targets])
    return [ids.tolist() for ids in sources], references


def task_facts(trained: Trained, task: Task) -> dict[str, Any]:
    """The facts about model, sentences and peers for the report."""
    corpus = CorpusConfig.of(trained.config["corpus"])
    return {
        "corpus": f"{' '.join(map(short, corpus.dataset))} {'-'.join(corpus.languages)}",
        "parameters": f"{sum(p.numel() for p in trained.model.parameters()):,}",
        "sentences": len(task.sources),
        "source tokens": sum(map(len, task.sources)),
    } | {d.name: d.version for d in metadata.distributions() if d.name in PEERS}
