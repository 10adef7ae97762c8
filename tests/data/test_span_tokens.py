"""Span tokens: encoded beside text and decoded, and set in training pairs on both sides alike."""

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from tests.helpers.corpora import write_parallel
from tests.helpers.texts import SCRIPTS
from translate_ddp.data import pair_store, preparation, span_pairs
from translate_ddp.data.dataset import ParallelDataset, load_prepared
from translate_ddp.data.preparation import Encoder, prepare
from translate_ddp.data.span_pairs import SpanPairs
from translate_ddp.data.tagged_corpus import TaggedPairs
from translate_ddp.data.tokenizer import (
    NO_EXTRA_TOKENS,
    SPAN_TOKENS,
    SPECIAL_TOKENS,
    ExtraTokens,
    Tokenizer,
    train_tokenizer,
)
from translate_ddp.directions import LanguagePair
from translate_ddp.runtime.workers import map_in_processes
from translate_ddp.settings import Config, CorpusConfig, TokenizerConfig
from translate_ddp.spans import MARK
from translate_ddp.text import normalize
from translate_ddp.training.fine_tuning import choose_extra_tokens

EN_DE = LanguagePair("en", "de")
LINES = ["The old Doctor opens the door, now.", "Der alte Arzt öffnet die Tür.", "(%) <a b>"]
# Their first byte is also the first of MARK, so that it becomes one token with the space before it.
LINES += ["a ， b ﹐ c ￥ d ｡"] * 9
SPANS = ExtraTokens(SPAN_TOKENS)


def trained(kind: str = "bpe") -> Tokenizer:
    if kind.startswith("sentencepiece"):
        pytest.importorskip("sentencepiece")
    settings: dict[str, Any] = {"tokenizer": kind, "vocab_size": 700}
    return train_tokenizer([*LINES, *SCRIPTS] * 3, TokenizerConfig(**settings))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return trained()


# --- ids ---


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "sentencepiece_bpe"])
def test_text_around_span_tokens_is_exact_in_any_script(kind: str):
    tokenizer = trained(kind)
    size, texts, numbers = len(tokenizer), list[str](), list[list[int]]()
    for line in [*map(normalize, SCRIPTS), *LINES, "[P1] [EOS] [P8]"]:
        half = len(line) // 2
        cuts = [line.replace(" ", f" {MARK} ", 1), f"{MARK}{line}{MARK}", f"{MARK} {line} {MARK}"]
        texts += [line, MARK, *cuts, f"{line[:half]}{MARK}{line[half:]}"]
    numbers = [[n % 8, (n + 3) % 8][: text.count(MARK)] for n, text in enumerate(texts)]
    rows = tokenizer.encode_marked(texts, numbers)
    assert [[i - size for i in row if i >= size] for row in rows] == numbers
    assert tokenizer.decode_marked(rows) == list(zip(texts, numbers, strict=True))
    # The text before and after has the ids that it has without spans.
    first, second = tokenizer.encode(["Open the ", "door, now."])
    (row,) = tokenizer.encode_marked([f"Open the {MARK} door, now."], [[6]])
    assert row == [*first, size + 6, *second]
    assert tokenizer.encode_marked([f"a {MARK * 3} b"], [[2]]) == tokenizer.encode_marked(
        [f"a {MARK} b"], [[2]]
    )
    # No text is a span token, and a span token is no text.
    assert max(map(max, tokenizer.encode([MARK, *SPAN_TOKENS]))) < size
    assert tokenizer.decode([row]) == ["Open the  door, now."]
    assert tokenizer.pieces([size, size + 9]) == ["", ""]
    # A model may write the character itself.
    (spelled,) = tokenizer.encode([f"a{MARK}"])
    assert tokenizer.decode_marked([[*spelled, size]]) == [("a", [])]


