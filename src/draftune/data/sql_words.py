"""The words of generated schemas: what tables are called, which columns they have, which values stand in them."""

from __future__ import annotations

from dataclasses import dataclass

# Every table is a modifier and a noun ("harbor_ships"); which split a pair belongs to is decided in sql_schema.
MODIFIERS = (
    "harbor city night summer winter rural island royal junior senior foreign local private public spare rented former "
    "annual mobile digital valley coastal river mountain campus village partner premium trial festival museum school "
    "team state guest club garden desert forest northern southern central global family weekend morning "
    "evening modern classic antique research training export import border railway airport market factory studio "
    "hospital library castle temple theater stadium union council charity volunteer"
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of thing a table may hold, with the columns that suit it."""

    nouns: str  # singular; the plural takes an s
    numbers: dict[str, tuple[int, int, int]]  # column: least, most, step
    texts: str  # columns whose values are in VALUES
    label: str  # columns that name a row


KINDS = (
    Kind(
        nouns=(
            "teacher driver nurse player singer pilot farmer artist author doctor lawyer clerk guide judge actor "
            "tenant member visitor student worker agent customer officer editor builder miner baker tailor sailor "
            "painter hunter trainer broker keeper ranger cleaner reporter designer engineer plumber waiter porter"
        ),
        numbers={
            "age": (18, 70, 1),
            "salary": (20000, 90000, 500),
            "height": (150, 205, 1),
            "bonus": (100, 5000, 50),
            "score": (10, 100, 1),
            "wins": (0, 60, 1),
            "years_employed": (1, 40, 1),
            "weekly_hours": (5, 60, 1),
            "monthly_fee": (10, 300, 5),
            "birth_year": (1950, 2005, 1),
            "children": (0, 60, 1),
            "sick_days": (0, 40, 1),
            "awards": (0, 40, 1),
            "points": (50, 900, 10),
            "debt": (500, 30000, 250),
            "experience": (1, 45, 1),
        },
        texts="city country team rank status language hobby department shift degree",
        label="name full_name nickname",
    ),
    Kind(
        nouns=(
            "ship truck boat train plane bike car camera phone laptop printer engine sensor robot drone book song film "
            "poem game toy lamp chair sofa clock ring coin stamp statue tool guitar piano violin mirror carpet basket "
            "bottle ticket helmet jacket tent kayak wagon scooter"
        ),
        numbers={
            "price": (5, 900, 5),
            "weight": (2, 500, 1),
            "length": (10, 400, 2),
            "top_speed": (20, 320, 5),
            "power": (30, 700, 10),
            "stock": (1, 200, 1),
            "rating": (1, 100, 1),
            "repair_cost": (10, 800, 10),
            "year_built": (1900, 2023, 1),
            "net_value": (100, 9000, 50),
            "pages": (40, 800, 4),
            "parts": (3, 90, 1),
            "daily_rent": (5, 250, 5),
            "warranty": (1, 60, 1),
            "battery_life": (2, 90, 1),
            "insured_value": (200, 20000, 100),
        },
        texts="brand color material condition origin model category supplier size finish",
        label="name title label code",
    ),
    Kind(
        nouns=(
            "hotel shop farm park bridge tower station cafe bank clinic lab mine port camp lake cave trail road tunnel "
            "office warehouse kitchen hall gym pool pier chapel prison court dock mill plant orchard "
            "vineyard stable museum arena depot"
        ),
        numbers={
            "capacity": (20, 900, 10),
            "area": (50, 4000, 25),
            "monthly_rent": (300, 9000, 50),
            "visitors": (100, 20000, 100),
            "rooms": (2, 120, 1),
            "staff": (1, 90, 1),
            "floors": (1, 60, 1),
            "year_opened": (1880, 2022, 1),
            "budget": (1000, 80000, 500),
            "entry_fee": (1, 90, 1),
            "depth": (2, 300, 2),
            "elevation": (5, 2500, 5),
            "parking_spots": (4, 300, 2),
            "daily_income": (50, 5000, 25),
            "review_score": (1, 100, 1),
        },
        texts="region owner style climate city status category security surface country",
        label="name title sign",
    ),
    Kind(
        nouns=(
            "concert tournament race lecture workshop meeting trip order invoice contract loan project survey repair "
            "visit flight tour course exam auction parade debate picnic dinner wedding audit campaign experiment "
            "rehearsal session seminar hearing expedition"
        ),
        numbers={
            "cost": (10, 9000, 10),
            "duration": (5, 300, 5),
            "attendance": (5, 2000, 5),
            "year": (1980, 2024, 1),
            "fee": (5, 500, 5),
            "distance": (2, 900, 2),
            "amount": (10, 6000, 10),
            "deposit": (10, 900, 10),
            "delay": (1, 180, 1),
            "seats": (10, 600, 5),
            "total_tax": (1, 700, 1),
            "discount": (1, 60, 1),
            "complaints": (1, 60, 1),
            "profit": (100, 20000, 100),
            "rounds": (1, 40, 1),
        },
        texts="location season sponsor status organizer month weekday host category language",
        label="title name topic code",
    ),
)

VALUES = {
    "city": "Lisbon Oslo Quito Cairo Dublin Kyoto Lima Prague Turin Denver Accra Malmo Leeds Perth Sofia Tampa",
    "country": "Norway Peru Japan Egypt Chile Ghana Kenya Spain Italy Canada Brazil Poland Nepal Cuba Malta Laos",
    "team": "Hawks Lions Bears Sharks Wolves Eagles Tigers Foxes Ravens Bulls",
    "rank": "captain major private chief deputy leader",
    "status": "active closed pending paused expired retired planned",
    "language": "French German Arabic Hindi Korean Dutch Greek Polish Swahili",
    "hobby": "chess tennis sailing cooking reading painting hiking",
    "department": "sales finance legal research support design marketing",
    "shift": "day night early late weekend",
    "degree": "bachelor master doctorate diploma none",
    "brand": "Acme Nova Zenith Orion Vertex Lumen Delta Titan Quark",
    "color": "red blue green black white yellow silver brown",
    "material": "steel wood glass plastic cotton leather copper",
    "condition": "new used broken good poor mint",
    "origin": "France China Mexico India Turkey Sweden Vietnam",
    "model": "basic sport deluxe compact classic pro",
    "category": "standard luxury budget special regular family",
    "supplier": "Brightco Farway Kestrel Monarch Oakline Redport",
    "size": "small medium large huge tiny",
    "finish": "matte glossy rough polished",
    "region": "north south east west central coast",
    "owner": "Baxter Collins Duncan Fletcher Hobbs Irving Keller Norris",
    "style": "modern gothic baroque rustic classic",
    "climate": "dry humid mild cold tropical",
    "security": "low medium high maximum",
    "surface": "gravel asphalt grass sand stone",
    "location": "Geneva Austin Bergen Naples Porto Seville Tunis Zagreb",
    "season": "spring summer autumn winter",
    "sponsor": "Altair Bluebird Corvus Everest Granite Horizon",
    "organizer": "Adams Becker Castro Doyle Evans Fischer Gomez",
    "month": "January March April June August October December",
    "weekday": "Monday Tuesday Wednesday Thursday Friday Sunday",
    "host": "Helen Marcus Nadia Oscar Petra Victor",
}

LABELS = (
    "Amber Aspen Atlas Aurora Beacon Birch Breeze Canyon Cedar Cobalt Comet Coral Crest Crystal Dawn Drift Echo Ember "
    "Falcon Fern Flint Frost Garnet Glacier Harvest Haven Hazel Heron Indigo Iris Ivory Jade Jasper Juniper Lagoon "
    "Lark Laurel Maple Marble Meadow Meteor Mirage Nectar Oasis Ocean Olive Onyx Opal Orchid Pearl Pebble Pine Prairie "
    "Quartz Quest Raven River Robin Ruby Saffron Sage Sable Shadow Sierra Slate Solar Sparrow Spruce Summit Tempest "
    "Thistle Topaz Tundra Umber Velvet Willow Winter Zephyr"
)
