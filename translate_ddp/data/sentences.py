"""Lines of several sentences, and sentences that are too long for a model, in parts and joined.

The rules are for all languages at once and careful: a line that is not split is translated as it
is, but a sentence that is split at an abbreviation is translated wrongly. Those here are common
ones; others are learnt from a corpus in which most lines are one sentence. As in Punkt (Kiss and
Strunk 2006), an abbreviation is a short word that is seldom without a period. Punkt decides from
the words after it whether a sentence ends; here, the ends of the lines do.

`translate` splits lines, as a model of such a corpus ends after the first sentence. `validate` does
not.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from translate_ddp.spans import SPAN_LETTER
from translate_ddp.text import CHINESE, FULL_STOPS, GREEK, JAPANESE, base_language, has_letter

Match = re.Match[str]

OPENING = r"\"'“”‘’«»‹›„‚(\[{¿¡「『（【《〈\-–—"
CLOSING = r"\"'”’»«›‹)\]}」』）】》〉"
EMPHASIS = "*_~`"  # Markdown's marks around sentences and words
WRAPPED = re.compile(rf"([{EMPHASIS}]+)([^{EMPHASIS}]+)\1")  # marks of which no model has to know
# By the last mark of a quotation or bracket, its first: straight quotes are the same.
OPENED_BY = {pair[0]: pair[1:] for pair in '** __ "" ”“„ “„ ’‘ »« «» 」「 』『 )( ）（'.split()}
LONGEST_ADDRESS = 100  # characters
LONGEST_QUOTATION = 60  # characters that are not cut, if the sentence goes on after them
EMOJI = "\u2190-\u2bff\u200d\ufe0f\U0001f000-\U0001faff"
# The Greek question mark is a semicolon, the Amharic full stop two marks. “ and ‘ close quotations
# in German, and open them in Chinese. French writes a space before ». Notes and spans may follow:
# [1], (1), ^1, †, and figures that were raised.
NOTE = (
    r"\s?\[\^?\d[\d,;–\- ]{0,12}\]|\[[^\W\d]{1,4}\.?(?: \d{1,3})?\]"
    r"|[†‡§¶]|(?:※|(?<=\*))\d{1,2}|\^\d{1,3}\^?"
    rf"|\((?:\d[\d,;–\- ]{{0,12}}|[^\W\d_]|[*†‡]{{1,3}}|{SPAN_LETTER})\)|{SPAN_LETTER}+(?!\S)"
    "|[\xb2\xb3\xb9\u1d2c-\u1d6a\u2070-\u208e]"
    r"|(?:(?<=[^\W\d_][.!?])|(?<=[.!?][\"”’»]))\d{1,3}(?=\s)"
)
SENTENCE_END, GREEK_SENTENCE_END = (
    re.compile(
        rf"([{marks}]+|(?:[{FULL_STOPS}]|፡{{2,}})[{FULL_STOPS}{marks}]*)"
        rf"((?:[{CLOSING}{EMPHASIS}]|(?<![{FULL_STOPS}”])[“‘]|\s[»”](?!\w))*)"
        rf"((?:{NOTE}|[{EMOJI}])*)(\s*)"
    )
    for marks in (".!?…", ".!?…;")
)
# Words of symbols only, such as dashes, emoji, keycaps and :-), are no part of the sentences around
# them. An amount of money may open a sentence. A keycap is matched in one way only.
KEYCAP = r"[\d#*]\ufe0f?\u20e3"
SYMBOL = rf"{KEYCAP}|(?!{KEYCAP})[^\w\s{OPENING}{CLOSING}{FULL_STOPS}.!?…፡]|[\-–—]"
EMOTICON = r"[:;=]-?[()\[\]|/\\*]+|<3|\((?:[^\w\s()]|_)+\)"
NO_SYMBOL = r"[$€£¥₹§№±≈]\s?\d"
SYMBOLS = rf"(?:(?!{NO_SYMBOL})(?:(?:{SYMBOL})+|{EMOTICON})(?!\S)\s*)*"
LEAD = rf"(?:[^\w#@,;:)\]}}」』）】》〉{FULL_STOPS}.!?…፡]|_)*"  # a word may follow without a space
NEXT = re.compile(rf"({SYMBOLS}){LEAD}([#@](?=\w))?([^\W_]{{1,6}}|\S?)")  # #tag, @name
LAST_SYMBOLS = re.compile(rf"\s(?:\s|[{EMOJI}]|{EMOTICON})+")
# What numbers or letters the items of a list; with the ordinals of some languages, 1. is a word.
ITEM, ITEM_WITHOUT_PERIOD = (
    re.compile(
        rf"(?:{n}|\(?(?:\d{{1,3}}|[^\W\d_]|[ivx]{{2,4}})\)\s|（\d{{1,3}}）|\d\d?、(?!\d)|・)\s*"
    )
    for n in (r"(?:\d{1,3}\.)+\s", r"(?!)")
)
LAST_WORD = re.compile(rf"[^\s{OPENING}]*$")
LONGEST_ABBREVIATION = 12  # letters

# Words before a name or a noun, which in some languages is capitalised. "No." and "art." are also
# whole sentences or their ends: before a number only, they are abbreviations.
# "è.": a letter that is a word and ends sentences. Others are initials, or as in z. B.
ABBREVIATIONS = frozenset(
    """
    adm bzw ca capt cf cmdr col dhr doç dott dr dra dres drs ee evtl exmo fr frl gen ggf gov hr hrn
    inkl inż lt maj mevr mgr mlle mme mr mrd mrs ms mt prof rev sgt sig sog sr sra srta st ul uu
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
    de abt bspw bzgl dipl exkl fa fam hl ing insb jur med mio mwst nr phil rer zzgl
    el δρ λεωφ πλ
    en alh amb assoc atty barr brig cpl det engr ft gen hon insp messrs pfc pres pvt rep rt sec sen
    es arq av avda dn dña excmo gral ing jj lic mons núm oo profa pág sres sta sto ud uds
    fi ent esim maist nk toht
    fr av bd ex mlles mm mmes pr ste vve
    ha alh barr engr hon mal
    hi कु डा पं स्व ए बी सी डी जे के एल एम एन पी यू वी
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
# Words before a number, also months before a day or a year.
BEFORE_NUMBER = UNCASED_ABBREVIATIONS.union(
    """
    abb abs abschn afb alin anl anm anx aprox apt art arts bd bde bl blz br cap caps cca cf ch
    chap chaps cl čís čl cor deut eds ep eq eqs esp ex exp fasc ff figs fn fol fri gl gr hal hb
    hd heb hfst hk hl hs jg kap kb kl kpl ksh kv lám lib lit lk lpp matt max md min mon nbr no
    nos nro num núm nums obr odd odst ods pag pág pags págs par para paras párr pgs pkt pl poz
    prot ps pt ptk rdnr ref reg rm rn rozdz rs rys rz sec sect secs seg sh shs sid sl ss ssk st
    stk tabl tav tb tbl thu thurs tlp tues ush ust vers vols vv wg zał zif ziff zl agst août avr
    abr déc dez ene févr fév genn giu janv juil juill kwi lug mrt mrz okt ott paź wrz αρ αριθ
    αρθ δεκ εικ ιαν ιουλ ιουν ιούλ ιούν κεφ νοε οκτ παρ περ πιν πίν σελ σεπ στ σχ τηλ φεβ авг
    апр бр гл дек илл июл июн кв кл корп нояб обл обр окт оп пар пп пр разд рис розд руб сен
    сент см ст стор стр табл тел тт фев февр чл янв क्र नं पृ रु सं
    """.split()
)
ENDS_OF_NUMBER = re.compile(r"(?<![\d.,])\d{1,3}$")  # as in a decimal or a date: 3. 5 million
# The same of several parts, without spaces. After others, as U.S., these words begin a sentence.
UNCASED_PARTS = tuple("т.д т.п т.н κ.λπ κ.ά o.s.v v.v".split())
STARTERS = frozenset("But He I It She That The There These They This Those We You".split())
ORDINAL = "0"  # stands for numbers among learnt abbreviations
# 29, 28./29, 100, 1.000 and XIV; no year
DATE = re.compile(r"\d\d?\.\s+\d")  # the end of one, as in 25. 5. 2020
NUMBER = re.compile(r"(\d\d?\.?/)?\d{1,3}|\d{1,3}\.\d{3}|[IVXLC]{2,}")
# Languages that write ordinal numbers with a period: "am 3. Oktober". "" is not known.
ORDINAL_PERIODS = frozenset(
    " bs cs da de et eu fi fo hr hu is ko lb lt lv nb nn no pl sk sl sr sv tr".split(" ")
)
CLAUSE_ENDS = frozenset(",;:—–，、；：،؛፣፤၊།·")

