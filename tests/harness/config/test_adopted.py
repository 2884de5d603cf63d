"""What a run adopts from weights, and what it may set beside them."""

from dataclasses import replace

import pytest

from harness.config.resolve import Checkpoint, started_from
from harness.errors import InputError
from harness.models.config import Activation, Pooling


def source_of(compose, *more: str) -> Checkpoint:
    """A pretraining of a model of another size than the default."""
    (run,) = compose("scale=mini", "task=none", "pretrain=mlm", "model.hidden_size=64", "model.num_attention_heads=2", *more)
    return Checkpoint(run.arm, "weights", run.model, run.tokenizer, run)


def run_of(compose, source: Checkpoint, *more: str):
    """A fine-tuning from it, as it is resolved."""
    (run,) = compose("task=bag", "pretrain.from=RUN", *more)
    return started_from(run, source)


@pytest.mark.long
def test_the_encoder_is_that_of_the_weights(compose):
    run = run_of(compose, source_of(compose))
    assert run.model.hidden_size == 64
    assert (run.model.pooling, run.model.pooler) == (Pooling.cls, Activation.tanh)


def test_a_stage_is_named_by_either_phase(compose):
    (one,), (other,) = (compose("task=bag", f"{phase}.from=RUN") for phase in ("pretrain", "finetune"))
    assert one.pretrain.checkpoint == other.pretrain.checkpoint == "RUN"


@pytest.mark.long
def test_a_command_may_set_the_head(compose):
    run = run_of(compose, source_of(compose), "model.pooling=mean", "model.pooler=null", "model.hidden_dropout_prob=0.2")
    assert (run.model.hidden_size, run.model.pooling, run.model.pooler) == (64, Pooling.mean, None)
    assert run.model.hidden_dropout_prob == 0.2
    assert "pooling=mean" in run.label


@pytest.mark.long
def test_a_head_set_back_to_the_default_leaves_the_label(compose):
    source = source_of(compose, "model.pooling=mean")
    assert "pooling=mean" in run_of(compose, source).label
    again = run_of(compose, source, "model.pooling=cls")
    assert again.model.pooling is Pooling.cls
    assert "pooling" not in again.label


@pytest.mark.long
@pytest.mark.parametrize("published", [True, False])
def test_a_key_of_the_encoder_changes_the_weights_or_is_refused(compose, published):
    source = source_of(compose)
    source = replace(source, run=None) if published else source
    run = run_of(compose, source, "model.num_hidden_layers=3")
    assert run.model.depth == 3
    assert run.label.endswith("num_hidden_layers=3")
    assert run_of(compose, source, "model.keep_layers=[0,3]").model.depth == 2
    with pytest.raises(InputError, match=r"model.keep_layers=\[0, 3\]: expected 3 of 0 to 3, in order"):
        run_of(compose, source, "model.keep_layers=[0,3]", "model.num_hidden_layers=3")
    line = rf"{source.key}=weights: cannot derive .* model.num_hidden_layers above that of the weights \(7 > 4\)"
    with pytest.raises(InputError, match=line):
        run_of(compose, source, "model.num_hidden_layers=7")


@pytest.mark.long
def test_a_head_that_nothing_reads_is_refused(compose):
    with pytest.raises(ValueError, match=r"model.pooler_bias=false has no effect in this model"):
        run_of(compose, source_of(compose), "model.pooler=null", "model.pooler_bias=false")
