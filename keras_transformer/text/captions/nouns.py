"""Nouns and adjectives of the caption grammar: English beside German, with what they inflect by.

Tables are text, one noun a line, so that a speaker of both languages can proof-read them.
"""

from dataclasses import dataclass

_PRONOUN_OF_GENDER = {"m": "he", "f": "she", "n": "it"}


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun: English forms, German forms, German gender and its English pronoun."""

    singular: str
    plural: str
    gender: str  # "m", "f" or "n"
    german_singular: str
    german_plural: str
    german_oblique: str  # accusative and dative singular: weak nouns differ (den Jungen)
    pronoun: str
    group: str


# English singular and plural, German gender, singular, plural[, oblique singular[, pronoun]].
_NOUNS = {
    "people": """
man men m Mann Männer
woman women f Frau Frauen
boy boys m Junge Jungen Jungen
girl girls n Mädchen Mädchen Mädchen she
child children n Kind Kinder
baby babies n Baby Babys
grandmother grandmothers f Großmutter Großmütter
grandfather grandfathers m Großvater Großväter
student students m Student Studenten Studenten
farmer farmers m Bauer Bauern Bauern
chef chefs m Koch Köche
teacher teachers f Lehrerin Lehrerinnen
singer singers m Sänger Sänger
dancer dancers f Tänzerin Tänzerinnen
nurse nurses f Krankenschwester Krankenschwestern
policeman policemen m Polizist Polizisten Polizisten
soldier soldiers m Soldat Soldaten Soldaten
tourist tourists m Tourist Touristen Touristen
clown clowns m Clown Clowns
waiter waiters m Kellner Kellner
waitress waitresses f Kellnerin Kellnerinnen
artist artists f Künstlerin Künstlerinnen
musician musicians m Musiker Musiker
fisherman fishermen m Fischer Fischer
gardener gardeners f Gärtnerin Gärtnerinnen
bride brides f Braut Bräute
cyclist cyclists m Radfahrer Radfahrer
worker workers m Arbeiter Arbeiter
doctor doctors f Ärztin Ärztinnen
photographer photographers m Fotograf Fotografen Fotografen
athlete athletes f Sportlerin Sportlerinnen
painter painters m Maler Maler
baker bakers m Bäcker Bäcker
hunter hunters m Jäger Jäger
hiker hikers m Wanderer Wanderer
neighbor neighbors m Nachbar Nachbarn Nachbarn
customer customers m Kunde Kunden Kunden
guest guests m Gast Gäste
lady ladies f Dame Damen""",
    "family": """
brother brothers m Bruder Brüder
sister sisters f Schwester Schwestern
mother mothers f Mutter Mütter
father fathers m Vater Väter
friend friends m Freund Freunde
son sons m Sohn Söhne
daughter daughters f Tochter Töchter
cousin cousins m Cousin Cousins
aunt aunts f Tante Tanten
uncle uncles m Onkel Onkel""",
    "animals": """
dog dogs m Hund Hunde
cat cats f Katze Katzen
horse horses n Pferd Pferde
cow cows f Kuh Kühe
bird birds m Vogel Vögel
goat goats f Ziege Ziegen
monkey monkeys m Affe Affen Affen
elephant elephants m Elefant Elefanten Elefanten
bear bears m Bär Bären Bären
lion lions m Löwe Löwen Löwen
duck ducks f Ente Enten
rabbit rabbits n Kaninchen Kaninchen
puppy puppies m Welpe Welpen Welpen
pig pigs n Schwein Schweine
swan swans m Schwan Schwäne
mouse mice f Maus Mäuse
donkey donkeys m Esel Esel
squirrel squirrels n Eichhörnchen Eichhörnchen
frog frogs m Frosch Frösche
fox foxes m Fuchs Füchse
camel camels n Kamel Kamele
wolf wolves m Wolf Wölfe""",
    "garments": """
jacket jackets f Jacke Jacken
coat coats m Mantel Mäntel
shirt shirts n Hemd Hemden
dress dresses n Kleid Kleider
skirt skirts m Rock Röcke
sweater sweaters m Pullover Pullover
suit suits m Anzug Anzüge
uniform uniforms f Uniform Uniformen
apron aprons f Schürze Schürzen
vest vests f Weste Westen
costume costumes n Kostüm Kostüme""",
    "accessories": """
