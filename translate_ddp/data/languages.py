"""Names of languages, and the codes of two and three letters that ISO 639 gives to them."""

import re

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

# ISO 639-1 code -> ISO 639-3 code.
THREE_LETTERS = {
    entry[:2]: entry[3:]
    for entry in """
    aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara as=asm av=ava ay=aym az=aze ba=bak
    be=bel bg=bul bi=bis bm=bam bn=ben bo=bod br=bre bs=bos ca=cat ce=che ch=cha co=cos cr=cre
    cs=ces cu=chu cv=chv cy=cym da=dan de=deu dv=div dz=dzo ee=ewe el=ell en=eng eo=epo es=spa
    et=est eu=eus fa=fas ff=ful fi=fin fj=fij fo=fao fr=fra fy=fry ga=gle gd=gla gl=glg gn=grn
    gu=guj gv=glv ha=hau he=heb hi=hin ho=hmo hr=hrv ht=hat hu=hun hy=hye hz=her ia=ina id=ind
    ie=ile ig=ibo ii=iii ik=ipk io=ido is=isl it=ita iu=iku ja=jpn jv=jav ka=kat kg=kon ki=kik
    kj=kua kk=kaz kl=kal km=khm kn=kan ko=kor kr=kau ks=kas ku=kur kv=kom kw=cor ky=kir la=lat
    lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit lu=lub lv=lav mg=mlg mh=mah mi=mri mk=mkd ml=mal
    mn=mon mr=mar ms=msa mt=mlt my=mya na=nau nb=nob nd=nde ne=nep ng=ndo nl=nld nn=nno no=nor
    nr=nbl nv=nav ny=nya oc=oci oj=oji om=orm or=ori os=oss pa=pan pi=pli pl=pol ps=pus pt=por
    qu=que rm=roh rn=run ro=ron ru=rus rw=kin sa=san sc=srd sd=snd se=sme sg=sag si=sin sk=slk
    sl=slv sm=smo sn=sna so=som sq=sqi sr=srp ss=ssw st=sot su=sun sv=swe sw=swa ta=tam te=tel
    tg=tgk th=tha ti=tir tk=tuk tl=tgl tn=tsn to=ton tr=tur ts=tso tt=tat tw=twi ty=tah ug=uig
    uk=ukr ur=urd uz=uzb ve=ven vi=vie vo=vol wa=wln wo=wol xh=xho yi=yid yo=yor za=zha zh=zho
    zu=zul
    """.split()
}
# ISO 639-1 code -> ISO 639-2/B code, of languages whose code in libraries differs from 639-3.
BIBLIOGRAPHIC = {
    entry[:2]: entry[3:]
    for entry in """
    bo=tib cs=cze cy=wel de=ger el=gre eu=baq fa=per fr=fre hy=arm is=ice ka=geo mi=mao mk=mac
    ms=may my=bur nl=dut ro=rum sk=slo sq=alb zh=chi
    """.split()
}
TWO_LETTERS = {
    three: two for codes in (THREE_LETTERS, BIBLIOGRAPHIC) for two, three in codes.items()
}


ENGLISH_NAMES = {name.casefold() for name in NAMES.values()}
CODES = NAMES.keys() | THREE_LETTERS.keys() | TWO_LETTERS.keys()


def spellings(code: str) -> list[str]:
    """The code, and the other ISO 639 codes of the language: de, deu and ger, in any order."""
    two = TWO_LETTERS.get(code, code)
    codes = [two, THREE_LETTERS.get(two), BIBLIOGRAPHIC.get(two)]
    return [code, *(other for other in codes if other and other != code)]


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
    is_code = text.casefold() in CODES and text in (text.lower(), text.upper())
    return is_code or text.casefold() in ENGLISH_NAMES


def language_name(code: str) -> str:
    """The English name of a language without its region, or its code if the name is not known."""
    base = base_language(code)
    return NAMES.get(TWO_LETTERS.get(base, base), code)
