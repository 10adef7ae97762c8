"""Eole, the successor of OpenNMT, started by its own command and measured by its own log.

It reads text: each id of the corpus is a word of its vocabulary, so it trains on the same ids. The
first record of its log is warm-up.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common import last_line
from benchmarks.trainers.task import WARMUP_STEPS, Flags, Task, read_flags

POLL_SECONDS = 0.5
# A line of its log: "...; bsz: 3584/3606/226; 2100/2113 tok/s; ...", sources before targets.
RECORD = re.compile(r"Step +(\d+)/.* bsz: *(\d+)/ *(\d+)/.*?; *(\d+)/ *(\d+) tok/s")


def main() -> None:
    flags, task = read_flags(__doc__)
    with tempfile.TemporaryDirectory(dir=flags.work) as temporary:
        folder = Path(temporary)
        (folder / "config.yaml").write_text(yaml.safe_dump(settings(task, flags, folder)))
        log = folder / "log"
        eole = str(Path(sys.executable).with_name("eole"))
        command = [eole, "train", "-config", str(folder / "config.yaml")]
        environment = os.environ | {"OMP_NUM_THREADS": str(flags.threads)}
        with log.open("w") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        try:
            while measure(log)[1] < flags.seconds:
                if process.poll() is not None:
                    raise SystemExit(f"it ended early: {last_line(log.read_text())}")
                time.sleep(POLL_SECONDS)
        finally:
            process.terminate()
            process.wait()
        tokens, seconds, steps = measure(log)
        pace = tokens / seconds
        print(json.dumps({"target_tokens_per_second": pace, "steps": steps, "seconds": seconds}))


def measure(log: Path) -> tuple[float, float, int]:
    """Target tokens, seconds and steps since the first record."""
    records = [tuple(map(int, found)) for found in RECORD.findall(log.read_text())][1:]
    tokens = [WARMUP_STEPS * per_step for _, _, per_step, _, _ in records]
    seconds = [count / pace for count, (*_, pace) in zip(tokens, records, strict=True)]
    return sum(tokens), sum(seconds), WARMUP_STEPS * len(records)


def settings(task: Task, flags: Flags, folder: Path) -> dict[str, Any]:
    """The constants of eole.yaml, and what depends on the task."""
    found = yaml.safe_load(Path(__file__).with_name("eole.yaml").read_text(encoding="utf-8"))
    corpus = {f"path_{side}": str(flags.work / f"corpus.{side}.txt") for side in ("src", "tgt")}
    found |= {
        "src_vocab": str(flags.work / "vocabulary.txt"),
        "save_data": str(folder),
        "report_every": WARMUP_STEPS,
        "data": {"train": corpus},
    }
    found["model"] |= {
        "hidden_size": task.model.d_model,
        "heads": task.model.num_heads,
        "transformer_ff": task.model.d_ff,
        "encoder": {"layers": task.model.num_encoder_layers},
        "decoder": {"layers": task.model.num_decoder_layers},
    }
    found["model"]["embeddings"]["word_vec_size"] = task.model.d_model
    found["training"] |= {
        "model_path": str(folder / "model"),
        "gpu_ranks": [0] if task.device == "cuda" else [],
        "compute_dtype": flags.precision,
        "batch_size": task.batch_tokens,
        "bucket_size": task.pairs,  # sorts a whole epoch
        "label_smoothing": task.label_smoothing,
        "dropout": [task.model.dropout],
        "attention_dropout": [task.model.dropout],
    }
    return found


if __name__ == "__main__":
    main()
