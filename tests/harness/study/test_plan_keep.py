"""Which fine-tuned weights stay, and that a pretraining is one object for all runs that need it."""

import pytest

from harness.config.choices import Keep
from harness.errors import InputError
from harness.study.plan import plan

TEXT = ["pretrain=mlm", "pretrain.steps=2", "corpus.documents=30", "tokenizer.vocab_size=300", "pretrain.length=16"]


@pytest.fixture
def planned(compose, small, tmp_path):
    return lambda *arguments: plan(compose(*small, f"output={tmp_path / 'out'}", *arguments))


@pytest.mark.long
def test_single_run_keeps_its_weights_and_a_sweep_keeps_none_unless_set(planned):
    assert [item.config.finetune.keep for item in planned("measure=none")] == [Keep.last]
    swept = planned("-m", "measure=none", "seed=1,2")
    assert [(item.config.finetune.keep, item.drops_weights) for item in swept] == [(Keep.none, True)] * 2
    chosen = planned("-m", "measure=none", "seed=1,2", "finetune.keep=last")
    assert [(item.config.finetune.keep, item.drops_weights) for item in chosen] == [(Keep.last, False)] * 2
    assert [item.needs_weights for item in chosen] == [[item.folder / "checkpoint"] for item in chosen]


@pytest.mark.long
def test_runs_that_need_one_pretraining_share_it(planned):
    first, *runs = planned("-m", "measure=none", "seed=1,2", "pretrain.seed=0", *TEXT)
    assert first.inputs.data is None
    assert [item.needs for item in runs] == [first, first]
    assert all(item.needs is first for item in runs)
    assert all(item.config.model.vocab_size == first.config.model.vocab_size for item in runs)


def test_key_that_the_model_does_not_read_is_refused(compose):
    with pytest.raises(
        InputError, match=r"model\.rotary_theta=20000.0 has no effect in this model: it needs model\.position=rotary"
    ):
        compose("task=bag", "model=deberta", "model.rotary_theta=20000")
