"""Text to token ids and back, with one joint vocabulary for both languages.

Ids 0 to 3 are [PAD] [UNK] [SOS] [EOS]. Encoding never returns [PAD], [SOS] or [EOS], not even for
the literal text "[EOS]".
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as JsonTokenizer

from translate_ddp.data.sentencepiece_model import SentencePieceModel, train_sentencepiece
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.heartbeat import library_call
from translate_ddp.settings import TokenizerConfig

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[SOS]", "[EOS]"]
PAD, UNK, SOS, EOS = range(4)

# A word is letters with their marks (vowel signs, accents) and joiners, and the blank before it.
# Marks also stay with a digit or a symbol before them, as in emoji.
WORDS = Regex(r" ?[\p{L}\p{M}\x{200C}\x{200D}]+| ?[\p{N}\p{M}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
SENTENCEPIECE_TEXT = '{"sentencepiece": "'  # then the model in base64


class Model(Protocol):
    """The model of one library."""

    def __len__(self) -> int: ...
    def encode(self, lines: Sequence[str]) -> list[list[int]]: ...
    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]: ...
    def pieces(self, ids: Sequence[int]) -> list[str]: ...
    def names(self) -> list[str]: ...


class JsonModel:
    """The model in a tokenizer.json."""

    def __init__(self, text: str) -> None:
        try:
            self._model = JsonTokenizer.from_str(text)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"not a tokenizer: {error}") from error
        if [self._model.token_to_id(token) for token in SPECIAL_TOKENS] != [PAD, UNK, SOS, EOS]:
            raise ValueError(f"its ids 0 to 3 are not {' '.join(SPECIAL_TOKENS)}")
        # Not saved in the file. Without it, the literal text "[EOS]" is encoded as the end marker.
        self._model.encode_special_tokens = True

    def __len__(self) -> int:
        return self._model.get_vocab_size()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        encodings = self._model.encode_batch_fast(list(lines), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return self._model.decode_batch(rows, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return self.decode([[i] for i in ids])

    def names(self) -> list[str]:
        return [str(self._model.id_to_token(i)) for i in range(len(self))]


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
        self._model: Model = SentencePieceModel(self._proto) if self._proto else JsonModel(text)

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
    return file.decode()


def train_tokenizer(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on the lines of both languages."""
    if config.tokenizer == "sentencepiece":
        return Tokenizer(text_of(train_sentencepiece(lines, config.vocab_size, SPECIAL_TOKENS)))
    settings: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "special_tokens": SPECIAL_TOKENS,
        "show_progress": False,
    }
    if config.tokenizer == "bpe":
        model = JsonTokenizer(models.BPE())
        # For programs that do not normalize text as `data.text` does.
        model.normalizer = normalizers.NFC()
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        split = pre_tokenizers.Split(WORDS, "isolated")
        model.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
        model.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **settings)
    else:
        model = JsonTokenizer(models.WordLevel(unk_token="[UNK]"))
        model.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(min_frequency=2, **settings)
    model.train_from_iterator(lines, trainer)
    return Tokenizer(model.to_str())


def load_tokenizer(path: Path) -> Tokenizer:
    """Raises UserError if there is no usable tokenizer at `path`."""
    try:
        return Tokenizer(text_of(path.read_bytes()))
    except FileNotFoundError as error:
        raise UserError(f"No tokenizer at {path}.") from error
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be used as tokenizer: {error}.") from error


def build_tokenizer(lines: Iterable[str], config: TokenizerConfig, languages: str) -> Tokenizer:
    """Load `--tokenizer_file` if it exists; otherwise train a tokenizer, and write it there.

    Raises UserError if the file is not a usable tokenizer or cannot be written.
    """
    file = config.file(languages)
    if file is not None and file.exists():
        return load_tokenizer(file)
    with library_call():
        tokenizer = train_tokenizer(lines, config)
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, tokenizer.file)
        except OSError as error:
            raise UserError(
                f"--tokenizer_file {file} cannot be written: {error.strerror}."
            ) from error
    return tokenizer
