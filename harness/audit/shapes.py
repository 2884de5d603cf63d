"""The models that claims speak of: composed once for each text of choices, and counted on the meta device.

T tokens.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.config import compose
from harness.config.schema import RunConfig
from harness.errors import InputError, unknown
from harness.measure import flops, pretraining_heads, size
from harness.measure.subject import OUTPUTS
from models.choices import Body
from models.config import EncoderConfig
from models.heads import Classifier, MaskedLMHead, on_meta
from models.objectives.base import Objective
from models.objectives.config import ObjectiveName


@dataclass
class Shapes:
    """Composes and counts; everything once."""

    config_dir: str | None = None

    def __post_init__(self) -> None:
        self.config = functools.cache(self.config)
        self.flops = functools.cache(self.flops)

    def config(self, choices: str) -> RunConfig:
        """The run of `model=albert scale=base`; InputError for what cannot be composed."""
        words = choices.split()
        task = [] if any(word.startswith("task=") for word in words) else ["task=bag"]
        return compose.outside_of_a_command([*words, *task], self.config_dir)

    def parameters(self, choices: str, part: str) -> int:
        """Of one part; InputError for an unknown one."""
        config = self.config(choices)
        if part in OF_OBJECTIVE:
            return OF_OBJECTIVE[part](_objective(config))
        model = on_meta(config.model, OUTPUTS)
        found = size.components(model)
        if part in found:
            return found[part]
        if part not in OF_MODEL:
            raise unknown("part", part, [*found, *OF_MODEL, *OF_OBJECTIVE], "parts")
        return OF_MODEL[part](model)

    def flops(self, choices: str, length: int, training: bool) -> flops.OfParts:
        """Counted over one text of T tokens."""
        return flops.of_parts(self.config(choices).model, OUTPUTS, length, training)


def _objective(config: RunConfig) -> Objective:
    """That of `pretrain=`, masked language modelling where there is none."""
    named = config.pretrain.objective is not ObjectiveName.none
    pretrain = config.pretrain if named else replace(config.pretrain, objective=ObjectiveName.mlm)
    return pretraining_heads.shapes(config.model, pretrain)


def objective_flops(config: RunConfig, length: int) -> int:
    """Of one forward pass of the pretraining objective over one sequence of T tokens."""
    return _objective(config).flops(length)


def visible_pairs(config: EncoderConfig, length: int) -> int:
    """Pairs (token, token that it sees) in all layers, by what their attention states as its reach; InputError without one."""
    if config.body is not Body.transformer or config.global_tokens:
        raise InputError(
            f"part: visible_pairs counts layers of attention without global tokens, got body={config.body.value} and "
            f"global_tokens={config.global_tokens}"
        )
    pairs = 0
    for block, _ in on_meta(config, OUTPUTS).encoder.layers.execution_order():
        reach = block.attention.receptive_field
        left, right = min(reach.rightwards, length - 1), min(reach.leftwards, length - 1)
        pairs += int(sum(min(place, left) + min(length - 1 - place, right) + 1 for place in range(length)))
    return pairs


def _first_layer(*names: str) -> Callable[[Classifier], int]:
    """Counts the named modules of the blocks of the first layer, or all of them without names."""

    def counted(model: Classifier) -> int:
        blocks = model.encoder.layers.execution_order()[0]
        modules = [getattr(block, name) for block in blocks for name in names if hasattr(block, name)] or blocks
        return sum(size.count(module) for module in modules)

    return counted


def _output_matrix(objective: Objective) -> int:
    head = objective.masked_head
    tied = not isinstance(head, MaskedLMHead) or head.output.weight is objective.encoder.embeddings.token_embedding.weight
    return 0 if tied else head.output.weight.numel()


OF_MODEL: dict[str, Callable[[Classifier], int]] = {
    "total": size.count,
    "effective": size.effective,
    "encoder": lambda model: size.count(model.encoder),
    "encoder_and_pooler": lambda model: size.count(model.encoder) + size.count(model.pooler),
    "layer": _first_layer(),
    "layer_attention": _first_layer("attention"),
    "layer_feed_forward": _first_layer("feed_forward"),
}
"""Part -> its parameters in a classifier of two classes, beside the components of the component table."""

OF_OBJECTIVE: dict[str, Callable[[Objective], int]] = {"pretraining": size.count, "masked_lm_output": _output_matrix}
"""Part -> its parameters in the pretraining; the output matrix has none of its own where it is the token embedding."""
