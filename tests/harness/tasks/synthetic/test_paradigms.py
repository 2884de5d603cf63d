"""Generated minimal pairs: what word frequencies decide, and from which distance and side on the rest is decided.

An observer sees the differing words and so many words on either side, each word as the slot that it fills. It has counted
how often it sees that in right and in wrong sentences of train, and answers for sentences of validation, of other words.
"""

import re
from collections import Counter
from functools import cache

import pytest

from harness.errors import InputError
from harness.tasks.synthetic.paradigms import LISTS, PARADIGMS, SLOT, SLOTS, WORDS, generate

PAIRS = 100
WIDEST = 20
NO_SIGHT = 0.15
"""From one half: what counts of one hundred pairs, in which sights are few and alike, may reach by chance."""
UNIONS = {"ONE": ("MAN", "MEN"), "ROYAL": ("KING", "QUEEN")}


@cache
def generated(split: str) -> list[dict[str, str]]:
    return generate(PAIRS, split)


def words_of(sentence: str) -> list[str]:
    return re.findall(r"\w+|[.?]", sentence.lower())


def pairs(split: str, paradigm: str) -> list[list[list[str]]]:
    """(good, bad) words, each as the slot of this paradigm that it fills, if any."""
    named = {name for template in PARADIGMS[paradigm].templates for name, _ in SLOT.findall(template)} - {*UNIONS}
    slots = {forms[form]: name for name in sorted(named) for words, form in [SLOTS[name]] for forms in words}
    sides = ("sentence_good", "sentence_bad")
    own = [row for row in generated(split) if row["UID"] == paradigm]
    return [[[slots.get(word, word) for word in words_of(row[side])] for side in sides] for row in own]


def sights(pair: list[list[str]], left: int, right: int) -> list[tuple]:
    """What the observer sees of both sentences: the words around each place where they differ."""
    places = [at for at, (good, bad) in enumerate(zip(*pair, strict=True)) if good != bad]
    padded = [["^"] * WIDEST + words + ["$"] * WIDEST for words in pair]
    return [tuple(sorted(words[WIDEST + at - left : WIDEST + at + right + 1] for at in places)) for words in padded]


def accuracy(paradigm: str, left: int, right: int) -> float:
    """Share of validation pairs in which the observer has seen the right sentence more often; a tie is half right."""
    counts = Counter()
    for pair in pairs("train", paradigm):
        good, bad = map(str, sights(pair, left, right))
        counts[good] += 1
        counts[bad] -= 1
    score = 0.0
    for pair in pairs("validation", paradigm):
        good, bad = (counts[str(sight)] for sight in sights(pair, left, right))
        score += 0.5 if good == bad else float(good > bad)
    return score / PAIRS


@pytest.mark.parametrize("name", PARADIGMS)
def test_a_paradigm_needs_its_distance_on_its_side(name):
    known = PARADIGMS[name]
    left, right = (known.distance if known.side in (side, "both") else 0 for side in ("left", "right"))
    assert accuracy(name, left, right) == 1.0
    assert accuracy(name, WIDEST * (left > 0), WIDEST * (right > 0)) == 1.0
    short = known.distance - 1
    assert accuracy(name, short, short) == pytest.approx(0.5, abs=NO_SIGHT)
    if known.side != "both":
        assert accuracy(name, WIDEST * (left == 0), WIDEST * (right == 0)) == pytest.approx(0.5, abs=NO_SIGHT)


@pytest.mark.parametrize("name", PARADIGMS)
def test_no_word_frequencies_are_right_in_more_than_half_of_the_pairs(name):
    """The pairs come in two halves, in which what is good here is bad there, or hold the same words."""
    changes = Counter()
    for row in (row for row in generated("validation") if row["UID"] == name):
        good, bad = (Counter(words_of(row[side])) for side in ("sentence_good", "sentence_bad"))
        changes[str(sorted((good - bad).items())), str(sorted((bad - good).items()))] += 1
    own = {name for name, _ in SLOT.findall("".join(re.findall(r"\[.*?\]", "".join(PARADIGMS[name].templates))))}
    if own:  # the differing words are drawn: as many of each slot are good as bad
        templates = [re.search(r"\[(.*?)\|(.*?)\]", template).groups() for template in PARADIGMS[name].templates]
        assert Counter(good for good, _ in templates) == Counter(bad for _, bad in templates) or all(
            Counter(good.split()) == Counter(bad.split()) for good, bad in templates
        )
    else:
        assert all(changes[bad, good] == count for (good, bad), count in changes.items())


def test_no_open_word_of_validation_is_in_train_and_no_pair_comes_twice():
    both = [{word for row in generated(split) for word in words_of(row["sentence_good"])} for split in ("train", "validation")]
    drawn = {word for name, words in LISTS.items() if name != "pronouns" for forms in words for word in forms}
    assert both[0] & both[1] & drawn == {"saw"}  # a fixed word, too: `who saw`
    sentences = [(row["sentence_good"], row["sentence_bad"]) for row in generated("validation")]
    assert len({*sentences}) == len(sentences) == PAIRS * len(PARADIGMS)
    assert both[1] - {".", "?"} <= {*WORDS}
    assert all(row["sentence_good"] != row["sentence_bad"] for row in generated("validation"))


@pytest.mark.long
def test_paradigms_begin_alike_whatever_their_number_and_too_many_are_refused():
    assert generate(2, "validation") == generated("validation")[: 2 * len(PARADIGMS)]
    with pytest.raises(InputError, match=r"task.pairs=5000 is more than paradigm \w+ has: reduce it"):
        generate(5000, "validation")
