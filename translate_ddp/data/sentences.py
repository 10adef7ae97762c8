"""Lines of several sentences, and sentences that are too long for a model, in parts and joined.

The rules are for all languages at once and careful: a line that is not split is translated as it
is, but a sentence that is split at an abbreviation is translated wrongly. Those here are common
ones; others are learnt from a corpus in which most lines are one sentence. As in Punkt (Kiss and
Strunk 2006), an abbreviation is a short word that is seldom without a period. Punkt decides from
the words after it whether a sentence ends; here, the ends of the lines do.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from translate_ddp.text import CHINESE, GREEK, JAPANESE, base_language, has_letter

Match = re.Match[str]

# Marks that only end sentences; text may go on without a space. The Burmese U+104A, the Ethiopic
# U+1361 and the Tibetan U+0F0D also separate phrases.
FULL_STOPS = "。｡！？।॥؟۔።፧፨։။។៕᠃᠉᱾᱿꯫"
OPENING = r"\"'“”‘’«»‹›„‚(\[{¿¡「『（【《〈\-–—"
CLOSING = r"\"'”’»«›‹)\]}」』）】》〉"
# The Greek question mark is a semicolon. “ and ‘ close quotations in German, and open them in
# Chinese. French writes a space before ».
SENTENCE_END, GREEK_SENTENCE_END = (
    re.compile(
        rf"([{marks}]+|[{FULL_STOPS}][{FULL_STOPS}{marks}]*)"
        rf"((?:[{CLOSING}]|(?<![{FULL_STOPS}])[“‘]|\s»(?=\s|$))*)(\s*)"
    )
    for marks in (".!?…", ".!?…;")
)
# Words of symbols only, such as emoji, keycaps and :-), are no part of the sentences around them.
# One dash may open a sentence, and so may an amount of money.
SYMBOL = rf"[^\w\s{OPENING}{CLOSING}{FULL_STOPS}.!?…]|[\-–—]|[\d#*]\ufe0f?\u20e3"
EMOTICON = r"[:;=]-?[()\[\]|/\\*]+|<3|\([^\w\s()]+\)"
NO_SYMBOL = r"[\-–—](?!\S)|[$€£¥₹]\s?\d"
SYMBOLS = rf"(?:(?!{NO_SYMBOL})(?:(?:{SYMBOL})+|{EMOTICON})(?!\S)\s*)*"
NEXT = re.compile(rf"(?P<symbols>{SYMBOLS})[\s{OPENING}]*(\S?)")
LAST_WORD = re.compile(rf"[^\s{OPENING}]*$")
LONGEST_ABBREVIATION, LONGEST_BEFORE_NUMBER = 12, 7  # letters; as in Abschn. 5

# Words before a name or a noun, which in some languages is capitalised. "No." and "art." are also
# whole sentences or their ends; before a number, no period after a short word ends a sentence.
# "è.": a letter that is a word and ends sentences. Others are initials, or as in z. B.
ABBREVIATIONS = frozenset(
    """
    adm bzw ca capt cf cmdr col dhr doç dott dr dra dres drs ee evtl exmo fr frl gen ggf gov hr hrn
    inkl inż lt maj mevr mgr mio mlle mme mr mrd mrs ms mt prof rev sgt sig sog sr sra srta st ul uu
    vgl vs śp św κα κος гр им проф св тов ул вул акад доц д-р د أ डॉ मि श्री प्रो ডা ডঃ ড মো திரு డా ડૉ
    ਡਾ ഡോ ಡಾ è. é. ő. я.
    """.split()
)
# In other languages, these are words that end sentences: Swedish "hon", Finnish "sen", Dutch "al".
ABBREVIATIONS_OF = {
    entry.split()[0]: frozenset(entry.split()[1:])
    for entry in """
    bg бул ген гр пл ул
    cs bc ing judr mudr např phdr resp sv tj tzn tzv
    da bl dvs eks fhv hhv jf kgl
    de abt bspw bzgl dipl exkl fa fam hl ing insb jur med mwst nr phil rer zzgl
    el δρ λεωφ πλ
    en alh amb assoc atty barr brig cpl det engr ft gen hon insp messrs pfc pres pvt rep rt sec sen
    es arq av avda dn dña excmo gral ing jj lic mons núm oo profa pág sres sta sto ud uds
    fi ent esim maist nk toht
    fr av bd mlles mm mmes pr ste vve
    ha alh barr engr hon mal
    hi कु डा पं स्व
    hr npr sv tj
    hu ifj kb özv pl ún vö
    id bpk drs hj ir jl kab kec ny tn yth
    ig alh barr engr hon
    it arch avv egr geom ing mons on rag sigg spett
    nb bl dvs eks jf kgl
    nl bijv ds fam ing ir jhr mw resp
    pl abp al bp hab im ks mjr np nr płk tj tzn tzw zm zob
    pt arq av cel eng exa exma ilmo pe profa sta sto trav
    ro dl dlor dlui dna nr pt sf str
    ru бул ген др обл пер пл пр просп см ст чл
    sk bc ing judr mudr napr phdr resp tj tzv
    sv dvs jfr kungl
    sw bi bw dk dkt mhe mwl
    tr apt bkz cad hz mah org sn yrd öğr örn
    uk бул ген обл пл пров просп ст чл ім
    vi bs gs pgs ths tp ts
    yo alh barr engr hon
    """.strip().split("\n")
}
# Words that may also end a sentence. The case of the next word decides, if the line has upper case.
UNCASED_ABBREVIATIONS = frozenset(
    """
    approx apr aug co corp dec dept ecc etc feb fig inc jan jr jul jun ltd nov oct pp sep sept sq
    tel usw vol
    """.split()
)
ORDINAL = "0"  # stands for numbers among learnt abbreviations
NUMBER = re.compile(r"(\d\d?\.?/)?\d{1,3}|\d{1,3}\.\d{3}")  # 29, 28./29, 100 and 1.000; no year
# Languages that write ordinal numbers with a period: "am 3. Oktober". "" is not known.
ORDINAL_PERIODS = frozenset(
    " bs cs da de et eu fi fo hr hu is lb lt lv nb nn no pl sk sl sr sv tr".split(" ")
)
CLAUSE_ENDS = frozenset(",;:—–，、；：،؛፣፤၊།·")

MIN_COUNT = 2  # periods after a word inside lines, or of a letter at their ends
MIN_SHARE = 0.3  # of a word's occurrences: "said." is more frequent inside lines, "said" even more
NATS_PER_LETTER = 1.15  # of evidence: a long word that occurs twice is probably none
MARKS = rf"\s\d{OPENING}{CLOSING}{re.escape(string.punctuation)}…"
# The end of a token. U.S. and numbers of more digits are not found: they are not learnt.
WORD = re.compile(
    rf"(?:^|[{OPENING}])(\d{{1,3}}|[^{MARKS}]{{1,{LONGEST_ABBREVIATION}}})(\.?)[{CLOSING}“‘,;:!?…]*$"
)
ITEM = re.compile(r"^\s*\(?\d+\.\s")  # of a list: "1. Go home"


def split_sentences(line: str, language: str = "", learnt: Collection[str] = ()) -> list[str]:
    """The sentences of a line, without the spaces between them; [] of an empty line.

    `learnt` is what `learn_abbreviations` returns. Words of symbols between two sentences are one
    of their own. A line without letters is not split.
    """
    base, is_cased = base_language(language), line != line.lower()
    learnt = ABBREVIATIONS.union(ABBREVIATIONS_OF.get(base, ()), learnt)
    learnt |= {ORDINAL} if base in ORDINAL_PERIODS else set()
    opening = NEXT.match(line)
    bounds = [0, opening.end("symbols") if opening else 0]
    for end in (GREEK_SENTENCE_END if base in GREEK else SENTENCE_END).finditer(line):
        following = NEXT.match(line, end.end())
        if following and _ends_sentence(end, following, is_cased, learnt):
            bounds += [end.end(), following.end("symbols")]
    bounds = [*bounds, len(line)] if has_letter(line) else [0, len(line)]
    return [part for each in pairwise(bounds) if (part := line[slice(*each)].strip())]


def _ends_sentence(end: Match, following: Match, is_cased: bool, learnt: Collection[str]) -> bool:
    """Whether a sentence ends at `end`. `is_cased`: the line has upper case."""
    stop, closing, space = end.groups()
    if stop[0] in FULL_STOPS:
        return bool(space) or not closing  # 「行く。」と言った is one sentence
    symbols, first = following.groups()
    if not space or not (first.isalnum() or (symbols and not first)):
        return False
    if is_cased and first.islower():  # as people type; but not in: "Really?" he said
        return "?" in stop and not closing
    before = end.string[max(0, end.start() - LONGEST_ABBREVIATION) : end.start()]
    word = found[0] if (found := LAST_WORD.search(before)) else ""
    if NUMBER.fullmatch(word):
        preceding = before[: -len(word)].rstrip()
        is_item = not preceding or preceding[-1] in ".!?…:"  # "1. Go home. 2. Rest"
        if ORDINAL in learnt or is_item:
            return stop != "."
    if re.search(r"['’‘]\w$", before) and (word.islower() or end.string.isupper()):
        word = f"'{word}"  # the end of a word, as in don't and c'è, not an initial
    is_short = first.isdigit() and len(word) <= LONGEST_BEFORE_NUMBER
    return stop != "." or not (is_short or _is_abbreviation(word, is_cased, learnt))


def _is_abbreviation(word: str, is_cased: bool, learnt: Collection[str]) -> bool:
    """Whether a period after this word belongs to it, as in Dr., J., U.S. and XIV."""
    first, _, last = word.rpartition(".")
    if first and all(len(part) <= 2 and not part.isdigit() for part in word.split(".")):
        return True
    return (
        last.lower().removeprefix("-") in learnt  # also of f.eks. and Dipl.-Ing.
        or (not is_cased and word in UNCASED_ABBREVIATIONS)
        or (len(word) == 1 and word.lower() != word.upper() and f"{word}." not in learnt)
        or re.fullmatch("[IVXLC]{2,}|[\u0e00-\u0eff]{1,5}", word) is not None  # Thai and Lao
    )


def learn_abbreviations(lines: Iterable[str]) -> list[str]:
    """The words after which a period ends no sentence, in lower case, sorted.

    `ORDINAL` is among them if that is so after numbers, and "a." if the letter is a word whose
    period does end sentences. Lines may have several sentences: the periods of an abbreviation are
    inside lines more often than those of other words, by a log-likelihood ratio.
    """
    tokens, last = Counter[str](), Counter[str]()
    for line in lines:
        words = ITEM.sub("", line).split()
        tokens.update(words)
        last.update(words[-1:])
    inside, at_end, others = Counter[str](), Counter[str](), Counter[str]()
    for token, count in tokens.items():
        for stem, period in WORD.findall(token[-2 * LONGEST_ABBREVIATION :]):
            word = ORDINAL if stem.isdigit() else stem.lower() + "." * (len(stem) == 1)
            others[word] += count * (not period)
            inside[word] += (count - last[token]) * len(period)
            at_end[word] += last[token] * len(period)
    usual = [w for w, n in others.items() if inside[w] + at_end[w] < n and w != ORDINAL]
    ends_inside, ends = (1 + sum(counts[word] for word in usual) for counts in (inside, at_end))
    share = ends_inside / (ends_inside + ends)
    return sorted(w for w in others if _is_learnt(w, inside[w], at_end[w], others[w], share))


def _is_learnt(word: str, inside: int, at_end: int, others: int, share: float) -> bool:
    """Whether its periods end no sentences (a letter's do), of which `share` end inside lines."""
    if word.endswith("."):
        return at_end >= MIN_COUNT and inside < at_end < others
    total = inside + at_end
    is_usual = inside > at_end if word == ORDINAL else inside >= MIN_SHARE * (total + others)
    if not is_usual or inside < MIN_COUNT or inside <= share * total:
        return False
    evidence = inside * math.log(inside / total / share)
    evidence += at_end and at_end * math.log(at_end / total / (1 - share))
    return evidence >= NATS_PER_LETTER * len(word)


def join_sentences(sentences: Iterable[str], language: str) -> str:
    """One line of translations into `language`."""
    space = "" if base_language(language) in CHINESE | JAPANESE else " "
    return space.join(filter(None, sentences))


def cut(tokens: Sequence[str], limit: int) -> list[slice]:
    """Slices of at most `limit` tokens: to the end of a sentence, else clause, word or character.

    Each but the last has more than half of the limit.
    """
    starts = [0]
    while len(tokens) - starts[-1] > limit:
        latest_first = range(starts[-1] + limit, starts[-1] + limit // 2, -1)
        starts.append(max(latest_first, key=lambda at: _rank(tokens[at - 1], tokens[at])))
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _rank(before: str, after: str) -> tuple[bool, bool, bool, bool]:
    """How well text may be cut between two tokens. U+FFFD is the text of a part of a character."""
    last, is_space = before.rstrip()[-1:], after[:1].isspace()
    ends_sentence = last != "" and (last in FULL_STOPS or (is_space and last in ".!?…"))
    return ends_sentence, last in CLAUSE_ENDS, is_space, not after.startswith("\ufffd")
