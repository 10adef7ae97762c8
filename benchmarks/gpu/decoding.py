"""Greedy and beam search beside transformers in bf16 and CTranslate2 in fp16, with equal weights.

The model has the base preset's shape and is trained for some seconds to copy its source, because
random weights never produce the end marker. Its sources have the lengths of real sentences.
"""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import Values
from benchmarks.decoders.ours import translate
from benchmarks.decoders.task import Decode, Ids, in_batches, limit_of, timed
from benchmarks.gpu.case import Case, Measurement, Setup, require
from benchmarks.random_pairs import random_copies
from benchmarks.workbench import open_training, take_steps
from config import parse
from translate_ddp.modeling.engine import default_max_tokens, length_limit, ready_to_decode
from translate_ddp.modeling.kernels import choose_dtype
from translate_ddp.modeling.transformer import Transformer

BEAMS = (1, 4)
BATCH_SENTENCES = (256,)
PACE = "sentences/s"
NOTE = (
    "Batches contain sentences of similar length. *x generate* is the ratio to `generate` with the "
    "same beam and batch, for our own batches to the faster of both; *equal %* is the share of "
    "translations with the same ids as in that run."
)


@dataclass
class Session:
    """State that the cases of this part share."""

    setup: Setup
    model: Transformer | None = None  # trained
    sources: Ids = field(default_factory=list)
    # The pace and the translations of `generate` by beam width and batch size.
    generated: dict[tuple[int, int], tuple[float, Ids]] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return torch.device(self.setup.device)


def decoding(setup: Setup) -> Iterator[Case]:
    session = Session(setup)
    yield Case("the model", lambda: train(session), 20)
    if not (model := session.model):
        return
    for width in BEAMS:
        search = "greedy" if width == 1 else f"beam {width}"
        for size in BATCH_SENTENCES:
            name = f"generate, {search}, {size} sentences"
            yield Case(name, lambda w=width, s=size: theirs(session, model, w, s), 8)
            name = f"CTranslate2, {search}, {size} sentences"
            yield Case(name, lambda w=width, s=size: ctranslate2(session, model, w, s), 8)
        for size in (*BATCH_SENTENCES, 0):
            name = f"translate_ddp, {search}, {f'{size} sentences' if size else 'own batches'}"
            yield Case(name, lambda w=width, s=size: ours(session, model, w, s))


def train(session: Session) -> Measurement:
    session.model, session.sources, values = train_to_copy(session.setup)
    return Measurement(values, {"table": "model"})


def ours(session: Session, trained: Transformer, beam_width: int, size: int) -> Measurement:
    """Our search in batches of `size` sentences; 0 is its default batches by tokens."""
    trained.dtype = choose_dtype("auto", session.device)
    model = ready_to_decode(trained)

    def search(sources: Ids) -> Ids:
        tokens = default_max_tokens(session.device)
        if size:  # one batch of all its input
            tokens = len(sources) * beam_width * (max(map(len, sources)) + 1)
        return translate(model, sources, beam_width, tokens)

    values, outputs = measure(session.sources, search, size or len(session.sources))
    keys = [key for key in session.generated if key[0] == beam_width and size in (0, key[1])]
    if keys:
        pace, theirs = max((session.generated[key] for key in keys), key=lambda run: run[0])
        values["x generate"] = float(values[PACE]) / pace
        values["equal %"] = 100 * share_equal(outputs, theirs)
    return Measurement(values, {"note": NOTE})


def theirs(session: Session, trained: Transformer, beam_width: int, size: int) -> Measurement:
    """`generate` in batches of `size` sentences."""
    require("transformers")
    from benchmarks.decoders.generate import generate
    from benchmarks.trainers.pegasus import convert

    config, positions = parse(session.setup.flags("base")), limit_of(session.sources) + 1
    model: Any = convert(trained, config.model, config.tokenizer.vocab_size, positions)
    model.to(session.device, choose_dtype("auto", session.device)).eval()
    search: Decode = lambda sources: generate(model, sources, beam_width)  # noqa: E731
    values, outputs = measure(session.sources, search, size)
    session.generated[beam_width, size] = float(values[PACE]), outputs
    return Measurement(values)


def ctranslate2(session: Session, trained: Transformer, beam_width: int, size: int) -> Measurement:
    """CTranslate2 in batches of `size` sentences."""
    require("ctranslate2")
    from benchmarks.decoders import ctranslate

    config, limit = parse(session.setup.flags("base")), limit_of(session.sources)
    names, weights = ctranslate.words(range(config.tokenizer.vocab_size)), trained.state_dict()
    precision, device = "float32" if session.setup.cpu else "float16", session.setup.device
    with tempfile.TemporaryDirectory() as folder:
        ctranslate.write_model(Path(folder), weights, config.model, names, limit + 1)
        engine = ctranslate.ctranslate2.Translator(folder, device=device, compute_type=precision)
    search: Decode = lambda sources: ctranslate.translate(  # noqa: E731
        engine, sources, beam_width, size, limit
    )
    return Measurement(measure(session.sources, search, len(session.sources))[0])


def measure(sources: Ids, search: Decode, size: int) -> tuple[Values, Ids]:
    """Translate all sources in batches of `size` sentences, the longest first."""
    outputs, seconds = timed(in_batches(search, size, by_length=True), sources)
    pairs = zip(sources, outputs, strict=True)
    ended = sum(len(ids) < length_limit(len(source)) for source, ids in pairs)
    values: Values = {
        PACE: len(sources) / seconds,
        "tokens/s": sum(len(ids) + 1 for ids in outputs) / seconds,
        "ended %": 100 * ended / len(sources),  # before the maximum length
        "copied %": 100 * share_equal(outputs, sources),
    }
    return values, outputs


GPU_TOKENS = 12_500  # of a step
GPU_SECONDS, CPU_SECONDS = 30.0, 5.0  # at most
STEPS_BETWEEN_CHECKS, CHECKED = 50, 64  # the latter: held-out sentences
GOOD_SHARE = 0.98  # of them copied: training ends
SCHEDULE = ["--warmup_steps", "200", "--dropout", "0"]
CHECKED_SEED, TRANSLATED_SEED = 2, 1


def train_to_copy(setup: Setup) -> tuple[Transformer, Ids, Values]:
    """The model, sentences to translate, and what its training took.

    Training ends when nearly all held-out sentences are copied or the time limit is reached.
    """
    flags = setup.flags("base", batch_tokens=setup.tokens(GPU_TOKENS))
    flags += [*SCHEDULE, "--lr", "5e-3" if setup.cpu else "1e-3"]
    words, vocabulary = 50 if setup.cpu else 1_000, parse(flags).tokenizer.vocab_size
    data = random_copies(setup.sizes.pairs, words, vocabulary)
    checked, sources = (
        [row.tolist() for row in random_copies(count, words, vocabulary, seed).train.source]
        for count, seed in ((CHECKED, CHECKED_SEED), (setup.sizes.sentences, TRANSLATED_SEED))
    )
    limit = CPU_SECONDS if setup.cpu else GPU_SECONDS
    with open_training(flags, data) as training:
        training.warm_up()  # which fits micro-batches to the memory
        steps, model = take_steps(training), training.model
        begin, copied = time.monotonic(), 0.0
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
