"""Generated documents with regularities on several levels, in the words of the built-in tasks and a few more.

- within a word: endings of plurals and verbs;
- within a sentence: the verb agrees with its subject, also across words between them;
- within a document: hunter, prey, mood and the state of the gates are constant, and a sentence mostly has the topic of the one
  before.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.config.schema import CorpusConfig
from harness.data.seeds import derive
from harness.tasks.synthetic.families import BLAME, FILLERS, HUNTERS, OPEN, PRAISE, PREY, SHUT, VERBS, words

WORKS = words("book dance film novel play song story tale")
PARTS = words("chapter ending scene verse voice")
PLACES = words("bridge field garden hill meadow river village wood")
GATES = words("cellar door gate harbour window")
PEOPLE = words("baker farmer guard keeper miller teacher")
TIMES = ["at dawn", "at night", "in spring", "in winter", "every evening", "every morning"]
DEGREES = words("quite rather truly very")
ADVERBS = words("again early later often once quietly slowly still there today yonder")
NEAR = [word for word in FILLERS if word not in (*ADVERBS, "while")]
IRREGULAR = {"fox": "foxes", "lynx": "lynxes", "wolf": "wolves", "mouse": "mice", "perch": "perch", "story": "stories"}

SENTENCES = (14, 40)
"""Minimum and maximum number of sentences of a document."""

SAME_TOPIC = 0.8
"""Probability that a sentence has the topic of the one before."""


@dataclass
class Scene:
    """The constants of a document."""

    hunter: str
    prey: str
    place: str
    person: str
    work: str
    mood: list[str]
    state: list[str]


def generate(config: CorpusConfig, split: str) -> Iterator[str]:
    """`corpus.documents` documents of `train`, or that number times `corpus.validation_share` of `validation`."""
    count = config.documents if split == "train" else max(2, round(config.documents * config.validation_share))
    for number in range(count):
        yield _document(random.Random(derive(config.seed, "running text", split, number)))


def _document(rng: random.Random) -> str:
    hunter, prey, place, person, work = map(rng.choice, (HUNTERS, PREY, PLACES, PEOPLE, WORKS))
    scene = Scene(hunter, prey, place, person, work, rng.choice([PRAISE, BLAME]), rng.choice([OPEN, SHUT]))
    topic = rng.choice(TOPICS)
    sentences = []
    for _ in range(rng.randint(*SENTENCES)):
        if rng.random() > SAME_TOPIC:
            topic = rng.choice(TOPICS)
        sentence = topic(rng, scene)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}{rng.choice('.......!')}")
    middle = len(sentences) // 2
    return "\n".join(" ".join(part) for part in (sentences[:middle], sentences[middle:]))


def _bare(verb: str) -> str:
    """The verb after a plural: sees -> see, passes -> pass."""
    return verb[:-2] if verb.endswith(("sses", "ches")) else verb[:-1]


def _noun(rng: random.Random, noun: str) -> tuple[str, bool]:
    """The noun with its article, and whether it is plural."""
    many = rng.random() < 0.4
    article = rng.choice(["the", "these"] if many else ["the", "this", "an" if noun[0] in "aeiou" else "a"])
    plural = IRREGULAR.get(noun, f"{noun}s")
    return f"{article} {plural if many else noun}", many


def _subject(rng: random.Random, noun: str) -> tuple[str, bool]:
    """A subject and whether it is plural, in 30 % with a place between it and its verb."""
    subject, many = _noun(rng, noun)
    if rng.random() < 0.3:
        between, _ = _noun(rng, rng.choice(PLACES))
        subject = f"{subject} {rng.choice(NEAR)} {between}"
    return subject, many


def _hunt(rng: random.Random, scene: Scene) -> str:
    subject, many = _subject(rng, scene.hunter)
    verb = rng.choice(VERBS)
    prey, several = _noun(rng, scene.prey)
    end = rng.choice([rng.choice(TIMES), rng.choice(ADVERBS), f"{rng.choice(NEAR)} the {scene.place}"])
    sentence = f"{subject} {_bare(verb) if many else verb} {prey} {end}"
    if rng.random() < 0.25:
        other = rng.choice(VERBS)
        back, whom = _bare(other) if several else other, "them" if many else "it"
        sentence += f", while {prey} near the {scene.place} {rng.choice(ADVERBS)} {back} {whom}"
    return sentence


def _review(rng: random.Random, scene: Scene) -> str:
    subject, many = _subject(rng, rng.choice([scene.work, scene.work, *PARTS]))
    first, second = rng.sample(scene.mood, 2)
    sentence = f"{subject} {'are' if many else 'is'} {rng.choice(DEGREES)} {first}"
    if rng.random() < 0.5:
        sentence += f" and {second}"
    if rng.random() < 0.3:
        sentence += f", the {scene.person} says"
    return sentence


def _gate(rng: random.Random, scene: Scene) -> str:
    gate, state = rng.choice(GATES), rng.choice(scene.state)
    if rng.random() < 0.5:
        return f"{rng.choice(TIMES)} the {scene.person} {rng.choice(ADVERBS)} finds the {gate} {state}"
    subject, many = _subject(rng, gate)
    return f"{subject} {'stay' if many else 'stays'} {state} {rng.choice(TIMES)}"


def _walk(rng: random.Random, scene: Scene) -> str:
    subject, many = _subject(rng, scene.person)
    verb = rng.choice(["walks", "waits", "rests", "sings"])
    where = f"{rng.choice(NEAR)} the {scene.place}"
    return f"{subject} {_bare(verb) if many else verb} {where} {rng.choice([*TIMES, *ADVERBS])}"


TOPICS: tuple[Callable[[random.Random, Scene], str], ...] = (_hunt, _review, _gate, _walk)
