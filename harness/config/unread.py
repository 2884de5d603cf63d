"""Keys that no run of a command reads: a command that types or sweeps one would name arms by what they do not differ in."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from harness.comparison.arms import within
from harness.config.choices import (
    UNTRAINED,
    CorpusSource,
    Device,
    MatchOn,
    Optimizer,
    Rule,
    Scenario,
    TaskKind,
    TokenizerKind,
    TrainedOn,
    Until,
)
from harness.config.command_line import key_of
from harness.config.resolve import has_task, is_only_scored, is_pretrained, rate_of_start
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.models.choices import Position
from harness.models.objectives.config import Masking, ObjectiveName


class Part(NamedTuple):
    """Keys, or sections that end in a dot; when a run reads them, what to say where none does, and what makes it read them."""

    keys: tuple[str, ...]
    is_read: Callable[[RunConfig], object]
    why: str
    choice: str
    swept: bool = False  # such a key alone is refused: others leave the arms as they are


def _of_rules(key: str, *rules: Rule) -> Part:
    names = [rule.value for rule in rules]
    return Part(
        (f"task.grammar.{key}",),
        lambda run: run.task.grammar is None or run.task.grammar.rule in rules,
        f"generates rows by the rule {' or '.join(names)}",
        f"task={names[0]}",
    )


def _of_objectives(keys: Iterable[str], *names: ObjectiveName) -> Part:
    return Part(
        tuple(f"pretrain.{key}" for key in keys),
        lambda run: {*names} & _objectives(run),
        f"pretrains by {names[0].value if len(names) == 1 else 'an objective that reads it'}",
        f"pretrain={names[0].value}",
    )


def _of_optimizers(key: str, *names: Optimizer) -> list[Part]:
    return [
        Part(
            (f"{phase}.{key}",),
            lambda run, phase=phase: getattr(run, phase).optimizer in names,
            f"has an optimizer with {key}",
            f"{phase}.optimizer={names[0].value}",
        )
        for phase in ("pretrain", "finetune")
    ]


def _objectives(run: RunConfig) -> set[ObjectiveName]:
    return {run.pretrain.objective, *run.pretrain.phases}


def _predicts_masked(run: RunConfig, objectives: set[ObjectiveName] | None = None) -> bool:
    objectives = objectives or _objectives(run)
    is_taught = ObjectiveName.distillation in objectives and (run.pretrain.soft_weight or run.pretrain.masked_weight)
    return bool({*MASKED} & objectives or is_taught)


def _is_timed(run: RunConfig) -> bool:
    return run.measure.enabled and _is_measured(run)


def _is_measured(run: RunConfig) -> bool:
    return has_task(run) and run.task.kind not in UNTRAINED


def _reads_text(run: RunConfig) -> bool:
    return is_pretrained(run) or run.tokenizer.trained_on is TrainedOn.corpus


def _trains_tokenizer(run: RunConfig) -> bool:
    return not (run.tokenizer.file or run.tokenizer.vocab_file)


MASKED = (ObjectiveName.mlm, ObjectiveName.mlm_nsp, ObjectiveName.mlm_sop, ObjectiveName.rtd)
"""Objectives that replace tokens; a distillation does where it learns predictions."""

WITH_BETAS = (Optimizer.adamw, Optimizer.adam, Optimizer.nadam, Optimizer.radam, Optimizer.adamax, Optimizer.muon)
WITH_EPS = (*WITH_BETAS, Optimizer.adagrad, Optimizer.adadelta, Optimizer.rmsprop)

GENERATED = ("hub", "folder", "subset", "train_split", "validation_split", "test_split")
OWN = ("train_file", "validation_file", "test_file")
OF_DATA_SET = ("hub", "folder", "subset", "train_split", "validation_split", "document", "heading")
OF_DISTILLATION = ("teacher", "soft_weight", "masked_weight", "cosine_weight", "hidden_weight", "relation_weight")
OF_TIMING = (
    *(
        "rounds",
        "min_rounds",
        "budget_minutes",
        "repeats",
        "throughput_texts",
        "batch_size",
        "throughput_batches",
        "train_steps",
    ),
    *("threads", "train_batch_size", "lengths", "batch_sizes", "seconds_per_length", "foreign_cpus", "retries", "load"),
)

PARTS = (
    Part(("pretrain.",), lambda run: run.pretrain.objective is not ObjectiveName.none, "pretrains", "pretrain=mlm"),
    Part(("pretrain.shares",), lambda run: run.pretrain.phases, "has phases", "pretrain=[clm,mlm]"),
    Part(
        ("pretrain.mask_rate", "pretrain.masking"),
        lambda run: _predicts_masked(run) or ObjectiveName.cbow in _objectives(run),
        "predicts masked tokens",
        "pretrain=mlm",
    ),
    Part(("pretrain.masked_share", "pretrain.random_share"), _predicts_masked, "predicts masked tokens", "pretrain=mlm"),
    Part(
        ("pretrain.mean_span",),
        lambda run: run.pretrain.masking is Masking.span,
        "masks spans of words",
        "pretrain.masking=span",
    ),
    Part(
        ("pretrain.static_masks",),
        lambda run: _objectives(run) - {ObjectiveName.clm, ObjectiveName.bidirectional_lm},
        "samples what is predicted",
        "pretrain=mlm",
    ),
    Part(
        ("pretrain.probe_steps",),
        lambda run: run.pretrain.objective is ObjectiveName.rtd or not _predicts_masked(run, {run.pretrain.objective}),
        "needs a probe for masked tokens",
        "pretrain=clm",
        swept=True,
    ),
    _of_objectives(("noise_density", "mean_noise_span_length"), ObjectiveName.span_corruption),
    _of_objectives(("generator_fraction", "detection_weight"), ObjectiveName.rtd),
    _of_objectives(("predicted_share",), ObjectiveName.plm),
    _of_objectives(("context",), ObjectiveName.cbow),
    _of_objectives((*OF_DISTILLATION, "temperature", "matched_layers"), ObjectiveName.distillation),
    Part(
        ("pretrain.temperature",),
        lambda run: run.pretrain.soft_weight,
        "learns a teacher's probabilities",
        "pretrain.soft_weight=5",
    ),
    Part(
        ("pretrain.matched_layers",),
        lambda run: run.pretrain.hidden_weight,
        "learns a teacher's hidden states",
        "pretrain.hidden_weight=1",
    ),
    Part(("pretrain.ramp_fraction",), lambda run: run.pretrain.ramp_from is not None, "has a ramp", "pretrain.ramp_from=1"),
    Part(
        ("pretrain.warmup_steps",), lambda run: run.pretrain.seconds is None, "has a budget in steps", "pretrain.seconds=null"
    ),
    Part(
        ("pretrain.neighbour_heads",),
        lambda run: run.model.position is Position.learned,
        "has learned positions",
        "model.position=learned",
    ),
    Part(
        ("finetune.",),
        lambda run: has_task(run) and run.finetune.enabled and not is_only_scored(run),
        "fine-tunes",
        "finetune=standard, and a task that trains",
    ),
    Part(
        ("model.finetune_rate",),
        lambda run: run.finetune.enabled and run.finetune.learning_rate == rate_of_start(run) == run.model.finetune_rate,
        "fine-tunes published weights at a rate that is not set otherwise",
        "model.init_from=NAME, without finetune.learning_rate",
    ),
    Part(
        ("model.scratch_rate",),
        lambda run: run.finetune.enabled and run.finetune.learning_rate == rate_of_start(run) == run.model.scratch_rate,
        "fine-tunes random weights at a rate that is not set otherwise",
        "pretrain=none, without model.init_from and finetune.learning_rate",
    ),
    Part(("finetune.epochs",), lambda run: run.finetune.seconds is None, "trains by epochs", "finetune.seconds=null"),
    *_of_optimizers("adam_betas", *WITH_BETAS),
    *_of_optimizers("adam_eps", *WITH_EPS),
    _of_rules("distance", Rule.distance),
    _of_rules("symbols", Rule.pairs, Rule.induction),
    _of_rules("pairs", Rule.induction, Rule.brackets),
    _of_rules("depth", Rule.brackets),
    _of_rules("length", Rule.needle),
    Part(
        tuple(f"task.{key}" for key in (*GENERATED, *OWN)),
        lambda run: not (run.task.grammar or run.task.pairs),
        "reads the rows of its task",
        "a task=NAME whose rows are not generated",
    ),
    Part(
        ("task.stride", "task.max_answer_length", "task.answerable_only"),
        lambda run: run.task.kind is TaskKind.spans,
        "answers questions by spans",
        "task=squad",
    ),
    Part(
        ("task.pairs",),
        lambda run: run.task.kind is TaskKind.minimal_pairs,
        "scores pairs of sentences",
        "task=minimal_pairs",
    ),
    Part(
        ("task.label_separator",),
        lambda run: run.task.kind is TaskKind.multilabel,
        "has several labels for a text",
        "task.kind=multilabel",
    ),
    Part(
        ("task.tune_seed",),
        lambda run: run.task.tune_share or run.search.space,
        "holds rows of train out",
        "task.tune_share=0.1",
    ),
    *(Part((key,), _reads_text, "reads running text", "pretrain=mlm", swept=key == "corpus") for key in ("corpus", "corpus.")),
    Part(
        ("corpus.documents", "corpus.seed"),
        lambda run: run.corpus.source is CorpusSource.builtin,
        "generates its text",
        "corpus=builtin",
    ),
    Part(
        ("corpus.files", "corpus.validation_files"),
        lambda run: run.corpus.source is CorpusSource.files,
        "reads text files",
        "corpus=files",
    ),
    Part(
        ("corpus.text",),
        lambda run: run.corpus.source is not CorpusSource.builtin,
        "reads a column of texts",
        "corpus=files or corpus=wikitext",
    ),
    Part(
        tuple(f"corpus.{key}" for key in OF_DATA_SET),
        lambda run: run.corpus.source is CorpusSource.data,
        "reads the text of a data set",
        "corpus=wikitext",
    ),
    Part(
        tuple(f"tokenizer.{key}" for key in ("vocab_size", "min_frequency", "train_characters", "multilingual")),
        _trains_tokenizer,
        "trains its tokenizer",
        "tokenizer=wordpiece",
    ),
    Part(
        ("tokenizer.min_frequency",),
        lambda run: run.tokenizer.kind is not TokenizerKind.unigram,
        "joins pieces by how often they meet",
        "tokenizer.kind=wordpiece",
    ),
    Part(("tokenizer.multilingual",), lambda run: run.task.languages, "has a task with languages", "task=xquad", swept=True),
    Part(tuple(f"measure.{key}" for key in OF_TIMING), _is_timed, "is timed", "measure=quick", swept=True),
    Part(("measure.backend", "measure.precision"), _is_measured, "is measured as it is served", "a task that is trained"),
    Part(("measure.load_texts",), lambda run: run.measure.load, "is timed under load", "measure.load=[offline]"),
    Part(
        ("measure.load_share",),
        lambda run: Scenario.server in run.measure.load,
        "is timed under the load of a server",
        "measure.load=[server]",
    ),
    Part(("measure.train_batch_size",), lambda run: run.measure.train_steps, "times training steps", "measure.train_steps=3"),
    Part(
        ("measure.seconds_per_length",),
        lambda run: run.measure.lengths or run.measure.batch_sizes,
        "is timed at further lengths or batch sizes",
        "measure=full",
    ),
    Part(("hardware.products",), lambda run: run.hardware.device is Device.cpu, "trains on a CPU", "hardware=cpu"),
    Part(("match.",), lambda run: run.match.cost is not MatchOn.none, "is resized", "match=params"),
    Part(("match.rounds",), lambda run: run.match.cost is MatchOn.latency, "is resized by latency", "match=latency"),
    Part(("search.",), lambda run: run.search.space, "searches for settings", "search=rate"),
    Part(
        ("sweep.most_seeds",),
        lambda run: run.sweep.until is Until.resolved,
        "adds seeds until there is a verdict",
        "sweep.until=resolved",
    ),
)

READ_WITHOUT = ("pretrain.checkpoint", "pretrain.at", "finetune.enabled")
"""Keys that say where finished weights are, or that nothing is trained."""


def unread_by(run: RunConfig) -> list[str]:
    """Keys, or sections that end in a dot, that this run does not read."""
    return [key for part in PARTS if not part.is_read(run) for key in part.keys if key not in READ_WITHOUT]


def refuse_unread_parts(runs: list[RunConfig], overrides: list[str]) -> None:
    """InputError for a key, typed or swept by a file, that none of the runs reads."""
    typed = {key_of(override): override.lstrip("+") for override in overrides}
    swept, weights = runs[0].swept, runs[0].pretrain.checkpoint
    for key, said in ({key: key for key in swept} | typed).items():
        for part in PARTS:
            is_refused = within(key, part.keys) and key not in READ_WITHOUT and (key in swept or not part.swept)
            if not is_refused or any(part.is_read(run) for run in runs):
                continue
            reason = f"no run of this command {part.why}: add {part.choice}"
            if part is PARTS[0] and weights is not None:
                reason = f"the pretraining is that of pretrain.from={weights}: name a pretraining with that setting"
            raise InputError(f"{said} has no effect, because {reason}, or leave it out")
