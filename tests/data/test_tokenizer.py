"""Round trips of text, special tokens, and the tokenizer file."""

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import pre_tokenizers

from tests.helpers.commands import ROOT
from tests.helpers.texts import ODD_TEXTS, SCRIPTS
from translate_ddp.data import tokenizer_models
from translate_ddp.data.tokenizer import (
    EOS,
    PAD,
    SOS,
    UNK,
    Tokenizer,
    build_tokenizer,
    load_tokenizer,
    text_of,
    train_tokenizer,
)
from translate_ddp.errors import UserError
from translate_ddp.settings import TokenizerConfig

LINES = ["the cat sleeps in the house", "il gatto dorme nella casa", "perché no?"] * 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, TokenizerConfig(vocab_size=300))


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "sentencepiece_bpe"])
def test_any_text_is_decoded_as_it_is_and_special_tokens_are_text(
    kind: Literal["bpe", "sentencepiece", "sentencepiece_bpe"],
):
    if kind != "bpe":
        pytest.importorskip("sentencepiece")
    # Otherwise the text "[EOS]" in a corpus would end its sentence.
    tokenizer = train_tokenizer(LINES, TokenizerConfig(tokenizer=kind, vocab_size=300))
    texts = ["", "two  spaces\tand a tab", " edges ", "a [EOS] b [PAD] [SOS] [UNK]"]
    texts += [*SCRIPTS, *ODD_TEXTS]
    if kind == "bpe":  # exact up to NFC
        texts = [normalize("NFC", text) for text in texts]
        assert tokenizer.encode(["perche\u0301"]) == tokenizer.encode(["perché"])
    ids = tokenizer.encode(texts)
    assert tokenizer.decode(ids) == texts
    assert not {PAD, UNK, SOS, EOS} & {i for row in ids for i in row}
    assert tokenizer.decode([[SOS, *ids[3], EOS, PAD]]) == texts[3:4]
    assert tokenizer.encode([]) == tokenizer.decode([]) == [] and tokenizer.decode([[]]) == [""]


@pytest.mark.parametrize("text", SCRIPTS)
def test_frequent_word_of_any_script_becomes_one_token(text: str):
    # Also with vowel signs, accents and joiners, at which GPT-2's pattern cuts it.
    text = unicodedata.normalize("NFC", text)
    tokenizer = train_tokenizer([text] * 10, TokenizerConfig(vocab_size=2000))
    (ids,) = tokenizer.encode([text])
    words = re.findall(r" ?[\w\u200c\u200d]+| ?[^\w ]+", " " + without_marks(text))
    assert [without_marks(piece) for piece in tokenizer.pieces(ids)] == words


def test_first_word_has_the_ids_of_the_same_word_elsewhere(tokenizer: Tokenizer):
    gatto, il_gatto = tokenizer.encode(["gatto", "il gatto"])
    assert il_gatto[-len(gatto) :] == gatto
    assert tokenizer.decode([gatto]) == ["gatto"]


def without_marks(text: str) -> str:
    """The text without the characters that `re` does not count as parts of a word."""
    return "".join(c for c in text if unicodedata.category(c)[0] != "M")


@pytest.mark.parametrize("known_characters", [0, 2**22])
@pytest.mark.parametrize("kind", ["bpe", "a token with a space", "no words"])
def test_ids_are_those_that_the_library_gives_whole_texts(
    kind: str, known_characters: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tokenizer_models, "KNOWN_CHARACTERS", known_characters)
    texts = [
        *SCRIPTS,
        *ODD_TEXTS,
        *LINES,
        "",
        " ",
        "a  b",
        " a",
        "a ",
        "a\xa0b",
        "a\u3000 b",
        "a\tb",
    ]
    texts += ["a \u0301b", "\u0301 \u0301", "a \u200db", "[EOS] [UNK]", "der\x1c \x85Hund"]
    library = Library.from_str(
        train_tokenizer([*LINES, *SCRIPTS] * 3, TokenizerConfig(vocab_size=700)).text
    )
    if kind == "a token with a space":
        library.add_tokens(["in the"])
    if kind == "no words":
        library.pre_tokenizer = pre_tokenizers.ByteLevel(False, use_regex=False)
    tokenizer = Tokenizer(library.to_str())
    library.encode_special_tokens = True
    expected = [library.encode(text, add_special_tokens=False).ids for text in texts]
    for _ in range(2):  # then words are known
        assert tokenizer.encode(texts) == expected
    assert [row for text in texts for row in tokenizer.encode([text])] == expected


def test_word_tokenizer_decodes_unknown_words_as_unk():
    tokenizer = train_tokenizer(LINES, TokenizerConfig(tokenizer="word"))
    (ids,) = tokenizer.encode(["the dog sleeps"])
    assert ids[1] == UNK
    assert tokenizer.decode([ids]) == ["the [UNK] sleeps"]


def test_training_does_not_depend_on_threads_or_the_seed_of_hashes():
    program = (
        "import sys; from translate_ddp.data.tokenizer import *\n"
        "lines = [f'{a}{b} {b}{a}' for a in 'abcdefgh' for b in 'ijklmnopqrst'] * 2\n"
        "for kind in ('bpe', 'word'):\n"
        "    config = TokenizerConfig(tokenizer=kind, vocab_size=400)\n"
        "    print(train_tokenizer(lines, config).fingerprint)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"RAYON_NUM_THREADS": str(threads), "PYTHONHASHSEED": str(threads)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in (1, 2, 5)
    }
    assert len(found) == 1


def test_tokenizer_file_is_written_once_then_loaded(tmp_path: Path, tokenizer: Tokenizer):
    config = TokenizerConfig(vocab_size=300, tokenizer_file=str(tmp_path / "tokenizer_{0}.json"))
    written = build_tokenizer(LINES, config, "en-it")
    assert load_tokenizer(tmp_path / "tokenizer_en-it.json").text == written.text
    other_lines = ["something else entirely"] * 5
    assert build_tokenizer(other_lines, config, "en-it").text == tokenizer.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokenizer_en-it.json"]


def test_error_for_unwritable_file_names_it(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    config = TokenizerConfig(vocab_size=300, tokenizer_file=str(tmp_path / "taken" / "{0}.json"))
    with pytest.raises(UserError, match=r"--tokenizer_file .*en-it\.json cannot be written"):
        build_tokenizer(LINES, config, "en-it")


def test_sentencepiece_model_without_its_library_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)  # as if it were not installed
    with pytest.raises(UserError, match="pip install -r requirements-sentencepiece.txt"):
        Tokenizer(text_of(b"\nmodel"))
