"""Eole, trained by its own command on the same ids.

It reads text: each id is a word of its vocabulary, and sources end in its end marker, as ours do.
Eole saves by steps, not by time, so its saver is replaced by one that takes our snapshots.
"""

import json
import sys
from typing import Any

import torch
import yaml
from eole.bin.main import main as eole  # pyright: ignore[reportMissingImports]
from eole.models.model_saver import TrainingModelSaver  # pyright: ignore[reportMissingImports]

from benchmarks.time_to_quality.clock import Contestant, SnapshotClock, Weights, read_contestant
from benchmarks.trainers.eole_train import settings
from benchmarks.trainers.task import Task
from translate_ddp.data.tokenizer import EOS, PAD, SOS, SPECIAL_TOKENS, UNK
from translate_ddp.modeling.transformer import Transformer

SPECIALS = {PAD: "<blank>", UNK: "<unk>", SOS: "<s>", EOS: "</s>"}
NAMES = {  # our part of a name -> theirs; norms first: their names contain other keys
    "encoder_norm": "encoder.layer_norm",
    "decoder_norm": "decoder.layer_norm",
    "self_attention_norm": "input_layernorm",
    "cross_attention_norm": "precontext_layernorm",
    "feed_forward_norm": "post_attention_layernorm",
    "encoder_layers": "encoder.transformer_layers",
    "decoder_layers": "decoder.transformer_layers",
    "self_attention": "self_attn",
    "cross_attention": "context_attn",
    "feed_forward.up": "mlp.gate_up_proj",
    "feed_forward.down": "mlp.down_proj",
    "query": "linear_query",
    "out": "final_linear",
    "embedding": "src_emb.embeddings",
}


def main() -> None:
    flags, task = read_contestant(__doc__)
    torch.set_num_threads(flags.threads)
    config = flags.snapshots / "config.yaml"
    config.write_text(yaml.safe_dump(own_settings(task, flags)))
    template = Transformer(task.model, task.vocabulary).state_dict()
    clock = SnapshotClock(flags)

    def save(saver: Any, step: int, moving_average: Any = None) -> None:
        if clock.step(lambda: from_eole(saver.model.state_dict(), saver.vocabs["src"], template)):
            print(json.dumps({"steps": clock.steps}))
            raise SystemExit

    TrainingModelSaver.save = save
    sys.argv = ["eole", "train", "-config", str(config)]
    eole()


def own_settings(task: Task, flags: Contestant) -> dict[str, Any]:
    """Those of `benchmarks.training`, with the learning rate and sources with an end marker."""
    found = settings(task, flags, flags.snapshots)
    marked = flags.snapshots / "corpus.src.txt"
    sources = (flags.work / "corpus.src.txt").read_text().splitlines()
    marked.write_text("".join(f"{line} {SPECIALS[EOS]}\n" for line in sources))
    found["data"]["train"]["path_src"] = str(marked)
    found["report_every"] = 50
    found["training"] |= {
        "save_checkpoint_steps": 1,  # the clock decides
        "warmup_steps": flags.warmup_steps,
        # noam's peak is learning_rate / sqrt(d_model * warmup_steps).
        "learning_rate": flags.learning_rate * (task.model.d_model * flags.warmup_steps) ** 0.5,
    }
    return found


def from_eole(theirs: Weights, vocabulary: Any, template: Weights) -> Weights:
    """Weights of an Eole model with the names and shapes of `template`, and its positions.

    Its sinusoids have slightly other frequencies than ours.
    """
    found = {}
    for name in template:
        their_name = name
        for ours, other in NAMES.items():
            their_name = their_name.replace(ours, other)
        if "key_value" in name:
            parts = (
                their_name.replace("key_value", f"linear_{part}") for part in ("keys", "values")
            )
            found[name] = torch.cat([theirs[part] for part in parts])
        else:
            found[name] = theirs[their_name]
    words = [SPECIALS[row] for row in sorted(SPECIALS)]
    words += [str(row) for row in range(len(SPECIAL_TOKENS), len(template["embedding.weight"]))]
    rows = [vocabulary.tokens_to_ids[word] for word in words]
    found["embedding.weight"] = found["embedding.weight"][rows]
    return found | {"positions": theirs["src_emb.pe.pe"][:, 0]}


if __name__ == "__main__":
    main()
