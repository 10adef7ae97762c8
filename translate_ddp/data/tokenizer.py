"""Text to token ids and back, with one joint vocabulary for both languages.

Ids 0 to 3 are [PAD] [UNK] [SOS] [EOS]. Encoding never returns [PAD], [SOS] or [EOS], not even for
the literal text "[EOS]".
"""

import base64
import hashlib
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from os.path import commonprefix
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from translate_ddp.data.tokenizer_models import (
    EOS,
    NORMALIZER,
    PAD,
    PRE_TOKENIZER,
    ROLES,
    SOS,
    SPECIAL_TOKENS,
    UNK,
    JsonModel,
    SentencePieceModel,
    import_sentencepiece,
)
from translate_ddp.errors import UserError
from translate_ddp.runtime.files import explain_write_errors, write_atomically
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.settings import TokenizerConfig, TokenizerKind
from translate_ddp.spans import MARK, MARK_RUN
from translate_ddp.text import direction_tag, normalize

Numbers = Sequence[Sequence[int]]  # per text: which span token stands for each run of MARKs

EXAMPLE_CHARACTERS = 40
SPAN_TOKENS = tuple(f"[P{number}]" for number in range(1, 9))
MARKED = {f"a {MARK} b": [0], f"{MARK}a{MARK}.": [1, 0], f"a, {MARK}": [2]}  # with span numbers
SENTENCEPIECE_TEXT = '{"sentencepiece": "'  # then the model in base64

MAX_LINE_BYTES = 100_000  # SentencePiece skips longer lines; a corpus has none

# The training of byte-level BPE takes about 90 bytes of memory per byte of distinct words, the
# training of a unigram model about 18 per byte of text.
MAX_TEXT_BYTES = 24 * 2**20
MAX_LINES = 300_000
MAX_WORD_BYTES = 4_500_000
LETTERS = re.compile(r"[^\W\d_]+")  # letters, as in the words of byte-level BPE


@dataclass(frozen=True)
class ExtraTokens:
    """The tokens of a model beside its tokenizer, with the ids that follow, in this order.

    No text is encoded as one of them. Span tokens are first: they stand for spans (`spans.py`), in
    sources and in translations. Tags follow, in sources only: the language to translate to.
    """

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, targets: Iterable[str], known: "ExtraTokens") -> "ExtraTokens":
        """The `known` tokens, then tags of these languages, except languages that have a tag."""
        return cls(tuple(dict.fromkeys([*known.names, *map(direction_tag, targets)])))

    @property
    def num_spans(self) -> int:
        return sum(name in SPAN_TOKENS for name in self.names)

    @property
    def num_tags(self) -> int:
        return len(self.names) - self.num_spans

    def tag(self, tokenizer: "Tokenizer", target: str) -> tuple[int, ...]:
        """The token id of the tag of a target language; none if the model has no tags."""
        name = direction_tag(target)
        return (len(tokenizer) + self.names.index(name),) if name in self.names else ()


NO_EXTRA_TOKENS = ExtraTokens()


