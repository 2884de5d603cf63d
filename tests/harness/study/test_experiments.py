"""Named studies of pretrained models, in small: the sweep of the file, with a few steps on generated text."""

from pathlib import Path

import pytest

from harness import paths

SMALL = [
    *("corpus=builtin", "data=hub", "corpus.documents=40", "corpus.train_documents=null", "tokenizer.vocab_size=400"),
    *("model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=32", "model.num_hidden_layers=2"),
    *("pretrain.tokens=null", "pretrain.flops=null", "pretrain.steps=2", "pretrain.length=32", "pretrain.evaluations=1"),
    *("pretrain.eval_sequences=4", "pretrain.probe_steps=2", "seed=0", "measure=none", "hardware.threads=1"),
]
"""What makes a study small; its models, objectives and swept keys stay."""

BAG = ("task=bag", "task.grammar.train_examples=40", "task.grammar.validation_examples=20", "finetune.max_steps=1")

ALONG = ("pretrain.steps=null", "pretrain.tokens=2048", "pretrain.keep=[1024]", "pretrain.at=1024,null")


def pretrained_in(output: Path) -> int:
    """Finished pretrainings."""
    return len(list(output.glob(f"{paths.PRETRAINED}/*/{paths.WEIGHTS}")))


@pytest.mark.long
def test_before_after_pretrains_each_variant_and_fine_tunes_it(run_harness, tmp_path):
    done = run_harness("+experiment=before_after", *SMALL, *BAG, "model=base,enhanced", f"output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert pretrained_in(tmp_path) == 2
    assert len(list((tmp_path / "before_after").glob("*-bag-*"))) == 3  # with the control


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "pretrainings"),
    [
        ("before_after", BAG, 7),
        ("objectives", BAG, 6),
        ("phases", (*BAG, "pretrain.steps=4"), 5),
        ("along_pretraining", (*BAG, *ALONG), 1),
        ("minimal_pairs", ("task.pairs=2", *ALONG), 2),
        ("mask_rate", [], 8),
        ("mask_units", [], 6),
        ("positions", ["task.pairs=2"], 5),
        ("from_scratch", BAG, 1),
        ("activations", [], 8),
        ("context", (*BAG, "scale=tiny"), 4),  # not all of its models have heads and feed-forwards
    ],
)
def test_a_study_in_small(run_harness, tmp_path, name, more, pretrainings):
    kept = [one for one in SMALL if "scale=tiny" not in more or not one.startswith("model.")]
    done = run_harness(f"+experiment={name}", *kept, *more, f"output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert pretrained_in(tmp_path) == pretrainings


@pytest.mark.slow
def test_long_text_in_small(run_harness, tmp_path):
    more = ["task.grammar.length=30", "task.max_length=64", "model.max_position_embeddings=70"]
    more += BAG[1:]
    kept = [one for one in SMALL if not one.startswith(("corpus", "data", "tokenizer", "pretrain"))]
    done = run_harness("+experiment=long_text", *kept, *more, f"output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "long_text").glob("*-needle-*"))) == 5


@pytest.mark.slow
def test_bert_and_its_family_in_two_commands(run_harness, tmp_path):
    """The student needs a finished teacher, whose vocabulary all have; without one it is said in one line."""
    small = [*(one for one in SMALL if not one.startswith(("model.", "tokenizer."))), f"output={tmp_path}"]
    refused = run_harness("+experiment=bert_family", *small, *BAG)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "needs a teacher: set pretrain.teacher" in refused.stderr
    first = run_harness(
        "+experiment=bert_family", "model=base", "task=none", "study=teacher", "tokenizer.vocab_size=400", *small
    )
    assert first.returncode == 0, first.stdout + first.stderr
    (teacher,) = tmp_path.glob(f"{paths.PRETRAINED}/*")
    shared = [f"pretrain.teacher={teacher}", f"tokenizer.file={teacher / paths.WEIGHTS / 'tokenizer.json'}"]
    done = run_harness("+experiment=bert_family", *small, *BAG, *shared)
    assert done.returncode == 0, done.stdout + done.stderr
    assert pretrained_in(tmp_path) == 5
    report = (tmp_path / "reports" / "bert_family" / "report.md").read_text()
    assert "sets of conditions" not in report
    for arm in ("base+mlm_nsp", "albert+mlm_sop", "electra+rtd", "distilbert+distillation", "base random_weights=true"):
        assert f"| {arm}" in report
