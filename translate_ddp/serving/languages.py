"""Codes and English names of languages, as LibreTranslate's clients use them."""

import re

from translate_ddp.data.text import base_language

ALIASES = {"zt": "zh-Hant", "pb": "pt-BR"}  # codes of LibreTranslate's models
CHINESE_SCRIPTS = {"tw": "hant", "hk": "hant", "mo": "hant", "cn": "hans", "sg": "hans"}

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


def same_language(one: str, other: str) -> bool:
    """Whether two codes name one language. Regions do not count, and scripts if both have one.

    en is en_US and en-GB; zh is zh_CN, which is not zh-Hant.
    """
    one, other = (ALIASES.get(code.lower(), code) for code in (one, other))
    scripts = {script for code in (one, other) if (script := _script(code))}
    return base_language(one) == base_language(other) and len(scripts) < 2


def _script(code: str) -> str:
    """The script of a code such as sr-Latn, in lower case, or ""."""
    base, *parts = re.split("[-_]", code.lower())
    scripts = [part for part in parts if len(part) == 4 and part.isalpha()]
    if base == "zh":
        scripts += [CHINESE_SCRIPTS[part] for part in parts if part in CHINESE_SCRIPTS]
    return scripts[0] if scripts else ""


def public_codes(source: str, target: str) -> tuple[str, str]:
    """The codes of a pair as clients expect them: en and it of en_US and it_IT.

    With regions and scripts if the pair differs in nothing else, as zh-Hans and zh-Hant.
    """
    codes = base_language(source), base_language(target)
    if codes[0] == codes[1]:
        return source.replace("_", "-"), target.replace("_", "-")
    return codes


def language_name(code: str) -> str:
    """The English name of a language, or its code."""
    name = NAMES.get(base_language(code), code)
    return f"{name} ({code})" if re.search("[-_]", code) and name != code else name
