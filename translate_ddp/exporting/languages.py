"""English names of languages, for model cards and the menus of other programs."""

from translate_ddp.data.text import base_language

NAMES: dict[str, str] = {
    code: name
    for code, _, name in (
        pair.partition("=")
        for pair in """
    ar=Arabic az=Azerbaijani be=Belarusian bg=Bulgarian bn=Bengali bs=Bosnian ca=Catalan cs=Czech
    cy=Welsh da=Danish de=German el=Greek en=English eo=Esperanto es=Spanish et=Estonian eu=Basque
    fa=Persian fi=Finnish fr=French ga=Irish gl=Galician gu=Gujarati he=Hebrew hi=Hindi hr=Croatian
    hu=Hungarian hy=Armenian id=Indonesian is=Icelandic it=Italian ja=Japanese ka=Georgian
    kk=Kazakh km=Khmer kn=Kannada ko=Korean ky=Kyrgyz lt=Lithuanian lv=Latvian mk=Macedonian
    ml=Malayalam mn=Mongolian mr=Marathi ms=Malay mt=Maltese my=Burmese nb=Norwegian ne=Nepali
    nl=Dutch pa=Punjabi pl=Polish ps=Pashto pt=Portuguese ro=Romanian ru=Russian si=Sinhala
    sk=Slovak sl=Slovenian sq=Albanian sr=Serbian sv=Swedish sw=Swahili ta=Tamil te=Telugu
    th=Thai tl=Tagalog tr=Turkish uk=Ukrainian ur=Urdu uz=Uzbek vi=Vietnamese
    yo=Yoruba zh=Chinese zu=Zulu
    """.split()
    )
}


def language_name(code: str) -> str:
    """The English name of a language, or its code if the name is not known."""
    return NAMES.get(base_language(code), code)
