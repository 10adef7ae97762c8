"""Settings, tokens and first weights of a run that starts from another one (`--init_from`)."""

from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from translate_ddp.data.dataset import ParallelDataset, PreparedData
from translate_ddp.data.identifier import count_tokens
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.tokenizer import (
    SPAN_TOKENS,
    UNK,
    ExtraTokens,
    Tokenizer,
    existing_tokenizer,
)
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import Config, ModelConfig, TokenizerConfig
from translate_ddp.training.state import RunState


def adopt_settings(config: Config, state: RunState, given: Set[str]) -> Config:
    """The configuration with the model and the tokenizer of a checkpoint; dropout is kept.

    `given` has the names of the settings that the user set; others, such as the preset's,
    are replaced. Raises UserError if the checkpoint has another value of a given setting.
    """
    saved = state.run.config
    dropout: dict[str, Any] = {"dropout": config.model.dropout}
    model = ModelConfig(**saved["model"] | dropout)
    tokenizer = TokenizerConfig(**saved["tokenizer"])
    wanted: dict[str, Any] = asdict(config.model) | asdict(config.tokenizer)
    held: dict[str, Any] = asdict(model) | asdict(tokenizer)
    differences = [
        f"\n  {name}: {held[name]} in the checkpoint, {value} requested"
        for name, value in wanted.items()
        if name in given and value != held[name]
    ]
    if differences:
        raise UserError(
            "--init_from takes model and tokenizer from the checkpoint, not from these settings:"
            f"{''.join(differences)}\nOmit them, or omit --init_from."
        )
    return replace(config, model=model, tokenizer=tokenizer)


def choose_extra_tokens(config: Config, known: ModelFacts | None) -> ExtraTokens:
    """The extra tokens of a run: all of the `known` model, and a tag for each further language.

    A new run has span tokens if its tokenizer encodes text around them. A run of one direction that
    starts from no model with tags has none. Raises UserError if `--tokenizer_file` is unusable.
    """
    corpus = config.corpus
    if known is None:
        file = existing_tokenizer(config.tokenizer, corpus.languages_name)
        has_spans = config.tokenizer.tokenizer != "word" if file is None else file.can_mark
        extra = ExtraTokens(SPAN_TOKENS * has_spans)
    else:
        extra = known.extra
    if not (corpus.may_have_several or extra.num_tags):
        return extra
    directions = corpus.with_reverse(corpus.requested)
    return ExtraTokens.of([target for _, target in directions], extra)


def add_new_tags(state: RunState, model: Transformer) -> None:
    """Add a row to the embedding of the state for each tag that only the model has.

    It is the mean of the rows of the state's tags, so that the model starts from what its languages
    have in common; without tags, the model's own row.
    """
    saved_VD, tags = state.model["embedding.weight"], state.facts.extra.num_tags
    new_VD = model.embedding.weight.detach()[len(saved_VD) :].cpu()
    if tags:
        new_VD = saved_VD[-tags:].mean(dim=0, keepdim=True).expand_as(new_VD)
    state.model["embedding.weight"] = torch.cat([saved_VD, new_VD])


def describe_weights(data: PreparedData, known: ModelFacts) -> list[str]:
    """How well the weights of the `known` model fit the corpus."""
    fit = describe_fit(data.train, data.facts.tokenizer)
    return [fit, *describe_languages(data.facts.directions, known.directions)]


def describe_languages(now: Sequence[LanguagePair], before: Sequence[LanguagePair]) -> list[str]:
    """A message if the directions of the checkpoint, `before`, lack one of this run's."""
    if {*now} <= {*before}:
        return []
    trained, wanted = (" ".join(map(str, pairs)) for pairs in (before, now))
    return [f"The weights of --init_from were trained for {trained}, this run is for {wanted}."]


def describe_fit(pairs: ParallelDataset, tokenizer: Tokenizer) -> str:
    """How well a vocabulary fits a corpus: what it cannot spell, and the length of its tokens."""
    pieces = tokenizer.pieces(range(len(tokenizer)))
    # A token that holds only some bytes of a character is decoded to U+FFFD.
    is_part = np.array(["\ufffd" in piece for piece in pieces])
    is_part[UNK] = True
    characters = np.array([len(piece) for piece in pieces])
    sides = pairs.source, pairs.target
    counts = np.sum([count_tokens(side.tokens, len(pieces)) for side in sides], axis=0)
    total = counts.sum()
    return (
        f"{counts @ is_part / total:.1%} of the corpus's {total:,} tokens are [UNK] or parts of "
        "characters that are not in the vocabulary. "
        f"A token has {counts @ characters / total:.1f} characters on average."
    )
