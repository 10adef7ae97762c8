"""A corpus and a model so small that whole runs take seconds."""

import random
from pathlib import Path

TINY_RUN = [
    *("--lang_src", "en", "--lang_tgt", "it", "--preset", "tiny", "--no_perturb"),
    *("--optimizer", "adamw", "--schedule", "inverse_sqrt"),  # linear depends on --num_epochs
    "--no_report",  # it starts processes
    *("--vocab_size", "300", "--seed", "1"),  # the weights of seed 0 translate all alike
    *("--d_model", "16", "--num_heads", "2", "--d_ff", "32"),
    *("--num_encoder_layers", "1", "--num_decoder_layers", "1"),
    *("--batch_tokens", "110", "--seq_len", "60", "--warmup_steps", "20"),
    *("--lr", "0.002", "--dropout", "0.1", "--precision", "fp32"),
    *("--log_every", "3", "--save_every", "4", "--num_epochs", "2"),
]


def write_corpus(folder: Path) -> str:
    """The common prefix of two files of 260 different pairs; a target is the reversed source."""
    generator = random.Random(0)
    words = ["sun", "moon", "tree", "river", "stone", "bird", "fish", "wolf"]
    prefix = folder / "train"
    lines: dict[tuple[str, ...], None] = {}
    while len(lines) < 260:
        lines[tuple(generator.choices(words, k=generator.randint(2, 7)))] = None
    Path(f"{prefix}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
    Path(f"{prefix}.it").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))
    return str(prefix)
