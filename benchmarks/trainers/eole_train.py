"""Eole, the successor of OpenNMT, by its own command and measured by its own log.

It reads text: each id of the corpus is a word of its vocabulary, so that it learns from the same
ids. The first record of its log is warm-up.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.trainers.task import WARMUP_STEPS, Flags, Task, answer, follow, read_flags

# A line of its log: "...; bsz: 3584/3606/226; 2100/2113 tok/s; ...", sources before targets.
RECORD = re.compile(r"Step +(\d+)/.* bsz: *(\d+)/ *(\d+)/.*?; *(\d+)/ *(\d+) tok/s")


def main() -> None:
    flags, task = read_flags(__doc__ or "")
    with tempfile.TemporaryDirectory(dir=flags.work) as temporary:
        folder = Path(temporary)
        (folder / "config.yaml").write_text(yaml.safe_dump(settings(task, flags, folder)))
        log = folder / "log"
        eole = str(Path(sys.executable).with_name("eole"))
        command = [eole, "train", "-config", str(folder / "config.yaml")]
        environment = {"OMP_NUM_THREADS": str(flags.threads)}
        follow(command, environment, log, lambda: measure(log)[1] >= flags.seconds)
        answer(*measure(log))


def measure(log: Path) -> tuple[float, float, int]:
    """Target tokens, seconds and steps since the first record."""
    records = [tuple(map(int, found)) for found in RECORD.findall(log.read_text())][1:]
    tokens = [WARMUP_STEPS * a_step for _, _, a_step, _, _ in records]
    seconds = [some / pace for some, (*_, pace) in zip(tokens, records, strict=True)]
    return sum(tokens), sum(seconds), WARMUP_STEPS * len(records)


def settings(task: Task, flags: Flags, folder: Path) -> dict[str, Any]:
    corpus = {side: str(flags.work / f"corpus.{side}.txt") for side in ("src", "tgt")}
    return {
        "src_vocab": str(flags.work / "vocabulary.txt"),
        "share_vocab": True,
        "vocab_size_multiple": 1,
        "save_data": str(folder),
        "overwrite": True,
        "seed": 1,
        "report_every": WARMUP_STEPS,
        "data": {"train": {f"path_{side}": path for side, path in corpus.items()}},
        "transforms": [],
        "model": {
            "architecture": "transformer",
            "hidden_size": task.d_model,
            "heads": task.num_heads,
            "transformer_ff": task.d_ff,
            "encoder": {"layers": task.num_encoder_layers},
            "decoder": {"layers": task.num_decoder_layers},
            "embeddings": {
                "word_vec_size": task.d_model,
                "position_encoding": True,
                "position_encoding_type": "SinusoidalConcat",
            },
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
            "generator_bias": False,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        },
        "training": {
            "model_path": str(folder / "model"),
            "gpu_ranks": [0] if task.device == "cuda" else [],
            "compute_dtype": flags.precision,
            "batch_type": "tokens",
            "batch_size": task.batch_tokens,
            "normalization": "tokens",
            "bucket_size": task.pairs,  # an epoch is sorted at once
            "num_workers": 0,
            "train_steps": 1_000_000,
            "save_checkpoint_steps": 1_000_000,
            "optim": "adam",
            "adam_beta2": 0.98,
            "learning_rate": 1.0,
            "decay_method": "noam",
            "warmup_steps": 500,
            "max_grad_norm": 1.0,
            "label_smoothing": task.label_smoothing,
            "dropout": [task.dropout],
            "attention_dropout": [0.0],
            "param_init_method": "xavier_uniform",
            "log_attention_entropy": False,  # which would cost it time
        },
    }


if __name__ == "__main__":
    main()
