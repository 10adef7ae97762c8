"""Sentences with spans to translations: tokens for the spans, and another search where one failed.

A hypothesis is usable if it has the token of each span once, its elements are nested, and it is no
loop, not too long, and not empty. Where a search finds none, another one follows: a wider beam
without repeated n-grams. Where that finds none with all spans, the texts between them are
translated one by one. So are the parts of a sentence between marks that may end one, if its
translation is so short that it seems to be of one part only. What training text hardly has is read
as what it has: a sentence in capitals in sentence case, and its translation is written in capitals;
typographic marks as plain ones.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise

import numpy as np

from translate_ddp.data.model_facts import MORE_TOKENS, ModelFacts
from translate_ddp.data.sentences import cut, find_parts, space_between
from translate_ddp.data.tokenizer import EOS, UNK
from translate_ddp.directions import LanguagePair
from translate_ddp.modeling.engine import Engine, OnDone, ignore, length_limit
from translate_ddp.modeling.repetition import find_loop
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.spans import (
    ALONE,
    MARK,
    MARK_RUN,
    Escape,
    Line,
    Span,
    interleaved,
    is_within_word,
    keeps_elements,
    sentences_of_line,
)
from translate_ddp.text import (
    END_PUNCTUATION,
    PLAIN_MARKS,
    has_letter,
    is_in_capitals,
    lacks_number,
    normalize,
    sentence_case,
    upper,
)

BEAM_WIDTH = 5  # in another search, at least
UNREPEATED = 3  # tokens in a row that another search has once
SHORT = 0.5  # times the usual length: a part of the source may have been left out
LONGER = 1.5  # times as long as that is the translation of the parts, if so
LOST, LOOP, LENGTH, EMPTY = "spans", "repetition", "length", "empty"  # faults of hypotheses
NUMBERS_DIFFER = "numbers"  # a warning of translations
OnCut = Callable[[int, int, int], None]  # receives the index of a line, its tokens, and their parts
Found = list[tuple[list[int], str]]  # hypotheses and their faults, "" for none


@dataclass(frozen=True)
class Sentence:
    """A sentence, or what is kept between sentences, with one of its translations."""

    source: str
    text: str
    tokens: list[str]  # tokens of the translation; the last is the end of the sentence, ""
    log_probs: list[float]  # one for each token, in nats; 0 for spans and what is kept
    warnings: tuple[str, ...] = ()  # spans (it was translated in parts), repetition, ...

    @classmethod
    def kept(cls, source: str, text: str) -> "Sentence":
        return cls(source, text, [text, ""], [0.0, 0.0])


@dataclass(frozen=True)
class SentencePart:
    """What a model translates at once: a sentence, or a part of one."""

    line: Line
    ids: list[int]  # with the tag of the direction
    runs: dict[int, tuple[Span, ...]]  # for each span token among the ids
    written: Line  # `line`, or what the source has in capitals

    @property
    def in_capitals(self) -> bool:
        return self.written is not self.line


Unit = SentencePart | Sentence  # which is kept


class Decoder:
    """Translates sentences into one language."""

    def __init__(
        self,
        engine: Engine,
        facts: ModelFacts,
        direction: LanguagePair,
        accepts_short: bool = False,
    ) -> None:
        """A sentence longer than the longest source is cut, and so is one whose translation is
        short for its length, unless that is accepted.
        """
        self._engine, self._tokenizer, self._direction = engine, facts.tokenizer, direction
        self._longest, self._ratios = facts.longest_source, facts.length_ratios[str(direction)]
        self._tag, self._space = facts.tag(direction), space_between(direction.tgt)
        self._spans = range(len(facts.tokenizer), facts.num_outputs)  # token ids
        self._shortest = 0.0 if accepts_short else SHORT * self._ratios.median

    def translate(
        self,
        lines: Sequence[Line],
        config: NBestConfig,
        scored: bool,
        on_done: OnDone = ignore,
        on_cut: OnCut = lambda line, tokens, parts: None,
        escape: Escape = str,
        divided: bool = False,
    ) -> list[list[Sentence]]:
        """`config.n_best` translations of each sentence, with scores if `scored`.

        `on_done` receives numbers of finished sentences, estimated from finished parts. `escape`
        changes text, but no span. If `divided`, the texts between spans are translated one by one.
        """
        units = self._units(lines, on_cut, escape, divided)
        parts = [unit for several in units for unit in several if isinstance(unit, SentencePart)]
        found = self._search(parts, config, scaled(on_done, len(lines), len(parts)))
        translated = self._sentences(parts, found, scored, escape)
        lost = [place for place, several in enumerate(found) if len(several) < config.n_best]
        if lost:
            rest = [parts[place].written for place in lost]
            others = self.translate(rest, config, scored, escape=escape, divided=True)
            for place, several in zip(lost, others, strict=True):
                translated[place] += several[: config.n_best - len(translated[place])]
        short = {
            place: own
            for place, (part, several) in enumerate(zip(parts, found, strict=True))
            if not config.temperature and (own := self._parts_of_short(part, several, escape))
        }
        if short:
            rest = [each for own in short.values() for each in own if isinstance(each, Line)]
            results = iter(self.translate(rest, config, scored, escape=escape))
            for place, own in short.items():
                versions = zip(*(_versions(each, results, config) for each in own), strict=True)
                source = parts[place].written.restored(escape)
                joined = [_joined(source, several, ()) for several in versions]
                if len(joined[0].text) >= LONGER * len(translated[place][0].text):
                    translated[place] = joined
        results = iter(translated)
        return [
            [
                _joined(line.restored(escape), several, (LOST,) * self._is_divided(line, divided))
                for several in zip(*(_versions(unit, results, config) for unit in own), strict=True)
            ]
            for line, own in zip(lines, units, strict=True)
        ]

    def _is_divided(self, line: Line, divided: bool) -> bool:
        """Whether the texts between its spans are translated one by one."""
        most = 0 if divided else len(self._spans)
        return has_letter(line.text) and len(MARK_RUN.findall(line.text)) > most

    def _units(
        self, lines: Sequence[Line], on_cut: OnCut, escape: Escape, divided: bool
    ) -> list[list[Unit]]:
        """What is translated of each line, and what is kept."""
        read = list(map(self._as_read, lines))
        divided_lines = [
            list(_between_spans(line, escape))
            if self._is_divided(line, divided)
            else [line if has_letter(line.text) else _kept(line, escape)]
            for line in read
        ]
        whole = [each for several in divided_lines for each in several if isinstance(each, Line)]
        encoded = iter(self._encode([line.text for line in whole]))
        units = list[list[Unit]]()
        for index, several in enumerate(divided_lines):
            units.append([])
            for each in several:
                if isinstance(each, Sentence):
                    units[-1].append(each)
                    continue
                runs, written = dict(enumerate(each.runs())), lines[index]
                if each is not read[index]:
                    written = each if written is read[index] else self._in_capitals(each)
                part = SentencePart(each, self._tag + next(encoded), runs, written)
                own = self._sliced(part, escape) if len(part.ids) > self._longest else [part]
                units[-1] += own
                if len(own) > 1:
                    on_cut(index, len(part.ids), len(own) // 2 + 1)
        return units

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; of one with plain marks, if it has fewer unknown ones, or fewer.

        The more often the training text has a form, the fewer tokens the form has.
        """
        changed = [row for row, text in enumerate(texts) if text.translate(PLAIN_MARKS) != text]
        variants = [*texts, *(texts[row].translate(PLAIN_MARKS) for row in changed)]
        numbers = [list(range(len(MARK_RUN.findall(text)))) for text in variants]
        encoded = self._tokenizer.encode_marked(variants, numbers)
        for row, ids in zip(changed, encoded[len(texts) :], strict=True):
            encoded[row] = min(encoded[row], ids, key=lambda ids: (ids.count(UNK), len(ids)))
        return encoded[: len(texts)]

    def _sliced(self, part: SentencePart, escape: Escape) -> list[Unit]:
        """Parts of a long sentence, with the tag of the direction before each, and spaces."""
        ids, units = part.ids[len(self._tag) :], list[Unit]()
        pieces = self._pieces(ids, {})
        slices = cut(pieces, max(1, self._longest - len(self._tag)))
        decoded = self._tokenizer.decode_marked([ids[each] for each in slices])
        for each, (text, numbers) in zip(slices, decoded, strict=True):
            runs = {number: part.runs[number] for number in numbers}
            marks = iter([MARK * len(run) for run in runs.values()])
            text = MARK_RUN.sub(lambda _: next(marks), text.strip())  # noqa: B023
            line = Line(text, tuple(chain.from_iterable(runs.values())))
            units += [Sentence.kept(self._space, self._space)] if units else []
            if has_letter(text):
                written = self._in_capitals(line) if part.in_capitals else line
                units.append(SentencePart(line, self._tag + ids[each], runs, written))
            else:
                units.append(_kept(line, escape))
        return units

    def _as_read(self, line: Line) -> Line:
        """The line, in sentence case if it is in capitals and has fewer tokens so.

        It has more if the training text of the tokenizer is in capitals.
        """
        if not is_in_capitals(line.text):
            return line
        small = sentence_case(line.text, self._direction.src)
        texts = [text.replace(MARK, " ") for text in (line.text, small)]
        before, after = map(len, self._tokenizer.encode(texts))
        return Line(small, line.spans) if after < before else line

    def _in_capitals(self, line: Line) -> Line:
        return Line(upper(line.text, self._direction.src), line.spans)

    def _search(
        self, parts: Sequence[SentencePart], config: NBestConfig, on_done: OnDone
    ) -> list[Found]:
        """`n_best` hypotheses for each part, fewer only if its spans are lost in the others."""
        sources, count = [part.ids for part in parts], config.n_best
        is_drawn = config.temperature > 0  # in the order of drawing, with faults
        wide = config if is_drawn else replace(config, n_best=config.beam_width)
        searched = self._engine.translate(sources, wide, on_done)
        first = [self._judged(part, own) for part, own in zip(parts, searched, strict=True)]
        found = [
            [each for each in own if not each[1] or (is_drawn and each[1] != LOST)][:count]
            for own in first
        ]
        few = [n for n, several in enumerate(found) if len(several) < count and not is_drawn]
        if few:
            width = max(BEAM_WIDTH, config.beam_width)
            wide = replace(wide, beam_width=width, n_best=width)
            again = [sources[n] for n in few]
            second = self._engine.translate(again, wide, unrepeated=UNREPEATED)
            for n, hypotheses in zip(few, second, strict=True):
                judged = self._judged(parts[n], hypotheses)
                found[n] += [each for each in judged if not each[1] and each not in found[n]]
                # Rather a loop than nothing.
                found[n] += [each for each in first[n] if each[1] not in ("", LOST)]
        for part, own, several in zip(parts, first, found, strict=True):
            if not part.runs:  # stray tokens of spans are left out
                several += [(ids, "") for ids, fault in own if fault == LOST]
            del several[count:]
        return found

    def _parts_of_short(
        self, part: SentencePart, found: Found, escape: Escape
    ) -> list[Line | Sentence]:
        """The parts of a source of which the translation seems to have one only; none of others.

        A model of single sentences ends after the first one.
        """
        if not found or len(found[0][0]) >= self._shortest * len(part.ids):
            return []
        find = partial(find_parts, language=self._direction.src)
        first, *inner, last = sentences_of_line(part.written, find, escape)
        inner = [each if isinstance(each, Line) or each.strip() else self._space for each in inner]
        own = [each for each in (first, *inner, last) if each] if len(inner) > 1 else []
        return [Sentence.kept(each, each) if isinstance(each, str) else each for each in own]

    def _judged(self, part: SentencePart, hypotheses: Sequence[Hypothesis]) -> Found:
        return [(each.ids, self._fault(part, each.ids)) for each in hypotheses]

    def _fault(self, part: SentencePart, ids: list[int]) -> str:
        """What is wrong with a translation; "" for nothing."""
        numbers = [each - self._spans.start for each in ids if each >= self._spans.start]
        if sorted(numbers) != [*part.runs] or not keeps_elements(
            [span for number in numbers for span in part.runs[number]]
        ):
            return LOST
        usual = self._ratios.most * (len(part.ids) + MORE_TOKENS)
        if len(ids) > usual or len(ids) == length_limit(len(part.ids)):
            return LENGTH
        loop = find_loop(ids)
        if loop and not find_loop(part.ids) and has_letter(self._tokenizer.decode([loop])[0]):
            return LOOP
        is_empty = len(ids) < 3 and not normalize(self._tokenizer.decode([ids])[0])
        return EMPTY * (is_empty and not numbers)

    def _sentences(
        self, parts: Sequence[SentencePart], found: Sequence[Found], scored: bool, escape: Escape
    ) -> list[list[Sentence]]:
        """The translations of each part, with the log-probabilities of their tokens."""
        pairs = [
            (part, *each) for part, several in zip(parts, found, strict=True) for each in several
        ]
        targets = [ids for _, ids, _ in pairs]
        log_probs = [np.empty(0)] * len(pairs)
        if scored:
            log_probs = self._engine.log_probs([part.ids for part, *_ in pairs], targets)
        decoded = self._tokenizer.decode_marked(targets)
        sentences = list[Sentence]()
        for (part, ids, fault), (text, numbers), values in zip(
            pairs, decoded, log_probs, strict=True
        ):
            spans = {number: _targets(run) for number, run in part.runs.items()}
            placed, line = [spans.get(n, "") for n in numbers], part.line
            write = partial(upper, language=self._direction.tgt) if part.in_capitals else str
            text = _apart(
                interleaved(line.text, [span.source for span in line.spans]),
                interleaved(_tight(normalize(write(text)), numbers, part), placed, escape),
            )
            tokens = [*self._pieces(ids, spans, write), ""] if scored else [""]
            if scored:
                values = np.where(np.array([*ids, EOS]) < self._spans.start, values, 0.0)
            lost = NUMBERS_DIFFER * lacks_number(part.line.text, text)
            warnings = tuple(filter(None, (fault, lost)))
            sentences.append(
                Sentence(part.written.restored(escape), text, tokens, values.tolist(), warnings)
            )
        rest = iter(sentences)
        return [[next(rest) for _ in several] for several in found]

    def _pieces(self, ids: Sequence[int], spans: dict[int, str], write: Escape = str) -> list[str]:
        """The text of each token, as `write` returns it; of span tokens, the spans."""
        start = self._spans.start
        texts = map(write, self._tokenizer.pieces([each for each in ids if each < start]))
        return [next(texts) if each < start else spans.get(each - start, MARK) for each in ids]


