"""The plumbing of the benchmarks at tiny sizes: that both sides have the same shapes, rows and settings. Nothing is timed."""

import importlib
from types import SimpleNamespace

import generated_study
import harness_cost
import neighbour
import numpy as np
import options_speed
import peers
import pytest
import reports_speed
import run
import torch
import utilisation

from harness.config.schema import FinetuneConfig
from harness.models.config import EncoderConfig
from harness.models.heads import build_classifier
from harness.tasks import batches
from harness.tasks.base import Split

MINI = EncoderConfig(
    vocab_size=peers.PIECES, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
)

SPLIT = Split(
    ids=np.arange(6, dtype=np.int32),
    types=np.zeros(6, dtype=np.uint8),
    starts=np.array([0, 1, 3, 6]),
    labels=np.array([0, 1, 0]),
    items=range(3),
)


def test_a_repeated_split_has_the_same_sequences_in_turn():
    repeated = harness_cost.repeated(SPLIT, 5)
    sequences = [repeated.ids[start:end].tolist() for start, end in zip(repeated.starts, repeated.starts[1:], strict=False)]
    assert sequences == [[0], [1, 2], [3, 4, 5], [0], [1, 2]]
    assert repeated.labels.tolist() == [0, 1, 0, 0, 1]
    assert len(repeated) == len(repeated.items) == 5


@pytest.mark.long
def test_both_sides_have_as_many_parameters():
    theirs = peers.transformers.BertForSequenceClassification(peers.bert(MINI, num_labels=2))
    ours = build_classifier(MINI, 2, 0)
    assert sum(one.numel() for one in ours.parameters()) == sum(one.numel() for one in theirs.parameters())


def test_a_peer_with_another_vocabulary_is_refused():
    with pytest.raises(RuntimeError, match="1,000 token embeddings"):
        peers.shape(EncoderConfig(vocab_size=1000))


def test_the_trainer_decays_and_clips_as_our_loop(tmp_path):
    config = FinetuneConfig()
    arguments = peers.arguments(tmp_path, config, max_steps=20)
    assert (arguments.learning_rate, arguments.weight_decay) == (config.learning_rate, config.weight_decay)
    assert arguments.max_grad_norm == config.max_grad_norm
    assert arguments.get_warmup_steps(20) == 20 * config.warmup_fraction
    assert not arguments.report_to


def test_counting_keeps_real_tokens_of_each_batch():
    counting = peers.Counting(lambda rows: {"attention_mask": torch.tensor(rows)})
    counting([[1, 1, 0], [1, 0, 0]])
    counting([[1, 1, 1]])
    assert counting.tokens == [3, 3]


def test_a_default_child_has_no_other_setting_of_openmp(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    settings = neighbour.settings()
    assert "OMP_WAIT_POLICY" not in settings["default"]
    assert settings["passive"]["OMP_WAIT_POLICY"] == "PASSIVE"


def event(name, start, end, own, parent=None, thread=1):
    """An event of a profile."""
    return SimpleNamespace(
        name=name,
        thread=thread,
        cpu_parent=parent,
        self_cpu_time_total=own,
        time_range=SimpleNamespace(start=start, end=end),
    )


def test_shares_of_a_profile_add_up_and_ranges_own_what_is_within_them():
    data = event("data", 0, 30, 10)
    copy = event("aten::copy_", 5, 25, 20, parent=data)
    product = event("mkldnn::_linear_pointwise", 40, 80, 40)
    adam = event("aten::_fused_adamw_", 80, 90, 10, parent=event("Optimizer.step#AdamW.step", 80, 90, 0))
    other = event("aten::_softmax", 90, 100, 10)
    shares = utilisation.shares([data, copy, product, adam, other])
    assert shares == {
        "matrix products": 40.0,
        "data": 30.0,
        "optimiser": 10.0,
        "attention kernel": 10.0,
        "Python between operators": 10.0,
    }


@pytest.mark.parametrize("module", run.BENCHMARKS.values())
def test_every_benchmark_can_be_imported_and_measures(module):
    assert callable(importlib.import_module(module).measure)


@pytest.mark.long
def test_a_report_of_a_generated_study_is_timed(tmp_path):
    """The rows that are generated must be those that the harness sends."""
    uri = generated_study.generate(tmp_path / "store", generated_study.Shape(2, 2, 1, 2, 1, 4, 2))
    wall, cpu, memory = reports_speed.report(uri, tmp_path / "report")
    assert min(wall, cpu, memory) > 0
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_failed_benchmark_is_named_and_the_others_stay(tmp_path, monkeypatch, capsys):
    figure = {"name": "ours / theirs", "value": 2.0, "unit": "x", "low": 1.0, "high": 3.0, "rounds": 3}
    monkeypatch.setattr(run, "in_fresh_process", lambda name, *_: None if name == "pretrain" else [figure])
    peaks = iter((200.0, 210.0))
    monkeypatch.setattr(run.results, "peak_gflops", lambda: next(peaks))
    monkeypatch.setattr("sys.argv", ["run.py", "--only", "finetune", "pretrain", "--output", str(tmp_path)])
    assert run.main() == 1
    printed = capsys.readouterr().out
    assert "- pretrain: failed" in printed
    assert printed.startswith("[1/2] finetune, after 0:00 min\n")
    assert "[2/2] pretrain, after 0:00 min\n" in printed
    assert "cores, 210 GFLOP/s in fp32, " in printed  # the larger peak
    assert "| finetune (quick) | ours / theirs | 2 x |" in printed


@pytest.mark.long
def test_a_side_without_choices_trains_as_a_plain_loop_and_leaves_nothing_behind():
    before = (batches.POOL_BATCHES, batches.STEPS)
    with options_speed.only(()):
        assert (batches.POOL_BATCHES, *batches.STEPS.values()) == (1, 1, 1)
        batch = batches.collate(SPLIT, np.array([1]), 0, 1)
        assert batch.attention_mask.tolist() == [[True, True]]
        model = build_classifier(EncoderConfig(vocab_size=2000), 2, 0)
        options_speed.loop.use_sparse_gradients(model)
        assert not model.encoder.embeddings.token_embedding.sparse
        optimiser = options_speed.finetune.make_optimiser(model, FinetuneConfig())
        assert not any(group["fused"] for group in optimiser.param_groups)
        assert options_speed.dropout.dropout is options_speed.products.drop
    assert before == (batches.POOL_BATCHES, batches.STEPS)
    assert batches.collate(SPLIT, np.array([1]), 0, 1).attention_mask is None


@pytest.mark.parametrize("choice", options_speed.WITHOUT)
def test_a_choice_alone_replaces_what_all_others_stand_for(choice):
    with options_speed.only((choice,)):
        for other, places in options_speed.WITHOUT.items():
            for module, name, value in places:
                assert (getattr(module, name) is value) == (other != choice)
