"""Text to token ids and back, with one joint vocabulary for both languages.

Ids 0 to 3 are [PAD] [UNK] [SOS] [EOS]. Encoding never returns [PAD], [SOS] or [EOS], not even for
the literal text "[EOS]".
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from translate_ddp.data.json_model import JsonModel, train_json
from translate_ddp.data.sentencepiece_model import SentencePieceModel, train_sentencepiece
from translate_ddp.data.training_sample import sample
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import explain_write_errors, write_atomically
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.settings import TokenizerConfig
from translate_ddp.text import normalize

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[SOS]", "[EOS]"]
PAD, UNK, SOS, EOS = range(4)

EXAMPLE_CHARACTERS = 40
SENTENCEPIECE_TEXT = '{"sentencepiece": "'  # then the model in base64


class Model(Protocol):
    """The model of one library."""

    def __len__(self) -> int: ...
    def encode(self, lines: Sequence[str]) -> list[list[int]]: ...
    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]: ...
    def pieces(self, ids: Sequence[int]) -> list[str]: ...
    def names(self) -> list[str]: ...


class Tokenizer:
    """A trained tokenizer. The same text gives the same ids on every machine."""

    def __init__(self, text: str) -> None:
        """Load the text of a tokenizer.json, or a SentencePiece model as `text_of` returns it.

        Raises ValueError if it is neither, or has other special tokens.
        """
        self.text = text
        self._proto = b""
        if text.startswith(SENTENCEPIECE_TEXT):
            self._proto = base64.b64decode(json.loads(text)["sentencepiece"])
        self._model: Model = (
            SentencePieceModel(self._proto) if self._proto else JsonModel(text, SPECIAL_TOKENS)
        )

    def __len__(self) -> int:
        return len(self._model)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_sentencepiece(self) -> bool:
        return bool(self._proto)

    @property
    def names(self) -> list[str]:
        """The name of each id in the vocabulary, all of them different."""
        return self._model.names()

    @property
    def file(self) -> bytes:
        """The file that other programs read: a tokenizer.json or a SentencePiece model."""
        return self._proto or self.text.encode()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without start and end markers."""
        return self._model.encode(lines)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, without [PAD], [SOS] and [EOS]."""
        return self._model.decode([[i for i in row if i not in (PAD, SOS, EOS)] for row in ids])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token, with its blanks; "" of [PAD], [SOS] and [EOS]."""
        texts = self._model.pieces(ids)
        return ["" if i in (PAD, SOS, EOS) else text for i, text in zip(ids, texts, strict=True)]


def text_of(file: bytes) -> str:
    """The text for `Tokenizer` of a file. Raises ValueError if the file cannot be a tokenizer."""
    if file.startswith(b"\n"):  # the first field of a SentencePiece model; JSON begins with {
        return f'{SENTENCEPIECE_TEXT}{base64.b64encode(file).decode()}"}}'
    try:
        return file.decode()
    except UnicodeDecodeError as error:
        raise ValueError("it is neither a SentencePiece model nor a tokenizer.json") from error


def train_tokenizer(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on the lines of both languages, or a sample of them.

    The same lines give the same tokenizer.
    """
    kind, size = config.tokenizer, config.vocab_size
    lines = sample(lines)
    if kind == "bpe" or kind == "word":
        return Tokenizer(train_json(lines, kind, size, SPECIAL_TOKENS))
    model = "unigram" if kind == "sentencepiece" else "bpe"
    return Tokenizer(text_of(train_sentencepiece(lines, model, size, SPECIAL_TOKENS)))


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file. Raises UserError if there is no usable one at `path`."""
    try:
        return Tokenizer(text_of(path.read_bytes()))
    except FileNotFoundError as error:
        raise UserError(f"No tokenizer at {path}.") from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be used as tokenizer: {error}.") from error


def existing_tokenizer(config: TokenizerConfig, languages: str) -> Tokenizer | None:
    """The tokenizer in `--tokenizer_file`; None if there is no file at this path.

    Raises UserError if the file is not a usable tokenizer, or if there is none and its name is that
    of a SentencePiece model, which the settings would not train.
    """
    file = config.file(languages)
    if file is None or not file.exists():
        if file and file.suffix in (".model", ".spm") and "sentencepiece" not in config.tokenizer:
            raise UserError(
                f"There is no --tokenizer_file {file}. To train a SentencePiece model and write it "
                "there, pass --tokenizer sentencepiece or sentencepiece_bpe."
            )
        return None
    try:
        return load_tokenizer(file)
    except UserError as error:
        raise UserError(
            f"--tokenizer_file {error} Or pass a path without a file: a tokenizer is trained and "
            "written there."
        ) from error


def existing_size(config: TokenizerConfig, languages: str, is_given: bool) -> int:
    """The number of tokens in `--tokenizer_file`; 0 if there is no file at this path.

    Raises UserError if they are more than the `vocab_size` that the user gave (`is_given`), or the
    file is not a usable tokenizer.
    """
    tokenizer = existing_tokenizer(config, languages)
    size = 0 if tokenizer is None else len(tokenizer)
    if is_given and size > config.vocab_size:
        raise UserError(
            f"--vocab_size is {config.vocab_size:,}, but --tokenizer_file "
            f"{config.file(languages)} has {size:,} tokens: omit --vocab_size, or pass another "
            "file."
        )
    return size


def build_tokenizer(lines: Iterable[str], config: TokenizerConfig, languages: str) -> Tokenizer:
    """Load `--tokenizer_file` if it exists; otherwise train a tokenizer, and write it there.

    Raises UserError if the file is not a usable tokenizer or cannot be written.
    """
    tokenizer = existing_tokenizer(config, languages)
    if tokenizer is not None:
        return tokenizer
    with library_call():
        tokenizer = train_tokenizer(lines, config)
    file = config.file(languages)
    if file is not None:
        with explain_write_errors(f"--tokenizer_file {file}"):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, tokenizer.file)
    return tokenizer


def loss_of(tokenizer: Tokenizer, lines: Sequence[str]) -> str | None:
    """How the tokenizer changes the text of these normalized lines, with an example.

    None if it changes none.
    """
    decoded = map(normalize, tokenizer.decode(tokenizer.encode(lines)))  # as translations are
    changed = [pair for pair in zip(lines, decoded, strict=True) if pair[0] != pair[1]]
    if not changed:
        return None
    text, other = min(changed, key=lambda pair: len(pair[0]))
    return (
        f"The tokenizer changes the text of {len(changed):,} of {len(lines):,} lines, such as "
        f"{_around(text, other)!r} to {_around(other, text)!r}. The model can neither read nor "
        "write such text as it is. --tokenizer bpe changes none."
    )


def _around(text: str, other: str) -> str:
    """The part of `text` around its first difference from `other`, from a blank on."""
    pairs = enumerate(zip(text, other, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(text), len(other)))
    start = text.rfind(" ", 0, max(same - EXAMPLE_CHARACTERS // 4, 0)) + 1
    return text[start : start + EXAMPLE_CHARACTERS]
