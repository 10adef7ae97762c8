"""The attention of translations of the validation set, with tokens as text, for the report."""

from collections.abc import Sequence
from itertools import groupby

from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.tokenizer import EOS, SPACE, SPECIAL_TOKENS, Tokenizer
from translate_ddp.modeling.engine import cross_attention
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_record import Attention

MAX_TOKENS = 40  # of a sentence whose attention is a picture that can be read
DIGITS = 3  # of a weight
PART = "\ufffd"  # in the text of a token that has a part of a character
CONTINUED = "\u2026"  # later tokens of a character


def attention_of(
    model: Transformer, data: PreparedData, row: int, predicted: str
) -> Attention | None:
    """The cross-attention of a translation of that row of the validation set.

    None if source or translation is longer than `MAX_TOKENS` or empty.
    """
    source_ids = data.validation.source[row].tolist()
    (target_ids,) = data.tokenizer.encode([predicted])
    sizes = len(source_ids), len(target_ids)
    if min(sizes) == 0 or max(sizes) > MAX_TOKENS:
        return None
    (sentence,) = data.tokenizer.decode([source_ids])
    weights_TS = cross_attention(model, source_ids, target_ids).tolist()
    return Attention(
        [*token_texts(data.tokenizer, source_ids), SPECIAL_TOKENS[EOS]],
        [*token_texts(data.tokenizer, target_ids), SPECIAL_TOKENS[EOS]],
        [[round(weight, DIGITS) for weight in row] for row in weights_TS],
        sentence,
    )


def token_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """A readable text for each token, blanks as U+2581.

    Consecutive tokens with parts of characters have their text together, at the first of them; the
    others have an ellipsis.
    """
    texts: list[str] = []
    pieces = zip(tokenizer.pieces(ids), ids, strict=True)
    for is_part, group in groupby(pieces, key=lambda piece: PART in piece[0]):
        run = list(group)
        if is_part:
            (text,) = tokenizer.decode([[i for _, i in run]])
            texts += [text, *[CONTINUED] * (len(run) - 1)]
        else:
            texts += [text for text, _ in run]
    return [text.replace(" ", SPACE) for text in texts]