hat hats m Hut Hüte
cap caps f Mütze Mützen
helmet helmets m Helm Helme
scarf scarves m Schal Schals
tie ties f Krawatte Krawatten
backpack backpacks m Rucksack Rucksäcke
umbrella umbrellas m Regenschirm Regenschirme
bag bags f Tasche Taschen
suitcase suitcases m Koffer Koffer
camera cameras f Kamera Kameras""",
    "food": """
apple apples m Apfel Äpfel
pear pears f Birne Birnen
banana bananas f Banane Bananen
tomato tomatoes f Tomate Tomaten
potato potatoes f Kartoffel Kartoffeln
carrot carrots f Karotte Karotten
egg eggs n Ei Eier
cake cakes m Kuchen Kuchen
pizza pizzas f Pizza Pizzas
sandwich sandwiches n Sandwich Sandwiches
soup soups f Suppe Suppen
salad salads m Salat Salate""",
    "substances": """
bread - n Brot -
cheese - m Käse -
meat - n Fleisch -
rice - m Reis -
milk - f Milch -
water - n Wasser -
coffee - m Kaffee -
tea - m Tee -
juice - m Saft -
wine - m Wein -
beer - n Bier -""",
    "things": """
book books n Buch Bücher
newspaper newspapers f Zeitung Zeitungen
letter letters m Brief Briefe
map maps f Landkarte Landkarten
magazine magazines f Zeitschrift Zeitschriften
poem poems n Gedicht Gedichte
picture pictures n Bild Bilder
ball balls m Ball Bälle
kite kites m Drachen Drachen
doll dolls f Puppe Puppen
guitar guitars f Gitarre Gitarren
violin violins f Geige Geigen
drum drums f Trommel Trommeln
trumpet trumpets f Trompete Trompeten
car cars n Auto Autos
bicycle bicycles n Fahrrad Fahrräder
truck trucks m Lastwagen Lastwagen
bus buses m Bus Busse
train trains m Zug Züge
boat boats n Boot Boote
motorcycle motorcycles n Motorrad Motorräder
tractor tractors m Traktor Traktoren
cart carts m Karren Karren
window windows n Fenster Fenster
door doors f Tür Türen
gate gates n Tor Tore
table tables m Tisch Tische
chair chairs m Stuhl Stühle
sofa sofas n Sofa Sofas
cup cups f Tasse Tassen
plate plates m Teller Teller
bottle bottles f Flasche Flaschen
glass glasses n Glas Gläser
knife knives n Messer Messer
vase vases f Vase Vasen
pot pots m Topf Töpfe
box boxes f Kiste Kisten
basket baskets m Korb Körbe
lamp lamps f Lampe Lampen
flower flowers f Blume Blumen
rope ropes n Seil Seile
ladder ladders f Leiter Leitern
phone phones n Telefon Telefone
key keys m Schlüssel Schlüssel
coin coins f Münze Münzen
candle candles f Kerze Kerzen
gift gifts n Geschenk Geschenke
package packages n Paket Pakete
stone stones m Stein Steine
stick sticks m Stock Stöcke
balloon balloons m Luftballon Luftballons
flag flags f Fahne Fahnen
blanket blankets f Decke Decken
clock clocks f Uhr Uhren
mirror mirrors m Spiegel Spiegel
computer computers m Computer Computer""",
    "places": """
park parks m Park Parks
garden gardens m Garten Gärten
kitchen kitchens f Küche Küchen
forest forests m Wald Wälder
street streets f Straße Straßen
beach beaches m Strand Strände
market markets m Markt Märkte
station stations m Bahnhof Bahnhöfe
airport airports m Flughafen Flughäfen
bridge bridges f Brücke Brücken
meadow meadows f Wiese Wiesen
field fields n Feld Felder
bench benches f Bank Bänke
lake lakes m See Seen
river rivers m Fluss Flüsse
stage stages f Bühne Bühnen
roof roofs n Dach Dächer
square squares m Platz Plätze
restaurant restaurants n Restaurant Restaurants
classroom classrooms n Klassenzimmer Klassenzimmer
library libraries f Bibliothek Bibliotheken
museum museums n Museum Museen
hospital hospitals n Krankenhaus Krankenhäuser
church churches f Kirche Kirchen
shop shops m Laden Läden
workshop workshops f Werkstatt Werkstätten
office offices n Büro Büros
barn barns f Scheune Scheunen
village villages n Dorf Dörfer
city cities f Stadt Städte
yard yards m Hof Höfe
playground playgrounds m Spielplatz Spielplätze
mountain mountains m Berg Berge
island islands f Insel Inseln
tent tents n Zelt Zelte
castle castles n Schloss Schlösser
house houses n Haus Häuser
school schools f Schule Schulen
tree trees m Baum Bäume
fountain fountains m Brunnen Brunnen
statue statues f Statue Statuen
tower towers m Turm Türme
wall walls f Mauer Mauern
fence fences m Zaun Zäune
hut huts f Hütte Hütten
tunnel tunnels m Tunnel Tunnel""",
    "events": """