class Tokenizer:
    """A trained tokenizer. The same text gives the same ids on every machine."""

    def __init__(self, text: str) -> None:
        """Load the text of a tokenizer.json, or a SentencePiece model as `text_of` returns it.

        Raises ValueError if it is neither, or has other special tokens.
        """
        self.text, self._proto = text, b""
        if text.startswith(SENTENCEPIECE_TEXT):
            self._proto = base64.b64decode(json.loads(text)["sentencepiece"])
            self._model = SentencePieceModel(self._proto)
        else:
            self._model = JsonModel(text)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return Tokenizer, (self.text,)

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

    def encode_marked(self, texts: Sequence[str], numbers: Numbers) -> list[list[int]]:
        """As `encode`; each run of MARKs is one token, with the next of the text's numbers."""
        if not any(numbers):
            return self.encode(texts)
        rows = self._isolating.encode([MARK_RUN.sub(MARK, text) for text in texts])
        pairs = zip(rows, numbers, strict=True)
        return [self._with_spans(row, marks) if marks else row for row, marks in pairs]

    @cached_property
    def _isolating(self) -> "JsonModel | SentencePieceModel":
        """The same model, in which no token has a part of MARK and of other text.

        SentencePiece spells a character that is in no piece by its bytes.
        """
        return self._model if self._proto else JsonModel(self.text, isolated=MARK)

    @cached_property
    def _mark(self) -> list[int]:
        """The ids that spell MARK."""
        before, both = self._isolating.encode(["a", f"a{MARK}"])
        return both[len(before) :]

    def _with_spans(self, ids: list[int], numbers: Sequence[int]) -> list[int]:
        """The ids, with span tokens in the place of MARKs."""
        tokens, at = (len(self) + number for number in numbers), -1
        for _ in range(ids.count(self._mark[0]) if self._mark else 0):
            at = ids.index(self._mark[0], at + 1)
            if ids[at : at + len(self._mark)] == self._mark:
                ids[at : at + len(self._mark)] = [next(tokens, UNK)]
        return ids

    @property
    def can_mark(self) -> bool:
        """Whether it encodes text around spans, and decodes it, without a change."""
        rows = self.encode_marked([*MARKED], [*MARKED.values()])
        found = dict(self.decode_marked(rows))
        return found == MARKED and {*SPAN_TOKENS}.isdisjoint(self.names)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids, without [PAD], [SOS], [EOS] and extra tokens."""
        size = len(self)
        return self._model.decode(
            [[i for i in row if i < size and i not in (PAD, SOS, EOS)] for row in ids]
        )

    def decode_marked(self, ids: Sequence[Sequence[int]]) -> list[tuple[str, list[int]]]:
        """The text of each row with a MARK in the place of each span token, and their numbers."""
        size = len(self)
        spans = range(size, size + len(SPAN_TOKENS))
        spelled = [[j for i in row for j in (self._mark if i in spans else (i,))] for row in ids]
        numbers = [[i - size for i in row if i in spans] for row in ids]
        return [
            # A model may spell MARK itself, though no training text has it.
            (text, marks) if text.count(MARK) == len(marks) else (text.replace(MARK, ""), [])
            for text, marks in zip(self.decode(spelled), numbers, strict=True)
        ]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each token, with its spaces; "" of [PAD], [SOS], [EOS] and extra tokens."""
        size = len(self)
        known = [i if i < size else PAD for i in ids]
        texts = self._model.pieces(known)
        return ["" if i in (PAD, SOS, EOS) else text for i, text in zip(known, texts, strict=True)]


