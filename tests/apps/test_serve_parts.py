"""Parts of the server: words, languages, limits, and a library that is missing."""

import math
import sys
from pathlib import Path

import langcodes
import pytest

from translate_ddp.apps.commands import serve
from translate_ddp.apps.serving.requests import (
    find_language,
    menu_name,
    public_codes,
)
from translate_ddp.apps.serving.words import Word, words_of
from translate_ddp.decoding import Sentence
from translate_ddp.errors import UserError
from translate_ddp.translator import Translation, Translator


def translation(*sentences: list[tuple[str, float]], text: str) -> Translation:
    """A translation whose tokens have these probabilities."""
    return Translation(
        text,
        [
            Sentence("", "", [t for t, _ in tokens] + [""], [math.log(p) for _, p in tokens] + [-9])
            for tokens in sentences
        ],
    )


def rounded(words: list[Word]) -> list[tuple[str, float]]:
    return [(text, round(probability, 6)) for text, probability in words]


def test_probability_of_a_word_is_the_product_of_its_tokens():
    found = translation(
        [("The", 0.5), (" li", 0.5), ("on", 0.5), (".", 0.5)],
        [("Go", 0.2), ("!", 0.5)],
        text="The lion. Go!",
    )
    assert rounded(words_of(found, "en")) == [("The ", 0.5), ("lion. ", 0.125), ("Go!", 0.1)]


def test_bytes_of_a_character_count_for_their_word():
    tokens = [("caff", 0.5), ("\ufffd", 0.5), ("\ufffd", 0.5), (" ", 0.5), ("ne", 0.5), ("ro", 1.0)]
    found = words_of(translation(tokens, text="caffè nero"), "it")
    assert [word.text for word in found] == ["caffè ", "nero"]
    assert math.prod(word.probability for word in found) == pytest.approx(0.5**5)
    assert found[0].probability <= 0.5**3


def test_a_mark_that_is_composed_does_not_lose_the_place():
    tokens = [("e", 0.5), ("\u0301", 0.5), (" a", 0.25), (" a", 1.0)]
    assert rounded(words_of(translation(tokens, text="é a a"), "fr")) == [
        ("é ", 0.25),
        ("a ", 0.25),
        ("a", 1.0),
    ]


def test_words_of_a_language_without_spaces_are_tokens():
    found = translation([("今日", 0.5), ("は", 0.25)], [("晴れ", 1.0)], text="今日は晴れ")
    assert rounded(words_of(found, "ja")) == [("今日", 0.5), ("は", 0.25), ("晴れ", 1.0)]
    assert words_of(Translation("", []), "ja") == words_of(Translation("", []), "en") == []


def test_words_of_a_model_have_all_its_text_and_probability(trained: Path):
    texts = ["sun moon river. Tree", "caf\u00e9 \u2603 wolf", "stone"]
    for ((found,),) in zip(Translator.open(str(trained)).translate(texts, n_best=1), strict=True):
        words = words_of(found, "it")
        assert "".join(word.text for word in words) == found.text != ""
        tokens = sum(p for sentence in found.sentences for p in sentence.log_probs[:-1])
        assert math.log(math.prod(word.probability for word in words)) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("en", "en_US", True),
        ("en-GB", "en_US", True),
        ("EN", "en", True),
        ("en", "de", False),
        ("zh", "zh_CN", True),
        ("zh-Hans", "zh_CN", True),
        ("zh_TW", "zh_CN", False),
        ("zt", "zh_TW", True),
        ("zt", "zh-Hans", False),
        ("pb", "pt", True),
        ("sr@latin", "sr_Cyrl", True),  # as CLDR: who reads one reads the other
        ("sr", "sr_Cyrl", True),
        ("de", "deu_Latn", True),
        ("cmn_Hans", "zho_TW", False),
    ],
)
def test_codes_of_one_language_are_equal_but_for_regions(one: str, other: str, same: bool):
    assert bool(find_language(one, [other])) == bool(find_language(other, [one])) == same


def test_codes_of_requests_are_not_kept_for_ever():
    kept = langcodes.Language._PARSE_CACHE
    kept.update({(f"xx-{number}", True): langcodes.get("xx") for number in range(20_000)})
    assert find_language("de-AT", ["en", "de"]) == "de" and len(kept) < 100


@pytest.mark.parametrize(
    ("code", "languages", "place"),
    [
        ("en", ("en_US", "it"), 0),
        ("it-IT", ("en_US", "it"), 1),
        ("fr", ("en_US", "it"), None),
        ("lg", ("en", "hau", "lug"), 2),
        ("pt-PT", ("pt_BR", "pt_PT"), 1),
        ("pb", ("pt_PT", "pt_BR"), 1),
        ("zh-Hant", ("zh", "zh_Hant"), 1),
        ("zh", ("zh_Hant", "zh"), 1),
        ("zt", ("zh", "zh_TW"), 1),
        ("zh-CN", ("zh_Hant", "zh_Hans"), 1),
        ("mendari", ("en", "Mendari"), 1),  # a name that is no code
        ("minas", ("en", "Mendari"), None),
        ("de-bavarian", ("de", "de_bavarian"), 1),
        ("de", ("de_bavarian", "de"), 1),
    ],
)
def test_code_names_the_closest_of_two_varieties(
    code: str, languages: tuple[str, ...], place: int | None
):
    assert find_language(code, languages) == ("" if place is None else languages[place])


def test_public_codes_have_a_region_only_where_it_is_needed():
    codes = ["en_US", "it_IT", "fra_Latn", "zh_Hans", "zh_Hant"]
    assert list(public_codes(codes).values()) == ["en", "it", "fr", "zh-Hans", "zh-Hant"]
    names = ["en", "Mendari", "de_bavarian", "sr@latin"]
    assert list(public_codes(names).values()) == ["en", "mendari", "de-bavarian", "sr"]
    assert all(find_language(public_codes(names)[name], names) == name for name in names)
    assert menu_name("it") == "Italian"
    assert menu_name("zh-Hant") == "Chinese (zh-Hant)"
    assert menu_name("pcm") == "Nigerian Pidgin"
    assert menu_name("qxx") == "qxx"


def test_missing_library_is_one_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "python_multipart", None)  # as if it were not installed
    install = "pip install -r requirements-serve.txt"
    with pytest.raises(UserError, match=f"python-multipart is not installed: run {install}"):
        serve.run(serve.ServeConfig())