def with_pre_tokenizer(pre_tokenizer: Any, decoder: Any) -> Tokenizer:
    model = tokenizers.Tokenizer(models.BPE(byte_fallback=True))
    model.pre_tokenizer, model.decoder = pre_tokenizer, decoder
    names = [*SPECIAL_TOKENS, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(special_tokens=names, show_progress=False)  # pyright: ignore
    model.train_from_iterator(LINES, trainer)
    return Tokenizer(model.to_str())


def test_run_has_span_tokens_if_its_tokenizer_keeps_text_around_them(tmp_path: Path):
    def chosen(kind: str = "bpe", **settings: Any) -> ExtraTokens:
        tokenizer = TokenizerConfig(tokenizer=kind, **settings)  # pyright: ignore
        corpus = CorpusConfig(("a",), "", ("en",), ("de",))
        return choose_extra_tokens(Config(corpus=corpus, tokenizer=tokenizer), None)

    for kind in ("bpe", "sentencepiece", "sentencepiece_bpe", "word"):
        assert trained(kind).can_mark == (kind != "word")
        assert chosen(kind) == (SPANS if kind != "word" else NO_EXTRA_TOKENS)
    # It puts a space before each part of a text.
    adds_space = with_pre_tokenizer(
        pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    )
    (tmp_path / "t.json").write_text(adds_space.text)
    assert chosen(tokenizer_file=str(tmp_path / "t.json")) == NO_EXTRA_TOKENS
    named = tokenizers.Tokenizer.from_str(trained().text)
    named.add_special_tokens(["[P1]"])
    assert not Tokenizer(named.to_str()).can_mark


# --- training pairs ---


def encoded(
    tokenizer: Tokenizer, pairs: list[tuple[str, str]], seq_len: int = 100, **settings: Any
) -> Any:
    """The pairs as the preparation encodes them, with the tag of their dataset."""
    encoder = Encoder(tokenizer.text, seq_len, **settings, lexicons={EN_DE: {}})
    return encoder(TaggedPairs(pairs, "<bt> ", EN_DE, (), 0))


def decoded(tokenizer: Tokenizer, data: ParallelDataset) -> list[list[tuple[str, list[int]]]]:
    """Text with MARKs and numbers of each side of each pair."""
    rows = [[side[n].tolist() for n in range(len(side))] for side in (data.source, data.target)]
    return [list(pair) for pair in zip(*map(tokenizer.decode_marked, rows), strict=True)]


@pytest.mark.usefixtures("all_are_marked")
def test_spans_that_stand_once_on_both_sides_are_tokens(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(span_pairs, "SHARE", 0.0)
    link, tags = "https://a.org/b?c=1", ("<b>", "</b>")
    pairs = [
        (f"See {link}, {{name}}.", f"{{name}}, siehe {link}."),
        (f"See {link}.", "Siehe https://a.org/other."),
        ("%s and %s", "%s und %s"),  # which is which?
        (f"{tags[0]}Open{tags[1]} it %s", f"%s {tags[0]}Öffne{tags[1]} es"),
        ("<i><b>x</b></i> y", "<i><b>x</b> </i>y"),
        ("no span", "keine"),
        (" ".join(f"{{n{n}}}" for n in range(9)), " ".join(f"{{n{n}}}" for n in range(9))),
    ]
    found = decoded(tokenizer, encoded(tokenizer, pairs).pairs)
    texts = [tuple(text for text, _ in pair) for pair in found]
    m = MARK
    assert texts[0] == (f"<bt> See {m}, {m}.", f"{m}, siehe {m}.")
    assert texts[1:3] == [(f"<bt> {source}", target) for source, target in pairs[1:3]]
    assert texts[3] == (f"<bt> {m}Open{m} it {m}", f"{m} {m}Öffne{m} es")
    assert texts[4] == (f"<bt> {m}x</b></i> y", f"{m}x</b> </i>y")  # adjacent tags are one span
    assert texts[5:] == [(f"<bt> {source}", target) for source, target in pairs[5:]]
    # A span has the same token on both sides.
    (_, (one, other)), (_, (other_there, one_there)) = found[0]
    assert (one, other) == (one_there, other_there) and one != other
    (_, (start, end, third)), (_, (third_there, *both)) = found[3]
    assert [start, end, third] == [*both, third_there] and len({start, end, third}) == 3


def test_half_of_the_pairs_keep_their_spans_as_text():
    pairs = [(f"see {{n{n}}}", f"siehe {{n{n}}}") for n in range(2000)]
    spans = SpanPairs(pairs, EN_DE, 0, {})
    kept = [
        [each.texts == pair for each, pair in zip(spans.form(n), pairs, strict=True)]
        for n in (0, 1)
    ]
    assert all(0.41 < sum(form) / 2000 < 0.49 for form in kept)  # others of them have set spans
    assert 0.4 < sum(a == b for a, b in zip(*kept, strict=True)) / 2000 < 0.6


def test_share_of_pairs_has_set_spans_that_do_not_depend_on_batches(tokenizer: Tokenizer):
    ns = [n % 1000 for n in range(4000)]
    pairs = [(f"the Berlin of x{n} opens.", f"das Berlin von x{n} öffnet.") for n in ns]
    found = SpanPairs(pairs, EN_DE, 0, {}).form(0)
    parts = (SpanPairs(pairs[first:][:1000], EN_DE, first, {}) for first in range(0, 4000, 1000))
    assert found == [pair for part in parts for pair in part.form(0)]
    marked = [pair for pair in found if pair.numbers[0]]
    assert 0.08 < len(marked) / len(pairs) < 0.12
    assert SpanPairs(pairs, EN_DE, 0, {}).form(1) != found  # another form has other spans
    # Each token is trained about as often.
    counts = Counter(number for pair in marked for number in pair.numbers[0])
    assert {*counts} == {*range(8)} and max(counts.values()) < 2 * min(counts.values())


def forms(
    pair: tuple[str, str], lexicon: dict[str, str], languages: tuple[str, str] = EN_DE
) -> Counter[tuple[str, ...]]:
    """Both sides of the pair with @ for set spans, in 2,000 rows."""
    found = SpanPairs([pair] * 2000, languages, 0, lexicon).form(0)
    assert all(sorted(each.numbers[0]) == sorted(each.numbers[1]) for each in found)
    return Counter(tuple(text.replace(MARK, "@") for text in each.texts) for each in found)


@pytest.fixture
def all_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_pairs, "MARKED", 1.0)


BESIDE = [("@ {}", "@ {}"), ("{} @", "{} @"), ("{} @.", "{} @.")]


def beside(source: str, target: str) -> set[tuple[str, ...]]:
    """The forms with a span beside both texts, or before the full stops."""
    both = source.removesuffix("."), target.removesuffix(".")
    with_stops = {(a.format(f"{both[0]}."), b.format(f"{both[1]}.")) for a, b in BESIDE[:2]}
    return {*with_stops, (f"{both[0]} @.", f"{both[1]} @.")}


@pytest.fixture
def all_have_set_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_pairs, "SHARE", 1.0)