MIN_COUNT = 2  # periods after a word inside lines, or of a letter at their ends
MIN_SHARE = 0.3  # share of a word's uses: "said." is more frequent inside lines, "said" even more
NATS_PER_LETTER = 1.15  # required evidence: a long word that occurs twice is probably none
MARKS = rf"\s\d{OPENING}{CLOSING}{re.escape(string.punctuation)}…"
# The end of a token. U.S. and numbers of more digits are not found: they are not learnt.
LAST_TOKEN = re.compile(
    rf"(?:^|[{OPENING}])(\d{{1,3}}|[^{MARKS}]{{1,{LONGEST_ABBREVIATION}}})(\.?)[{CLOSING}“‘,;:!?…]*$"
)
FIRST_NUMBER = re.compile(r"^\s*\(?\d+\.\s")  # number of an item: "1. Go home"


def find_sentences(line: str, language: str = "", learnt: Collection[str] = ()) -> list[slice]:
    """Where the sentences of a line are that have letters, in order, without spaces at their ends.

    What is outside is to be kept: spaces, words of symbols, the marks of lists, of footnotes and of
    emphasis around a sentence, and text without letters. `learnt` is what `learn_abbreviations`
    returns.
    """
    base, is_cased = base_language(language), line != line.lower()
    learnt = ABBREVIATIONS.union(ABBREVIATIONS_OF.get(base, ()), learnt)
    learnt |= {ORDINAL} if base in ORDINAL_PERIODS else set()
    opening = NEXT.match(line)
    start = opening.end(1) if opening else 0
    item = (ITEM_WITHOUT_PERIOD if ORDINAL in learnt else ITEM).match(line, start)
    bounds = [item.end() if item else start]  # start, end, start, end, ...
    ends = GREEK_SENTENCE_END if base in GREEK else SENTENCE_END
    symbols_end = 0
    for end in ends.finditer(line, bounds[0]):
        following = None if end.start() < symbols_end else NEXT.match(line, end.end())
        symbols_end = following.end(1) if following else symbols_end
        if following and _ends_sentence(end, following, bounds[-1], is_cased, learnt):
            stop, marks = end.end(2), len(end[2]) - len(end[2].rstrip(EMPHASIS))
            is_outside = end[2][-1:] not in line[bounds[-1] : end.end(1)]  # a note, or of the next
            stop -= marks * is_outside
            item, is_glued = _item_at(following), is_outside and marks and not end[4]
            start = item.end() if item else following.end(1)
            bounds += [stop, stop if is_glued else start]
        elif end[2] and following and following[3]:  # He said: "Go. Now." and left
            earliest = max(bounds[0], end.start() - LONGEST_QUOTATION)
            marks = OPENED_BY.get(end[2][-1], "")
            opened = max((line.rfind(each, earliest, end.start()) for each in marks), default=-1)
            while -1 < opened < bounds[-1]:
                del bounds[-2:]
    tail = LAST_SYMBOLS.finditer(line, bounds[-1]) if not line[-1:].isalnum() else ()
    bounds.append(next((each.start() for each in tail if each.end() == len(line)), len(line)))
    found = list[slice]()
    for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
        part = line[start:stop].rstrip()
        start, stop = start + len(part) - len(part.lstrip()), start + len(part)
        if wrapped := WRAPPED.fullmatch(line, start, stop):
            start, stop = wrapped.span(2)
        if has_letter(part):
            found.append(slice(start, stop))
    return found


