"""SentencePiece, an extra: its import is the only one that needs requirements-sentencepiece.txt."""

import io
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from translate_ddp.errors import UserError

BLANK = "\u2581"  # a blank in the name of a piece
ROLES = ("pad", "unk", "bos", "eos")
MAX_LINE_BYTES = 100_000  # longer lines are skipped; a corpus has none


class SentencePieceModel:
    """A model as sentencepiece stores it. Ids 0 to 3 are padding, unknown, start and end."""

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
        names = model.id_to_piece([int(i) for i in ids])
        is_text = [not (model.is_byte(i) or model.is_unknown(i)) for i in map(int, ids)]
        # `decode` omits the blank at the start.
        return [
            name.replace(BLANK, " ") if text else model.decode([int(i)])
            for i, name, text in zip(ids, names, is_text, strict=True)
        ]

    @property
    def adds_blank(self) -> bool:
        """Whether it encodes a blank before the text, and omits it when it decodes."""
        return self.names()[self.encode(["a"])[0][0]].startswith(BLANK)

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


def train_sentencepiece(
    lines: Iterable[str], kind: Literal["unigram", "bpe"], vocab_size: int, names: Sequence[str]
) -> bytes:
    """A model with fallback to bytes, of at most `vocab_size` pieces.

    It encodes all text unchanged, except that U+2581 is decoded as a blank. `names` are those of
    ids 0 to 3. The same lines give the same bytes. Raises UserError if `vocab_size` is too small.
    """
    special: dict[str, Any] = {f"{role}_id": i for i, role in enumerate(ROLES)}
    special |= {f"{role}_piece": name for role, name in zip(ROLES, names, strict=True)}
    model = io.BytesIO()
    try:
        import_sentencepiece().SentencePieceTrainer.Train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=kind,
            vocab_size=vocab_size,
            hard_vocab_limit=False,  # a small corpus has fewer pieces
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            # As other programs have it: they join the tokens of sentences and expect blanks there.
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


def import_sentencepiece() -> ModuleType:
    """The library. Raises UserError if it is not installed."""
    try:
        return import_module("sentencepiece")
    except ImportError as error:
        raise UserError(
            "This tokenizer is a SentencePiece model: run "
            "pip install -r requirements-sentencepiece.txt to use it."
        ) from error
