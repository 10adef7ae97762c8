"""A folder that `transformers` opens: Pegasus weights, a fast tokenizer, a model card.

Pegasus has our architecture: pre-norm, with ReLU if configured, tied embeddings times
sqrt(d_model), and sinusoids with all sines before all cosines. Besides the names, only our joint
matrix of keys and values, and their lack of a bias, differ.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Regex, decoders, models, normalizers, processors
from tokenizers import Tokenizer as JsonTokenizer
from torch import Tensor

from translate_ddp.apps.exporting.trained_model import (
    REQUIREMENTS,
    NotTheSame,
    Sentences,
    TrainedModel,
    Verification,
    model_card,
    verify_equal,
)
from translate_ddp.data.batches import pad
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.tokenizer import (
    EOS,
    NO_EXTRA_TOKENS,
    PAD,
    SOS,
    SPECIAL_TOKENS,
    UNK,
    ExtraTokens,
    Tokenizer,
)
from translate_ddp.data.tokenizer_models import SPACE, SentencePieceModel, open_json
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError, import_optional
from translate_ddp.modeling.engine import CPU_MAX_TOKENS, Ids, ignore, length_limit, longest_first
from translate_ddp.modeling.repetition import until_repetition
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.search_options import NBestConfig, SearchConfig
from translate_ddp.modeling.transformer import sinusoids
from translate_ddp.settings import ModelConfig
from translate_ddp.text import INVISIBLE, WHITE_SPACE, base_language, normalize

# Text that a tokenizer could take for special tokens, or normalize in another way.
ODD_TEXTS = ["[EOS]", "a [EOS] b [PAD] [SOS] [UNK]", " two  spaces\tand\na line ", "e\u0301", "😀"]
NAMES = {  # our part of a name -> theirs; norms first: their names contain other keys
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
    "encoder_layers": "model.encoder.layers",
    "decoder_layers": "model.decoder.layers",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "feed_forward.up": "fc1",
    "feed_forward.down": "fc2",
    "query": "q_proj",
    "out": "out_proj",
}
EMBEDDING = "model.shared.weight"  # shared by both sides and the output
SPECIAL_IDS = {
    "pad_token_id": PAD,
    "bos_token_id": SOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": SOS,
    "forced_eos_token_id": None,
}
NEVER = -1e4  # added to the logit of a token that is never generated; fp16 has it
ROLES = {"pad_token": PAD, "unk_token": UNK, "bos_token": SOS, "eos_token": EOS}


def write_huggingface(
    folder: Path, model: TrainedModel, sentences: Sentences, name: str
) -> Verification:
    """Make the folder, and verify that it is the same model. Its card has this `name`.

    Raises NotTheSame if it is not, UserError if a library is not installed.
    """
    save = import_optional("safetensors.torch", REQUIREMENTS).save
    folder.mkdir()
    facts = model.facts
    config = pegasus_config(model.shape, facts.num_tokens, model.positions)
    weights = pegasus_weights(model.state.model, model.positions)
    weights["final_logits_bias"][:, facts.num_outputs :] = NEVER
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    architecture = {"architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus"}
    _write_json(folder / "config.json", {**architecture, "dtype": "float32", **config})
    _write_json(folder / "generation_config.json", generation_config(model))
    settings = tokenizer_config(facts.tokenizer, model.seq_len)
    for subfolder, (_, target) in subfolders(model).items():
        content = tokenizer_json(facts.tokenizer, facts.extra, target).to_str()
        (folder / subfolder).mkdir(exist_ok=True)
        _write_json(folder / subfolder / "tokenizer.json", json.loads(content))
        _write_json(folder / subfolder / "tokenizer_config.json", settings)
    verification = verify_huggingface(folder, model, sentences)
    card = huggingface_card(model, verification, name)
    (folder / "README.md").write_text(card, encoding="utf-8")
    return verification


def subfolders(model: TrainedModel) -> dict[str, LanguagePair]:
    """The direction of the tokenizer in each folder; "" is the folder itself, of the first one."""
    directions, has_several = model.facts.directions, model.facts.has_several
    return {"": directions[0]} | {str(each): each for each in directions if has_several}


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def pegasus_config(shape: ModelConfig, vocabulary: int, positions: int) -> dict[str, Any]:
    """The settings of a `PegasusConfig`, with room for `positions` tokens a side."""
    return {
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "d_model": shape.d_model,
        "encoder_layers": shape.num_encoder_layers,
        "decoder_layers": shape.num_decoder_layers,
        "encoder_attention_heads": shape.num_heads,
        "decoder_attention_heads": shape.num_heads,
        "encoder_ffn_dim": shape.d_ff,
        "decoder_ffn_dim": shape.d_ff,
        "dropout": shape.dropout,
        "attention_dropout": shape.dropout,
        "activation_dropout": shape.dropout,
        "activation_function": "relu",
        "scale_embedding": True,
        "tie_word_embeddings": True,
        **SPECIAL_IDS,
    }


def generation_config(model: TrainedModel) -> dict[str, Any]:
    """The defaults of `generate`: the search of `translate`."""
    return {
        **SPECIAL_IDS,
        "num_beams": SearchConfig.beam_width,
        "length_penalty": SearchConfig.length_penalty,
        "early_stopping": True,
        "max_length": model.positions - 1,
    }


def pegasus_weights(state: Mapping[str, Tensor], positions: int) -> dict[str, Tensor]:
    """The tensors of a Pegasus by its names; of tied ones the first, EMBEDDING."""
    weights = dict(_renamed(state))
    # Stored, since theirs are computed in another precision.
    table_MD = sinusoids(0, positions, weights[EMBEDDING].shape[1], torch.device("cpu"))
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_positions.weight"] = table_MD.clone()
    return weights | {"final_logits_bias": torch.zeros(1, len(weights[EMBEDDING]))}


def _renamed(state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in state.items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        if name == "embedding.weight":
            yield EMBEDDING, tensor
        elif "key_value" in name:
            for theirs, matrix in zip(("k_proj", "v_proj"), tensor.chunk(2), strict=True):
                yield name.replace("key_value", theirs), matrix.contiguous()
                bias = name.replace("key_value.weight", f"{theirs}.bias")
                yield bias, matrix.new_zeros(len(matrix))  # ours has none
        else:
            yield name, tensor


def tokenizer_json(
    tokenizer: Tokenizer, extra: ExtraTokens = NO_EXTRA_TOKENS, target: str = ""
) -> JsonTokenizer:
    """The tokenizer for one text at a time, with the same ids for any text.

    It also normalizes text as `text.py` does, puts the tag of the target language before it, and
    appends the end marker.
    """
    is_other = tokenizer.is_sentencepiece
    model = _from_sentencepiece(tokenizer) if is_other else open_json(tokenizer.text)
    steps: list[Any] = [
        normalizers.Replace(Regex(INVISIBLE), ""),
        normalizers.NFC(),
        normalizers.Replace(Regex(WHITE_SPACE), " "),
        normalizers.Strip(),
    ]
    steps += [model.normalizer] if model.normalizer is not None else []
    model.normalizer = normalizers.Sequence(steps)
    model.add_special_tokens(list(extra.names))
    end, ids = special_names(tokenizer)[EOS], extra.tag(tokenizer, target)
    tag = [str(model.id_to_token(i)) for i in ids]
    model.post_processor = processors.TemplateProcessing(
        single=[*tag, "$A", end],
        pair=[*tag, "$A", "$B", end],
        special_tokens=[(end, EOS), *zip(tag, ids, strict=True)],
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

    A unigram model of `tokenizers` finds every name in the text, also of special tokens. A
    name with spaces is never found, since spaces are replaced in its text.
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
    to_name: list[Any] = [normalizers.Replace(" ", SPACE)]
    to_text: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if pieces.adds_space:
        to_name.append(normalizers.Prepend(SPACE))
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


def huggingface_card(model: TrainedModel, verification: Verification, name: str) -> str:
    """The card of a folder for `transformers`, with the header that the hub reads."""
    # Quoted: in YAML, the code of Norwegian is a truth value.
    codes = dict.fromkeys(map(base_language, model.facts.languages))
    languages = "".join(f'- "{code}"\n' for code in codes)
    first = f', subfolder="{model.facts.directions[0]}"' * model.facts.has_several
    card = f"""---
