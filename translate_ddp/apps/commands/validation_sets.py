"""The pairs that `validate` and `score` use: given ones, or the validation set of the run."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from translate_ddp.apps.commands.saved_model import SavedModel
from translate_ddp.data.dataset import (
    ParallelDataset,
    PreparedData,
    Ragged,
    find_prepared,
    load_prepared,
)
from translate_ddp.data.inputs import read_given_pairs
from translate_ddp.data.preparation import prepare
from translate_ddp.errors import UserError, first_line
from translate_ddp.settings import CorpusConfig, Quoting, SourceOptions
from translate_ddp.text import normalize
from translate_ddp.training.fine_tuning import store_tokenizer
from translate_ddp.training.validation import ValidationSet
from translate_ddp.translator import Translator

PASS_FILES = "pass --source and --reference"


@dataclass(frozen=True)
class PairsConfig:
    """Settings that select the pairs."""

    source: str = ""
    """File of sentences (text, or a table), or a corpus of pairs as for --dataset of training; '':
    the validation set of the training run."""
    reference: str = ""
    """File of their translations, unless --source has them."""
    src_column: str = ""
    """Column of --source that holds the sources: a name, or a number from 1 on; '': the usual
    names."""
    tgt_column: str = ""
    """Column of --source that holds the references."""
    quoting: Quoting = "auto"
    """Quotes in TSV and CSV. csv: they enclose fields; none: they are text; auto: by the file."""
    reverse: bool = False
    """Use the other direction of a model of --bidirectional."""

    def __post_init__(self) -> None:
        if self.reference and not self.source:
            raise ValueError("--reference needs --source.")
        if (self.src_column or self.tgt_column) and (self.reference or not self.source):
            raise ValueError("--src_column and --tgt_column are for a --source with both sides.")

    def read(self, languages: tuple[str, str]) -> "Pairs":
        """The pairs of `source`, or of it and `reference`. Raises UserError if it is unusable."""
        options = SourceOptions(self.src_column, self.tgt_column, quoting=self.quoting)
        sides = read_given_pairs(self.source, self.reference, languages, options)
        sources, references = (list(map(normalize, side)) for side in sides)
        return Pairs(sources, references, languages)


class Pairs(NamedTuple):
    """Sources and references, normalized."""

    sources: list[str]
    references: list[str]
    languages: tuple[str, str]

    def encoded(self, translator: Translator) -> ValidationSet:
        sides = self.sources, self.references
        ids = translator.encode_sources(sides[0]), translator.tokenizer.encode(sides[1])
        return ValidationSet(ParallelDataset(*map(Ragged.of, ids)), *sides, self.languages[1])


def from_training(saved: SavedModel, translator: Translator) -> Pairs:
    """The validation set of the training run: that beside its checkpoints, or prepared again.

    Raises UserError if the corpus has changed since.
    """
    if not translator.has_state:
        raise UserError(
            f"An exported model has no validation set: {PASS_FILES}, or validate the run with "
            "--compare and the exported folder."
        )
    run = translator.state.run
    fingerprints = run.identity.data_fingerprints
    folder = saved.path.parent if saved.path.is_file() else saved.path
    data = find_prepared(folder / "data", *fingerprints)
    with TemporaryDirectory() if data is None else nullcontext("") as temporary:
        data = data or prepare_again(translator, Path(temporary))
        found = data.fingerprint, data.validation_fingerprint
        if not all(map(str.startswith, found, fingerprints)):
            raise UserError(
                f"The corpus {' '.join(run.config['corpus']['dataset'])} has changed since the "
                f"checkpoint was trained: {PASS_FILES}."
            )
        sources, references = data.validation_sources, data.validation_references
        languages = translator.lang_src, translator.lang_tgt
        if translator.lang_src != run.config["corpus"]["lang_src"]:  # the other direction
            sources, references = references, sources
        return Pairs(sources, references, languages)


def prepare_again(translator: Translator, folder: Path) -> PreparedData:
    """The corpus of the training run, encoded by the tokenizer of the model, in `folder`."""
    config = translator.state.run.config
    try:
        corpus = CorpusConfig.of(config["corpus"])
    except TypeError as error:  # a setting of another version
        problem = f"The settings in the checkpoint are of another version ({first_line(error)})"
        raise UserError(f"{problem}: {PASS_FILES}.") from error
    tokenizer = store_tokenizer(translator.tokenizer.text, folder, corpus.language_pair)
    try:
        path = prepare(corpus, tokenizer, config["batches"]["seq_len"], folder, shown=False)
    except UserError as error:
        raise UserError(
            f"The corpus of the training cannot be read here: {PASS_FILES}.\n{error}"
        ) from error
    return load_prepared(path)
