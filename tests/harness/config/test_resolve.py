"""From what was composed to what runs: a pure step, whose result has nothing that the run does not use."""

from dataclasses import replace

import pytest

from harness.config.resolve import Found, pretraining_of, resolve, with_vocabulary

FOUND = Found(threads=2)


@pytest.mark.long
def test_vocabulary_is_that_of_the_data(compose):
    (composed,) = compose("task=bag", "scale=tiny")
    model = with_vocabulary(resolve(composed, FOUND), 87, 3).model
    assert (model.vocab_size, model.pad_token_id) == (87, 3)


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["pretrain=mlm", "pretrain.mask_rate=0.4"]], ids=["task", "pretraining"])
def test_resolving_the_result_again_changes_nothing(compose, more):
    (composed,) = compose("task=bag", "scale=tiny", *more)
    resolved = resolve(composed, FOUND)
    assert resolve(resolved, FOUND) == resolved


@pytest.mark.long
def test_run_without_pretraining_does_not_depend_on_keys_of_one(compose):
    (plain,) = compose("task=bag", "scale=tiny")
    other, _ = compose(
        *("-m", "pretrain=none,mlm", "task=bag", "scale=tiny"),
        *("pretrain.mask_rate=0.4", "pretrain.seed=7", "corpus.documents=50"),
    )
    assert replace(resolve(other, FOUND), overrides=plain.overrides, swept=plain.swept) == resolve(plain, FOUND)
    pretrained = [compose("task=bag", "scale=tiny", "pretrain=mlm", rate)[0] for rate in ("seed=0", "pretrain.mask_rate=0.4")]
    assert resolve(pretrained[0], FOUND) != resolve(pretrained[1], FOUND)


@pytest.mark.long
def test_a_teacher_belongs_to_the_runs_of_a_sweep_that_it_teaches(compose):
    plain, _ = compose("-m", "pretrain=mlm,rtd", "task=none", "scale=tiny")
    untaught, taught = compose("-m", "pretrain=mlm,distillation", "pretrain.teacher=RUN", "task=none", "scale=tiny")
    resolved = resolve(untaught, FOUND)
    assert (resolved.pretrain, resolved.label) == (resolve(plain, FOUND).pretrain, resolve(plain, FOUND).label)
    assert resolve(taught, FOUND).pretrain.teacher == "RUN"


@pytest.mark.long
def test_pretraining_does_not_depend_on_the_rows_that_the_task_reads(compose):
    common = ("pretrain=mlm", "task=bag", "scale=tiny")
    (whole,), (cut,) = compose(*common), compose(*common, "data.train_examples=50", "data.validation_examples=20")
    assert (cut.data.train_examples, cut.data.validation_examples) == (50, 20)
    assert pretraining_of(resolve(cut, FOUND)).data == pretraining_of(resolve(whole, FOUND)).data