@pytest.mark.usefixtures("all_have_set_spans", "all_are_marked")
def test_set_spans_stand_at_names_of_both_sides_or_beside_the_text():
    # The first word of a sentence is no name, nor is a short word that both sides have.
    found = forms(("We met Ana in it.", "Ana traf uns in it."), {})
    assert {*found} == beside("We met Ana in it.", "Ana traf uns in it.")
    found = forms(("We saw Ana.", "So sah Ana."), {})
    at_name = {("We saw @.", "So sah @."), ("We saw @Ana@.", "So sah @Ana@.")}
    at_name |= {("We saw @ Ana.", "So sah @ Ana.")}
    assert {*found} == at_name | beside("We saw Ana.", "So sah Ana.")
    assert 0.63 < sum(found[form] for form in at_name) / 2000 < 0.7
    assert 0.4 < found["We saw @Ana@.", "So sah @Ana@."] / sum(map(found.get, at_name)) < 0.6  # pyright: ignore
    # No space where the language has none, and no adjacent spans, which would be one token.
    assert {*forms(("Go", "去"), {}, ("en", "zh"))} == {("@ Go", "@去"), ("Go @", "去@")}
    assert {*forms(("{a} x", "{a}去"), {}, ("en", "zh"))} == {("@ x", "@去"), ("@ x @", "@去@")}
    # What a span holds is no word of the sentence.
    hidden = forms(('<a href="Paris">is old', '<a href="Paris">ist alt'), {})
    assert not any("@@" in source or "Paris" in source for source, _ in hidden)


@pytest.mark.slow
@pytest.mark.usefixtures("all_have_set_spans")
def test_set_spans_stand_at_phrases_whose_words_the_lexicon_translates(
    monkeypatch: pytest.MonkeyPatch,
):
    lexicon = {"old": "alte", "dog": "hund", "sleeps": "schläft", "here": "hier"}
    pair = "My Old dog sleeps here.", "Hier schläft mein alte Hund."
    sides = [set[str](), set[str]()]
    at_phrase = {*forms(pair, lexicon)} - beside(*pair)
    for form in at_phrase:
        for found, text in zip(sides, form, strict=True):
            found |= {*re.findall("@([^@ ][^@]*[^@ ])@", f" {text} ")}
    # Each word, and the runs of up to three whose translations no other word separates.
    assert sides[0] == {*"Old|dog|sleeps|here|Old dog|sleeps here|Old dog sleeps".split("|")}
    assert sides[1] == {
        *("alte|Hund|schläft|Hier|alte Hund|Hier schläft|schläft mein alte Hund".split("|"))
    }
    assert ("My @ sleeps here.", "Hier schläft mein @.") in at_phrase
    assert ("My @Old dog@ sleeps here.", "Hier schläft mein @alte Hund@.") in at_phrase
    assert ("My Old dog @ here.", "Hier @ mein alte Hund.") in at_phrase
    assert ("My Old dog @ sleeps here.", "Hier @ schläft mein alte Hund.") in at_phrase
    # No phrase has a span in it.
    monkeypatch.setattr(span_pairs, "MARKED", 0.0)
    found = forms(("old {n} dog", "alte {n} Hund"), lexicon)
    assert all("{n}" in source and "{n}" in target for source, target in found)
    # A word that stands twice on one side may be either of them.
    twice = forms(("the dog and the dog", "der Hund"), {"dog": "hund"})
    assert all(source.strip("@ ") == "the dog and the dog" for source, _ in twice)


