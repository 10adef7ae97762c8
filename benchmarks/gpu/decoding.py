"""Greedy and beam search beside `generate` of transformers, with the same weights in bf16.

The model has the base preset's shape and is trained for some seconds to copy its source, because
random weights never produce the end marker. Its sources have the lengths of real sentences.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.common import Values
from benchmarks.decoders.task import Ids, in_batches, limit_of, timed
from benchmarks.gpu.case import Case, Found, Missing, Setup, require
from benchmarks.gpu.copying import train_to_copy
from benchmarks.gpu.defaults import torch_defaults
from benchmarks.gpu.pairs import draw_copies
from translate_ddp.modeling.decoding import decode, default_max_tokens, length_limit
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.precision import choose_dtype
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig

BEAMS = (1, 4)
BATCH_SENTENCES = (64, 256)
HELD_OUT_SEED = 1
NOTE = (
    "Batches contain sentences of similar length. *x generate* is the ratio to `generate` with the "
    "same beam and batch, for our own batches to the faster of both; *equal %* is the share of "
    "translations whose ids are those of that run."
)


@dataclass
class Session:
    """State that the cases of this part share."""

    setup: Setup
    shape: ModelConfig | None = None
    model: Transformer | None = None  # trained
    sources: Ids = field(default_factory=list)
    paces: dict[tuple[int, int], float] = field(default_factory=dict)  # of generate
    outputs: dict[tuple[int, int], Ids] = field(default_factory=dict)

    def trained(self) -> tuple[Transformer, ModelConfig]:
        if self.model is None or self.shape is None:
            raise Missing("the trained model")
        return self.model, self.shape


def decoding(setup: Setup) -> Iterator[Case]:
    session = Session(setup)
    yield Case("the model", lambda: train(session), 20)
    if session.model is None:
        return
    for beam_width in BEAMS:
        search = "greedy" if beam_width == 1 else f"beam {beam_width}"
        for size in BATCH_SENTENCES:
            yield Case(
                f"generate, {search}, {size} sentences",
                lambda size=size, width=beam_width: theirs(session, width, size),
                8,
            )
        for size in (*BATCH_SENTENCES, 0):
            batch = f"{size} sentences" if size else "own batches"
            yield Case(
                f"translate_ddp, {search}, {batch}",
                lambda size=size, width=beam_width: ours(session, width, size),
            )


def train(session: Session) -> Found:
    copier = train_to_copy(session.setup)
    held_out = draw_copies(
        session.setup.sizes.sentences,
        copier.words,
        session.setup.sizes.vocabulary,
        seed=HELD_OUT_SEED,
    )
    session.sources = [source.tolist() for source, _ in held_out.train]
    session.model, session.shape = copier.model, copier.shape
    return Found(copier.values, {"table": "model"})


def ours(session: Session, beam_width: int, size: int) -> Found:
    """Our search in batches of `size` sentences; 0 is its default batches by tokens."""
    trained, _ = session.trained()
    device = torch.device(session.setup.device)
    trained.dtype = choose_dtype("auto", device)
    model = ready_to_decode(trained)

    def search(sources: Ids) -> Ids:
        tokens = default_max_tokens(device)
        if size:  # one batch of all its input
            tokens = len(sources) * beam_width * (max(map(len, sources)) + 1)
        found = decode(model.start, sources, device, beam_width=beam_width, max_tokens=tokens)
        return [hypothesis.ids for hypothesis in found]

    found = measure(session, search, size or len(session.sources))
    outputs = found.raw.pop("outputs")
    keys = [key for key in session.paces if key[0] == beam_width and size in (0, key[1])]
    if keys:
        best = max(keys, key=session.paces.__getitem__)
        found.values["x generate"] = float(found.values["sentences/s"]) / session.paces[best]
        found.values["equal %"] = 100 * share_equal(outputs, session.outputs[best])
    copied = share_equal(outputs, session.sources)
    return Found(found.values | {"copied %": 100 * copied}, found.raw | {"note": NOTE})


def theirs(session: Session, beam_width: int, size: int) -> Found:
    """`generate` in batches of `size` sentences."""
    require("transformers")
    from benchmarks.decoders.generate import generate
    from benchmarks.decoders.pegasus import convert

    trained, shape = session.trained()
    device = torch.device(session.setup.device)
    positions = limit_of(session.sources) + 1
    model: Any = convert(trained, shape, session.setup.sizes.vocabulary, positions)
    model.to(device, choose_dtype("auto", device)).eval()
    with torch_defaults():
        found = measure(session, lambda sources: generate(model, sources, beam_width), size)
    key = beam_width, size
    session.paces[key] = float(found.values["sentences/s"])
    session.outputs[key] = found.raw.pop("outputs")
    copied = share_equal(session.outputs[key], session.sources)
    return Found(found.values | {"copied %": 100 * copied}, found.raw)


def measure(session: Session, search: Callable[[Ids], Ids], size: int) -> Found:
    """Translate all sources in batches of `size` sentences, the longest first."""
    sources = session.sources
    outputs, seconds = timed(lambda part: in_batches(search, part, size, by_length=True), sources)
    values: Values = {
        "sentences/s": len(sources) / seconds,
        "tokens/s": sum(len(ids) + 1 for ids in outputs) / seconds,
        "ended %": 100 * share_ended(sources, outputs),
    }
    return Found(values, {"seconds": seconds, "outputs": outputs})


def share_ended(sources: Ids, outputs: Ids) -> float:
    """Share of the translations that reached the end marker before their limit."""
    pairs = zip(sources, outputs, strict=True)
    return sum(len(ids) < length_limit(len(source)) for source, ids in pairs) / len(sources)


def share_equal(some: Ids, others: Ids) -> float:
    return sum(a == b for a, b in zip(some, others, strict=True)) / len(some)