def text_of(file: bytes) -> str:
    """The text for `Tokenizer` of a file. Raises ValueError if the file cannot be a tokenizer."""
    if file.startswith(b"\n"):  # the first field of a SentencePiece model; JSON begins with {
        return f'{SENTENCEPIECE_TEXT}{base64.b64encode(file).decode()}"}}'
    try:
        return file.decode()
    except UnicodeDecodeError as error:
        raise ValueError("it is neither a SentencePiece model nor a tokenizer.json") from error


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file. Raises UserError if there is no usable one at `path`."""
    try:
        return Tokenizer(text_of(path.read_bytes()))
    except FileNotFoundError as error:
        raise UserError(f"No tokenizer at {path}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} cannot be used as tokenizer: {error}.") from error


def existing_tokenizer(config: TokenizerConfig, languages: str) -> Tokenizer | None:
    """The tokenizer in `--tokenizer_file`; None if there is no file at this path.

    Raises UserError if the file is not a usable tokenizer, or if there is none and it is named like
    a SentencePiece model, which the settings would not train.
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
    shortest = min(changed, key=lambda pair: len(pair[0]))
    start = max(len(commonprefix(shortest)) - EXAMPLE_CHARACTERS // 4, 0)
    text, other = (each[start : start + EXAMPLE_CHARACTERS] for each in shortest)
    return (
        f"The tokenizer changes the text of {len(changed):,} of {len(lines):,} lines, such as "
        f"{text!r} to {other!r}. The model can neither read nor write such text as it is. "
        "--tokenizer bpe changes none."
    )


def train_tokenizer(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on the lines of both languages, or a sample of them.

    The same lines give the same tokenizer.
    """
    train = train_sentencepiece if "sentencepiece" in config.tokenizer else train_json
    return Tokenizer(text_of(train(sample(lines), config.tokenizer, config.vocab_size)))


def train_json(lines: Iterable[str], kind: TokenizerKind, vocab_size: int) -> bytes:
    """The tokenizer.json of a model of at most `vocab_size` tokens, with the special ones."""
    settings: dict[str, Any] = {"special_tokens": SPECIAL_TOKENS, "show_progress": False}
    settings["vocab_size"] = vocab_size
    if kind == "bpe":
        model = tokenizers.Tokenizer(models.BPE())
        model.normalizer, model.pre_tokenizer = NORMALIZER, PRE_TOKENIZER
        model.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **settings)
    else:
        model = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
        model.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(min_frequency=2, **settings)
    model.train_from_iterator(lines, trainer)
    return model.to_str().encode()


def train_sentencepiece(lines: Iterable[str], kind: TokenizerKind, vocab_size: int) -> bytes:
    """A model with fallback to bytes, of at most `vocab_size` pieces.

    It encodes all text unchanged, except that U+2581 is decoded as a space. The same lines give
    the same bytes. Raises UserError if `vocab_size` is too small.
    """
    special: dict[str, Any] = {f"{role}_id": i for i, role in enumerate(ROLES)}
    special |= {f"{role}_piece": name for role, name in zip(ROLES, SPECIAL_TOKENS, strict=True)}
    model = io.BytesIO()
    try:
        import_sentencepiece().SentencePieceTrainer.Train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram" if kind == "sentencepiece" else "bpe",
            vocab_size=vocab_size,
            hard_vocab_limit=False,  # a small corpus has fewer pieces
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            # As other programs have it: they join the tokens of sentences and expect spaces there.
            add_dummy_prefix=True,
            byte_fallback=True,
            unk_surface="[UNK]",
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,  # the order of a sum changes the model
            minloglevel=2,
            **special,
        )
    except RuntimeError as error:
        _, found, sizes = str(error).partition("smaller than required_chars. ")
        if not found:
            raise
        needed = sizes.partition(" vs ")[2].partition(".")[0]
        raise UserError(
            f"--vocab_size {vocab_size} is too small for the characters of the corpus, which need "
            f"{needed} pieces in a SentencePiece model: raise it."
        ) from error
    return model.getvalue()


def sample(lines: Iterable[str]) -> list[str]:
    """The lines, or so many of them that the training takes at most about 600 MB of memory.

    They are chosen by a hash of their text, so they are the same on every machine and in any order
    of the lines, and stay in their order.
    """
    found: list[tuple[bytes, int, bytes]] = []  # hash, number and text of each line
    size = 0
    for number, text in enumerate(map(str.encode, lines)):
        found.append((hashlib.blake2b(text, digest_size=8).digest(), number, text))
        size += len(text)
        if size > 2 * MAX_TEXT_BYTES or len(found) > 2 * MAX_LINES:
            found = _first_lines(found)
            size = sum(len(text) for *_, text in found)
    found = _first_lines(found)
    words: set[str] = set()
    size = 0
    if sum(len(text) for *_, text in found) > MAX_WORD_BYTES:
        for place, (*_, text) in enumerate(found):
            new = {*LETTERS.findall(text.decode())} - words
            words |= new
            size += sum(len(word.encode()) for word in new)
            if size > MAX_WORD_BYTES:
                del found[place:]
                break
    return [text.decode() for *_, text in sorted(found, key=itemgetter(1))]


def _first_lines(lines: list[tuple[bytes, int, bytes]]) -> list[tuple[bytes, int, bytes]]:
    """The lines with the smallest hashes: at most `MAX_LINES`, of `MAX_TEXT_BYTES` in total."""
    lines = sorted(lines)[:MAX_LINES]
    sizes = accumulate(len(text) for *_, text in lines)
    return lines[: sum(size <= MAX_TEXT_BYTES for size in sizes)]
