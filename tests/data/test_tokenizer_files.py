"""Tokenizers of other programs: what is rejected, and what in them has no effect."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as JsonTokenizer

from tests.helpers import processes
from translate_ddp.apps.exporting.huggingface_export import tokenizer_json
from translate_ddp.data.tokenizer import (
    EOS,
    PAD,
    SOS,
    SPECIAL_TOKENS,
    UNK,
    Tokenizer,
    build_tokenizer,
    existing_size,
    existing_tokenizer,
    loss_of,
    train_tokenizer,
)
from translate_ddp.errors import UserError
from translate_ddp.settings import TokenizerConfig

LINES = ["the cat sleeps in the house", "il gatto dorme nella casa", "no, perché?"] * 3
LONG = "the cat sleeps in the house and the cat sleeps in the garden"


def byte_level(
    add_prefix_space: bool = False, special: list[str] = SPECIAL_TOKENS
) -> JsonTokenizer:
    """A tokenizer as GPT-2's, which has 260 tokens and some merges."""
    model = JsonTokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    model.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model.train_from_iterator(
        LINES,
        trainers.BpeTrainer(
            vocab_size=270, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    return model


def words(unk_token: str | None, finds_names: bool = False) -> JsonTokenizer:
    model = JsonTokenizer(models.WordLevel(unk_token=unk_token))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.train_from_iterator(
        LINES, trainers.WordLevelTrainer(special_tokens=SPECIAL_TOKENS, show_progress=False)
    )
    if finds_names:  # they are only words of the vocabulary
        content = json.loads(model.to_str()) | {"added_tokens": []}
        return JsonTokenizer.from_str(json.dumps(content))
    return model


def given(path: Path, content: str) -> TokenizerConfig:
    path.write_text(content)
    return TokenizerConfig(tokenizer_file=str(path))


def with_gap() -> str:
    content = json.loads(byte_level().to_str())
    vocabulary: dict[str, int] = content["model"]["vocab"]
    vocabulary[max(vocabulary, key=lambda token: vocabulary[token])] = 5000
    return json.dumps(content)


def with_dropout() -> str:
    content = json.loads(byte_level().to_str())
    content["model"]["dropout"] = 0.25
    return json.dumps(content)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it is neither a SentencePiece model nor a tokenizer.json"),
        ('{"<unk>": 0, "the": 1}', "it is neither a SentencePiece model nor a tokenizer.json"),
        ("#version: 0.2\nt h\n", "it is neither a SentencePiece model nor a tokenizer.json"),
        (
            byte_level(special=["<s>", "<pad>", "</s>", "<unk>"]).to_str(),
            "its ids 0 to 3 are <s>, <pad>, </s>, <unk>: "
            "train it with special_tokens=['[PAD]', '[UNK]', '[SOS]', '[EOS]'], in this order",
        ),
        (
            byte_level(special=SPECIAL_TOKENS[::-1]).to_str(),
            "its ids 0 to 3 are [EOS], [SOS], [UNK], [PAD]: train it",
        ),
        (JsonTokenizer(models.BPE()).to_str(), "its ids 0 to 3 are none, none, none, none"),
        (with_gap(), "its 270 tokens must have the ids 0 to 269, but the largest is 5,000"),
        (with_dropout(), 'it drops merges at random: set "dropout": 0.25 to null in it'),
        (words(unk_token="<unk>").to_str(), "it cannot encode text with unknown characters"),
    ],
    ids="empty vocabulary codes special order untrained gap dropout unknown".split(),
)
def test_unusable_file_is_reported_with_what_to_do(tmp_path: Path, content: str, problem: str):
    config = given(tmp_path / "other.json", content)
    message = f"--tokenizer_file {tmp_path}/other.json cannot be used as tokenizer: {problem}"
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        build_tokenizer(LINES, config, "en-it")
    assert "pass a path without a file: a tokenizer is trained" in str(raised.value)
    assert (tmp_path / "other.json").read_text() == content


def test_bytes_that_are_no_text_are_reported(tmp_path: Path):
    (tmp_path / "model.json").write_bytes(b"PK\x03\x04\xff")
    config = TokenizerConfig(tokenizer_file=str(tmp_path / "model.json"))
    with pytest.raises(UserError, match="it is neither a SentencePiece model nor"):
        build_tokenizer(LINES, config, "en-it")


def truncate(model: JsonTokenizer) -> None:
    model.enable_truncation(5)


def pad(model: JsonTokenizer) -> None:
    model.enable_padding(length=100, pad_id=PAD, pad_token="[PAD]")


def add_markers(model: JsonTokenizer) -> None:
    model.post_processor = processors.TemplateProcessing(
        single="[SOS] $A [EOS]", special_tokens=[("[SOS]", SOS), ("[EOS]", EOS)]
    )


