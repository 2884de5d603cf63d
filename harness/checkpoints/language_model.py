"""A language model with its head, which scores texts without fine-tuning: of a pretraining, published, or random."""

from dataclasses import replace
from pathlib import Path

from torch import Tensor

from harness.checkpoints import foreign, huggingface, native
from harness.config.schema import PretrainConfig, RunConfig
from harness.errors import InputError, present
from harness.models.config import EncoderConfig
from harness.models.derive import RANDOM, Origin, derived
from harness.models.objectives import build
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.config import ObjectiveName
from harness.models.objectives.scoring import MASKED, can_score


def objective_of(config: RunConfig) -> PretrainConfig:
    """The objective whose head scores: that of the pretraining, else that of the model's paper, else masked LM.

    Every masked-token head is read as that of masked language modelling.
    """
    options = config.pretrain.of_phases[-1]
    if options.objective is ObjectiveName.none:
        options = replace(options, objective=config.model.objective)
        if config.model.init_from is not None or not can_score(options):
            options = replace(options, objective=ObjectiveName.mlm)
    return replace(options, objective=ObjectiveName.mlm) if options.objective in MASKED and can_score(options) else options


def refuse_misfit(config: RunConfig) -> None:
    """InputError, before anything is loaded into a model, for a pretraining or published weights without a head that scores."""
    if config.pretrains and not can_score(config.pretrain):
        raise InputError(
            f"task={config.task.name} scores texts by the head of a language model, which "
            f"pretrain={config.pretrain.objective.value} does not train here: choose pretrain=mlm, clm, plm or bidirectional_lm"
        )
    if config.model.has_published_weights and not config.pretrains:
        _published(config)
    try:
        build.refuse_misfit(objective_of(config), config.model)
    except ValueError as error:
        raise InputError(str(error)) from error


def _published(config: RunConfig) -> tuple[dict[str, Tensor], EncoderConfig]:
    """Encoder and head for masked tokens under our names, and their shape; InputError without a head."""
    named = present(config.model.init_from)
    if config.model.encoder is None:
        return huggingface.masked_lm(huggingface.folder_of(named), "model.init_from")
    folder = huggingface.folder_of(named, pickles=True)
    return foreign.masked_lm(folder, config.model, f"model.init_from={named!r}"), config.model


def load(config: RunConfig, vocabulary: Vocabulary, weights: Path | None) -> tuple[Objective, dict[str, Origin]]:
    """The model on the CPU, and the origin of each of its tensors.

    `weights` is the folder of a pretraining; without it `model.init_from` is read, else values are randomly initialised.
    InputError naming the tensors that are missing or of another shape.
    """
    shape = config.model
    objective = build.build(objective_of(config), shape, vocabulary, config.seed).phases[0].eval()
    expected = objective.state_dict()
    if weights is None and not shape.has_published_weights:
        return objective, dict.fromkeys(expected, RANDOM)
    pieces = None
    if weights is not None:
        state, source = native.read(weights)
    else:
        weights = huggingface.folder_of(present(shape.init_from), pickles=True)
        state, source = _published(config)
        pieces = huggingface.rows_of(config.tokenizer, weights)
    source = huggingface.with_head_of(shape, source)
    state, origins = derived(state, source, shape, shape.keep_layers, pieces)
    untied = [name for name, first in native.first_names(expected).items() if name == first]
    wrong = [name for name in untied if name not in state or state[name].shape != expected[name].shape]
    if wrong:
        raise InputError(
            f"the weights of {weights} lack tensors of this language model, or have others: {', '.join(wrong[:8])}"
        )
    objective.load_state_dict({name: state[name] for name in untied}, strict=False)
    return objective, {name: origins[name] for name in untied}
