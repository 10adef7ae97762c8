"""The words of the demo language, as tables anyone can read; `lexicon` turns them into values.

A table holds entries `english = italian`, split by commas or lines, with the gender behind a noun.
After `>` come the nouns that fit, after `@` the places: each a kind of noun (a key of `NOUNS`), a
group of kinds, or one noun or place in English.
"""

# Nouns -------------------------------------------------------------------------------------------

NOUNS = {
    "person": """
        man = uomo m, woman = donna f, boy = ragazzo m, girl = ragazza f, child = bambino m,
        student = studente m, nurse = infermiera f, cook = cuoco m, actor = attore m,
        actress = attrice f, singer = cantante m, farmer = contadino m, engineer = ingegnere m
    """,
    "acquaintance": "friend = amico m, teacher = insegnante m, doctor = medico m",
    "family": """
        mother = madre f, father = padre m, brother = fratello m, sister = sorella f,
        grandfather = nonno m, grandmother = nonna f, uncle = zio m, aunt = zia f,
        son = figlio m, daughter = figlia f
    """,
    "pet": "dog = cane m, cat = gatto m, horse = cavallo m",
    "wildlife": """
        cow = mucca f, bird = uccello m, mouse = topo m, wolf = lupo m, eagle = aquila f,
        squirrel = scoiattolo m
    """,
    "fruit": "apple = mela f, orange = arancia f, pear = pera f, cherry = ciliegia f",
    "dish": "cake = torta f, pizza = pizza f, salad = insalata f, sandwich = panino m",
    "staple": "bread = pane m, cheese = formaggio m",
    "grocery": "sugar = zucchero m, salt = sale m",
    "meal": "meat = carne f, fish = pesce m, rice = riso m, soup = zuppa f",
    "drink": "water = acqua f, milk = latte m, wine = vino m, coffee = caffè m, tea = tè m",
    "text": "book = libro m, letter = lettera f, message = messaggio m, story = storia f",
    "press": "newspaper = giornale m, magazine = rivista f",
    "tool": "pen = penna f, knife = coltello m, phone = telefono m, umbrella = ombrello m",
    "fragile": """
        cup = tazza f, glass = bicchiere m, plate = piatto m, lamp = lampada f, clock = orologio m,
        mirror = specchio m
    """,
    "object": """
        key = chiave f, ball = palla f, toy = giocattolo m, gift = regalo m, flower = fiore m
    """,
    "luggage": "box = scatola f, backpack = zaino m, bag = borsa f, suitcase = valigia f",
    "cupboard": "drawer = cassetto m, wardrobe = armadio m",
    "furniture": """
        table = tavolo m, chair = sedia f, bed = letto m, shelf = scaffale m, sofa = divano m,
        bench = panchina f, stool = sgabello m
    """,
    "vehicle": "bicycle = bicicletta f, car = macchina f, boat = barca f",
    "instrument": "guitar = chitarra f, piano = pianoforte m",
    "clothing": """
        shirt = camicia f, jacket = giacca f, hat = cappello m, coat = cappotto m, skirt = gonna f,
        shoe = scarpa f, glove = guanto m, boot = stivale m
    """,
    "opening": "door = porta f, window = finestra f, gate = cancello m",
    "building": "house = casa f, bridge = ponte m, tower = torre f",
    "sight": "tree = albero m, star = stella f, river = fiume m",
    "show": "film = film m, match = partita f, song = canzone f",
    "schoolwork": """
        question = domanda f, problem = problema m, exercise = esercizio m, lesson = lezione f
    """,
    "subject": """
        Italian = italiano m, English = inglese m, history = storia f, mathematics = matematica f
    """,
}
UNCOUNTABLE = {"staple", "grocery", "meal", "drink", "subject"}  # kinds that have no plural
UNIQUE = {"mother", "father"}
IN_PAIRS = {"shoe", "glove", "boot"}  # nouns spoken of in the plural

# Behind the colon: English at, Italian at, Italian to; `bare` is explained in `Place`.
PLACES = """
    park = parco m: in in a,             garden = giardino m: in in in bare
    kitchen = cucina f: in in in bare,   library = biblioteca f: in in in bare
    church = chiesa f: in in in bare,    office = ufficio m: in in in bare
    square = piazza f: in in in bare,    city = città f: in in in bare
    hotel = albergo m: at in in bare,    hospital = ospedale m: at in in bare
    forest = bosco m: in in in,          village = villaggio m: in in in
    classroom = aula f: in in in,        shop = negozio m: in in in
    station = stazione f: at a a,        market = mercato m: at a a
    museum = museo m: at a a,            cinema = cinema m: at a a
    theatre = teatro m: at a a bare,     restaurant = ristorante m: at a a
    university = università f: at a a,   zoo = zoo m: at a a
    stadium = stadio m: at a a,          sea = mare m: at a a
    beach = spiaggia f: on su a,         island = isola f: on su su
"""
CITIES = "Rome = Roma, Milan = Milano, Venice = Venezia, Naples = Napoli, Florence = Firenze"
COUNTRIES = """
    Italy = l'Italia, France = la Francia, Germany = la Germania, England = l'Inghilterra
"""
WOMEN = ("Maria", "Anna", "Giulia", "Sofia", "Laura")
MEN = ("Marco", "Luca", "Paolo", "Pietro", "Davide")

