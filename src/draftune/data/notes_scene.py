"""Scenes of generated notes: what two people say in turn, and the one sentence that sums it up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Each line is a speaker (a or b) and alternatives of which one is said; "" says nothing.

    {a} and {b} are the speakers, {c} a third person; the other slots are pools of notes_words. `{reason_i}` is the
    reason in the first person.
    """

    lines: tuple[tuple[str, tuple[str, ...]], ...]
    summaries: tuple[str, ...]


_HELLO = ("a", ("", "", "Hi {b}!", "Hello {b}, are you busy?", "Hey {b}, got a minute?"))
SCENES = (
    Scene(  # borrowing, granted
        lines=(
            _HELLO,
            (
                "a",
                (
                    "Could I borrow your {item}?",
                    "Do you still have that {item}? I need one.",
                    "Can you lend me a {item}?",
                ),
            ),
            ("b", ("Sure, when do you need it?", "Of course. For when?", "No problem, what day?")),
            ("a", ("On {day}, if that's okay.", "{day} would be great.", "I need it by {day}.")),
            ("b", ("You can pick it up at {place}.", "Fine, let's meet at {place}.", "I'll bring it to {place}.")),
            ("a", ("", "Thanks a lot!", "You're the best.", "Perfect.")),
        ),
        summaries=(
            "{b} will lend {a} a {item} on {day}, and they will meet at {place}.",
            "{a} will borrow a {item} from {b} on {day} at {place}.",
            "{a} needs a {item} on {day} and {b} will hand it over at {place}.",
        ),
    ),
    Scene(  # borrowing, refused; a third person has one
        lines=(
            _HELLO,
            ("a", ("Can I have your {item} for the weekend?", "I'm looking for a {item}. Do you have one?")),
            (
                "b",
                (
                    "Sorry, I gave mine to {c}.",
                    "I don't have it any more, {c} has it now.",
                    "{c} borrowed it last week.",
                ),
            ),
            ("a", ("Oh, too bad.", "Do you think I could ask?", "Hm, I see.")),
            ("b", ("Just call {c}, I'm sure it's fine.", "Ask {c}, it should be no problem.")),
            ("a", ("", "Okay, I will.", "Good idea, thanks.")),
        ),
        summaries=(
            "{b} has no {item} because {c} has it, so {a} will ask {c}.",
            "{a} wants to borrow a {item}, but {b} gave it to {c}.",
            "{a} will ask {c} for the {item} that {b} gave away.",
        ),
    ),
    Scene(  # invitation accepted
        lines=(
            _HELLO,
            ("a", ("Are you coming to the {event} on {day}?", "There's a {event} on {day}. Want to join?")),
            ("b", ("I'd love to! Where is it?", "Sounds fun. Where?", "Yes! Where do we meet?")),
            ("a", ("At {place}, it starts at {hour}.", "{place}, at {hour}.", "Be at {place} at {hour}.")),
            ("b", ("Great, I'll be there.", "Count me in.", "See you then!", "Can I bring {c} too?")),
        ),
        summaries=(
            "{a} and {b} will go to the {event} on {day} at {hour} at {place}.",
            "{b} will join {a} for the {event} at {place} on {day} at {hour}.",
            "{a} invites {b} to a {event} on {day} at {hour} at {place}.",
        ),
    ),
    Scene(  # invitation declined
        lines=(
            ("a", ("Do you want to come to the {event} on {day}?", "{b}, we need you at the {event} on {day}!")),
            ("b", ("I can't, I {reason_i}.", "Sorry, I {reason_i}.", "Not this time, I {reason_i}.")),
            ("a", ("What a pity.", "Oh no. Next time then?", "I understand. Shall I ask {c}?")),
            ("b", ("Maybe {c} can go with you.", "Ask {c}, I think it would be welcome.", "Take {c} along instead.")),
            ("a", ("", "I'll try.", "Okay, get some rest.", "Alright, talk soon.")),
        ),
        summaries=(
            "{b} cannot come to the {event} on {day} because {b} {reason}.",
            "{b} {reason} and will miss the {event} on {day}, so {a} may take {c}.",
            "{a} may go to the {event} on {day} with {c}, as {b} {reason}.",
        ),
    ),
    Scene(  # postponed
        lines=(
            ("a", ("Bad news, I {reason_i}.", "{b}, I {reason_i}.", "Sorry to bother you, but I {reason_i}.")),
            ("b", ("What about the {event}?", "So no {event} on {day}?", "Does that mean we skip the {event}?")),
            ("a", ("Can we move it to {day2}?", "Could we do it on {day2} instead?", "{day2} would work for me.")),
            ("b", ("{day2} is fine, same place.", "Okay, {day2} at {hour} then.", "Sure. I'll tell {c}.")),
            ("a", ("Thank you!", "", "Great, sorry again.")),
        ),
        summaries=(
            "{a} and {b} move the {event} to {day2} because {a} {reason}.",
            "The {event} will take place on {day2}, since {a} {reason}.",
            "As {a} {reason}, the {event} is moved to {day2}.",
        ),
    ),
    Scene(  # who cooks
        lines=(
            (
                "a",
                (
                    "What are you bringing on {day}?",
                    "Have you thought about food for {day}?",
                    "Any plans for {day}'s dinner?",
                ),
            ),
            ("b", ("I thought of {dish}.", "I could make {dish}.", "How about {dish}?")),
            ("a", ("Lovely, {c} will like that.", "Yum! I'll get the drinks.", "Great, I'll do the dessert.")),
            ("b", ("Is {c} coming too?", "How many are we?", "Anything else?")),
            ("a", ("{c} will be there with a friend.", "Yes, and {c} comes with a friend.", "Just {c} and a friend.")),
        ),
        summaries=(
            "{b} will make {dish} on {day} for {a}, {c} and a friend.",
            "{b} is bringing {dish} on {day}, and {c} will come with a friend.",
            "{c} and a friend will join {a} and {b} on {day} for {dish}.",
        ),
    ),
    Scene(  # recipe
        lines=(
            _HELLO,
            ("a", ("How was the {dish} at {c}'s?", "I heard {c} made {dish}. Was it good?")),
            ("b", ("Amazing, the best I've had.", "A bit too salty, but I liked it.", "Really good, I had seconds.")),
            ("a", ("Could you send me the recipe?", "I'd love to have the recipe.", "Do you know how it's made?")),
            ("b", ("I'll ask {c} on {day}.", "{c} promised to write it down by {day}.", "You'll get it on {day}.")),
        ),
        summaries=(
            "{b} liked {c}'s {dish} and {a} will get the recipe on {day}.",
            "{a} wants the recipe of {c}'s {dish}, which {b} will get by {day}.",
            "{a} will have the recipe for {dish} on {day}.",
        ),
    ),
    Scene(  # help granted
        lines=(
            _HELLO,
            ("a", ("I need help with my {job}.", "Could you look at my {job}?", "I'm fighting with the {job} again.")),
            ("b", ("What's wrong with it?", "Again? What happened?", "Sure. Is it urgent?")),
            ("a", ("I have no idea where to start.", "It's driving me mad.", "It has to be done by {day}.")),
            (
                "b",
                ("I'll come over on {day} at {hour}.", "Let me drop by on {day} at {hour}.", "{day} at {hour}, okay?"),
            ),
            ("a", ("You're saving me!", "Thanks, I'll make coffee.", "Wonderful, see you.")),
        ),
        summaries=(
            "{b} will help {a} with the {job} on {day} at {hour}.",
            "{b} is coming on {day} at {hour} to help {a} with the {job}.",
            "{a} needs help with the {job}, so {b} will come over on {day} at {hour}.",
        ),
    ),
    Scene(  # help passed on
        lines=(
            ("a", ("Do you know anything about a {job}?", "Who could help me with a {job}?")),
            ("b", ("Not really, but {c} does.", "No, but {c} is good at that.", "{c} did one last month.")),
            ("a", ("Do you have the number?", "Would you ask for me?", "Is {c} expensive?")),
            ("b", ("I'll send you the number tonight.", "I'll write to {c} and tell you.", "I can call {c} on {day}.")),
            ("a", ("", "Great, thank you.", "That would help a lot.")),
        ),
        summaries=(
            "{b} recommends {c} to {a} for the {job}.",
            "{a} needs help with a {job} and {b} will put {a} in touch with {c}.",
            "{c} may help {a} with the {job}.",
        ),
    ),
    Scene(  # lost and found
        lines=(
            ("a", ("Have you seen my {thing}?", "I can't find my {thing} anywhere.", "I think I lost my {thing}.")),
            ("b", ("When did you last have it?", "Did you look in the car?", "Oh no. Where were you yesterday?")),
            ("a", ("At {place}, I think.", "I had it at {place} on {day}.", "Yesterday I was at {place}.")),
            (
                "b",
                (
                    "Call them, or ask {c}, who was there too.",
                    "{c} works there, I'll ask.",
                    "Wait, {c} found something there!",
                ),
            ),
            ("a", ("I hope so!", "Please do.", "That would be great.")),
        ),
        summaries=(
            "{a} lost the {thing}, probably at {place}, and {c} may know more.",
            "{a} is looking for the {thing} that was lost at {place}, and {c} may help.",
            "{a} may have left the {thing} at {place}, so they will ask {c}.",
        ),
    ),
    Scene(  # left at one's place
        lines=(
            (
                "a",
                (
                    "You left your {thing} at my place.",
                    "{b}, is this your {thing} on my sofa?",
                    "Guess what I found: your {thing}!",
                ),
            ),
            ("b", ("So that's where it was!", "Oh, I looked for it all day.", "Thank goodness!")),
            ("a", ("I can bring it to {place} on {day}.", "Shall I take it to {place} on {day}?")),
            ("b", ("That's kind, thank you.", "Give it to {c}, if that's easier.", "Yes please, around {hour}.")),
        ),
        summaries=(
            "{a} found {b}'s {thing} and will bring it to {place} on {day}.",
            "{b} left the {thing} at {a}'s place and will get it back on {day} at {place}.",
            "{a} will return the {thing} to {b} on {day} at {place}.",
        ),
    ),
    Scene(  # news of a third person
        lines=(
            _HELLO,
            ("a", ("Did you hear about {c}?", "Have you talked to {c} lately?", "I met {c} on {day}.")),
            ("b", ("No, what happened?", "Not for weeks. Any news?", "How is {c} doing?")),
            ("a", ("{c} {news}!", "Believe it or not, {c} {news}.", "It seems that {c} {news}.")),
            ("b", ("I didn't expect that!", "Really? Wow.", "Who would have thought?")),
            ("a", ("Let's visit on {day}.", "Shall we call on {day}?", "We should celebrate on {day}.")),
        ),
        summaries=(
            "{a} tells {b} that {c} {news}, and they want to see {c} on {day}.",
            "{c} {news}, so {a} and {b} want to get in touch on {day}.",
            "{b} learns from {a} that {c} {news}.",
        ),
    ),
    Scene(  # own news
        lines=(
            _HELLO,
            ("b", ("How are things?", "Any news?", "What are you up to?")),
            ("a", ("You won't believe it: I {news}.", "Well, I {news}!", "I {news} last week.")),
            ("b", ("Wow, since when did you plan that?", "Tell me everything!", "I'm impressed.")),
            ("a", ("Come to {place} on {day} and I'll tell you.", "Let's meet at {place} on {day}.")),
            ("b", ("Deal.", "I'll be there at {hour}.", "Can't wait.")),
        ),
        summaries=(
            "{a} {news} and will meet {b} at {place} on {day}.",
            "{a} {news} and wants to tell {b} about it at {place} on {day}.",
            "{b} will meet {a}, who {news}, at {place} on {day}.",
        ),
    ),
)