def find_parts(line: str, language: str) -> list[slice]:
    """The parts of a line between all marks after a word that may end a sentence."""
    base, starts = base_language(language), [0]
    known = ABBREVIATIONS.union(ABBREVIATIONS_OF.get(base, ()))
    for end in (GREEK_SENTENCE_END if base in GREEK else SENTENCE_END).finditer(line):
        before = line[max(starts[-1], end.start() - LONGEST_ADDRESS) : end.start()]
        word = re.search(rf"\w{{2,}}(?=[{CLOSING}{EMPHASIS}]*$)", before)
        is_inner = not word or word[0].lower() in known  # 3.50, U.S., Dr.
        is_number = before[-1:].isdigit() and line[end.end() : end.end() + 1].isdigit()
        is_part = end[1][0] in FULL_STOPS or not (is_inner or is_number)
        if is_part and has_letter(before) and end.end() < len(line):
            starts.append(end.end())
    parts = pairwise([*starts, len(line)])
    return [slice(start, start + len(line[start:end].rstrip())) for start, end in parts]


def _ends_sentence(
    end: Match, following: Match, start: int, is_cased: bool, learnt: Collection[str]
) -> bool:
    """Whether the sentence from `start` ends at `end`. `is_cased`: the line has upper case."""
    (stop, closing, signs, space), line = end.groups(), end.string
    after = line[end.end() : end.end() + 1]
    if stop[0] in f"{FULL_STOPS}፡":  # 「行く。」と言った is one sentence
        is_bracketed = closing[-1:] in (")", "）") and line.startswith(("(", "（"), start)
        is_closed = closing.strip(EMPHASIS)
        return bool(space) or not is_closed or is_bracketed or after in "“「『"
    symbols, sign, word = following.groups()
    if not space and not signs:  # Really?Yes! but not in addresses
        if closing or re.search("[.…]", stop) or not (after.isupper() or after in "¡¿"):
            return False
        before = line[max(0, end.start() - LONGEST_ADDRESS) : end.start()].rpartition(" ")[2]
        return re.fullmatch(r"[^/.=]*[^\W\d_]", before) is not None
    if not (word[:1].isalnum() or ((symbols or signs) and not word)):
        return False
    if is_cased and word[:1].islower() and not sign and not _item_at(following):
        # As people type; but not in: "Really?" he said, nor — Really? — he said
        return "?" in stop and not closing and not re.search(r"[\-–—]", line[0] + following[0])
    if stop != "." and not stop.strip(".…") and word:  # Well... I know
        return (word[0].isupper() and word != "I") or bool(sign)
    before = line[max(0, end.start() - LONGEST_ABBREVIATION) : end.start()]
    last = found[0].strip(EMPHASIS) if (found := LAST_WORD.search(before)) else ""
    if not closing and NUMBER.fullmatch(last):
        preceding = before[: -len(last)].rstrip()
        is_item = not preceding or preceding[-1] in ".!?…:"  # "1. Go home. 2. Rest"
        named = LAST_WORD.search(preceding.removesuffix("."))  # No. 5. He left
        if (ORDINAL in learnt or is_item) and not (named and _is_before_number(named[0])):
            return stop != "."
    if re.search(r"['’‘]\w$", before) and (last.islower() or line.isupper()):
        last = f"'{last}"  # the end of a word, as in don't and c'è, not an initial
    if "".join(before.split()).endswith(UNCASED_PARTS):
        last = "etc"
    is_number = word[:1].isdigit() or signs[:1].isdigit() or word[:1] == SPAN_LETTER
    around = max(0, end.start() - LONGEST_QUOTATION), end.start()
    is_bracketed = line.rfind("(", *around) > line.rfind(")", *around)
    is_date = DATE.match(line, following.start(3)) or ENDS_OF_NUMBER.search(last)
    if is_number and (_is_before_number(last) or is_date or is_bracketed) or after == "&":
        return stop != "."  # (HB. 79), Co. & Sons
    return stop != "." or not _is_abbreviation(last, word, is_cased, learnt)


