"""Names of languages, and the codes of two and three letters that ISO 639 gives to them."""

import re
from contextlib import suppress

import langcodes

from translate_ddp.text import base_language

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
    """The code, and the other ISO 639 codes of the language: de, deu and ger, in any order.

    A code with a region or a script has no others.
    """
    codes = [code]
    if code.isalpha():
        codes.append(base_language(code))
        with suppress(LookupError, langcodes.LanguageTagError):  # it is not in ISO 639
            language = langcodes.Language.make(codes[-1])
            codes += [language.to_alpha3("T"), language.to_alpha3("B")]
    return list(dict.fromkeys(codes))


def written(code: str) -> list[str]:
    """How names of files and columns write a code: of zh_CN also zh-CN, zh-cn, zho_CN, ..."""
    base, *part = re.split("[_@-]", code, maxsplit=1)
    if not part:
        return spellings(code)
    parts = (part[0], part[0].lower(), part[0].upper())
    found = (f"{b}{s}{p}" for b in spellings(base) for s in "_-@" for p in parts)
    return list(dict.fromkeys([code, *found]))


def column_names(code: str) -> list[str]:
    """What a column of the language is usually called: its codes, and its English name."""
    return [*written(code), language_name(code)]


def is_language(text: str) -> bool:
    """Whether the text is an English name of a language, in any case, or a code such as it or IT.

    `It` is a word.
    """
    is_code = text in (text.lower(), text.upper()) and len(spellings(base_language(text))) > 1
    return is_code or text.casefold() in LANGUAGE_NAMES


def language_name(code: str) -> str:
    """The English name of a language without its region, or its code if the name is not known."""
    return NAMES.get(base_language(code), code)
