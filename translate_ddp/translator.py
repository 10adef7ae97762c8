"""The Python API: opens a trained model and translates text.

from translate_ddp.translator import Translator

translator = Translator.open("weights")
translator.translate(["The old doctor reads the letter."])
translator.translate(["The old doctor reads the letter."], n_best=3)
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, overload

import torch

from translate_ddp.data.sentences import cut, join_sentences, split_sentences
from translate_ddp.data.text import normalize
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.engine import Engine, TorchEngine, ignore
from translate_ddp.modeling.precision import choose_dtype
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.cpu_memory import keep_freed_memory
from translate_ddp.runtime.cpus import threads_per_process
from translate_ddp.runtime.device import fix_cuda_kernels
from translate_ddp.runtime.environment import set_defaults
from translate_ddp.runtime.launcher import read_launch
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, explain_out_of_memory
from translate_ddp.settings import ModelConfig, NBestConfig, Precision
from translate_ddp.training.averaging import open_checkpoint
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.state import RunState

T = TypeVar("T")
Report = Callable[[int, str], None]  # the index of a text, and a message


def warn_of_text(row: int, message: str) -> None:
    warnings.warn(f"Text {row}: {message}", stacklevel=4)  # the line that calls `translate`


@dataclass(frozen=True)
class Sentence:
    """A sentence, or a part of a long one, with one of its translations."""

    source: str
    text: str
    tokens: list[str]  # of the translation; the last is the end of the sentence, ""
    log_probs: list[float]  # of these tokens, in nats


@dataclass(frozen=True)
class Translation:
    """One of the translations of a text."""

    text: str
    sentences: list[Sentence]

    @property
    def score(self) -> float:
        """The mean log-probability of a token, in nats, at most 0; 0 of an empty text."""
        log_probs = [value for sentence in self.sentences for value in sentence.log_probs]
        return sum(log_probs) / max(len(log_probs), 1)


class Translator:
    """A trained model with its tokenizer."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        languages: tuple[str, str],
        seq_len: int,
        state: RunState | None = None,
    ) -> None:
        self.engine, self.tokenizer = engine, tokenizer
        self.lang_src, self.lang_tgt = languages
        self.seq_len = seq_len  # maximum tokens of a sentence in training, [EOS] included
        self._state = state

    @classmethod
    def open(
        cls,
        path: str = CheckpointConfig.model_folder,
        preload: str = CheckpointConfig.preload,
        model_basename: str = CheckpointConfig.model_basename,
        average: int = 0,
        precision: Precision | None = None,
    ) -> "Translator":
        """Open the model of a run's folder or of a file.

        In a folder `preload` selects the checkpoint: "latest", "best", an epoch's number, or the
        path of a file. The weights are the average of `average` epochs up to that one; 0 is the
        setting of the run, which does not apply to "best" and to files. `precision` is that of the
        training, if this device has it, unless it is set. Raises UserError if there is no
        checkpoint that can be used.
        """
        set_defaults(os.environ)
        keep_freed_memory()
        fix_cuda_kernels()
        torch.set_num_threads(threads_per_process(read_launch(os.environ)))
        if Path(path).is_file():
            path, preload = CheckpointConfig.model_folder, path
        store = CheckpointStore(CheckpointConfig(path, model_basename))
        opened = open_checkpoint(store, preload, average)
        for line in opened.messages:
            print(line, file=sys.stderr)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with explain_out_of_memory(device, lambda: f"loading {opened.path}", FREE_MEMORY):
                return cls.of(opened.state, device, precision)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"The model in {opened.path} does not fit its settings: {first_line(error)}"
            ) from error

    @classmethod
    def of(
        cls, state: RunState, device: torch.device, precision: Precision | None = None
    ) -> "Translator":
        """The model of a checkpoint. Raises ValueError and others if its parts do not fit."""
        tokenizer, config = Tokenizer(state.tokenizer), state.run.config
        dtype = choose_dtype(precision or config["train"]["precision"], device)
        model = build_model(state, len(tokenizer), dtype).to(device, dtype)
        languages = config["corpus"]["lang_src"], config["corpus"]["lang_tgt"]
        engine = TorchEngine(model, device)
        return cls(engine, tokenizer, languages, config["batches"]["seq_len"], state)

    @property
    def has_state(self) -> bool:
        """Whether it is a checkpoint, not an exported model."""
        return self._state is not None

    @property
    def state(self) -> RunState:
        """The state of the training. Raises UserError if the model is not a checkpoint."""
        if self._state is None:
            raise UserError("An exported model has no state of its training: pass a checkpoint.")
        return self._state

    @property
    def identity(self) -> list[object]:
        """Hashes and settings on which translations depend, beside those of the search."""
        languages = [self.lang_src, self.lang_tgt]
        return [self.engine.fingerprint, self.tokenizer.fingerprint, *languages, self.seq_len]

    @overload
    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = ...,
        length_penalty: float = ...,
        report: Report = ...,
        on_done: Callable[[int], None] = ...,
    ) -> list[str]: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = ...,
        length_penalty: float = ...,
        report: Report = ...,
        on_done: Callable[[int], None] = ...,
        *,
        n_best: int,
        temperature: float = ...,
        seed: int = ...,
    ) -> list[list[Translation]]: ...

    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = NBestConfig.beam_width,
        length_penalty: float = NBestConfig.length_penalty,
        report: Report = warn_of_text,
        on_done: Callable[[int], None] = ignore,
        *,
        n_best: int | None = None,
        temperature: float = NBestConfig.temperature,
        seed: int = NBestConfig.seed,
    ) -> list[str] | list[list[Translation]]:
        """A translation of each text, in order, as one line; "" of a blank text.

        With `n_best`, that many translations of each text with their scores, best first; it needs a
        beam at least as wide, unless `temperature` samples them. Beam width 1 is greedy. The
        sentences of a text are translated one by one; the second translation of a text consists of
        the second of each sentence. A sentence longer than those of training is cut into parts;
        `report` gets the index of its text and a message. `on_done` receives numbers of finished
        texts, estimated from those of parts. Raises ValueError for unusable settings.
        """
        config = NBestConfig(beam_width, length_penalty, n_best or 1, temperature, seed)
        rows, parts = self._parts(texts, report)
        found = self.engine.translate(parts, config, in_texts(on_done, len(texts), len(parts)))
        if n_best is None:
            decoded = self.tokenizer.decode([best.ids for best, *_ in found])
            return [self._join(sentences) for sentences in by_row(rows, decoded, len(texts))]
        return [
            [self._translation([part[k] for part in sentences]) for k in range(n_best)]
            for sentences in by_row(rows, self._scored(parts, found), len(texts))
        ]

    def _scored(
        self, parts: list[list[int]], found: list[list[Hypothesis]]
    ) -> list[list[Sentence]]:
        """The translations `found` of each part, with their text and the scores of their tokens."""
        sources = [part for part, n_best in zip(parts, found, strict=True) for _ in n_best]
        targets = [hypothesis.ids for n_best in found for hypothesis in n_best]
        decode = self.tokenizer.decode
        scored = iter(
            Sentence(source.strip(), target.strip(), [*decode([[i] for i in ids]), ""], p.tolist())
            for source, target, ids, p in zip(
                decode(sources),
                decode(targets),
                targets,
                self.engine.log_probs(sources, targets),
                strict=True,
            )
        )
        return [[next(scored) for _ in n_best] for n_best in found]

    def _translation(self, sentences: list[Sentence]) -> Translation:
        return Translation(self._join([sentence.text for sentence in sentences]), sentences)

    def _join(self, sentences: Sequence[str]) -> str:
        return join_sentences(map(normalize, sentences), self.lang_tgt)

    def _parts(self, texts: Sequence[str], report: Report) -> tuple[list[int], list[list[int]]]:
        """The sentences of all texts in parts that fit the model, as ids, and the texts' indices.

        Pairs of more than `seq_len` tokens, end marker included, are not in training.
        """
        limit = self.seq_len - 1
        # An argument of the command line that is not UTF-8 holds lone surrogates.
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        split = [split_sentences(normalize(text)) for text in valid]
        sentences = [(row, sentence) for row, found in enumerate(split) for sentence in found]
        rows, parts = [], []
        encoded = self.tokenizer.encode([sentence for _, sentence in sentences])
        for (row, _), ids in zip(sentences, encoded, strict=True):
            cuts = [slice(None)]
            if len(ids) > limit:
                cuts = cut(self.tokenizer.decode([[token] for token in ids]), limit)
                report(
                    row,
                    f"a sentence of {len(ids):,} tokens, more than the {limit:,} of training, is "
                    f"translated in {len(cuts)} parts.",
                )
            parts += [ids[part] for part in cuts]
            rows += [row] * len(cuts)
        return rows, parts


