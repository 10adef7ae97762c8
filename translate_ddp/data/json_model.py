"""Tokenizers of the library `tokenizers`, stored as tokenizer.json: byte-level BPE and words."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

# A word is letters with their marks (vowel signs, accents) and joiners, and the blank before it.
# Marks also stay with a digit or a symbol before them, as in emoji.
WORDS = Regex(r" ?[\p{L}\p{M}\x{200C}\x{200D}]+| ?[\p{N}\p{M}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
UNUSUAL = "\U0010ffff"  # a character of no vocabulary


class JsonModel:
    """The model in a tokenizer.json."""

    def __init__(self, text: str, special: Sequence[str]) -> None:
        """Raises ValueError if it is no tokenizer, or its first ids are not those of `special`."""
        self._model = open_json(text)
        self._special = frozenset(range(len(special)))
        self._check_ids(list(special))
        try:
            self._model.encode(UNUSUAL)
            literals = self._model.encode(" ".join(special), add_special_tokens=False).ids
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"it cannot encode text with unknown characters: {error}") from error
        self._unk = special.index("[UNK]")
        self._finds_names = bool(self._special & {*literals} - {self._unk})

    def _check_ids(self, special: list[str]) -> None:
        found = [self._model.id_to_token(i) for i in range(len(special))]
        if found != special:
            names = ", ".join(name or "none" for name in found)
            raise ValueError(
                f"its ids 0 to {len(special) - 1} are {names}, but must be {', '.join(special)}: "
                f"train it with special_tokens={special}, in this order"
            )
        ids = self._model.get_vocab().values()
        if {*ids} != {*range(len(ids))}:
            raise ValueError(
                f"its {len(ids):,} tokens must have the ids 0 to {len(ids) - 1:,}, but the largest "
                f"is {max(ids):,}"
            )

    def __len__(self) -> int:
        return self._model.get_vocab_size()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        encodings = self._model.encode_batch_fast(list(lines), add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        if self._finds_names:
            return [[self._unk if i in self._special else i for i in row] for row in rows]
        return rows

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return self._model.decode_batch(rows, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        # Decoders may omit the blank of a first token.
        before = self.decode([[0]])[0]
        return [text.removeprefix(before) for text in self.decode([[0, i] for i in ids])]

    def names(self) -> list[str]:
        return [str(self._model.id_to_token(i)) for i in range(len(self))]


def open_json(text: str) -> Tokenizer:
    """The tokenizer in a tokenizer.json, for whole lines. Raises ValueError if it is none."""
    try:
        model = Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(
            f"it is neither a SentencePiece model nor a tokenizer.json ({error})"
        ) from error
    # Not saved in the file. Without it, the literal text "[EOS]" is encoded as the end marker.
    model.encode_special_tokens = True
    # Files of other programs have settings of their batches.
    model.no_truncation()
    model.no_padding()
    return model


def train_json(
    lines: Iterable[str], kind: Literal["bpe", "word"], vocab_size: int, special: Sequence[str]
) -> str:
    """The tokenizer.json of a model of at most `vocab_size` tokens, first those of `special`.

    The same lines give the same text.
    """
    settings: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(special),
        "show_progress": False,
    }
    if kind == "bpe":
        model = Tokenizer(models.BPE())
        # NFC is for programs that do not normalize text as `text.py` does. With a blank before
        # it, the first word of a text has the same ids as elsewhere.
        model.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        split = pre_tokenizers.Split(WORDS, "isolated")
        model.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
        model.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(initial_alphabet=alphabet, **settings)
    else:
        model = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        model.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.WordLevelTrainer(min_frequency=2, **settings)
    model.train_from_iterator(lines, trainer)
    return model.to_str()
