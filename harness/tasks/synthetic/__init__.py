"""The built-in suite: small generated tasks with known labels, on which the harness itself is tested.

One module per family generates the rows and states the theory of the task. `receptive_field` computes which tokens can
influence a variant's pooled vector; `theory` derives from it whether the variant can solve a task.
"""

import random

from harness.config.choices import Rule
from harness.config.texts import GrammarConfig
from harness.errors import InputError
from harness.seeds import derive
from harness.tasks.synthetic import bag, brackets, distance, induction, left_context, needle, order, pairs, word_sense
from harness.tasks.synthetic.base import Family, Row, Theory

FAMILIES: dict[Rule, Family] = {
    Rule.bag: bag.FAMILY,
    Rule.order: order.FAMILY,
    Rule.distance: distance.FAMILY,
    Rule.left_context: left_context.FAMILY,
    Rule.pairs: pairs.FAMILY,
    Rule.induction: induction.FAMILY,
    Rule.brackets: brackets.FAMILY,
    Rule.needle: needle.FAMILY,
    Rule.word_sense: word_sense.FAMILY,
}


def generate(config: GrammarConfig, split: str) -> list[Row]:
    """Rows of `train` or `validation`, the same for the same config; InputError for a difficulty that cannot be generated."""
    family = FAMILIES[config.rule]
    family.refuse(config)
    count = {"train": config.train_examples, "validation": config.validation_examples}[split]
    if count < 2:
        raise InputError(f"task.grammar.{split}_examples={count} must be at least 2")
    make = family.make_held_out if split == "validation" and family.make_held_out else family.make
    rng = random.Random(derive(config.seed, config.rule.value, split))
    return [{"idx": index, **make(rng, config)} for index in range(count)]


def theory_of(config: GrammarConfig) -> Theory:
    """Theoretical properties of the task at this difficulty; InputError for a difficulty that cannot be generated."""
    family = FAMILIES[config.rule]
    family.refuse(config)
    return family.theory(config)
