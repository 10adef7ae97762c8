"""Italian word forms against hand-written ones."""

import re

import pytest

from tools.demo_grammar import italian
from tools.demo_grammar.agreement import Agreement, Tense

M, F = Agreement("m", "singular"), Agreement("f", "singular")
MM, FF = Agreement("m", "plural"), Agreement("f", "plural")
BELLO, BUONO = italian.BEFORE_NOUN["bello"], italian.BEFORE_NOUN["buono"]
SEVEN_WORDS = (italian.THE, italian.SOME, italian.THAT, italian.THIS, BELLO, BUONO, italian.A)
EXPECTED_BY_START = {
    "il libro, del libro, quel libro, questo libro, bel libro, buon libro, un libro": M,
    "lo specchio, dello specchio, quello specchio, questo specchio, bello specchio, "
    "buono specchio, uno specchio": M,
    "lo zaino, dello zaino, quello zaino, questo zaino, bello zaino, buono zaino, uno zaino": M,
    "lo gnomo, dello gnomo, quello gnomo, questo gnomo, bello gnomo, buono gnomo, uno gnomo": M,
    "l'amico, dell'amico, quell'amico, quest'amico, bell'amico, buon amico, un amico": M,
    "il sole, del sole, quel sole, questo sole, bel sole, buon sole, un sole": M,
    "la casa, della casa, quella casa, questa casa, bella casa, buona casa, una casa": F,
    "la scala, della scala, quella scala, questa scala, bella scala, buona scala, una scala": F,
    "l'amica, dell'amica, quell'amica, quest'amica, bell'amica, buona amica, un'amica": F,
    "i libri, dei libri, quei libri, questi libri, bei libri, buoni libri": MM,
    "gli studenti, degli studenti, quegli studenti, questi studenti, begli studenti, "
    "buoni studenti": MM,
    "gli zaini, degli zaini, quegli zaini, questi zaini, begli zaini, buoni zaini": MM,
    "gli amici, degli amici, quegli amici, questi amici, begli amici, buoni amici": MM,
    "le case, delle case, quelle case, queste case, belle case, buone case": FF,
    "le amiche, delle amiche, quelle amiche, queste amiche, belle amiche, buone amiche": FF,
}


@pytest.mark.parametrize("expected, agreement", EXPECTED_BY_START.items())
def test_articles_and_short_adjectives_match_the_start_of_the_noun(
    expected: str, agreement: Agreement
):
    phrases = expected.split(", ")
    noun = re.split("[ ']", phrases[0])[1]
    words = SEVEN_WORDS if agreement.number == "singular" else SEVEN_WORDS[:-1]  # `a` has no plural
    assert [italian.prepend(word, noun, agreement) for word in words] == phrases


@pytest.mark.parametrize(
    "adjective, noun, agreement, expected",
    [
        ("nuovo", "zaino", M, "il nuovo zaino"),  # not lo
        ("bello", "albero", M, "il bell'albero"),
        ("bello", "libri", MM, "i bei libri"),
        ("bello", "specchi", MM, "i begli specchi"),
        ("buono", "studente", M, "il buono studente"),
        ("grande", "isola", F, "la grande isola"),
        ("vecchio", "amici", MM, "i vecchi amici"),
    ],
)
def test_article_matches_the_next_word_even_if_it_is_an_adjective(
    adjective: str, noun: str, agreement: Agreement, expected: str
):
    described = italian.prepend_adjective(adjective, noun, agreement)
    assert italian.prepend(italian.THE, described, agreement) == expected


