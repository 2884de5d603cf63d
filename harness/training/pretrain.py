"""Pretraining on running text: objective, budget, evaluation on held-out text, and checkpoints to resume from."""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from harness import paths
from harness.checkpoints import huggingface, native
from harness.checkpoints import teacher as teachers
from harness.config.resolve import seed_of_pretraining
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
from harness.training import resume
from harness.training.distributed import ALONE, Ranks
from harness.training.held_out import HeldOut
from harness.training.loop import LOG_EVERY, Callback, Limit, Position, Training, compile_ahead, train, write_medians
from harness.training.optimiser import make_optimiser
from harness.training.pretrain_steps import steps_of
from harness.training.sharding import weights_of
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
    not finite. With several ranks, the first one evaluates and writes.
    """
    options, shape = config.pretrain, config.model
    objective = build(config, corpus.vocabulary(), run_log if ranks.first else None).to(machine.device)
    steps = steps_of(config, corpus, objective, ranks)
    machine.prepare(objective)  # after Steps has counted FLOPs, for which operators run one by one
    weights = weights_of(objective, machine, ranks)
    optimiser = make_optimiser(weights.trained, options, mup.rates(objective, times_wider(options, shape)))

    checkpoints = run_log.folder / paths.CHECKPOINTS
    position = resume.load(checkpoints, identity, weights.trained, optimiser)
    held_out = HeldOut(options, shape, corpus, machine)

    def measure() -> dict[str, float]:
        trained = objective.phases[steps.phase]
        probe = "" if trained.masked_head else f", with a probe trained for {options.probe_steps:,} steps"
        run_log.part(f"evaluating on held-out text{probe}")
        return held_out.masked(trained) | held_out.parts(trained, steps.phase) if ranks.first else {}

    def write_costs(at: Position) -> None:
        for name, value in {"tokens": at.tokens, "flops": at.flops, "duration_s": at.seconds}.items():
            run_log.curve(f"pretrain/{name}", at.step, value, at.tokens)

    evaluation = Evaluation(measure, options.evaluations, steps.limit, position, memory, run_log)
    tokenizer = prepare.folder_of(config.output, corpus.key) / native.TOKENIZER
    pooler = huggingface.pooler_of(config)
    keeping = Keeping(
        lambda folder: save_weights(folder, objective.phases[steps.phase], shape, tokenizer, pooler),
        options.keep,
        run_log.folder,
        ranks,
    )

    def save(at: Position) -> None:
        at.peak_bytes = memory.peak() or 0
        resume.save(checkpoints, identity, at, weights.trained, optimiser, ranks)

    training = Training(
        model=weights.trained,
        loss=weights.trained,
        next_step=steps.next_step,
        limit=steps.limit,
        planned_steps=steps.planned(position),
        phase="pretrain",
        config=options,
        seed=seed_of_pretraining(config),
        ranks=ranks,
        callbacks=(
            Callback(lambda at: at.step % LOG_EVERY == 0 or evaluation.is_due(at), write_costs),
            weights.collected(Callback(evaluation.is_due, evaluation.run), optimiser),
            weights.collected(Callback(keeping.is_due, keeping.run), optimiser),
            saving(save, options.checkpoint_every_s, steps.limit, ranks),  # a point is kept before its checkpoint
        ),
    )
    if machine.compiles:
        with memory.leave_out():
            compile_ahead(training, position, machine)
    memory.start(position.peak_bytes)
    train(training, optimiser, position, machine, run_log)

    peaks = ranks.gathered(memory.peak())
    weights.collect(optimiser)
    if ranks.first:
        results = (evaluation.scores or measure()) | costs(position, sum(peaks) if peaks else None)
        if ranks.count > 1:
            results["pretrain/device_peak_memory_bytes"] = max(peaks) if peaks else None
        run_log.values(results)
        write_medians(run_log, training.phase)
        save_weights(run_log.folder / paths.WEIGHTS, objective.phases[-1], shape, tokenizer, pooler)
    return objective


def build(config: RunConfig, vocabulary: Vocabulary, run_log: RunLog | None = None) -> Objective | Phases:
    """The objective, randomly initialised, or with the encoder of the published weights that `model.init_from` names.

    What became of these is written to the log.
    """
    options, seed = config.pretrain, seed_of_pretraining(config)
    distilled = options.objective is ObjectiveName.distillation
    teacher = teachers.load(Path(present(options.teacher)), options, config.tokenizer) if distilled else None
    objective = build_objective(options, pretrained_shape(options, config.model), vocabulary, seed, teacher)
    mup.scale_initial_values(objective, times_wider(options, config.model))
    if options.neighbour_heads:
        look_at_neighbours(objective.encoder, seed)
    if config.model.has_published_weights:
        origins = huggingface.load_encoder(config, objective.encoder)
        last = objective.phases[-1]
        origins |= huggingface.load_masked_head(config, last.masked_head)
        write_origins(config, last, {name: origins.get(name, RANDOM) for name in last.state_dict()}, run_log)
    return objective


def times_wider(options: PretrainConfig, shape: EncoderConfig) -> float:
    """Hidden size over `mup_base_width`; 1 without one."""
    return shape.hidden_size / (options.mup_base_width or shape.hidden_size)


def pretrained_shape(options: PretrainConfig, shape: EncoderConfig) -> EncoderConfig:
    """The shape with the initial values and dropout of the recipe."""
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

    With several phases, it is the objective of one. Fine-tuning and export use encoder, pooler and masked-LM head; `pooler` is
    there where none was trained. A matrix that is the token embedding is there once.
    """
    state = dict(pooler) | {name: tensor.detach().cpu() for name, tensor in objective.named_parameters()}
    folder.mkdir(exist_ok=True)
    shutil.copyfile(tokenizer, folder / native.TOKENIZER)
    native.save(folder, state, shape)