@pytest.mark.usefixtures("all_are_marked")
def test_augmentation_keeps_the_spans_of_both_sides(tokenizer: Tokenizer):
    pairs = [
        (f"Open the door {n}, Doctor: see {{a}}.", f"Tür {n} auf, Arzt: {{a}}.") for n in range(300)
    ]
    found = encoded(tokenizer, pairs, num_variants=3)
    assert found.fits.all() and len(found.variants) == 900
    variants = decoded(tokenizer, found.variants)
    differ = 0
    for (source, numbers), (target, numbers_there) in variants:
        assert source.startswith("<bt> ") and "{a}" not in source + target
        assert sorted(numbers) == sorted(numbers_there) and len({*numbers}) == len(numbers) >= 1
        differ += not source.startswith("<bt> Open the door")
    assert differ > 200  # by case and typos
    # A pair whose variant is too long is as in its plain form on both sides.
    longest = max(found.pairs.source.lengths.max(), found.pairs.target.lengths.max()) + 1
    short = encoded(tokenizer, pairs, seq_len=int(longest), num_variants=3)
    for (_, numbers), (_, numbers_there) in decoded(tokenizer, short.variants):
        assert sorted(numbers) == sorted(numbers_there)
    assert len(short.variants.source.tokens) < len(found.variants.source.tokens)


@pytest.mark.slow
def test_prepared_folder_has_spans_in_training_only_with_any_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pairs = [(f"see {{n{n}}} at %d, n {n}", f"siehe {{n{n}}}, n {n}") for n in range(600)]
    name, dev = write_parallel(tmp_path / "t", pairs), write_parallel(tmp_path / "v", pairs[:9])
    corpus = CorpusConfig((name,), dev, ("en",), ("de",), clean="none", perturb=True)
    settings = corpus, TokenizerConfig(vocab_size=300), 60
    monkeypatch.setattr(pair_store, "BATCH_PAIRS", 50)
    prints = set[str]()
    for count in (1, 2):

        def in_processes(function: Any, items: Any, count: int = count) -> Any:
            return map_in_processes(function, items, count)

        monkeypatch.setattr(preparation, "map_in_processes", in_processes)
        path = prepare(*settings, tmp_path / str(count), False, SPANS)
        data = load_prepared(path)
        prints.add(data.fingerprint + data.variants_fingerprint)
        found = decoded(data.facts.tokenizer, data.train)
        assert all(numbers == numbers_there for (_, numbers), (_, numbers_there) in found)
        assert 0.45 < sum(len(numbers) > 0 for (_, numbers), _ in found) / 591 < 0.65
        assert all("%d" in source for (source, _), _ in found)  # on one side only
        plain = decoded(data.facts.tokenizer, data.validation)
        assert [(source, target) for (source, _), (target, _) in plain] == pairs[:9]
    assert len(prints) == 1
    none = load_prepared(prepare(*settings, tmp_path / "data", False))
    size = len(none.facts.tokenizer)
    assert max(none.train.source.tokens.max(), none.train.target.tokens.max()) < size
    assert none.facts.tokenizer.text == data.facts.tokenizer.text  # pyright: ignore


@pytest.mark.usefixtures("all_have_set_spans")
def test_each_direction_has_its_lexicon_of_the_training_pairs(tmp_path: Path):
    words, random = [f"{name}{n}" for name in "abcd" for n in range(9)], Random(1)
    translation = {word: word.translate(str.maketrans("abcd", "wxyz")) for word in words}
    sources = [random.sample(words, 4) for _ in range(400)]
    pairs = [(" ".join(s), " ".join(translation[word] for word in s[::-1])) for s in sources]
    corpus = CorpusConfig(
        (write_parallel(tmp_path / "t", pairs),),
        write_parallel(tmp_path / "v", [("dev", "dev")]),
        ("en",),
        ("de",),
        clean="none",
        bidirectional=True,
    )
    settings = corpus, TokenizerConfig(vocab_size=300), 60
    prepared = prepare(*settings, tmp_path / "data", False, SPANS)
    data, enclosed = load_prepared(prepared), Counter[bool]()
    for (source, _), (target, _) in decoded(data.facts.tokenizer, data.train):
        found = [re.search(f"{MARK}([a-z][0-9]){MARK}", text) for text in (source, target)]
        if all(found) and source.count(MARK) == 2:
            word, other = (match[1] for match in found if match)
            assert other in (translation.get(word), *(w for w in words if translation[w] == word))
            enclosed[word in translation] += 1
    assert min(enclosed[True], enclosed[False]) > 10
