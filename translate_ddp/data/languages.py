"""Names of languages, and the codes of two and three letters that ISO 639 gives to them."""

import re
from contextlib import suppress

import langcodes

from translate_ddp.text import OTHER_CODES, base_language

NAMES = {
    entry[:2]: entry[3:]
    for entry in """
    af=Afrikaans am=Amharic ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali
    bo=Tibetan br=Breton bs=Bosnian ca=Catalan co=Corsican cs=Czech cy=Welsh da=Danish de=German
    dv=Divehi dz=Dzongkha el=Greek en=English eo=Esperanto es=Spanish et=Estonian eu=Basque
    fa=Persian fi=Finnish fo=Faroese fr=French fy=Frisian ga=Irish gd=Gaelic gl=Galician
    gu=Gujarati ha=Hausa he=Hebrew hi=Hindi hr=Croatian ht=Haitian hu=Hungarian hy=Armenian
    id=Indonesian ig=Igbo is=Icelandic it=Italian ja=Japanese jv=Javanese ka=Georgian kk=Kazakh
    km=Khmer kn=Kannada ko=Korean ku=Kurdish ky=Kyrgyz la=Latin lb=Luxembourgish ln=Lingala lo=Lao
    lt=Lithuanian lv=Latvian mg=Malagasy mi=Maori mk=Macedonian ml=Malayalam mn=Mongolian
    mr=Marathi ms=Malay mt=Maltese my=Burmese nb=Norwegian ne=Nepali nl=Dutch nn=Nynorsk
    no=Norwegian oc=Occitan or=Odia pa=Punjabi pl=Polish ps=Pashto pt=Portuguese rm=Romansh
    ro=Romanian ru=Russian rw=Kinyarwanda sa=Sanskrit sc=Sardinian sd=Sindhi si=Sinhala sk=Slovak
    sl=Slovenian sn=Shona so=Somali sq=Albanian sr=Serbian st=Sotho su=Sundanese sv=Swedish
    sw=Swahili ta=Tamil te=Telugu tg=Tajik th=Thai ti=Tigrinya tk=Turkmen tl=Tagalog tn=Tswana
    tr=Turkish tt=Tatar ug=Uyghur uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese wo=Wolof xh=Xhosa
    yi=Yiddish yo=Yoruba zh=Chinese zu=Zulu
    """.split()
}

LANGUAGE_NAMES = {name.casefold() for name in NAMES.values()}


def spellings(code: str) -> list[str]:
    """The code, and the other codes of the language: de, deu, ger and deu_Latn, in any order.

    A code with a region, or with a script that is not the usual one, has no others.
    """
    base, codes = base_language(code), [code]
    with suppress(LookupError, langcodes.LanguageTagError):  # it is not in ISO 639
        language = langcodes.Language.make(base)
        with_script = f"{language.to_alpha3('T')}_{language.maximize().script}"
        if code.isalpha() or code.replace("-", "_") == with_script:
            codes += [base, language.to_alpha3("T"), language.to_alpha3("B"), with_script]
            codes += [other for other, usual in OTHER_CODES.items() if usual == base]
    return list(dict.fromkeys(codes))


def written(code: str) -> list[str]:
    """How names of files and columns write a code: of zh_CN also zh-CN, zh-cn, zho_CN, ..."""
    base, *part = re.split("[_@-]", code, maxsplit=1)
    parts = {text: None for each in part for text in (each, each.lower(), each.upper())}
    bases = filter(str.isalpha, spellings(base))
    found = (f"{b}{s}{p}" for b in bases for s in "_-@" for p in parts)
    return list(dict.fromkeys([*spellings(code), *found]))


def column_names(code: str) -> list[str]:
    """What a column of the language is usually called: its codes, and its English name.

    Codes of two letters come last: `id` and `no` are also names of columns with numbers.
    """
    return sorted([*written(code), language_name(code)], key=lambda name: len(name) == 2)


def is_language(text: str) -> bool:
    """Whether the text is an English name of a language, in any case, or a code such as it or IT.

    `It` is a word.
    """
    base = base_language(text) if text in (text.lower(), text.upper()) else ""
    is_code = len(base) == 2 and len(spellings(base)) > 1
    return is_code or text.casefold() in LANGUAGE_NAMES


def language_name(code: str) -> str:
    """The English name of a language without its region, or its code if the name is not known."""
    return NAMES.get(base_language(code), code)
