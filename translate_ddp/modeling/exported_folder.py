"""Exported CTranslate2 folders: the description of the model, its tokenizer, and opening them."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from translate_ddp import __version__
from translate_ddp.data.tokenizer import Tokenizer, load_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine

FORMAT = 1  # of the description; raised with every change that older code cannot read
DESCRIPTION, MODEL = "translate_ddp.json", "model.bin"


@dataclass(frozen=True)
class Description:
    """What a CTranslate2 folder does not hold by itself."""

    lang_src: str
    lang_tgt: str
    seq_len: int  # maximum tokens of a sentence in training, [EOS] included
    positions: int  # maximum tokens of a side that the model can compute
    quantization: str
    model: dict[str, Any]  # the sizes, as in `ModelConfig`
    parameters: int
    epoch: int
    step: int
    data: str  # the start of the fingerprint of the training data
    scores: dict[str, float]  # of the exported model's greedy translations; empty: not known
    bleu_signature: str
    notes: list[str]  # what was not compared with the checkpoint
    sha256: str = ""  # of model.bin
    bidirectional: bool = False
    longest_source: int = 0  # as in `Run`; 0 in earlier folders
    abbreviations: dict[str, list[str]] = field(default_factory=dict)  # as in `Run`
    verified: list[str] = field(default_factory=list)  # what was compared


def is_exported(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def describe(folder: Path, description: Description) -> None:
    """Write the description, with the digest of the model in the folder."""
    content = asdict(description) | {"sha256": _digest(folder / MODEL)}
    content = {"format": FORMAT, "version": __version__, **content}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (folder / DESCRIPTION).write_text(f"{text}\n", encoding="utf-8")


def read_description(folder: Path) -> tuple[Description, str]:
    """The description, and the version that wrote it. Raises UserError if it is unusable."""
    try:
        content = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise UserError(
                f"{folder} has export format {content['format']!r} (written by translate_ddp "
                f"{content.get('version')}), but translate_ddp {__version__} reads format "
                f"{FORMAT}: export the checkpoint again."
            )
        names = [part.name for part in fields(Description) if part.name in content]
        return Description(**{name: content[name] for name in names}), str(content["version"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{folder / DESCRIPTION} cannot be read: export the checkpoint again."
        ) from error


def open_exported(folder: Path, threads: int) -> tuple[CTranslate2Engine, Tokenizer, Description]:
    """The model in the folder. Raises UserError if it is damaged or a library is missing."""
    description, _ = read_description(folder)
    digest = check_digest(folder, description)
    engine = CTranslate2Engine(folder, description.positions, threads, fingerprint=digest)
    tokenizer = read_tokenizer(folder)
    if tokenizer.names != engine.names:
        raise UserError(
            f"{folder} has the tokenizer of another model: copy it or export the checkpoint again."
        )
    longest = description.longest_source or description.seq_len - 1
    return engine, tokenizer, replace(description, longest_source=longest)


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


def read_tokenizer(folder: Path) -> Tokenizer:
    """Raises UserError if the folder holds no usable tokenizer."""
    path = folder / "sentencepiece.model"
    return load_tokenizer(path if path.exists() else folder / "tokenizer.json")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
