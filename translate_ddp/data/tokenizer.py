"""Text to token ids and back, with one joint vocabulary for both languages.

Ids 0 to 3 are [PAD] [UNK] [SOS] [EOS]. Encoding never returns [PAD], [SOS] or [EOS], not even for
the literal text "[EOS]".
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Model
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically
from translate_ddp.settings import TokenizerConfig

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[SOS]", "[EOS]"]
PAD, UNK, SOS, EOS = range(4)


class Tokenizer:
    """A trained tokenizer. The same text gives the same ids on every machine."""

    def __init__(self, text: str) -> None:
        """Load the text of a tokenizer.json.

        Raises ValueError if it is not one, or has other special tokens.
        """
        try:
            self._model = Model.from_str(text)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"not a tokenizer: {error}") from error
        if [self._model.token_to_id(token) for token in SPECIAL_TOKENS] != [PAD, UNK, SOS, EOS]:
            raise ValueError(f"its ids 0 to 3 are not {' '.join(SPECIAL_TOKENS)}")
        # Not saved in the file. Without it, the literal text "[EOS]" is encoded as the end marker.
        self._model.encode_special_tokens = True
        self.text = text

    def __len__(self) -> int:
        return self._model.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without start and end markers."""
        encodings = self._model.encode_batch_fast(list(lines), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, without [PAD], [SOS] and [EOS]."""
        return self._model.decode_batch(
            [[i for i in row if i not in (PAD, SOS, EOS)] for row in ids], skip_special_tokens=False
        )


def train_tokenizer(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on the lines of both languages."""
    settings: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "special_tokens": SPECIAL_TOKENS,
        "show_progress": False,
    }
    if config.tokenizer == "bpe":
        model = Model(models.BPE())
        # Composes letters and their accents; all other text is encoded unchanged.
        model.normalizer = normalizers.NFC()
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **settings)
    else:
        model = Model(models.WordLevel(unk_token="[UNK]"))
        model.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(min_frequency=2, **settings)
    model.train_from_iterator(lines, trainer)
    return Tokenizer(model.to_str())


def load_tokenizer(path: Path) -> Tokenizer:
    """Raises UserError if there is no usable tokenizer at `path`."""
    try:
        return Tokenizer(path.read_text(encoding="utf-8"))
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
    tokenizer = train_tokenizer(lines, config)
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, tokenizer.text)
        except OSError as error:
            raise UserError(
                f"--tokenizer_file {file} cannot be written: {error.strerror}."
            ) from error
    return tokenizer