def _item_at(following: Match) -> Match | None:
    """What letters or numbers an item within a line; (A) and (R) are often something else."""
    item = ITEM_WITHOUT_PERIOD.match(following.string, following.end(1))
    return None if item and following[3][:1].isupper() else item


def _is_before_number(word: str) -> bool:
    """Whether it is an abbreviation of what has a number."""
    is_letter = len(word) == 1 and word.isalpha() and word != SPAN_LETTER
    return is_letter or word.lower() in BEFORE_NUMBER or word.lower().endswith(("str", "nr"))


def _is_abbreviation(word: str, following: str, is_cased: bool, learnt: Collection[str]) -> bool:
    """Whether a period after this word belongs to it, as in Dr., J., U.S. and XIV."""
    first, _, last = word.rpartition(".")
    if first and all(len(part) <= 2 and not part.isdigit() for part in word.split(".")):
        return following not in STARTERS or not (word[0].isupper() or word[-2:] == ".m")
    return (
        last.lower().removeprefix("-") in learnt  # also of f.eks. and Dipl.-Ing.
        or (not is_cased and word in UNCASED_ABBREVIATIONS)
        or (len(word) == 1 and word.lower() != word.upper() and f"{word}." not in learnt)
        or re.fullmatch("[\u0e00-\u0eff]{1,5}", word) is not None  # Thai and Lao
    )


