"""Trained models to export, and changed ones that a verification must reject."""

from dataclasses import replace
from pathlib import Path

import torch

from translate_ddp.apps.exporting.trained_model import Sentences, TrainedModel, choose_sentences
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import CheckpointConfig, TokenizerConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.open_checkpoint import open_checkpoint

NO_RUN = Path("no-run")  # a folder that is not there


def trained_model(folder: Path) -> TrainedModel:
    store = CheckpointStore(CheckpointConfig(str(folder)))
    return TrainedModel.of(open_checkpoint(store, "latest", 0)[0])


def validation_set(folder: Path) -> Sentences:
    found = choose_sentences(trained_model(folder), "", "", folder)
    assert found.references
    return found


def with_sentencepiece(model: TrainedModel, is_bpe: bool = False) -> TrainedModel:
    """The same sizes, with a SentencePiece tokenizer of its own and random weights."""
    kind = "sentencepiece_bpe" if is_bpe else "sentencepiece"
    config = TokenizerConfig(tokenizer=kind, vocab_size=300)
    tokenizer = train_tokenizer(["sun moon tree river", "stone bird. fish wolf?"] * 3, config)
    torch.manual_seed(0)
    facts = replace(model.facts, tokenizer=tokenizer)
    weights = Transformer(model.shape, facts.num_tokens).state_dict()
    # Larger than at the start of a training, so that translations differ.
    weights = {n: 3 * w if "embedding" in n else w.clone() for n, w in weights.items()}
    return TrainedModel.of(replace(model.state, facts=facts, model=weights))


def flipped(model: TrainedModel, name: str) -> TrainedModel:
    """The model with another sign of one weight, the largest of that tensor."""
    weights = {each: tensor.clone() for each, tensor in model.state.model.items()}
    values = weights[name].view(-1)
    values[values.abs().argmax()] *= -1
    return TrainedModel.of(replace(model.state, model=weights))
