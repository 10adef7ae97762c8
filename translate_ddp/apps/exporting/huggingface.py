"""Writes a folder that `transformers` opens: Pegasus weights, a fast tokenizer, a model card."""

import json
from pathlib import Path
from typing import Any

from translate_ddp.apps.exporting.fast_tokenizer import as_text, tokenizer_config, tokenizer_json
from translate_ddp.apps.exporting.huggingface_engine import HuggingFaceEngine
from translate_ddp.apps.exporting.model_card import huggingface_card
from translate_ddp.apps.exporting.pegasus import pegasus_config, pegasus_weights
from translate_ddp.apps.exporting.sentences import Sentences
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import (
    NotTheSame,
    Verification,
    verification_of,
    verify_equal,
)
from translate_ddp.data.tokenizer import EOS, PAD, SOS, UNK
from translate_ddp.errors import UserError
from translate_ddp.extras import import_extra
from translate_ddp.settings import SearchConfig
from translate_ddp.text import normalize

# Text that a tokenizer could take for special tokens, or normalize in another way.
ODD_TEXTS = ["[EOS]", "a [EOS] b [PAD] [SOS] [UNK]", " two  blanks\tand\na line ", "e\u0301", "😀"]


def write_huggingface(
    folder: Path, model: TrainedModel, sentences: Sentences, name: str
) -> Verification:
    """Fill the folder, which must exist, and verify that it is the same model.

    `name` is that of the model in its card.

    Raises NotTheSame if it is not, UserError if a library is not installed.
    """
    save = import_extra("safetensors.torch").save
    config = pegasus_config(model.shape, len(model.tokenizer), model.positions)
    weights = pegasus_weights(model.state.model, model.positions)
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    architecture = {"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus"}
    _write_json(folder / "config.json", {**architecture, "dtype": "float32", **config})
    _write_json(folder / "generation_config.json", generation_config(model))
    fast = as_text(tokenizer_json(model.tokenizer))
    (folder / "tokenizer.json").write_text(fast, encoding="utf-8")
    settings = tokenizer_config(model.tokenizer, model.seq_len)
    _write_json(folder / "tokenizer_config.json", settings)
    verification = verify_huggingface(folder, model, sentences)
    card = huggingface_card(model, verification, name)
    (folder / "README.md").write_text(card, encoding="utf-8")
    return verification


def generation_config(model: TrainedModel) -> dict[str, Any]:
    """The defaults of `generate`: the search of `translate`."""
    return {
        "pad_token_id": PAD,
        "bos_token_id": SOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": SOS,
        "forced_eos_token_id": None,
        "num_beams": SearchConfig.beam_width,
        "length_penalty": SearchConfig.length_penalty,
        "early_stopping": True,
        "max_length": model.positions - 1,
    }


def verify_huggingface(folder: Path, model: TrainedModel, sentences: Sentences) -> Verification:
    """Raises NotTheSame if the folder's model or tokenizer differs from the checkpoint's."""
    try:
        exported = HuggingFaceEngine(folder)
    except UserError:
        raise
    except Exception as error:  # the library raises many
        raise NotTheSame(f"transformers cannot open it ({error})") from error
    texts = [*ODD_TEXTS, *sentences.source_texts, *sentences.references]
    ids = model.tokenizer.encode([normalize(text) for text in texts])
    _check_ids(model, texts, [[*row, EOS] for row in ids], exported.encode(texts))
    # Without [UNK], which `skip_special_tokens` omits.
    known = [[i for i in row if i != UNK] for row in ids]
    if exported.decode(known) != model.tokenizer.decode(known):
        raise NotTheSame("its tokenizer decodes other text")
    translations, lines = verify_equal(model.engine(), exported, sentences)
    lines = [f"ids of {len(texts):,} texts are equal", *lines]
    language = model.languages[1]
    return verification_of(translations, lines, sentences, exported.decode, language)


def _check_ids(
    model: TrainedModel, texts: list[str], ours: list[list[int]], theirs: list[list[int]]
) -> None:
    different = [text for text, one, other in zip(texts, ours, theirs, strict=True) if one != other]
    if different and model.tokenizer.is_sentencepiece:
        raise UserError(
            f"This SentencePiece model has no equal in transformers: the ids of {len(different):,} "
            f"of {len(texts):,} texts differ, such as those of {different[0][:60]!r}. Models of "
            "--tokenizer sentencepiece have one. Export it with --format ctranslate2 or argos."
        )
    if different:
        raise NotTheSame(
            f"its tokenizer gives other ids to {len(different):,} of {len(texts):,} texts, such as "
            f"{different[0][:60]!r}"
        )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
