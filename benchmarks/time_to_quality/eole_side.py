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
from torch import Tensor

from benchmarks.time_to_quality.clock import Contestant, SnapshotClock, read_contestant
from benchmarks.time_to_quality.conversion import Names, check_weights, to_ours
from benchmarks.time_to_quality.scoring import POSITIONS, Weights
from benchmarks.trainers.eole_train import settings
from benchmarks.trainers.task import Task
from translate_ddp.data.tokenizer import EOS, PAD, SOS, SPECIAL_TOKENS, UNK

SPECIALS = {PAD: "<blank>", UNK: "<unk>", SOS: "<s>", EOS: "</s>"}
EOLE = Names(
    {  # norms first: their names contain other keys
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
    },
    keys="linear_keys",
    values="linear_values",
)


def main() -> None:
    flags, task = read_contestant(__doc__)
    torch.set_num_threads(flags.threads)
    config = flags.snapshots / "config.yaml"
    config.write_text(yaml.safe_dump(own_settings(task, flags)))
    clock = SnapshotClock(flags)

    def save(saver: Any, step: int, moving_average: Any = None) -> None:
        if clock.step(lambda: converted(saver, task)):
            rows_V = their_rows(saver, task)
            check_weights(converted(saver, task), task, logits_of(saver.model, rows_V))
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


def their_rows(saver: Any, task: Task) -> Tensor:
    """Their id of each of our tokens."""
    ids = saver.vocabs["src"].tokens_to_ids  # each access copies the vocabulary
    words = [SPECIALS[row] for row in range(len(SPECIAL_TOKENS))]
    words += [str(row) for row in range(len(SPECIAL_TOKENS), task.vocabulary)]
    return torch.tensor([ids[word] for word in words])


def converted(saver: Any, task: Task) -> Weights:
    """Our weights, and its positions, whose frequencies differ slightly from ours."""
    theirs = saver.model.state_dict()
    found = to_ours(theirs, EOLE, task)
    found["embedding.weight"] = found["embedding.weight"][their_rows(saver, task)]
    return found | {POSITIONS: theirs["src_emb.pe.pe"][:, 0]}


def logits_of(model: Any, rows_V: Tensor) -> Any:
    model.eval()

    def logits(source_BS: Tensor, target_BT: Tensor) -> Tensor:
        device = model.src_emb.embeddings.weight.device
        # It drops the last target token.
        target_BT = torch.nn.functional.pad(target_BT, (0, 1))
        lengths_B = (source_BS != PAD).sum(1).to(device)
        hidden_BTD = model(rows_V[source_BS].to(device), rows_V[target_BT].to(device), lengths_B)[0]
        return model.generator(hidden_BTD)[..., rows_V]

    return logits


if __name__ == "__main__":
    main()