# Kinds and places often named together.
GROUPS = {
    "people": "person acquaintance",
    "things": "object tool fragile",
    "animals": "pet wildlife",
    "site": """
        park garden kitchen library church office square hotel hospital forest village classroom
        shop station museum restaurant theatre stadium island university
    """,
    "cities": "Rome Milan Venice Naples Florence",
    "countries": "Italy France Germany England",
}

# Adjectives --------------------------------------------------------------------------------------

ADJECTIVES_BEFORE = """
    beautiful = bello > fragile flower gift clothing vehicle instrument building sight story song
    beautiful = bello > garden square city village theatre island beach church pet bird eagle
    good = buono > acquaintance cook actor actress student fruit dish staple meal drink book story
    good = buono > hotel restaurant
    big = grande > animals fruit luggage furniture car boat building cupboard opening tree site
    small = piccolo > animals fruit luggage furniture car boat building cupboard opening site
    old = vecchio > man woman cook actor actress singer farmer engineer acquaintance pet fragile
    old = vecchio > luggage furniture vehicle instrument clothing building
    old = vecchio > opening book letter tree site
    new = nuovo > tool fragile toy luggage clothing furniture vehicle instrument house bridge hotel
    new = nuovo > theatre museum hospital station teacher student
    young = giovane > people pet
    dear = caro > family
"""
ADJECTIVES_AFTER = """
    tall = alto > people tree tower
    kind = gentile > people
    famous = famoso > people theatre museum university song
    intelligent = intelligente > people dog horse
    strong = forte > man boy horse wolf
    elegant = elegante > man woman actor actress clothing hotel
    shy = timido > boy girl child student squirrel
    patient = paziente > acquaintance nurse
    nice = simpatico > people
    lazy = pigro > student boy girl cat dog
    tired = stanco > people horse
    happy = felice > people
    sad = triste > people song story film
    sick = malato > people
    fast = veloce > horse squirrel car boat
    fresh = fresco > fruit fish milk salad bread
    sweet = dolce > fruit cake
    cold = freddo > water milk pizza soup meat
    hot = caldo > soup meat tea coffee milk bread
    long = lungo > text lesson film song river bridge coat skirt
    interesting = interessante > text press lesson film museum
    boring = noioso > text press film lesson
    difficult = difficile > schoolwork text
    easy = facile > schoolwork
    important = importante > letter message question lesson match museum
    heavy = pesante > luggage furniture clock coat
    expensive = costoso > tool fragile luggage clothing vehicle instrument gift hotel restaurant
    useful = utile > tool book luggage
    modern = moderno > furniture museum theatre hospital library office kitchen bridge
    comfortable = comodo > chair bed sofa shoe boot car
    clean = pulito > clothing cup glass plate kitchen beach
    dirty = sporco > clothing cup glass plate window
    empty = vuoto > luggage cupboard glass cup theatre classroom
    quiet = tranquillo > park garden beach village island library square hotel
    crowded = affollato > station market museum square restaurant beach
"""
# Colours and origins: only these stand beside another adjective ("the old Italian doctor").
ADJECTIVES_OF_SORT = """
    red = rosso > luggage clothing vehicle opening chair flower pen ball
    white = bianco > pet cow clothing plate cup house chair flower
    black = nero > pet clothing luggage car umbrella phone piano
    green = verde > pen chair clothing opening luggage bicycle boat
    yellow = giallo > flower clothing ball lamp bicycle house
    blue = blu > clothing opening luggage vehicle pen cup plate
    Italian = italiano > people restaurant song newspaper car wine
    English = inglese > people song newspaper magazine
    French = francese > people cheese wine film
"""
NOT_COMPARED = {"good", "sick", "empty"}

# Verbs and what they go with ---------------------------------------------------------------------