def scaled(on_done: OnDone, total: int, parts: int) -> OnDone:
    """A function of finished parts that calls `on_done` with their share of the total."""
    done = 0
    if not parts:
        on_done(total)

    def parts_done(count: int) -> None:
        nonlocal done
        before, done = done, done + count
        on_done(done * total // parts - before * total // parts if parts else 0)

    return parts_done


def _targets(spans: Iterable[Span]) -> str:
    return "".join(span.target for span in spans)


def _tight(text: str, numbers: Sequence[int], part: SentencePart) -> str:
    """The text with a MARK for each run of spans, without spaces that only it has within elements.

    They stand before the start of an element, and after its end.
    """
    around = dict(zip(part.runs, pairwise(MARK_RUN.split(part.line.text)), strict=True))
    pieces = text.split(MARK)
    for at, number in enumerate(numbers):
        outer, inner = pieces[at], pieces[at + 1]
        elements = [span.element for span in part.runs.get(number, ())]
        if min(elements, default=0) > ALONE:
            if inner[:1] == " " != around[number][1][:1]:
                pieces[at], pieces[at + 1] = f"{outer.rstrip()} ", inner.lstrip()
        elif max(elements, default=0) < 0 and outer[-1:] == " " != around[number][0][-1:]:
            is_word = inner[:1] not in f"{END_PUNCTUATION},:)]» "
            pieces[at], pieces[at + 1] = outer.rstrip(), " " * is_word + inner
    return MARK.join(pieces).strip()


def _apart(sources: Sequence[str], texts: Sequence[str]) -> str:
    """The texts, joined; words that would become one have a space between them.

    A link with a letter after it is another link. Sources that have such words are an exception.
    """

    def spaced(parts: Sequence[str]) -> str:
        found = ""
        for part in parts:
            found += " " * is_within_word(found[-1:] + part[:1], 1) + part
        return found

    return spaced(texts) if spaced(sources) == "".join(sources) else "".join(texts)


def _kept(line: Line, escape: Escape) -> Sentence:
    return Sentence.kept(line.restored(escape), line.kept(escape))


def _between_spans(line: Line, escape: Escape) -> Iterator[Line | Sentence]:
    """The texts between the spans of a line, and spans and spaces as what is kept."""
    runs = iter([*line.runs(), ()])
    for text in MARK_RUN.split(line.text):
        start, end = _words_of(text) if has_letter(text) else (len(text), len(text))
        yield Sentence.kept(text[:start], escape(text[:start]))
        if start < end:
            yield Line(text[start:end])
            yield Sentence.kept(text[end:], escape(text[end:]))
        run = next(runs)
        yield Sentence.kept("".join(span.source for span in run), _targets(run))


def _words_of(text: str) -> tuple[int, int]:
    """Where the first word of a text starts, and where the last one ends with its punctuation."""
    is_word = [unicodedata.category(character)[0] in "LNM" for character in text]
    start, end = is_word.index(True), len(text) - is_word[::-1].index(True)
    while end < len(text) and text[end] in END_PUNCTUATION:
        end += 1
    return start, end


def _versions(
    unit: Unit | Line, results: Iterator[list[Sentence]], config: NBestConfig
) -> list[Sentence]:
    return [unit] * config.n_best if isinstance(unit, Sentence) else next(results)


def _joined(source: str, parts: Sequence[Sentence], warnings: tuple[str, ...]) -> Sentence:
    if len(parts) == 1:
        return parts[0]
    return Sentence(
        source,
        _apart([part.source for part in parts], [part.text for part in parts]),
        [*chain.from_iterable(part.tokens[:-1] for part in parts), ""],
        [
            *chain.from_iterable(part.log_probs[:-1] for part in parts),
            sum(part.log_probs[-1] for part in parts if part.log_probs),
        ],
        tuple(dict.fromkeys(chain(warnings, *(part.warnings for part in parts)))),
    )