@pytest.mark.parametrize(
    "preposition, phrase, expected",
    [
        *(("di", "il libro", "del libro"), ("di", "lo studente", "dello studente")),
        *(("di", "l'amica", "dell'amica"), ("di", "la casa", "della casa")),
        *(("di", "i libri", "dei libri"), ("di", "gli amici", "degli amici")),
        *(
            ("di", "le case", "delle case"),
            ("a", "il mare", "al mare"),
            ("a", "lo zoo", "allo zoo"),
        ),
        *(("a", "l'università", "all'università"), ("a", "le otto", "alle otto")),
        *(("a", "i ragazzi", "ai ragazzi"), ("a", "gli attori", "agli attori")),
        *(("da", "la Francia", "dalla Francia"), ("da", "l'Italia", "dall'Italia")),
        *(("da", "il parco", "dal parco"), ("in", "lo zaino", "nello zaino")),
        *(("in", "il cassetto", "nel cassetto"), ("in", "l'armadio", "nell'armadio")),
        *(("su", "l'albero", "sull'albero"), ("su", "la sedia", "sulla sedia")),
        *(("su", "gli scaffali", "sugli scaffali"), ("su", "i tavoli", "sui tavoli")),
        ("vicino a", "la finestra", "vicino alla finestra"),
        ("davanti a", "gli specchi", "davanti agli specchi"),
        # Other prepositions, and phrases without a definite article, do not contract.
        *(("con", "il cane", "con il cane"), ("per", "la madre", "per la madre")),
        *(("sotto", "il letto", "sotto il letto"), ("in", "un ristorante", "in un ristorante")),
        *(("di", "mia madre", "di mia madre"), ("da", "Laura", "da Laura"), ("", "il re", "il re")),
        # Before another a, `a` becomes `ad`.
        *(("a", "Anna", "ad Anna"), ("a", "Maria", "a Maria"), ("a", "Ulisse", "a Ulisse")),
    ],
)
def test_prepositions_contract_with_definite_articles_only(
    preposition: str, phrase: str, expected: str
):
    assert italian.contract(preposition, phrase) == expected


@pytest.mark.parametrize(
    "singular, gender, expected",
    [
        *(("libro", "m", "libri"), ("casa", "f", "case"), ("cane", "m", "cani")),
        *(("chiave", "f", "chiavi"), ("problema", "m", "problemi"), ("zio", "m", "zii")),
        *(("uomo", "m", "uomini"), ("città", "f", "città"), ("film", "m", "film")),
        *(("caffè", "m", "caffè"), ("cinema", "m", "cinema"), ("orologio", "m", "orologi")),
        *(("specchio", "m", "specchi"), ("figlio", "m", "figli"), ("negozio", "m", "negozi")),
        *(("amico", "m", "amici"), ("medico", "m", "medici"), ("cuoco", "m", "cuochi")),
        *(("parco", "m", "parchi"), ("albergo", "m", "alberghi"), ("bosco", "m", "boschi")),
        *(("amica", "f", "amiche"), ("barca", "f", "barche"), ("mucca", "f", "mucche")),
        *(("arancia", "f", "arance"), ("spiaggia", "f", "spiagge"), ("giacca", "f", "giacche")),
        *(("camicia", "f", "camicie"), ("valigia", "f", "valigie"), ("ciliegia", "f", "ciliegie")),
    ],
)
def test_plurals(singular: str, gender: italian.Gender, expected: str):
    assert italian.plural(singular, gender) == expected


@pytest.mark.parametrize(
    "forms",
    [
        "rosso rossa rossi rosse",
        "bianco bianca bianchi bianche",
        "lungo lunga lunghi lunghe",
        "simpatico simpatica simpatici simpatiche",
        "vecchio vecchia vecchi vecchie",
        "verde verde verdi verdi",
        "inglese inglese inglesi inglesi",
        "blu blu blu blu",
        "mio mia miei mie",
        "suo sua suoi sue",
        "nostro nostra nostri nostre",
        "loro loro loro loro",
    ],
)
def test_adjectives_agree_in_gender_and_number(forms: str):
    adjective = forms.split()[0]
    assert [italian.inflect(adjective, form) for form in (M, F, MM, FF)] == forms.split()


@pytest.mark.parametrize(
    "verb, forms",
    [
        ("parlare", "parlo parli parla parliamo parlate parlano"),
        ("mangiare", "mangio mangi mangia mangiamo mangiate mangiano"),
        ("studiare", "studio studi studia studiamo studiate studiano"),
        ("cercare", "cerco cerchi cerca cerchiamo cercate cercano"),
        ("spiegare", "spiego spieghi spiega spieghiamo spiegate spiegano"),
        ("leggere", "leggo leggi legge leggiamo leggete leggono"),
        ("dormire", "dormo dormi dorme dormiamo dormite dormono"),
        ("capire", "capisco capisci capisce capiamo capite capiscono"),
        ("essere", "sono sei è siamo siete sono"),
        ("avere", "ho hai ha abbiamo avete hanno"),
        ("andare", "vado vai va andiamo andate vanno"),
        ("venire", "vengo vieni viene veniamo venite vengono"),
        ("uscire", "esco esci esce usciamo uscite escono"),
        ("dare", "do dai dà diamo date danno"),
        ("bere", "bevo bevi beve beviamo bevete bevono"),
        ("potere", "posso puoi può possiamo potete possono"),
        ("dovere", "devo devi deve dobbiamo dovete devono"),
        ("volere", "voglio vuoi vuole vogliamo volete vogliono"),
    ],
)
def test_present_in_all_persons(verb: str, forms: str):
    assert [italian.present(verb, slot) for slot in range(6)] == forms.split()


