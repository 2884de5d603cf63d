"""Which epoch's weights are kept, and which splits may choose them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import in_process
import numpy as np
import pytest
import torch

from harness.config.choices import KeepBest, TaskKind
from harness.config.schema import FinetuneConfig, HardwareConfig, RunConfig
from harness.errors import InputError
from harness.hardware.device import Machine
from harness.measure import flops
from harness.models.config import EncoderConfig
from harness.models.heads import Classifier, build_classifier
from harness.study.identity import Identity, Inputs
from harness.tasks import kind_of
from harness.tasks import prepared as cache
from harness.tasks.prepared import Prepared
from harness.tracking.run_log import RunLog
from harness.training.evaluation import evaluate_split, headline
from harness.training.finetune import finetune

Weights = dict[str, torch.Tensor]

BATCH = 32


class Watching(RunLog):
    """Also keeps the model's weights of every evaluation."""

    def __init__(self, folder: Path, model: Classifier) -> None:
        folder.mkdir()
        super().__init__(folder)
        self._model = model
        self.evaluations: dict[int, tuple[float, Weights]] = {}

    def curve(self, key: str, step: int, value: float, tokens: int, time_ms: int | None = None) -> None:
        super().curve(key, step, value, tokens, time_ms)
        if key in ("tune/score", "eval/score"):
            self.evaluations[step] = value, weights(self._model)


def weights(model: Classifier) -> Weights:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: Weights, other: Weights) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine(HardwareConfig(threads=1))


@pytest.fixture
def config(small_config: RunConfig) -> RunConfig:
    """The task bag with a third of its training rows kept for tuning; slow enough for an evaluation before all is learned."""
    budget = FinetuneConfig(epochs=8, batch_size=BATCH, learning_rate=3e-5)
    return replace(small_config, task=replace(small_config.task, tune_share=0.3), finetune=budget)


@pytest.fixture
def prepared(config: RunConfig) -> Prepared:
    return cache.read(config, cache.prepare(config))


@pytest.fixture
def trained(config: RunConfig, prepared: Prepared, machine: Machine, tmp_path: Path) -> Callable[..., tuple]:
    """Trains a small model that keeps the best by this split; the model, its run_log, and the result's values."""

    def train(keep_best: KeepBest, given: Prepared | None = None, settings: RunConfig = config, **budget: object) -> tuple:
        settings = replace(settings, finetune=replace(settings.finetune, keep_best=keep_best, **budget))
        shape = EncoderConfig(
            vocab_size=prepared.vocab_size, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
        )
        model = build_classifier(shape, kind_of(settings.task).num_outputs(settings.task), 0)
        run_log = Watching(tmp_path / f"run{len(list(tmp_path.iterdir()))}", model)
        try:
            finetune(settings, model, given or prepared, machine, run_log, flops.of_training(model))
        finally:
            run_log.finish("finished")
        return model, run_log, in_process.metrics_of(run_log.folder)

    return train


def contrary(prepared: Prepared) -> Prepared:
    """Tuning rows whose labels are wrong."""
    return replace(prepared, tune=replace(prepared.tune, labels=1 - prepared.tune.labels))


def misleading(prepared: Prepared) -> Prepared:
    """A word for each class, the wrong one in tuning rows: the more is learned, the lower is their score."""
    easy = {name: getattr(prepared, name) for name in ("train", "tune")}
    easy = {name: replace(split, ids=np.repeat(10 + split.labels, split.lengths)) for name, split in easy.items()}
    return contrary(replace(prepared, **easy))


def losses(run_log: RunLog) -> list[float]:
    return [*in_process.curves_of(run_log.folder)["finetune/loss"].values()]


def test_tuning_rows_are_cut_from_train_and_stand_in_no_other_split(small_config, prepared):
    whole = cache.read(small_config, cache.prepare(small_config))
    train, tune = set(prepared.train.items), set(prepared.tune.items)
    assert tune
    assert not train & tune
    assert train | tune == set(whole.train.items)
    assert prepared.validation.items == whole.validation.items
    assert whole.tune is None