@dataclass
class Evaluation:
    """Evaluates on held-out text at even intervals of the budget. Its memory is not part of training's peak."""

    measure: Callable[[], dict[str, float]]
    evaluations: int
    limit: Limit
    position: Position  # where the training begins, and later is
    memory: Baseline
    run_log: RunLog
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation in this process

    def __post_init__(self) -> None:
        self._done = self._number(self.position)

    def _number(self, position: Position) -> int:
        """Evaluations up to this position."""
        return int(round(min(1.0, self.limit.done(position) / self.limit.total) * self.evaluations, 9))

    def is_due(self, position: Position) -> bool:
        """Whether one more evaluation is due."""
        return self._number(position) > self._done

    def run(self, position: Position) -> None:
        """Evaluates and writes the scores."""
        started = time.perf_counter()
        self._done = self._number(position)
        with self.memory.paused():
            self.scores = self.measure()
        for key, value in self.scores.items():
            self.run_log.curve(key, position.step, value, position.tokens)
        position.paused_seconds += time.perf_counter() - started


def saving(save: Callable[[Position], object], every_s: float, limit: Limit, ranks: Ranks) -> Callback:
    """Saves a checkpoint every `every_s` seconds, and at the end."""
    saved = time.monotonic()

    def is_due(position: Position) -> bool:
        return bool(ranks.agreed(time.monotonic() - saved >= every_s or limit.reached(position)))

    def run(position: Position) -> None:
        nonlocal saved
        save(position)
        saved = time.monotonic()

    return Callback(is_due, run)


class Keeping:
    """Keeps weights after given numbers of tokens; fine-tuning can start from them, training is not resumed from them."""

    def __init__(self, save: Callable[[Path], None], keep: list[float], folder: Path, ranks: Ranks = ALONE) -> None:
        targets = [(tokens, paths.pretrained_weights(folder, tokens)) for tokens in sorted(keep)]
        self._save, self._ranks, self._due = save, ranks, [target for target in targets if not target[1].is_dir()]

    def is_due(self, position: Position) -> bool:
        """Whether the next number of tokens is reached."""
        return bool(self._due) and position.tokens >= self._due[0][0]

    def run(self, position: Position) -> None:
        """Saves the weights on the first rank, whole or not at all."""
        while self.is_due(position):
            _, path = self._due.pop(0)
            if self._ranks.first:
                with paths.whole(path) as building:
                    self._save(building)