@pytest.mark.parametrize(
    "verb, forms",
    [
        ("parlare", "parlerò parlerai parlerà parleremo parlerete parleranno"),
        ("mangiare", "mangerò mangerai mangerà mangeremo mangerete mangeranno"),
        ("studiare", "studierò studierai studierà studieremo studierete studieranno"),
        ("cercare", "cercherò cercherai cercherà cercheremo cercherete cercheranno"),
        ("leggere", "leggerò leggerai leggerà leggeremo leggerete leggeranno"),
        ("capire", "capirò capirai capirà capiremo capirete capiranno"),
        ("essere", "sarò sarai sarà saremo sarete saranno"),
        ("avere", "avrò avrai avrà avremo avrete avranno"),
        ("andare", "andrò andrai andrà andremo andrete andranno"),
        ("vedere", "vedrò vedrai vedrà vedremo vedrete vedranno"),
        ("venire", "verrò verrai verrà verremo verrete verranno"),
        ("bere", "berrò berrai berrà berremo berrete berranno"),
        ("dare", "darò darai darà daremo darete daranno"),
        ("cadere", "cadrò cadrai cadrà cadremo cadrete cadranno"),
        ("volere", "vorrò vorrai vorrà vorremo vorrete vorranno"),
    ],
)
def test_future_in_all_persons(verb: str, forms: str):
    assert [italian.future(verb, slot) for slot in range(6)] == forms.split()


@pytest.mark.parametrize(
    "verb, forms",
    [
        ("amare", "amavo amavi amava amavamo amavate amavano"),
        ("avere", "avevo avevi aveva avevamo avevate avevano"),
        ("essere", "ero eri era eravamo eravate erano"),
    ],
)
def test_past_of_stative_verbs_is_the_imperfetto(verb: str, forms: str):
    for slot, form in enumerate(forms.split()):
        agreement = Agreement("m", "plural" if slot > 2 else "singular", (1, 2, 3)[slot % 3])
        assert italian.conjugate(verb, "past", agreement) == (form, "")


def test_participles():
    pairs = "mangiare mangiato, vendere venduto, dormire dormito, leggere letto, scrivere scritto, "
    pairs += (
        "vedere visto, prendere preso, aprire aperto, chiudere chiuso, bere bevuto, dare dato, "
    )
    pairs += "mettere messo, perdere perso, rompere rotto, offrire offerto, rispondere risposto, "
    pairs += "piangere pianto, ridere riso, correre corso, venire venuto, cadere caduto"
    for infinitive, participle in (pair.split() for pair in pairs.split(", ")):
        assert italian.participle(infinitive) == participle


@pytest.mark.parametrize(
    "verb, agreement, expected",
    [
        ("mangiare", FF, ("hanno", "mangiato")),  # no agreement with avere
        ("arrivare", M, ("è", "arrivato")),
        ("arrivare", F, ("è", "arrivata")),
        ("arrivare", MM, ("sono", "arrivati")),
        ("arrivare", FF, ("sono", "arrivate")),
        ("venire", Agreement("m", "singular", 1), ("sono", "venuto")),
        ("tornare", Agreement("m", "plural", 2), ("siete", "tornati")),
    ],
)
def test_participle_agrees_with_the_subject_only_after_essere(
    verb: str, agreement: Agreement, expected: tuple[str, str]
):
    assert italian.conjugate(verb, "past", agreement) == expected


@pytest.mark.parametrize(
    "tense, agreement, expected",
    [
        *(("present", M, "c'è"), ("present", MM, "ci sono"), ("past", F, "c'era")),
        *(("past", FF, "c'erano"), ("future", M, "ci sarà"), ("future", MM, "ci saranno")),
    ],
)
def test_esserci_in_all_tenses(tense: Tense, agreement: Agreement, expected: str):
    assert italian.conjugate("esserci", tense, agreement) == (expected, "")


def test_e_becomes_ed_before_another_e():
    assert italian.join_with_and("mangia", "beve") == "mangia e beve"
    assert italian.join_with_and("apre la porta", "entra") == "apre la porta ed entra"
    assert italian.join_with_and("è alto", "è forte") == "è alto ed è forte"
