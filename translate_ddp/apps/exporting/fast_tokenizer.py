"""Our tokenizers as a tokenizer.json for `transformers`, with the same ids for any text.

It also normalizes text as `text.py` does, and appends the end marker.
"""

import json
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, processors
from tokenizers import Tokenizer as JsonTokenizer

from translate_ddp.data.json_model import open_json
from translate_ddp.data.sentencepiece_model import BLANK, SentencePieceModel
from translate_ddp.data.tokenizer import EOS, PAD, SOS, SPECIAL_TOKENS, UNK, Tokenizer
from translate_ddp.text import INVISIBLE, SPACES

ROLES = {"pad_token": PAD, "unk_token": UNK, "bos_token": SOS, "eos_token": EOS}


def tokenizer_json(tokenizer: Tokenizer) -> JsonTokenizer:
    """The tokenizer for one text at a time: normalizes it and appends the end marker."""
    is_other = tokenizer.is_sentencepiece
    model = _from_sentencepiece(tokenizer) if is_other else open_json(tokenizer.text)
    ours = [
        normalizers.Replace(Regex(INVISIBLE), ""),
        normalizers.NFC(),
        normalizers.Replace(Regex(SPACES), " "),
        normalizers.Strip(),
    ]
    own = [model.normalizer] if model.normalizer is not None else []
    model.normalizer = normalizers.Sequence([*ours, *own])
    end = special_names(tokenizer)[EOS]
    model.post_processor = processors.TemplateProcessing(
        single=["$A", end], pair=["$A", "$B", end], special_tokens=[(end, EOS)]
    )
    return model


def tokenizer_config(tokenizer: Tokenizer, seq_len: int) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    names = special_names(tokenizer)
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": seq_len,
        "split_special_tokens": True,  # the literal text "[EOS]" is text
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        **{role: names[i] for role, i in ROLES.items()},
    }


def special_names(tokenizer: Tokenizer) -> list[str]:
    """The names of ids 0 to 3 in tokenizer.json.

    A unigram model of `tokenizers` finds every name in the text, those of special tokens, too. A
    name with blanks is never found, since blanks are replaced in its text.
    """
    if tokenizer.is_sentencepiece:
        return [f"[ {name.strip('[]')} ]" for name in SPECIAL_TOKENS]
    return SPECIAL_TOKENS


def _from_sentencepiece(tokenizer: Tokenizer) -> JsonTokenizer:
    """A SentencePiece model without normalization, as `train_sentencepiece` makes.

    The literal name of a byte, such as <0x0A>, is text in SentencePiece and a byte here.
    """
    pieces = SentencePieceModel(tokenizer.file)
    names = special_names(tokenizer) + pieces.names()[len(SPECIAL_TOKENS) :]
    if pieces.is_bpe():
        model = JsonTokenizer(_bpe(pieces, names))
    else:
        vocabulary = list(zip(names, pieces.scores(), strict=True))
        model = JsonTokenizer(models.Unigram(vocabulary, unk_id=UNK, byte_fallback=True))
    to_name: list[Any] = [normalizers.Replace(" ", BLANK)]
    to_text: list[Any] = [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if pieces.adds_blank:
        to_name.append(normalizers.Prepend(BLANK))
        to_text.append(decoders.Strip(" ", 1, 0))
    model.normalizer = normalizers.Sequence(to_name)
    model.decoder = decoders.Sequence(to_text)
    model.add_special_tokens(special_names(tokenizer))
    return model


def _bpe(pieces: SentencePieceModel, names: list[str]) -> models.BPE:
    """The merges of a BPE model, which SentencePiece stores as the pieces that they make."""
    ids = {name: i for i, name in enumerate(names)}
    scores = pieces.scores()
    parts = {name for name, i in ids.items() if i > EOS and not pieces.is_byte(i)}
    merges = [
        (name[:cut], name[cut:])
        for name in sorted(parts, key=lambda name: (-scores[ids[name]], name))
        for cut in range(1, len(name))
        if name[:cut] in parts and name[cut:] in parts
    ]
    return models.BPE(ids, merges, unk_token=names[UNK], byte_fallback=True)


def as_text(model: JsonTokenizer) -> str:
    """The content of tokenizer.json."""
    return json.dumps(json.loads(model.to_str()), ensure_ascii=False, indent=1)
