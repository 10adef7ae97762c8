"""A model that copies its source, trained by the project's trainer in seconds."""

import time
from itertools import islice

from benchmarks.common import Values
from benchmarks.decoders.ours import translate
from benchmarks.decoders.task import Ids
from benchmarks.gpu.case import Setup
from benchmarks.random_pairs import random_copies
from benchmarks.workbench import open_training, take_steps
from translate_ddp.modeling.engine import ready_to_decode
from translate_ddp.modeling.transformer import Transformer

GPU_TOKENS = 12_500  # of a step
GPU_SECONDS, CPU_SECONDS = 40.0, 8.0  # at most
STEPS_BETWEEN_CHECKS = 50
CHECKED = 64  # held-out sentences
GOOD_SHARE = 0.98  # of them copied: training ends
SCHEDULE = ["--warmup_steps", "200", "--dropout", "0"]
CHECKED_SEED, TRANSLATED_SEED = 2, 1


def train_to_copy(setup: Setup) -> tuple[Transformer, Ids, Values]:
    """The model, sentences to translate, and what its training took.

    Training ends when nearly all held-out sentences are copied or the time limit is reached.
    """
    words, vocabulary = 50 if setup.cpu else 1_000, setup.sizes.vocabulary
    data = random_copies(setup.sizes.pairs, words, vocabulary)
    checked, sources = (
        [row.tolist() for row in random_copies(count, words, vocabulary, seed).train.source]
        for count, seed in ((CHECKED, CHECKED_SEED), (setup.sizes.sentences, TRANSLATED_SEED))
    )
    begin, copied = time.monotonic(), 0.0
    limit = CPU_SECONDS if setup.cpu else GPU_SECONDS
    flags = [*setup.flags("base", GPU_TOKENS), *SCHEDULE, "--lr", "5e-3" if setup.cpu else "1e-3"]
    with open_training(flags, data) as training:
        steps, model = take_steps(training), training.model
        while copied < GOOD_SHARE and time.monotonic() - begin < limit:
            for _ in islice(steps, STEPS_BETWEEN_CHECKS):
                pass
            model.eval()
            copied = share_equal(translate(ready_to_decode(model), checked, 1, 4096), checked)
            model.train()
        values: Values = {
            "steps": training.position.global_step,
            "seconds": time.monotonic() - begin,
            "held-out sentences copied %": 100 * copied,
        }
        return model.eval(), sources, values


def share_equal(some: Ids, others: Ids) -> float:
    return sum(a == b for a, b in zip(some, others, strict=True)) / len(some)