language:
{languages}library_name: transformers
pipeline_tag: translation
---

{model_card(model, verification)}
## Use

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{first})
model = AutoModelForSeq2SeqLM.from_pretrained("{name}")
inputs = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```

It translates one sentence at a time, of up to {model.facts.longest_source} tokens.
"""
    names = ", ".join(map(str, model.facts.directions))
    note = f"\nThe tokenizer of each direction puts its tag before the source: {names}.\n"
    note += f"Without a subfolder, it is the model of {model.facts.directions[0]}.\n"
    return card + note * model.facts.has_several


def verify_huggingface(folder: Path, model: TrainedModel, sentences: Sentences) -> Verification:
    """Raises NotTheSame if the folder's model or tokenizer differs from the checkpoint's."""
    transformers = import_optional("transformers", REQUIREMENTS)
    exported = HuggingFaceEngine(transformers, folder)
    texts = [*ODD_TEXTS, *model.facts.extra.names, *sentences.source_texts, *sentences.references]
    ids = model.facts.tokenizer.encode([normalize(text) for text in texts])
    # Without [UNK], whose name `transformers` writes.
    known = [[i for i in row if i != UNK] for row in ids]
    for subfolder, direction in subfolders(model).items():
        tokenizer = _open(transformers.AutoTokenizer, folder, subfolder=subfolder)
        expected = [[*model.facts.tag(direction), *row, EOS] for row in ids]
        _check_ids(model, texts, expected, tokenizer(texts)["input_ids"])
        if tokenizer.batch_decode(known) != model.facts.tokenizer.decode(known):
            raise NotTheSame("its tokenizer decodes other text")
    translations, lines = verify_equal(model.engine(), exported, sentences)
    lines = [f"ids of {len(texts):,} texts are equal", *lines]
    return Verification.of(lines, translations, sentences, model)


def _open(auto_class: Any, folder: Path, **settings: Any) -> Any:
    try:
        return auto_class.from_pretrained(folder, local_files_only=True, **settings)
    except Exception as error:  # the library raises many
        raise NotTheSame(f"transformers cannot open it ({error})") from error


def _check_ids(
    model: TrainedModel, texts: list[str], ours: list[list[int]], theirs: list[list[int]]
) -> None:
    different = [text for text, one, other in zip(texts, ours, theirs, strict=True) if one != other]
    if not different:
        return
    reason = (
        f"its tokenizer gives other ids to {len(different):,} of {len(texts):,} texts, such as "
        f"{different[0][:60]!r}"
    )
    if model.facts.tokenizer.is_sentencepiece:
        raise UserError(
            f"This SentencePiece model has no equal in transformers: {reason}. Models of "
            "--tokenizer sentencepiece have one. Export it with --format ctranslate2 or argos."
        )
    raise NotTheSame(reason)


class HuggingFaceEngine:
    """The model of a folder, in fp32 on the CPU. It translates greedily."""

    device = torch.device("cpu")

    def __init__(self, transformers: Any, folder: Path) -> None:
        log = transformers.utils.logging
        log.set_verbosity_error()
        log.disable_progress_bar()
        auto_class = transformers.AutoModelForSeq2SeqLM
        self.model: Any = _open(auto_class, folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def translate(
        self,
        sources: Ids,
        config: NBestConfig,
        on_done: Callable[[int], None] = ignore,
        unrepeated: int = 0,
    ) -> list[list[Hypothesis]]:
        assert config.beam_width == 1 and not config.temperature and not unrepeated
        found = [list[Hypothesis]()] * len(sources)
        for rows in longest_first(sources, CPU_MAX_TOKENS):
            batch = [sources[row] for row in rows]
            source_BS = pad(Ragged.of(batch), last=EOS)
            target_BT = self.model.generate(
                input_ids=source_BS,
                attention_mask=(source_BS != PAD).long(),
                num_beams=1,
                do_sample=False,
                early_stopping=False,  # True in the folder, for beam search
                max_new_tokens=length_limit(len(batch[0])),  # the first is the longest
            )
            for row, ids in zip(rows, target_BT[:, 1:].tolist(), strict=True):
                length = len(sources[row])
                ids = ids[: min([*ids, EOS].index(EOS), length_limit(length))] if length else []
                found[row] = [Hypothesis(until_repetition(ids), None)]  # where a search ends
            on_done(len(rows))
        return found

    @torch.inference_mode()
    def log_probs(
        self, sources: Ids, targets: Ids, on_done: Callable[[int], None] = ignore
    ) -> list[np.ndarray]:
        found: list[np.ndarray] = []
        for source, target in zip(sources, targets, strict=True):  # on a CPU as fast as batches
            source_1S, target_1T = torch.tensor([[*source, EOS]]), torch.tensor([[SOS, *target]])
            logits_TV = self.model(input_ids=source_1S, decoder_input_ids=target_1T).logits[0]
            labels_T1 = torch.tensor([*target, EOS])[:, None]
            found.append(logits_TV.log_softmax(dim=-1).gather(1, labels_T1)[:, 0].numpy())
            on_done(1)
        return found
