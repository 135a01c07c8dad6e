"""The words of generated notes: who speaks, of what, where and when; topics and names are shared out to the splits."""

from __future__ import annotations

NAMES = (
    "Aaron Abigail Adele Adrian Agnes Aisha Alan Albert Alicia Amara Amelia Amir Anita Anton Ariel Arthur Astrid "
    "Barbara Beatrice Benito Bianca Boris Brenda Bruno Camille Carlos Carmen Cecilia Cedric Chiara Claire Clara "
    "Conrad Damian Daphne Dario Deborah Dennis Diana Dmitri Dolores Edgar Edith Elena Elias Elise Emil Emma Enzo "
    "Erica Ernest Esther Eugene Eva Fabian Fatima Felix Fiona Florian Frances Freya Gabriel Gemma Gerald Gloria "
    "Greta Gustav Hannah Harold Hector Heidi Hugo Ibrahim Ida Igor Ines Ingrid Irene Isaac Ivan Jacob Jamal Janet "
    "Javier Joanna Jonas Judith Julian Karim Karin Katya Kevin Lara Laura Leila Leo Leonard Lidia Linda Logan "
    "Louisa Lucas Lucy Luis Lydia Magnus Malik Manuel Margot Marina Mario Martha Matteo Maxine Mia Milan Miriam "
    "Mona Monica Morgan Nadine Nathan Nicole Nils Nina Noah Nora Olga Oliver Omar Oscar Pablo Patricia Paula Pavel "
    "Pedro Phoebe Priya Quentin Rachel Rafael Ramona Rashid Rebecca Renata Ricardo Rita Roland Rosa Ruben Ruth "
    "Sabine Salma Samuel Sandra Sara Sergio Silvia Simon Sofia Stefan Stella Susan Sven Tamara Tanya Tariq Teresa "
    "Theo Thomas Tina Tobias Ursula Valerie Vera Victor Vincent Viola Walter Wanda Wesley Wilma Xavier Yara Yusuf "
    "Yvonne Zachary Zara Zoe"
)

# The topic of a dialogue comes from one of these pools.
TOPICS = {
    "item": (
        "ladder, tent, drill, suitcase, projector, bike pump, sewing machine, wheelbarrow, camera tripod, sleeping "
        "bag, cake stand, guitar amp, snow shovel, pressure cooker, folding table, telescope, picnic blanket, paint "
        "roller, extension cord, tool box, ice cream maker, baby seat, roof rack, garden hose, microphone, chess "
        "set, food mixer, ironing board, fishing rod, travel pillow, carpet cleaner, label printer, ski jacket, air "
        "mattress, hand saw, waffle iron, dog crate, yoga mat, step stool, steam mop"
    ),
    "event": (
        "birthday dinner, pottery class, book club, chess evening, garden party, jazz concert, school play, "
        "housewarming, quiz night, yoga session, film evening, farewell lunch, charity run, dance class, board "
        "meeting, wine tasting, job fair, cooking course, football match, photo exhibition, choir practice, science "
        "fair, flea market, poetry reading, budget meeting, swimming lesson, summer barbecue, street festival, "
        "project review, tennis match, graduation dinner, first aid course, language exchange, art opening, "
        "parents' evening, craft fair, karaoke night, marathon training, puppet show, bread workshop"
    ),
    "dish": (
        "lemon cake, lentil soup, apple pie, mushroom risotto, fish curry, potato salad, cheese omelette, carrot "
        "muffins, tomato pasta, banana bread, vegetable stew, chicken wraps, rice pudding, spinach lasagne, plum "
        "jam, onion tart, bean chili, pumpkin soup, berry crumble, noodle salad, garlic bread, beef stew, corn "
        "chowder, pear tart, egg sandwiches, shrimp tacos, oat cookies, walnut brownies, cabbage rolls, peach "
        "cobbler, rhubarb pie, falafel wraps, cherry strudel, leek quiche, ginger biscuits, almond cake, pea soup, "
        "herb dumplings, beet salad, coconut rice"
    ),
    "job": (
        "tax form, bathroom tap, history essay, bookshelf, flat tyre, kitchen sink, cover letter, garden fence, "
        "maths homework, old printer, washing machine, slide deck, bedroom wall, broken lamp, visa application, "
        "wedding speech, car battery, front door lock, spreadsheet, storage box, attic window, grant proposal, "
        "thesis chapter, flower bed, old wardrobe, website, rental contract, sofa bed, guitar string, router, "
        "curtain rail, bike chain, family album, insurance claim, dishwasher, newsletter, shed roof, sewing "
        "pattern, travel plan, phone screen"
    ),
    "thing": (
        "wallet, umbrella, key ring, scarf, laptop charger, notebook, sun hat, water bottle, library card, "
        "necklace, gym bag, headset, passport, pocket knife, lunch box, bus pass, raincoat, watch, sketchbook, bike "
        "helmet, name badge, magnifier, cap, thermos, backpack, silver ring, beach towel, calculator, diary, phone "
        "case, memory stick, flute case, pill box, concert ticket, gift card, car key, tennis racket, pencil case, "
        "belt, ski pass"
    ),
    "news": (
        "got a job at a bank, passed the driving test, adopted a puppy, won a cooking contest, moved to the coast, "
        "sold the old car, bought a small flat, started learning Greek, ran a half marathon, finished writing a "
        "novel, joined a rowing club, got engaged, quit smoking, opened a flower shop, broke an arm while skiing, "
        "planted thirty trees, found a lost cat, got a scholarship, started a podcast, repaired an old motorbike, "
        "became a school teacher, won tickets to the opera, painted the whole house, gave up coffee, enrolled in a "
        "nursing course, built a tree house, published a poem, learned to surf, hired two assistants, retired from "
        "the army, caught a huge fish, bought a sailing boat, cut down a big tree, started a choir, lost a bet, "
        "climbed a volcano, got a promotion, met a famous actor, took up beekeeping, changed schools"
    ),
}

PLACES = (
    "the library, the town hall, the old mill, the train station, the corner cafe, the city park, the sports "
    "centre, the community hall, the new bakery, the school gym, the river bank, the office, the museum, the bus "
    "stop, the main square, the book shop, the cinema, the market, the harbour, the garden centre"
)
DAYS = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"
HOURS = "8, 9, 10, 11, noon, 1, 2, 3, 4, 5, 6, 7, half past 7, half past 4, half past 9, a quarter past 6"
REASONS = (
    "has to work late, has a bad cold, is visiting family, missed the train, has a dentist appointment, needs to "
    "look after the kids, is stuck in traffic, has an exam the next day, promised to help a neighbour, has guests "
    "from abroad, is waiting for a plumber, has a sore back, needs to finish a report, is out of town"
)
