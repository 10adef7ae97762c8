"""Exported CTranslate2 folders: their description, opening them, and an engine that computes."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp import __version__
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError, first_line, import_optional
from translate_ddp.modeling.engine import (
    Ids,
    OnDone,
    default_max_tokens,
    ignore,
    length_limit,
    longest_first,
)
from translate_ddp.modeling.repetition import until_repetition
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.search_options import NBestConfig

DESCRIPTION_FORMAT = 3  # raised with every change after which a saved one cannot be read
DESCRIPTION, MODEL = "translate_ddp.json", "model.bin"


class CTranslate2Engine:
    """The model of a folder with room for `positions` tokens a side, end marker included.

    Several threads may call it. On a CPU it translates as many batches at a time as `threads`, each
    with one core. `compute_type` is CTranslate2's; "default": as the weights are stored. The
    device is a GPU if there is one, unless it is set. `fingerprint` is a hash of the weights.
    """

    def __init__(
        self,
        folder: Path,
        positions: int,
        threads: int = 1,
        compute_type: str = "default",
        device: str = "",
        fingerprint: str = "",
    ) -> None:
        """Raises UserError if the folder cannot be loaded."""
        library = import_optional("ctranslate2", "requirements-export.txt")
        device = device or default_device()
        self.positions = positions
        self.folder = folder
        self.fingerprint = f"{fingerprint} {compute_type} {device} {library.__version__}"
        self.device = torch.device(device)
        self.max_tokens = default_max_tokens(self.device)
        is_torch_on_gpu = device == "cuda" and torch.cuda.is_available()  # else, on the first one
        try:
            # Tags of languages are in the source vocabulary only; without them, one is shared.
            shared, source = (folder / f"{name}_vocabulary.json" for name in ("shared", "source"))
            file = shared if shared.exists() else source
            self.names: list[str] = json.loads(file.read_text(encoding="utf-8"))
            self._translator = library.Translator(
                str(folder),
                device,
                device_index=torch.cuda.current_device() if is_torch_on_gpu else 0,
                compute_type=compute_type,
                inter_threads=1 if device == "cuda" else threads,
                intra_threads=1,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"{folder} cannot be loaded: {first_line(error)}") from error
        self._ids = {name: i for i, name in enumerate(self.names)}
        self._process = os.getpid()

    def translate(
        self, sources: Ids, config: NBestConfig, on_done: OnDone = ignore, unrepeated: int = 0
    ) -> list[list[Hypothesis]]:
        """As `Engine.translate`.

        Raises UserError if a source is too long for the model, or if `config` requests samples: the
        library's random numbers depend on its threads and on earlier calls.
        """
        if config.temperature:
            raise UserError(
                "CTranslate2 does not sample (--temperature): use a checkpoint with --engine torch."
            )
        self._check(sources, length_limit)
        batches = longest_first(sources, self.max_tokens, config.rows_per_sentence)
        # All are submitted before the first is awaited: each thread takes the next one.
        pending = [
            self._submit([sources[row] for row in rows], config, unrepeated) for rows in batches
        ]
        outputs: dict[int, list[Hypothesis]] = {}
        for rows, results in zip(batches, pending, strict=True):
            found = [self._hypotheses(result.result(), config) for result in results]
            batch = [sources[row] for row in rows]
            outputs |= zip(rows, self._limited(batch, found, config, unrepeated), strict=True)
            on_done(len(rows))
        return [outputs[row][: config.n_best] for row in range(len(sources))]

    def log_probs(self, sources: Ids, targets: Ids, on_done: OnDone = ignore) -> list[np.ndarray]:
        """As `Engine.log_probs`. Raises UserError if a sentence is too long for the model."""
        self._check([*sources, *targets], lambda length: length)
        results = self._translator.score_batch(
            [self._to_names(source) for source in sources],
            [self._to_names(target) for target in targets],
            max_batch_size=self.max_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        on_done(len(results))
        return [np.array(result.log_probs, dtype=np.float32) for result in results]

    def _submit(self, sources: Ids, config: NBestConfig, unrepeated: int) -> list[Any]:
        """The pending results of a batch, whose limit its longest source sets."""
        width = config.beam_width
        return self._translator.translate_batch(
            [self._to_names(source) for source in sources],
            asynchronous=True,
            beam_size=width,
            num_hypotheses=width,
            length_penalty=config.length_penalty,
            no_repeat_ngram_size=unrepeated,
            max_input_length=0,
            min_decoding_length=0,
            max_decoding_length=max(length_limit(len(source)) for source in sources),
            return_scores=True,
        )

    def _limited(
        self,
        sources: Ids,
        found: list[list[Hypothesis]],
        config: NBestConfig,
        unrepeated: int,
    ) -> list[list[Hypothesis]]:
        """The translations of a batch, none longer than the limit of its own source.

        The search is repeated for the sentences whose limit was exceeded: at a limit, a beam search
        continues with other hypotheses.
        """
        exceeded = [
            row
            for row, source in enumerate(sources)
            if any(len(each.ids) > length_limit(len(source)) for each in found[row])
        ]
        pending = {row: self._submit([sources[row]], config, unrepeated) for row in exceeded}
        again = {row: self._hypotheses(only.result(), config) for row, (only,) in pending.items()}
        return [again.get(row, hypotheses) for row, hypotheses in enumerate(found)]

    def _hypotheses(self, result: Any, config: NBestConfig) -> list[Hypothesis]:
        ids = [[self._ids[name] for name in names] for names in result.hypotheses]
        # Where `search` ends a sentence. The score remains the whole hypothesis's.
        ids[0] = until_repetition(ids[0])
        scores = [None] if config.beam_width == 1 else result.scores  # as in `search`
        return [Hypothesis(row, score) for row, score in zip(ids, scores, strict=True)]

    def _to_names(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        return [self.names[i] for i in ids]

    def _check(self, rows: Ids, limit: Callable[[int], int]) -> None:
        if self._process != os.getpid():  # without the threads of the library, it would hang
            raise UserError(
                f"{self.folder} was opened before a fork: open it in each process, as by the "
                "initializer of a multiprocessing.Pool."
            )
        longest = max(map(len, rows), default=0)
        if limit(longest) > self.positions - 1:
            raise UserError(
                f"A sentence of {longest:,} tokens is too long for this exported model, which has "
                f"{self.positions:,} positions a side: split it, or use a checkpoint."
            )


def default_device() -> str:
    """A GPU if the library finds one. Raises UserError if it is not installed."""
    library = import_optional("ctranslate2", "requirements-export.txt")
    return "cuda" if library.get_cuda_device_count() else "cpu"


@dataclass(frozen=True)
class Description:
    """What a CTranslate2 folder does not hold by itself."""

    facts: ModelFacts
    positions: int  # maximum tokens of a side that the model can compute
    quantization: str
    model: dict[str, Any]  # the sizes, as in `ModelConfig`
    parameters: int
    epoch: int
    step: int
    data: str  # the start of the fingerprint of the training data
    scores: dict[str, float]  # for the exported model's greedy translations; empty: not known
    bleu_signature: str
    verified: list[str]  # what was compared with the checkpoint
    notes: list[str]  # what was not
    sha256: str = ""  # the digest of model.bin
    version: str = __version__  # the version that wrote the folder


def is_exported(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def describe(folder: Path, description: Description) -> None:
    """Write the description, with the digest of the model in the folder."""
    digest = {"sha256": _digest(folder / MODEL), "facts": description.facts.to_dict()}
    content = {"format": DESCRIPTION_FORMAT, **vars(description), **digest}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / DESCRIPTION).write_text(f"{text}\n", encoding="utf-8")


def read_description(folder: Path) -> Description:
    """Raises UserError if the description is unusable."""
    try:
        content = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if content["format"] != DESCRIPTION_FORMAT:
            raise UserError(
                f"{folder} has export format {content['format']!r}, but translate_ddp "
                f"{__version__} reads format {DESCRIPTION_FORMAT}: export the checkpoint again."
            )
        content["facts"] = ModelFacts.from_dict(content["facts"])
        return Description(**{part.name: content[part.name] for part in fields(Description)})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{folder / DESCRIPTION} cannot be read: export the checkpoint again."
        ) from error


def open_exported(folder: Path, threads: int) -> tuple[CTranslate2Engine, ModelFacts]:
    """The model in the folder. Raises UserError if it is damaged or a library is missing."""
    description = read_description(folder)
    digest = check_digest(folder, description)
    engine = CTranslate2Engine(folder, description.positions, threads, fingerprint=digest)
    facts = description.facts
    if [*facts.tokenizer.names, *facts.extra.names] != engine.names:
        raise UserError(
            f"{folder} has the vocabulary of another model: copy it or export the checkpoint again."
        )
    return engine, facts


def check_digest(folder: Path, description: Description) -> str:
    """The digest of the model in the folder. Raises UserError if it is not the described one."""
    try:
        digest = _digest(folder / MODEL)
    except OSError as error:
        raise UserError(f"{folder / MODEL} cannot be read: {error.strerror}.") from error
    if digest != description.sha256:
        raise UserError(f"{folder / MODEL} is damaged: copy it or export the checkpoint again.")
    return digest


def tokenizer_file(tokenizer: Tokenizer) -> str:
    return "sentencepiece.model" if tokenizer.is_sentencepiece else "tokenizer.json"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
