"""Pretraining on running text: objective, budget, evaluation on held-out text, and checkpoints to resume from."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from harness import paths
from harness.checkpoints import huggingface, native
from harness.checkpoints import teacher as teachers
from harness.config.schema import PretrainConfig, RunConfig
from harness.corpus import prepare
from harness.corpus.sequences import Corpus
from harness.errors import present
from harness.hardware.device import Machine
from harness.measure.memory import Baseline
from harness.models import mup
from harness.models.config import EncoderConfig
from harness.models.derive import RANDOM
from harness.models.neighbour_heads import look_at_neighbours
from harness.models.objectives.base import Objective, Vocabulary
from harness.models.objectives.build import Phases
from harness.models.objectives.build import build as build_objective
from harness.models.objectives.config import ObjectiveName
from harness.tracking.run_log import RunLog
from harness.training import gradients, resume
from harness.training.distributed import ALONE, Ranks
from harness.training.loop import Position, Training, compile_ahead, train
from harness.training.masked_lm_eval import MaskedLMEval
from harness.training.optimiser import make_optimiser
from harness.training.parts_eval import PartsEval
from harness.training.pretrain_callbacks import CostCurves, Evaluation, Keeping, Saving
from harness.training.pretrain_steps import Steps, seed_of, steps_of
from harness.training.sharding import Collected, weights_of
from harness.training.weights import write_origins


def pretrain(
    config: RunConfig,
    corpus: Corpus,
    machine: Machine,
    run_log: RunLog,
    identity: str,
    memory: Baseline,
    ranks: Ranks = ALONE,
) -> Objective | Phases:
    """Trains from the newest checkpoint, or from the start, to the end of the budget, and saves the weights.

    `identity` names the training that checkpoints belong to. Returns the trained objective. DivergedError at a loss that is
    not finite. Of several ranks the first one evaluates and writes.
    """
    options, shape = config.pretrain, config.model
    objective = build(config, corpus.vocabulary(), run_log if ranks.first else None).to(machine.device)
    steps = steps_of(config, corpus, objective, ranks)
    machine.prepare(objective)  # after Steps has counted FLOPs, for which operators run one by one
    weights = weights_of(objective, machine, ranks)
    optimiser = make_optimiser(weights.trained, options, mup.rates(objective, times_wider(options, shape)))

    checkpoints = run_log.folder / paths.CHECKPOINTS
    position = resume.load(checkpoints, identity, weights.trained, optimiser)
    measure = _on_held_out_text(config, objective, steps, corpus, machine, ranks)
    evaluation = Evaluation(measure, options.evaluations, steps.limit, position, memory, run_log)
    saving = Saving(
        lambda at: resume.save(checkpoints, identity, at, weights.trained, optimiser, ranks),
        options.checkpoint_every_s,
        steps.limit,
        ranks,
    )
    tokenizer = prepare.folder_of(config.output, corpus.key) / native.TOKENIZER
    pooler = huggingface.pooler_of(config)
    keeping = Keeping(
        lambda folder: save_weights(folder, objective.phases[steps.phase], shape, tokenizer, pooler),
        options.keep,
        run_log.folder,
        ranks,
    )
    training = Training(
        model=weights.trained,
        loss=weights.trained,
        next_step=steps.next_step,
        limit=steps.limit,
        planned_steps=steps.planned(position),
        phase="pretrain",
        config=options,
        seed=seed_of(config),
        ranks=ranks,
        callbacks=(
            CostCurves(evaluation, run_log),
            Collected(evaluation, weights, optimiser),
            Collected(keeping, weights, optimiser),
            saving,  # a point is kept before its checkpoint
        ),
    )
    if machine.compiles:
        with memory.leave_out():
            compile_ahead(training, position, machine)
    memory.start()
    train(training, optimiser, position, machine, run_log)

    peaks = ranks.gathered(max(evaluation.peak_bytes, memory.peak() or 0) or None)
    weights.collect(optimiser)
    if ranks.first:
        results = (evaluation.scores or measure()) | costs(position, sum(peaks) if peaks else None)
        if ranks.count > 1:
            results["pretrain/device_peak_memory_bytes"] = max(peaks) if peaks else None
        for key, value in results.items():
            run_log.value(key, value)
        gradients.write_medians(run_log, training.phase)
        save_weights(run_log.folder / paths.WEIGHTS, objective.phases[-1], shape, tokenizer, pooler)
    return objective


def _on_held_out_text(
    config: RunConfig, objective: Objective | Phases, steps: Steps, corpus: Corpus, machine: Machine, ranks: Ranks
) -> Callable[[], dict[str, float]]:
    """Measures the objective of the phase on held-out text; of several ranks the first one does, and others give nothing."""
    masked_lm = MaskedLMEval(config.pretrain, config.model, corpus, machine)
    parts = [PartsEval(phase, corpus, machine) for phase in config.pretrain.of_phases]

    def measure() -> dict[str, float]:
        trained = objective.phases[steps.phase]
        return masked_lm.measure(trained) | parts[steps.phase].measure(trained) if ranks.first else {}

    return measure


def build(config: RunConfig, vocabulary: Vocabulary, run_log: RunLog | None = None) -> Objective | Phases:
    """The objective, randomly initialised, or with the encoder of the published weights that `model.init_from` names.

    What became of these is written to the log.
    """
    options, seed = config.pretrain, seed_of(config)
    distilled = options.objective is ObjectiveName.distillation
    teacher = teachers.load(Path(present(options.teacher)), options, config.tokenizer) if distilled else None
    objective = build_objective(options, pretrained_shape(options, config.model), vocabulary, seed, teacher)
    mup.scale_initial_values(objective, times_wider(options, config.model))
    if options.neighbour_heads:
        look_at_neighbours(objective.encoder, seed)
    if config.model.init_from is not None and not config.model.random_weights:
        origins = huggingface.load_encoder(config, objective.encoder)
        last = objective.phases[-1]
        write_origins(config, last, {name: origins.get(name, RANDOM) for name in last.state_dict()}, run_log)
    return objective


def times_wider(options: PretrainConfig, shape: EncoderConfig) -> float:
    """Hidden size over that which the recipe is for; 1 where it is for every one."""
    return shape.hidden_size / (options.mup_base_width or shape.hidden_size)


def pretrained_shape(options: PretrainConfig, shape: EncoderConfig) -> EncoderConfig:
    """The model while it is pretrained: with the initial values and the dropout of the recipe."""
    if options.initializer_range is not None:
        shape = replace(shape, initializer_range=options.initializer_range)
    dropout = options.dropout
    return shape if dropout is None else replace(shape, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)


def costs(position: Position, peak_bytes: float | None) -> dict[str, float | None]:
    """Metric name -> cost of the pretraining."""
    return {
        "pretrain/steps": position.step,
        "pretrain/tokens": position.tokens,
        "pretrain/flops": position.flops,
        "pretrain/duration_s": position.seconds,
        "pretrain/evaluation_s": position.paused_seconds,
        "pretrain/tokens_per_s": position.tokens / position.seconds,
        "pretrain/peak_memory_bytes": peak_bytes,
    }


def save_weights(
    folder: Path, objective: Objective, shape: EncoderConfig, tokenizer: Path, pooler: Mapping[str, Tensor]
) -> None:
    """All that was trained, with shape and tokenizer: every held-out loss can be computed again from it.

    Of several phases it is the objective of one. Fine-tuning and export use encoder, pooler and masked-LM head; `pooler` is
    there where none was trained. A matrix that is the token embedding is there once.
    """
    state = dict(pooler) | {name: tensor.detach().cpu() for name, tensor in objective.named_parameters()}
    folder.mkdir(exist_ok=True)
    shutil.copyfile(tokenizer, folder / native.TOKENIZER)
    native.save(folder, state, shape)