def add_special(model: JsonTokenizer) -> None:
    model.add_special_tokens(["cat", AddedToken(" the", lstrip=True, special=True)])


@pytest.mark.parametrize("change", [truncate, pad, add_markers, add_special])
def test_truncation_padding_and_markers_of_the_file_have_no_effect(
    change: Callable[[JsonTokenizer], None],
):
    model = byte_level()
    expected = model.encode(LONG).ids
    change(model)
    assert model.encode(LONG).ids != expected
    tokenizer = Tokenizer(model.to_str())
    assert tokenizer.encode([LONG, "the"])[0] == expected
    assert tokenizer_json(tokenizer).encode(LONG).ids == [*expected, EOS]


def test_names_of_special_tokens_that_are_words_of_the_vocabulary_become_unknown():
    # Otherwise the text "[EOS]" in a corpus would end its sentence.
    model = words(unk_token="[UNK]", finds_names=True)
    assert model.encode("cat [EOS] [PAD]").ids[1:] == [EOS, PAD]
    (ids,) = Tokenizer(model.to_str()).encode(["cat [EOS] [PAD] [SOS]"])
    assert ids[1:] == [UNK] * 3 and ids[0] > EOS


def test_changed_text_is_described_with_an_example():
    model = byte_level()
    model.normalizer = normalizers.Lowercase()
    lines = ["no", "a line that ends in Rome, Italy", "a longer line that also ends in Italy"]
    assert loss_of(Tokenizer(byte_level().to_str()), lines) is None
    loss = loss_of(Tokenizer(model.to_str()), lines)
    assert loss is not None
    assert (
        "changes the text of 2 of 3 lines, such as 't ends in Rome, Italy' to 't ends in rome"
        in loss
    )
    model.normalizer = normalizers.Replace(" and more", "")
    loss = loss_of(Tokenizer(model.to_str()), [f"{lines[2]} and more"])
    assert loss is not None and "'s in Italy and more' to 's in Italy'" in loss
    unknown = loss_of(train_tokenizer(LINES, TokenizerConfig(tokenizer="word")), ["the dog"])
    assert unknown is not None and "1 of 1 lines, such as 'the dog' to 'the [UNK]'" in unknown


def test_blank_at_the_start_is_no_loss():
    # Translations are normalized.
    tokenizer = Tokenizer(byte_level(add_prefix_space=True).to_str())
    assert tokenizer.decode(tokenizer.encode(["the cat"])) == [" the cat"]
    assert loss_of(tokenizer, ["the cat"]) is None


def numbers(size: int) -> str:
    """A tokenizer of that many tokens."""
    vocabulary = {name: i for i, name in enumerate([*SPECIAL_TOKENS, *map(str, range(size - 4))])}
    return JsonTokenizer(models.WordLevel(vocabulary, unk_token="[UNK]")).to_str()


def test_size_of_the_file_must_not_exceed_a_given_one(tmp_path: Path):
    path = tmp_path / "other.json"
    config = TokenizerConfig(vocab_size=300, tokenizer_file=str(path))
    assert existing_size(config, "en-it", is_given=True) == 0
    path.write_text(numbers(270))
    assert existing_size(config, "en-it", is_given=True) == 270
    path.write_text(numbers(404))
    assert existing_size(config, "en-it", is_given=False) == 404
    with pytest.raises(UserError, match=r"--vocab_size is 300, .* has 404 tokens: omit"):
        existing_size(config, "en-it", is_given=True)


@pytest.mark.slow
def test_run_takes_the_size_of_the_file(tiny_run: list[str], tmp_path: Path):
    path = tmp_path / "other.json"
    path.write_text(numbers(6000))  # more than the preset's
    flags = [*tiny_run, "--tokenizer_file", str(path), "--max_steps", "4"]
    output = processes.train(flags, tmp_path / "output").fail()
    assert "--vocab_size is 300, but --tokenizer_file" in output and "Traceback" not in output
    assert not (tmp_path / "model" / "data").exists()
    at = flags.index("--vocab_size")
    del flags[at : at + 2]
    output = processes.train(flags, tmp_path / "output", size=2).succeed()
    assert re.search(r"vocabulary +6,000\n", output)
    settings = tmp_path / "model" / "config.yaml"
    assert yaml.safe_load(settings.read_text())["vocab_size"] == 6000
    again = ["--config", str(settings), "--max_steps", "5"]
    assert "vocab_size" not in processes.train(again, tmp_path / "output").succeed()


def test_missing_sentencepiece_model_is_not_written_as_bpe(tmp_path: Path):
    # A typo in the name of a model once trained another tokenizer.
    config = TokenizerConfig(tokenizer_file=str(tmp_path / "spn.model"))
    with pytest.raises(UserError, match="There is no --tokenizer_file .*spn.model"):
        existing_tokenizer(config, "en-de")
