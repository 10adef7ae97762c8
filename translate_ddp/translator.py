"""The Python API: opens a trained model and translates text.

from translate_ddp.translator import Translator

translator = Translator.open("weights")
translator.translate(["The old doctor reads the letter."])
translator.translate(["The old doctor reads the letter."], n_best=3)
"""

# ruff: noqa: E402
import copy
import html
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, overload

from translate_ddp.runtime.environment import set_defaults

set_defaults(os.environ)

import torch

from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.sentences import find_sentences, space_between
from translate_ddp.decoding import Decoder, Sentence, scaled
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.ctranslate2_engine import (
    CTranslate2Engine,
    is_exported,
    open_exported,
)
from translate_ddp.modeling.engine import OnDone, TorchEngine, ignore
from translate_ddp.modeling.kernels import choose_dtype
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.runtime.device import (
    FREE_MEMORY,
    explain_out_of_memory,
    fix_cuda_kernels,
    has_gpu,
    prepare_forks,
)
from translate_ddp.runtime.environment import keep_freed_memory, threads_per_process
from translate_ddp.runtime.launch import read_launch
from translate_ddp.settings import CheckpointConfig, Precision, Split
from translate_ddp.spans import (
    Escape,
    Line,
    Markup,
    Protection,
    Span,
    lines_of,
    sentences_of_line,
)
from translate_ddp.text import base_language, has_letter
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.open_checkpoint import open_checkpoint, saved_model
from translate_ddp.training.state import RunState

HTML = partial(html.escape, quote=False)
ESCAPES: dict[Markup, Escape] = {"text": str, "markdown": str, "html": HTML}
OnMessage = Callable[[int, str], None]  # receives the index of a text, and a message about it


@dataclass(frozen=True)
class Translation:
    """One of the translations of a text."""

    text: str
    sentences: list[Sentence]  # and what is kept between them, if it is no white space

    @property
    def warnings(self) -> list[str]:
        """What is wrong: spans (it was translated in parts), repetition, length, empty, numbers."""
        return [*dict.fromkeys(each for part in self.sentences for each in part.warnings)]

    @property
    def score(self) -> float:
        """The mean log-probability of a token, in nats, at most 0; 0 of an empty text."""
        log_probs = [value for sentence in self.sentences for value in sentence.log_probs]
        return sum(log_probs) / max(len(log_probs), 1)


def as_warning(row: int, message: str) -> None:
    """A message of the Python API."""
    warnings.warn(f"Text {row}: {message}", stacklevel=7)  # the line that calls `translate`