def in_texts(on_done: Callable[[int], None], texts: int, parts: int) -> Callable[[int], None]:
    """A function of finished parts that calls `on_done` with their share of the texts."""
    done = 0
    if not parts:  # all texts are blank
        on_done(texts)

    def parts_done(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        on_done(done * texts // parts - before * texts // parts)

    return parts_done


def by_row(rows: Sequence[int], values: Sequence[T], count: int) -> list[list[T]]:
    """The values of each of `count` rows, in order; `rows` has the row of each value."""
    grouped: list[list[T]] = [[] for _ in range(count)]
    for row, value in zip(rows, values, strict=True):
        grouped[row].append(value)
    return grouped


def build_model(
    state: RunState, vocabulary: int, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model of a checkpoint. Its parameters are the tensors in `state`.

    Nothing else is allocated, so a file that declares huge shapes needs no memory for them. Raises
    ValueError or RuntimeError if the tensors do not fit the configuration.
    """
    config = ModelConfig(**state.run.config["model"])
    if config.num_encoder_layers + config.num_decoder_layers > len(state.model):
        raise ValueError("there are fewer tensors than layers.")
    with torch.device("meta"):
        model = Transformer(config, vocabulary, dtype=dtype)
    model.load_state_dict(state.model, assign=True)
    return model