@pytest.mark.long
@pytest.mark.parametrize("keep_best", [KeepBest.none, KeepBest.tune])
def test_tuning_rows_are_never_trained_on(trained, prepared, keep_best):
    """Other labels of theirs change no loss and no weights before the choice."""
    (model, one, _), (other_model, other, _) = trained(keep_best), trained(keep_best, contrary(prepared))
    assert losses(one) == losses(other)
    assert len(losses(one)) == 8 * -(-len(prepared.train) // BATCH)
    if keep_best is KeepBest.none:
        assert same(weights(model), weights(other_model))
    else:
        assert all(same(one.evaluations[step][1], other.evaluations[step][1]) for step in one.evaluations)


@pytest.mark.long
def test_evaluations_do_not_change_what_is_learned(trained):
    assert losses(trained(KeepBest.tune)[1]) == losses(trained(KeepBest.none)[1])


@pytest.mark.long
def test_best_epochs_weights_are_restored(trained, prepared, config, machine):
    given = misleading(prepared)
    model, run_log, values = trained(KeepBest.tune, given)
    per_epoch = -(-len(prepared.train) // BATCH)
    assert list(run_log.evaluations) == [per_epoch * epoch for epoch in range(1, 9)]
    best = max(run_log.evaluations, key=lambda step: run_log.evaluations[step][0])
    score, kept = run_log.evaluations[best]
    last_score, last = run_log.evaluations[8 * per_epoch]
    assert score > last_score
    assert same(weights(model), kept)
    assert not same(weights(model), last)
    assert values.pop("finetune/optimizer_state_bytes") > 0
    assert values == {"tune/score": score, "finetune/best_epoch": best / per_epoch}
    assert headline(config.task, evaluate_split(config, model, given.tune, given, machine)) == score


def test_last_evaluation_is_at_the_end_of_a_budget_that_cuts_an_epoch_short(trained, prepared):
    per_epoch = -(-len(prepared.train) // BATCH)
    _, run_log, values = trained(KeepBest.tune, max_steps=per_epoch + 1)
    assert list(run_log.evaluations) == [per_epoch, per_epoch + 1]
    assert values["finetune/best_epoch"] in (1, 1 + 1 / per_epoch)


def test_several_evaluations_of_an_epoch_are_evenly_spaced(trained, prepared):
    _, run_log, _ = trained(KeepBest.tune, epochs=2, evaluations_per_epoch=3, batch_size=8)
    assert -(-len(prepared.train) // 8) == 8
    assert list(run_log.evaluations) == [3, 6, 8, 11, 14, 16]


@pytest.mark.long
def test_training_ends_after_evaluations_without_a_better_score(trained, prepared, capsys):
    """Two evaluations after the best one; losses and weights up to there are those of the whole training."""
    given = misleading(prepared)
    whole, early = trained(KeepBest.tune, given), trained(KeepBest.tune, given, early_stopping=2)
    evaluations = [(step, score) for step, (score, _) in whole[1].evaluations.items()]
    best, without, end = -1.0, 0, evaluations[-1][0]
    for step, score in evaluations:
        best, without = max(best, score), 0 if score > best else without + 1
        if without == 2:
            end = step
            break
    assert list(early[1].evaluations)[-1] == end < evaluations[-1][0]
    assert losses(early[1]) == losses(whole[1])[:end]
    assert same(weights(early[0]), weights(whole[0]))
    assert early[2] == whole[2]
    said = capsys.readouterr().out
    assert f"stopped after step {end} of {evaluations[-1][0]}: no better score on tune in 2 evaluations" in said
    of = f"{len(given.tune)} of {len(given.train) + len(given.tune)} training rows"
    assert f"tune: {of} are held out to select the weights" in said


@pytest.mark.long
def test_validation_is_not_read_while_training(trained, prepared):
    hidden = replace(prepared, validation=None)
    for keep_best in (KeepBest.none, KeepBest.tune):
        trained(keep_best, hidden)
    with pytest.raises((TypeError, AttributeError)):
        trained(KeepBest.validation, hidden)


@pytest.mark.long
def test_validation_chooses_where_it_is_configured_to(trained, prepared):
    given = replace(prepared, tune=None, validation=misleading(prepared).tune)
    model, run_log, values = trained(KeepBest.validation, given)
    score, kept = max(run_log.evaluations.values(), key=lambda evaluation: evaluation[0])
    assert values["eval/score"] == score
    assert "tune/score" not in values
    assert same(weights(model), kept)


@pytest.mark.long
def test_undefined_scores_choose_nothing(trained, config, prepared):
    """The correlation with rows that all have one label."""
    task = replace(config.task, kind=TaskKind.regression, labels=[], scores=["pearson"], headline="pearson")
    flat = {name: getattr(prepared, name) for name in ("train", "tune")}
    flat = {name: replace(split, labels=split.labels.astype("float32")) for name, split in flat.items()}
    flat["tune"].labels[:] = 1
    changed = replace(config, task=task)
    model, run_log, values = trained(KeepBest.tune, replace(prepared, **flat), changed)
    assert (run_log.evaluations, [*values]) == ({}, ["finetune/optimizer_state_bytes"])
    assert same(weights(model), weights(trained(KeepBest.none, replace(prepared, **flat), changed)[0]))


@pytest.mark.long
@pytest.mark.parametrize(("keep_best", "evaluations"), [(KeepBest.none, 0), (KeepBest.tune, 2), (KeepBest.validation, 0)])
def test_score_of_the_tuning_rows_is_written_however_weights_are_kept(config, tmp_path, keep_best, evaluations):
    """So that learning rates can be chosen by it; once at the end where nothing evaluates these rows before."""
    changed = replace(config, finetune=replace(config.finetune, keep_best=keep_best, epochs=2))
    changed = replace(changed, measure=replace(changed.measure, enabled=False))
    values = in_process.ran(changed, tmp_path)
    assert 0 <= values["tune/score"] <= 1
    assert values["eval/examples"] == 60
    assert len(in_process.curves_of(tmp_path).get("tune/score", {})) == evaluations
    assert ("finetune/best_epoch" in values) == (keep_best is not KeepBest.none)


@pytest.mark.long
def test_choosing_by_tuning_rows_without_any_is_one_line(compose, small, tmp_path):
    (config,) = compose(*small, "finetune.keep_best=tune")
    with pytest.raises(InputError, match=r"finetune\.keep_best=tune needs rows held out from train: set task\.tune_share"):
        cache.prepare(replace(config, output=str(tmp_path)))


@pytest.mark.parametrize("keep_best", KeepBest)
def test_run_says_what_it_was_selected_on(config, keep_best):
    changed = replace(config, finetune=replace(config.finetune, keep_best=keep_best))
    described = Identity(changed, Inputs(data="0")).described([])
    assert described["tags"]["selected_on"] == keep_best.value
    assert described["parameters"]["finetune.keep_best"] == keep_best.value
    assert "selected_on" not in Identity(changed, Inputs(corpus="0")).described([])["tags"]


@pytest.mark.long
def test_the_average_is_evaluated_and_left_while_the_training_goes_on_from_the_last_weights(trained):
    plain, averaged = (trained(KeepBest.validation, ema_decay=decay) for decay in (None, 0.9))
    assert losses(averaged[1]) == losses(plain[1])
    (model, _, values), evaluated = averaged, averaged[1].evaluations
    assert any(not same(kept, plain[1].evaluations[step][1]) for step, (_, kept) in evaluated.items())
    assert any(same(weights(model), kept) for _, kept in evaluated.values())
    extra = sum(4 * parameter.numel() for parameter in model.parameters())
    assert values["finetune/optimizer_state_bytes"] == plain[2]["finetune/optimizer_state_bytes"] + extra
    last, _, _ = trained(KeepBest.none, ema_decay=0.9)
    assert same(weights(last), evaluated[max(evaluated)][1])
