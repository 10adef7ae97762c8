"""The models in the files of tokenizers: tokenizer.json and SentencePiece."""

from collections.abc import Sequence
from itertools import chain, filterfalse
from typing import Any

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from translate_ddp.errors import import_optional

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[SOS]", "[EOS]"]
PAD, UNK, SOS, EOS = range(4)
ROLES = ("pad", "unk", "bos", "eos")  # their names in SentencePiece

# A word is letters with their marks (vowel signs, accents) and joiners, and the space before it.
# Marks also stay with a digit or a symbol before them, as in emoji.
WORDS = Regex(r" ?[\p{L}\p{M}\x{200C}\x{200D}]+| ?[\p{N}\p{M}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
# The steps before byte-level BPE. NFC is for programs that do not normalize text as `text.py` does.
# With a space before it, the first word of a text has the same ids as elsewhere.
NORMALIZER = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
PRE_TOKENIZER = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(WORDS, "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
STEPS = repr((NORMALIZER, PRE_TOKENIZER))
KNOWN_CHARACTERS = 2**22  # in the words whose ids a process remembers: about 130 MB

UNUSUAL = "\U0010ffff"  # a character of no vocabulary
SPACE = "\u2581"  # a space in the name of a SentencePiece piece


class JsonModel:
    """The model in a tokenizer.json."""

    def __init__(self, text: str, isolated: str = "") -> None:
        """`isolated` is a character that is a word of its own.

        Raises ValueError if it is no tokenizer, if its first ids are not the special tokens, or if
        it drops merges at random: each encoding of a text would have other ids.
        """
        self._model = open_json(text)
        if dropout := getattr(self._model.model, "dropout", None):
            raise ValueError(f'it drops merges at random: set "dropout": {dropout:g} to null in it')
        own = repr((self._model.normalizer, self._model.pre_tokenizer)) == STEPS
        added = self._model.get_added_tokens_decoder().values()
        # With the steps of our own files, no token has a space after another character.
        self._cuts_at_spaces = own and all(token.special for token in added)
        self._known, self._characters = dict[str, list[int]](), 0
        if isolated:
            steps: list[Any] = [pre_tokenizers.Split(isolated, "isolated")]
            steps += filter(None, [self._model.pre_tokenizer])
            self._model.pre_tokenizer = pre_tokenizers.Sequence(steps)
        self._check_ids()
        try:
            self._model.encode(UNUSUAL)
            literals = self._model.encode(" ".join(SPECIAL_TOKENS), add_special_tokens=False).ids
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"it cannot encode text with unknown characters: {error}") from error
        self._finds_names = not {PAD, SOS, EOS}.isdisjoint(literals)

    def _check_ids(self) -> None:
        found = [self._model.id_to_token(i) or "none" for i in range(len(SPECIAL_TOKENS))]
        if found != SPECIAL_TOKENS:
            names = ", ".join(found)
            raise ValueError(
                f"its ids 0 to 3 are {names}: train it with special_tokens={SPECIAL_TOKENS}, in "
                "this order"
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
        """The ids of each line. A word that is in many texts is encoded once."""
        if not self._cuts_at_spaces:
            return self._encoded(lines)
        known = self._known
        split = [words if " ".join(words := line.split()) == line else [line] for line in lines]
        new = [*set(filterfalse(known.__contains__, chain.from_iterable(split)))]
        known.update(zip(new, self._encoded(new), strict=True))
        self._characters += sum(map(len, new))
        if self._characters > KNOWN_CHARACTERS:
            self._known, self._characters = {}, 0  # other threads still have the old ones
        return [list(chain.from_iterable(map(known.__getitem__, words))) for words in split]

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        encodings = self._model.encode_batch_fast(list(lines), add_special_tokens=False)
        return [self._without_names(encoding.ids) for encoding in encodings]

    def _without_names(self, ids: list[int]) -> list[int]:
        """The ids of a line, with [UNK] for the literal text of a special token."""
        return [UNK if i <= EOS else i for i in ids] if self._finds_names else ids

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return self._model.decode_batch(rows, skip_special_tokens=False)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        # Decoders may omit the space of a first token.
        before = self.decode([[0]])[0]
        return [text.removeprefix(before) for text in self.decode([[0, i] for i in ids])]

    def names(self) -> list[str]:
        return [str(self._model.id_to_token(i)) for i in range(len(self))]


def open_json(text: str) -> tokenizers.Tokenizer:
    """The tokenizer in a tokenizer.json, for whole lines. Raises ValueError if it is none."""
    try:
        model = tokenizers.Tokenizer.from_str(text)
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


class SentencePieceModel:
    """A SentencePiece model. Ids 0 to 3 are padding, unknown, start and end."""

    def __init__(self, data: bytes) -> None:
        """Raises ValueError if `data` is no model, or has other special ids."""
        self._processor = import_sentencepiece().SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(data)
        except RuntimeError as error:
            raise ValueError("it is not a SentencePiece model") from error
        ids = [getattr(self._processor, f"{role}_id")() for role in ROLES]
        if ids != [0, 1, 2, 3]:
            found = ", ".join(f"{role} {i}" for role, i in zip(ROLES, ids, strict=True))
            raise ValueError(
                f"its special ids are {found} (-1: none), but must be pad 0, unk 1, bos 2, eos 3: "
                "train it with --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"
            )

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self._processor.encode(list(lines), out_type=int)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self._processor.decode(list(row)) for row in rows]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        model = self._processor
        # `decode` omits the space at the start.
        return [
            model.decode([i])
            if model.is_byte(i) or model.is_unknown(i)
            else model.id_to_piece(i).replace(SPACE, " ")
            for i in map(int, ids)
        ]

    @property
    def adds_space(self) -> bool:
        """Whether it encodes a space before the text, and omits it when it decodes."""
        return self.names()[self.encode(["a"])[0][0]].startswith(SPACE)

    def names(self) -> list[str]:
        return self._processor.id_to_piece(list(range(len(self))))

    def scores(self) -> list[float]:
        """The log-probability of each piece; in a BPE model, minus the number of its merge."""
        return self._processor.get_score(list(range(len(self))))

    def is_bpe(self) -> bool:
        return all(score.is_integer() for score in self.scores())

    def is_byte(self, piece: int) -> bool:
        """Whether the piece is a byte, of a character without a piece."""
        return self._processor.is_byte(piece)


def import_sentencepiece() -> Any:
    """The library, an optional dependency. Raises UserError if it is not installed."""
    return import_optional("sentencepiece", "requirements-sentencepiece.txt")
