"""English names of languages, for model cards and the menus of programs."""

from translate_ddp.data.text import base_language

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


def language_name(code: str) -> str:
    """The English name of a language without its region, or its code if the name is not known."""
    return NAMES.get(base_language(code), code)
