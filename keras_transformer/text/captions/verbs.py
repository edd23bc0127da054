"""Verbs, prepositions and fixed phrases of the caption grammar: English beside German.

Tables are text, one verb a line, so that a speaker of both languages can proof-read them.
A verb of more than one word is joined by underscores ("pick_up").
"""

from dataclasses import dataclass

from keras_transformer.text.captions.nouns import nouns_of


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: English base and -ing form, German infinitive and third person, government."""

    base: str
    ing: str
    infinitive: str  # without the separable particle
    third: str
    particle: str
    reflexive: bool
    preposition: str  # German preposition of the object, "" for a bare object
    case: str
    objects: tuple
    animals: bool  # whether an animal can do it


# English base and -ing = German infinitive and third person [particle] [sich] [(government)]
# : objects, where @group stands for its nouns. A star: animals do it too.
_TRANSITIVE = """
read reading = lesen liest : book newspaper letter map magazine poem
write writing = schreiben schreibt : letter poem book
slice slicing = schneiden schneidet auf : bread cake cheese meat tomato
peel peeling = schälen schält : apple potato banana carrot egg
* eat eating = essen isst : @food bread cheese meat rice
* drink drinking = trinken trinkt : milk water coffee tea juice wine beer
cook cooking = kochen kocht : soup rice potato egg meat
bake baking = backen backt : cake bread pizza
taste tasting = probieren probiert : soup cake cheese wine juice
stir stirring = rühren rührt um : soup tea coffee
prepare preparing = bereiten bereitet vor : soup salad cake gift party
share sharing = teilen teilt : apple cake pizza sandwich
buy buying = kaufen kauft : @food @garments @accessories bread cheese milk flower book vase
sell selling = verkaufen verkauft : @food cheese bread newspaper flower balloon hat picture
* carry carrying = tragen trägt : box basket ladder chair package bag stick child baby puppy
wear wearing = tragen trägt : @garments hat cap helmet scarf tie
put_on putting_on = ziehen zieht an : @garments
put_on putting_on = setzen setzt auf : hat cap helmet
take_off taking_off = ziehen zieht aus : @garments
take_off taking_off = setzen setzt ab : hat cap helmet
try_on trying_on = probieren probiert an : @garments hat
sew sewing = nähen näht : dress shirt costume skirt flag doll
fold folding = falten faltet : shirt letter newspaper map blanket flag
wash washing = waschen wäscht : car truck shirt apple dog horse blanket
clean cleaning = putzen putzt : window table bicycle mirror lamp
repair repairing = reparieren repariert : bicycle car clock fence chair phone computer roof tractor
push pushing = schieben schiebt : bicycle cart car motorcycle box
* pull pulling = ziehen zieht : cart rope boat suitcase
drive driving = fahren fährt : car truck bus tractor
open opening = öffnen öffnet : window door gate bottle box package gift letter
close closing = machen macht zu : window door gate box suitcase bag
turn_on turning_on = schalten schaltet ein : lamp computer
turn_off turning_off = schalten schaltet aus : lamp computer
hang_up hanging_up = hängen hängt auf : picture lamp mirror clock flag
pick_up picking_up = heben hebt auf : ball stone stick key coin letter doll
pick_up picking_up = holen holt ab : @people @family
throw_away throwing_away = werfen wirft weg : bottle newspaper box plate
light lighting = zünden zündet an : candle
set_up setting_up = bauen baut auf : tent stage table
unpack unpacking = packen packt aus : gift package suitcase backpack
throw throwing = werfen wirft : ball stone stick
* catch catching = fangen fängt : ball frog mouse bird
hold holding = halten hält : flower balloon flag baby umbrella camera cup puppy
paint painting = malen malt : picture flower tree horse
paint painting = streichen streicht : fence door wall
draw drawing = zeichnen zeichnet : house tree horse map castle
build building = bauen baut : house tower wall boat hut
water watering = gießen gießt : flower tree
pick picking = pflücken pflückt : apple pear tomato flower
plant planting = pflanzen pflanzt : tree flower potato
fill filling = füllen füllt : glass bottle pot basket
break breaking = zerbrechen zerbricht : plate cup glass stick vase
decorate decorating = schmücken schmückt : tree cake table window hut
sign signing = unterschreiben unterschreibt : letter book
* cross crossing = überqueren überquert : street bridge square river field
* enter entering = betreten betritt : shop church museum house barn forest
* leave leaving = verlassen verlässt : shop church museum house barn forest
look_at looking_at = sehen sieht an : picture map statue clock flower @animals
look_for looking_for = suchen sucht : key hat phone ball bag umbrella dog cat
photograph photographing = fotografieren fotografiert : @people @animals castle tower bridge
hug hugging = umarmen umarmt : @people @family
kiss kissing = küssen küsst : @people @family
greet greeting = begrüßen begrüßt : @people @family
call calling = rufen ruft an : @people @family
invite inviting = laden lädt ein : @people @family
visit visiting = besuchen besucht : @people @family museum castle church
* watch watching = beobachten beobachtet : @people @animals
wake_up waking_up = wecken weckt : child baby man woman dog
feed feeding = füttern füttert : @animals baby
stroke stroking = streicheln streichelt : @animals
lead leading = führen führt : horse donkey cow camel elephant
* chase chasing = jagen jagt : @animals
teach teaching = unterrichten unterrichtet : student child boy girl
help helping = helfen hilft (dative) : @people @family
thank thanking = danken dankt (dative) : @people @family
* follow following = folgen folgt (dative) : @people @animals
listen_to listening_to = hören hört zu (dative) : @people @family
wave_to waving_to = winken winkt zu (dative) : @people @family
* approach approaching = nähern nähert sich (dative) : @people @animals house
* wait_for waiting_for = warten wartet (auf accusative) : @people bus train
look_after looking_after = passen passt auf (auf accusative) : @animals child baby
laugh_at laughing_at = lachen lacht (über accusative) : clown monkey picture puppy
think_of thinking_of = denken denkt (an accusative) : @family
point_at pointing_at = zeigen zeigt (auf accusative) : @animals picture map tower
talk_to talking_to = sprechen spricht (mit dative) : @people @family
talk_about talking_about = sprechen spricht (über accusative) : book picture parade race
dance_with dancing_with = tanzen tanzt (mit dative) : @people
* play_with playing_with = spielen spielt (mit dative) : ball doll dog cat puppy child
ride riding = reiten reitet (auf dative) : horse donkey camel elephant
* smell smelling = riechen riecht (an dative) : flower cheese soup
ask_for asking_for = bitten bittet (um accusative) : bread water coffee cup chair
take_part_in taking_part_in = nehmen nimmt teil (an dative) : @events
"""

_INTRANSITIVE = """
* sleep sleeping = schlafen schläft :
* rest resting = ruhen ruht aus sich :
* wait waiting = warten wartet :
* play playing = spielen spielt :
* look_around looking_around = sehen sieht um sich :
laugh laughing = lachen lacht :
sing singing = singen singt :
dance dancing = tanzen tanzt :
cry crying = weinen weint :
smile smiling = lächeln lächelt :
work working = arbeiten arbeitet :
dream dreaming = träumen träumt :
practice practicing = üben übt :
bow bowing = verbeugen verbeugt sich :
* fall_asleep falling_asleep = schlafen schläft ein :
* wake_up waking_up = wachen wacht auf :
"""

_POSTURE = """
* sit sitting = sitzen sitzt :
* stand standing = stehen steht :
* lie lying = liegen liegt :
kneel kneeling = knien kniet :
"""

_MOTION = """
* walk walking = gehen geht :
* run running = laufen läuft :
hike hiking = wandern wandert :
rush rushing = eilen eilt :
march marching = marschieren marschiert :
* crawl crawling = kriechen kriecht :
"""

_LEAPING = """
* jump jumping = springen springt :
* climb climbing = klettern klettert :
"""

_GIVING = """
give giving = geben gibt : book letter apple flower gift cup balloon coin
show showing = zeigen zeigt : picture map book letter castle puppy
bring bringing = bringen bringt : cup glass newspaper soup sandwich chair blanket
offer offering = bieten bietet an : chair cake cup sandwich pear
lend lending = leihen leiht : umbrella bicycle book phone car
send sending = schicken schickt : letter package gift picture
read reading = lesen liest vor : book letter poem newspaper
"""

_PUTTING = """
put putting = stellen stellt : cup plate bottle glass vase lamp pot basket chair box
put putting = legen legt : book newspaper letter key knife blanket phone coin
"""

# English and German preposition: nouns, for where something is (dative).
_LOCATIONS = {
    (
        "in",
        "in",
        "dative",
        "",
    ): """park garden kitchen forest restaurant classroom library museum hospital
        church shop workshop office barn village city yard tent castle house""",
    (
        "on",
        "auf",
        "dative",
        "",
    ): "street bridge meadow bench stage roof playground mountain island sofa",
    ("in", "auf", "dative", ""): "field square",
    ("on", "an", "dative", ""): "beach",
    ("at", "an", "dative", ""): "station airport",
    ("at", "auf", "dative", ""): "market",
    ("by", "an", "dative", ""): "lake river",
    (
        "in front of",
        "vor",
        "dative",
        "",
    ): "house church school museum castle shop tent tower hut statue door",
    ("behind", "hinter", "dative", ""): "house church barn wall fence truck tree hut",
    ("next to", "neben", "dative", ""): "fountain statue car tree fence window lamp tractor",
    ("under", "unter", "dative", ""): "tree bridge table",
}

_SEATS = {
    ("on", "auf", "dative", ""): "bench chair sofa roof wall meadow stage blanket",
    ("under", "unter", "dative", ""): "tree bridge table",
    ("in front of", "vor", "dative", ""): "house church tent mirror",
    ("next to", "neben", "dative", ""): "fountain statue car tree window",
}

# English and German preposition, case, particle that closes the clause: nouns.
_DIRECTIONS = {
    ("into", "in", "accusative", ""): "park garden kitchen forest shop church tent house lake",
    ("through", "durch", "accusative", ""): "park forest city village museum tunnel garden",
    ("across", "über", "accusative", ""): "street bridge square meadow field",
    ("to", "zu", "dative", ""): "station market church school airport river lake bus",
    ("out of", "aus", "dative", ""): "house tent forest church shop tunnel train",
    ("past", "an", "dative", "vorbei"): "station church fountain house school tower statue",
    ("around", "um", "accusative", "herum"): "fountain tree lake house statue",
}

_LEAPS = {
    ("over", "über", "accusative", ""): "fence wall river gate",
    ("onto", "auf", "accusative", ""): "roof stage table wall bench",
    ("out of", "aus", "dative", ""): "window boat tent bus",
}

_TARGETS = {
    ("on", "auf", "accusative", ""): "table bench chair sofa wall",
    ("under", "unter", "accusative", ""): "table bench chair tree",
    ("next to", "neben", "accusative", ""): "door window lamp computer clock",
    ("behind", "hinter", "accusative", ""): "door house mirror",
}

IDIOMS = (
    ("the guitar", "Gitarre"),
    ("the violin", "Geige"),
    ("the trumpet", "Trompete"),
    ("football", "Fußball"),
    ("tennis", "Tennis"),
    ("chess", "Schach"),
    ("cards", "Karten"),
    ("hide and seek", "Verstecken"),
)
TIMES = (
    ("in the morning", "am Morgen"),
    ("in the afternoon", "am Nachmittag"),
    ("in the evening", "am Abend"),
    ("at noon", "am Mittag"),
    ("at night", "in der Nacht"),
    ("on Monday", "am Montag"),
    ("on Saturday", "am Samstag"),
    ("on Sunday", "am Sonntag"),
    ("in summer", "im Sommer"),
    ("in winter", "im Winter"),
    ("today", "heute"),
    ("every day", "jeden Tag"),
    ("after work", "nach der Arbeit"),
    ("before breakfast", "vor dem Frühstück"),
)
MANNERS = (
    ("quietly", "leise"),
    ("slowly", "langsam"),
    ("quickly", "schnell"),
    ("carefully", "vorsichtig"),
    ("happily", "fröhlich"),
    ("patiently", "geduldig"),
    ("proudly", "stolz"),
    ("eagerly", "eifrig"),
)
STATES = (
    ("tired", "müde"),
    ("hungry", "hungrig"),
    ("thirsty", "durstig"),
    ("happy", "glücklich"),
    ("sick", "krank"),
    ("nervous", "nervös"),
    ("bored", "gelangweilt"),
    ("curious", "neugierig"),
)
WEATHER = (
    ("it is raining", "es regnet"),
    ("it is snowing", "es schneit"),
    ("the sun is shining", "die Sonne scheint"),
    ("the wind is cold", "der Wind kalt ist"),
)


def _parse_verb(line):
    left, right = line.split(" = ")
    german, objects = right.split(":")
    german, _, government = german.partition("(")
    *preposition, case = government.strip(") ").split() or ["accusative"]
    infinitive, third, *rest = german.split()
    reflexive = "sich" in rest
    particle = "".join(part for part in rest if part != "sich")
    animals = left.startswith("*")
    base, ing = left.strip("* ").replace("_", "+").split()
    return Verb(
        base.replace("+", " "),
        ing.replace("+", " "),
        infinitive,
        third,
        particle,
        reflexive,
        "".join(preposition),
        case,
        nouns_of(objects),
        animals,
    )


def _parse_verbs(table):
    return tuple(_parse_verb(line) for line in table.strip().split("\n"))


TRANSITIVE = _parse_verbs(_TRANSITIVE)
INTRANSITIVE = _parse_verbs(_INTRANSITIVE)
POSTURE = _parse_verbs(_POSTURE)
MOTION = _parse_verbs(_MOTION)
LEAPING = _parse_verbs(_LEAPING)
GIVING = _parse_verbs(_GIVING)
PUTTING = _parse_verbs(_PUTTING)


def _parse_phrases(table):
    """(English and German preposition, case, particle), noun: for each noun of a table."""
    return tuple((columns, noun) for columns, names in table.items() for noun in nouns_of(names))


LOCATIONS = _parse_phrases(_LOCATIONS)
SEATS = _parse_phrases(_SEATS)
DIRECTIONS = _parse_phrases(_DIRECTIONS)
LEAPS = _parse_phrases(_LEAPS)
TARGETS = _parse_phrases(_TARGETS)