def learn_abbreviations(lines: Iterable[str]) -> list[str]:
    """The words after which a period ends no sentence, in lower case, sorted.

    `ORDINAL` is among them if that is so after numbers, and "a." if the letter is a word whose
    period does end sentences. Lines may have several sentences: the periods of an abbreviation are
    inside lines more often than the periods of other words, by a log-likelihood ratio.
    """
    tokens, last = Counter[str](), Counter[str]()
    for line in lines:
        number = FIRST_NUMBER.match(line)
        words = line[number.end() if number else 0 :].split()
        tokens.update(words)
        last.update(words[-1:])
    inside, at_end, others = Counter[str](), Counter[str](), Counter[str]()
    for token, count in tokens.items():
        is_word = token.isalpha() and len(token) <= LONGEST_ABBREVIATION  # as most are
        ending = token[-2 * LONGEST_ABBREVIATION :]
        for stem, period in [(token, "")] if is_word else LAST_TOKEN.findall(ending):
            word = ORDINAL if stem.isdigit() else stem.lower() + "." * (len(stem) == 1)
            if period:
                inside[word] += count - last[token]
                at_end[word] += last[token]
            else:
                others[word] += count
    usual = [w for w, n in inside.items() if n + at_end[w] < others[w] and w != ORDINAL]
    ends_inside, ends = (1 + sum(counts[word] for word in usual) for counts in (inside, at_end))
    share = ends_inside / (ends_inside + ends)
    return sorted(w for w, n in inside.items() if _is_learnt(w, n, at_end[w], others[w], share))


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


def space_between(language: str) -> str:
    """What stands between two sentences of the language."""
    return "" if base_language(language) in CHINESE | JAPANESE else " "


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