race races n Rennen Rennen
contest contests m Wettbewerb Wettbewerbe
parade parades f Parade Paraden
party parties f Feier Feiern""",
}

# English = German attributive stem; "!" marks one that takes no ending (rosa).
_ADJECTIVES = {
    "people": """young=jung old=alt tall=groß small=klein happy=fröhlich tired=müd
        friendly=freundlich hungry=hungrig strong=stark slim=schlank blond=blond elegant=elegant
        curious=neugierig brave=mutig quiet=ruhig funny=lustig wet=nass serious=ernst
        proud=stolz nervous=nervös lazy=faul polite=höflich famous=berühmt clever=klug""",
    "animals": """young=jung old=alt big=groß small=klein hungry=hungrig wild=wild
        curious=neugierig wet=nass lazy=faul brown=braun black=schwarz white=weiß
        gray=grau fat=dick beautiful=schön tired=müd""",
    "wearables": """red=rot blue=blau green=grün yellow=gelb white=weiß black=schwarz
        brown=braun gray=grau pink=rosa! purple=lila! new=neu old=alt colorful=bunt
        dirty=schmutzig elegant=elegant expensive=teur dark=dunkl""",
    "food": """fresh=frisch big=groß small=klein delicious=lecker hot=heiß cold=kalt
        sweet=süß expensive=teur cheap=billig""",
    "substances": """fresh=frisch delicious=lecker hot=heiß cold=kalt expensive=teur
        cheap=billig""",
    "things": """red=rot blue=blau green=grün yellow=gelb white=weiß black=schwarz
        new=neu old=alt big=groß small=klein heavy=schwer beautiful=schön dirty=schmutzig
        expensive=teur cheap=billig pink=rosa! purple=lila! broken=kaputt strange=seltsam""",
    "places": """big=groß small=klein old=alt new=neu quiet=ruhig beautiful=schön
        famous=berühmt dark=dunkl empty=leer narrow=schmal high=hoh""",
    "events": "big=groß small=klein famous=berühmt long=lang",
    "hair": "long=lang short=kurz blond=blond brown=braun gray=grau black=schwarz red=rot",
}


def _parse_nouns():
    nouns = {}
    for group, table in _NOUNS.items():
        for line in table.split("\n")[1:]:
            english, english_plural, gender, german, plural, *rest = line.split()
            oblique = rest[0] if rest else german
            person = group in ("people", "family")
            pronoun = rest[1] if len(rest) > 1 else _PRONOUN_OF_GENDER[gender] if person else "it"
            nouns[english] = Noun(
                english, english_plural, gender, german, plural, oblique, pronoun, group
            )
    return nouns


NOUNS = _parse_nouns()
GROUPS = {group: tuple(noun for noun in NOUNS.values() if noun.group == group) for group in _NOUNS}


def nouns_of(names):
    """The nouns that a table's right-hand side names; `@group` stands for a whole group."""
    found = []
    for name in names.split():
        found.extend(GROUPS[name[1:]] if name.startswith("@") else [NOUNS[name]])
    return tuple(found)


def _parse_adjectives(table):
    return tuple(tuple(pair.split("=")) for pair in table.split())


ADJECTIVES = {group: _parse_adjectives(table) for group, table in _ADJECTIVES.items()}
for _group, _like in (
    ("family", "people"),
    ("garments", "wearables"),
    ("accessories", "wearables"),
):
    ADJECTIVES[_group] = ADJECTIVES[_like]