class Translator:
    """A trained model with what it is beside its weights."""

    def __init__(
        self,
        engine: TorchEngine | CTranslate2Engine,
        facts: ModelFacts,
        state: RunState | None = None,
    ) -> None:
        prepare_forks()
        self.engine, self.facts, self._state = engine, facts, state
        self.tokenizer, self.directions = facts.tokenizer, facts.directions
        self._direction = facts.usual_direction
        self._first: Translator | None = None  # the first of two steps
        self.split: Split = "sentences"  # unless `translate` is called with another value
        self.protection = Protection()  # likewise

    @classmethod
    def open(
        cls,
        path: str = CheckpointConfig.model_folder,
        preload: str = CheckpointConfig.preload,
        model_basename: str = CheckpointConfig.model_basename,
        average: int = 0,
        precision: Precision | None = None,
    ) -> "Translator":
        """Open the model of a run's folder, of a file, or of an exported CTranslate2 folder.

        In the folder of a run, `preload` selects the checkpoint: "latest", "best", an epoch's
        number, or the path of a file. The weights are the average of `average` epochs up to that
        one; 0 is the setting of the run, which does not apply to "best" and to files. `precision`
        is fp32 if the training was, otherwise the fastest of the device, unless it is set. Raises
        UserError if there is no model that can be used.
        """
        for exported in (preload, path if preload == CheckpointConfig.preload else ""):
            if exported and is_exported(Path(exported)):
                return cls.of_export(Path(exported), average, precision)
        keep_freed_memory()
        fix_cuda_kernels()
        torch.set_num_threads(threads_per_process(read_launch(os.environ)))
        store = CheckpointStore(CheckpointConfig(path, model_basename))
        state, file = open_checkpoint(store, preload, average)
        device = torch.device("cuda" if has_gpu() else "cpu")
        try:
            with explain_out_of_memory(device, lambda: f"loading {file}", FREE_MEMORY):
                return cls.of(state, device, precision)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"The model in {file} does not fit its settings: {first_line(error)}"
            ) from error

    @classmethod
    def of(
        cls, state: RunState, device: torch.device, precision: Precision | None = None
    ) -> "Translator":
        """The model of a checkpoint. Raises ValueError and others if its parts do not fit."""
        of_training = "fp32" if state.run.config["train"]["precision"] == "fp32" else "auto"
        dtype = choose_dtype(precision or of_training, device)
        model = saved_model(state, dtype).to(device, dtype)
        return cls(TorchEngine(model, device), state.facts, state)

    @classmethod
    def of_export(
        cls, folder: Path, average: int = 0, precision: Precision | None = None
    ) -> "Translator":
        """The model of an exported CTranslate2 folder. Raises UserError if it cannot be used."""
        if average > 1 or precision:
            raise UserError(
                f"{folder} is an exported model: its weights and their precision were chosen when "
                "it was exported. Omit the average and the precision."
            )
        return cls(*open_exported(folder, threads_per_process(read_launch(os.environ))))

    def to(self, target: str = "", source: str = "", pivot: str = "") -> "Translator":
        """The same model in the direction of these languages; "": the only one that fits.

        With a language `pivot`, it translates in two steps: into that language, and from it. Raises
        UserError if it has no such direction, or several.
        """
        other = copy.copy(self)
        other._direction = self._find(target, pivot or source)
        other._first = self.to(pivot, source) if pivot else None
        return other

    def _find(self, target: str, source: str) -> LanguagePair:
        """The direction of these languages. Raises UserError as `to` does."""
        found = self._matching(target, source)
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(map(str, found))
            raise UserError(f"The model translates {listed}: choose one by --to and --from.")
        steps = (
            f" Pass --pivot {by} for a translation in two steps, {source}-{by} and {by}-{target}."
            for _, by in self.directions
            if self._matching(by, source) and self._matching(target, by)
        )
        asked = f" from {source:.50}" * bool(source) + f" to {target:.50}" * bool(target)
        listed = ", ".join(map(str, self.directions))
        raise UserError(f"The model does not translate{asked}, but {listed}.{next(steps, '')}")

    def _matching(self, target: str, source: str) -> list[LanguagePair]:
        """The directions of these languages, "" standing for any."""
        found: list[LanguagePair] = []
        for form in (str, base_language):  # de is also deu, unless the model has both
            found = found or [
                pair
                for pair in self.directions
                if form(source or pair.src) == form(pair.src)
                and form(target or pair.tgt) == form(pair.tgt)
            ]
        return found

    @property
    def direction(self) -> LanguagePair:
        """The direction of the last step. Raises UserError if none of several is chosen."""
        return self._direction or self._find("", "")

    @property
    def lang_src(self) -> str:
        return (self._first or self).direction.src

    @property
    def lang_tgt(self) -> str:
        return self.direction.tgt

    def sentences(self, text: str) -> list[str]:
        """The sentences of a text that are translated."""
        found = self._items(text, "sentences", "text", self.protection)
        return [each.restored() for each in found if isinstance(each, Line)]

    def _items(
        self, text: str, split: Split, markup: Markup, protection: Protection
    ) -> Iterator[str | Line]:
        """The sentences of a text, and what stands between them."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # without lone surrogates
        learnt = self.facts.abbreviations.get(base_language(self.direction.src), ())
        escape = ESCAPES[markup]

        def find(line: str) -> list[slice]:
            if split == "none":
                return [slice(0, len(line))]
            return find_sentences(line, self.direction.src, learnt)

        for parts in lines_of(text, markup, whole=split == "none"):
            if isinstance(parts, str):
                yield parts
            elif has_letter((line := protection.line(parts, escape)).text):
                yield from sentences_of_line(line, find, escape)
            elif any(span.source != span.target for span in line.spans):
                yield line.kept(escape)
            else:
                yield "".join(x.source if isinstance(x, Span) else escape(x) for x in parts)

    def encode_sources(self, sentences: Sequence[str]) -> list[list[int]]:
        """The ids of normalized sentences, with the tag of the direction if there is one.

        An empty one has none.
        """
        ids = iter(self.tokenizer.encode(list(filter(None, sentences))))
        tag = self.facts.tag(self.direction)
        return [tag + next(ids) if each else [] for each in sentences]

    @property
    def name(self) -> str:
        """The epoch and step of a checkpoint, or the languages of an exported model."""
        languages = self._direction or ", ".join(map(str, self.directions))
        return str(self.state.position) if self.has_state else f"{languages} model"

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
        """Hashes and settings on which translations depend, beside the settings of the search."""
        steps = [self._first and self._first.direction, self._direction]
        model = [self.engine.fingerprint, self.facts.fingerprint]
        return [*model, *steps, self.split, self.protection.identity]

    @overload
    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = ...,
        length_penalty: float = ...,
        report: OnMessage = ...,
        on_done: OnDone = ...,
        split: Split | None = ...,
        *,
        to: str = ...,
        source: str = ...,
        pivot: str = ...,
        markup: Markup = ...,
        protection: Protection | None = ...,
    ) -> list[str]: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = ...,
        length_penalty: float = ...,
        report: OnMessage = ...,
        on_done: OnDone = ...,
        split: Split | None = ...,
        *,
        to: str = ...,
        source: str = ...,
        pivot: str = ...,
        markup: Markup = ...,
        protection: Protection | None = ...,
        n_best: int,
        temperature: float = ...,
        seed: int = ...,
    ) -> list[list[Translation]]: ...

    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = NBestConfig.beam_width,
        length_penalty: float = NBestConfig.length_penalty,
        report: OnMessage = as_warning,
        on_done: OnDone = ignore,
        split: Split | None = None,
        *,
        to: str = "",
        source: str = "",
        pivot: str = "",
        markup: Markup = "text",
        protection: Protection | None = None,
        n_best: int | None = None,
        temperature: float = NBestConfig.temperature,
        seed: int = NBestConfig.seed,
    ) -> list[str] | list[list[Translation]]:
        """A translation of each text, in order, with its line breaks and the spaces at its ends.

        With `n_best`, that many translations of each text with their scores, best first; it needs a
        beam at least as wide, unless `temperature` samples them, in the order of drawing. Beam
        width 1 is greedy. The sentences of a text are translated one by one, unless `split` is
        "none"; the second translation of a text consists of the second of each sentence. Text
        without letters stays as it is, and so do the tags of html as `markup` and what `protection`
        protects (by default the model's). A sentence longer than in training is cut into
        parts; `report` gets the index of its text and a message. `on_done` receives numbers of
        finished texts, estimated from finished parts. `to`, `source` and `pivot` choose a direction
        as the method `to` does; the sentences and scores of a pivot's translations come from the
        second step. Raises ValueError for unusable settings, UserError for an unknown direction.
        """
        if isinstance(texts, str):  # a sequence of characters
            raise TypeError("texts is one text: pass a list of texts.")
        model = self.to(to, source, pivot) if to or source or pivot else self
        width = 1 if n_best is None else n_best
        config = NBestConfig(beam_width, length_penalty, width, temperature, seed)
        split, protection = split or model.split, protection or model.protection
        if model._first:
            first = beam_width, length_penalty, report, lambda count: on_done(0), split
            texts = model._first.translate(texts, *first, markup=markup, protection=protection)
            protection = protection.of_targets()
        items = [list(model._items(text, split, markup, protection)) for text in texts]
        decoder = Decoder(self.engine, self.facts, model.direction, accepts_short=split == "none")
        settings: dict[str, Any] = {
            "config": config,
            "scored": n_best is not None,
            "escape": ESCAPES[markup],
        }
        search = partial(decoder.translate, **settings)
        found = model._search(items, search, width, report, on_done)
        return found if n_best is not None else [best.text for (best,) in found]

    def _search(
        self,
        items: Sequence[Sequence[str | Line]],
        search: Callable[..., list[list[Sentence]]],
        n_best: int,
        report: OnMessage,
        on_done: OnDone,
    ) -> list[list[Translation]]:
        """The translations of each text, of which `items` are the sentences and what is kept."""
        lines = [[each for each in own if isinstance(each, Line)] for own in items]
        places = [index for index, own in enumerate(lines) for _ in own]

        def on_cut(line: int, tokens: int, parts: int) -> None:
            report(
                places[line],
                f"a sentence of {tokens:,} tokens, longer than in training (up to "
                f"{self.facts.longest_source:,}), is translated in {parts} parts.",
            )

        progress = scaled(on_done, len(items), len(places))
        rest = iter(search([*chain.from_iterable(lines)], on_done=progress, on_cut=on_cut))
        # The second translation of a text has the second one of each sentence.
        sentences = [list(zip(*islice(rest, len(own)), strict=True)) for own in lines]
        return [
            [self._joined(own, each) for each in several or [()] * n_best]
            for own, several in zip(items, sentences, strict=True)
        ]

    def _joined(self, items: Sequence[str | Line], sentences: Iterable[Sentence]) -> Translation:
        """One translation of a text, with what stands between its sentences."""
        text, between, parts, rest = "", "", list[Sentence](), iter(sentences)
        for item in items:
            if isinstance(item, str):
                between += item
                continue
            sentence = next(rest)
            if between.strip(" "):
                parts += [Sentence.kept(kept, kept) for kept in [between.strip()] if kept]
            elif parts:  # with the target language's spaces
                between = space_between(self.lang_tgt) * bool(text and sentence.text)
            text, between = text + between + sentence.text, ""
            parts.append(sentence)
        parts += [Sentence.kept(kept, kept) for kept in [between.strip()] if kept]
        return Translation(text + between, parts)