# A second Italian word is the preposition before the object.
TRANSITIVE = """
    eat = mangiare > fruit dish staple meal @ kitchen restaurant garden park home
    drink = bere > drink @ kitchen garden restaurant home
    cook = cucinare > meal @ kitchen home
    buy = comprare > fruit staple grocery clothing things text press @ market shop city
    sell = vendere > fruit clothing vehicle furniture @ market square city
    read = leggere > text press @ library garden park office school home
    write = scrivere > text @ library office garden home
    see = vedere > people @ station market theatre beach
    see = vedere > animals sight @ forest zoo park
    look for = cercare > things luggage clothing @ kitchen office classroom home
    find = trovare > things luggage clothing @ kitchen office garden beach
    lose = perdere > things luggage clothing @ station park city
    open = aprire > opening luggage cupboard letter
    close = chiudere > opening luggage cupboard book
    wash = lavare > clothing cup glass plate @ kitchen home
    clean = pulire > furniture opening kitchen classroom office house
    take = prendere > things luggage
    call = chiamare > family acquaintance
    help = aiutare > people @ garden kitchen school hospital
    meet = incontrare > people @ square station museum park
    wait for = aspettare > people @ station square school
    visit = visitare > museum church city village island university zoo
    sing = cantare > song @ church theatre square
    play = suonare > instrument @ theatre square church home
    watchdog = guardare > film @ cinema home
    watchdog = guardare > match @ stadium home
    watchdog = guardare > sight bird @ garden park
    listen to = ascoltare > song story teacher singer @ theatre school
    study = studiare > subject @ library school university home
    build = costruire > building
    use = usare > tool sugar salt @ office kitchen school
    break = rompere > fragile toy @ kitchen
    forget = dimenticare > things luggage clothing @ home school hotel office
    wear = indossare > clothing
    understand = capire > schoolwork
    answer = rispondere a > question message letter
    think of = pensare a > family friend teacher
    talk to = parlare con > people @ square park school
    enter = entrare in > church shop library office museum hotel classroom
    come out of = uscire da > church shop library office museum hotel
    fall from = cadere da > tree chair horse bicycle bed
    love = amare > family pet
    know = conoscere > people song
    want = volere > fruit dish drink staple grocery things clothing
"""
# To somebody.
GIVING = """
    give = dare > tool object text luggage grocery, show = mostrare > things clothing text
    send = mandare > text gift,                   offer = offrire > dish drink fruit
    explain = spiegare > schoolwork,              tell = raccontare > story
"""
# For somebody.
FAVOURS = """
    buy = comprare > fruit dish object clothing text, cook = cucinare > meal
    write = scrivere > story letter,                  sing = cantare > song
    build = costruire > house toy,                    open = aprire > door gate
"""
INTRANSITIVE = """
    sleep = dormire @ hotel garden home
    work = lavorare @ office hospital restaurant library hotel school home cities
    play = giocare @ park garden beach square home
    walk = camminare @ park forest city beach
    dance = ballare @ square theatre garden beach
    run = correre @ park forest beach stadium
    swim = nuotare @ sea
    live = abitare @ city village island cities countries
    stay = restare @ home hotel hospital city school
"""
ANIMAL = """
    sleep = dormire @ garden kitchen forest,   run = correre @ park forest garden beach
    play = giocare @ garden park beach,        eat = mangiare > bread meat apple
    drink = bere > water milk
"""
# Why people do things: the feelings stand behind the colon.
REASONS = """
    cry = piangere: sad afraid sick,            laugh = ridere: happy
    dance = ballare: happy @ garden square,     sing = cantare: happy @ garden kitchen
    run = correre: afraid in_a_hurry @ park,    sleep = dormire: tired sleepy sick @ home hotel
    eat = mangiare: hungry > fruit dish staple, drink = bere: thirsty > water tea milk
    stay = restare: tired sick afraid @ home,   call = chiamare: sick sad afraid > doctor family
"""
FEELINGS = """
    hungry = fame, thirsty = sete, sleepy = sonno, afraid = paura, in_a_hurry = fretta
"""  # with avere

# Spots for small things, times and adverbs -------------------------------------------------------

# A preposition, with the nouns that may follow.
SPOTS = """
    on = su > furniture, in = in > luggage cupboard, under = sotto > table bed chair tree bench
    near = vicino a > window door sofa table tree lamp, behind = dietro > door sofa house tree gate
    in front of = davanti a > mirror house door window
"""
TRANSPORT = """
    by train = in treno, by car = in macchina, by bus = in autobus, by bicycle = in bicicletta
    on foot = a piedi
"""
DAYS = """
    Monday = lunedì m, Tuesday = martedì m, Wednesday = mercoledì m, Thursday = giovedì m
    Friday = venerdì m, Saturday = sabato m, Sunday = domenica f
"""
SPANS = {
    "past": "day = giorno m, week = settimana f, month = mese m, year = anno m",
    "future": "day = giorno m, week = settimana f",
}
TIMES = {
    "present": """
        every day = ogni giorno, every morning = ogni mattina, every evening = ogni sera
        in summer = d'estate, in winter = d'inverno
    """,
    "past": """
        yesterday = ieri, yesterday morning = ieri mattina, yesterday evening = ieri sera
        this morning = stamattina, last week = la settimana scorsa, last month = il mese scorso
        last year = l'anno scorso, last summer = l'estate scorsa
    """,
    "future": """
        tomorrow = domani, tomorrow morning = domani mattina, tomorrow evening = domani sera
        tonight = stasera, next week = la settimana prossima, next month = il mese prossimo
        next year = l'anno prossimo, next summer = l'estate prossima
    """,
}
ADVERBS = {
    "present": "always = sempre, often = spesso, rarely = raramente",
    "past": "",
    "future": "always = sempre",
}
MANNER = "slowly = lentamente, quickly = velocemente, happily = allegramente"
