"""Eole: a BPE of its tokenization library, then its command build_vocab on the whole corpus.

build_vocab tokenizes the corpus and counts its subwords. That is all of Eole's preparation: it
stores no ids, and tokenizes the text again in every epoch. Its flag to learn the subwords too,
-learn_subwords, ends in an AttributeError in 0.6.4.
"""

import json
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pyonmttok  # pyright: ignore[reportMissingImports]
import yaml

from benchmarks.common import last_line, read_settings
from benchmarks.preparers.task import Task

TOKENIZATION = {"mode": "aggressive", "joiner_annotate": True}


def main() -> None:
    task = read_settings(Task, __doc__)
    begin = time.monotonic()
    learn_subwords(task)
    learnt = time.monotonic()
    build_vocab(task)
    end = time.monotonic()
    print(json.dumps({"parts": {"tokenizer": learnt - begin, "count": end - learnt}}))


def model_file(task: Task) -> Path:
    return task.work / "bpe.model"


def learn_subwords(task: Task) -> None:
    tokenizer = pyonmttok.Tokenizer(**TOKENIZATION)
    learner = pyonmttok.BPELearner(tokenizer=tokenizer, symbols=task.vocab_size)
    for path in task.files:
        with path.open(encoding="utf-8") as lines:
            for line in islice(lines, task.tokenizer_pairs):
                learner.ingest(line)
    learner.learn(str(model_file(task)))


def build_vocab(task: Task) -> None:
    """Run the command. Exits with its last line if it fails."""
    config = task.work / "config.yaml"
    config.write_text(yaml.safe_dump(settings(task)), encoding="utf-8")
    eole = str(Path(sys.executable).with_name("eole"))
    command = [eole, "build_vocab", "-config", str(config)]
    done = subprocess.run(command, cwd=task.work, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(last_line(done.stderr) or f"exit code {done.returncode}")


def settings(task: Task) -> dict[str, Any]:
    source, target = map(str, task.files)
    tokenize: dict[str, Any] = {}
    for side in ("src", "tgt"):
        tokenize[f"{side}_subword_type"] = "bpe"
        tokenize[f"{side}_subword_model"] = str(model_file(task))
        tokenize[f"{side}_onmttok_kwargs"] = TOKENIZATION
    return {
        "data": {"train": {"path_src": source, "path_tgt": target}},
        "transforms": ["onmt_tokenize"],
        "transforms_configs": {"onmt_tokenize": tokenize},
        "src_vocab": str(task.work / "vocabulary.txt"),
        "share_vocab": True,
        "save_data": str(task.work / "data"),
        "n_sample": -1,
        "num_threads": task.processes,
        "overwrite": True,
    }


if __name__ == "__main__":
    main()
