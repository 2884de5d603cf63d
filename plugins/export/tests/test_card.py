"""The card of an export: what the hub's own reader finds in it, for a fine-tuning and for a pretraining; `harness.load`."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard

import harness
from harness import records
from harness.__main__ import main
from harness.comparison.paired import ends
from harness.errors import InputError
from harness.plugins.export import card
from harness.tracking import run_log

STUDY = (
    *("model=base", "scale=tiny", "task=bag", "study=s", "finetune.keep=last", "finetune.max_steps=2", "report=false"),
    *("task.grammar.train_examples=60", "task.grammar.validation_examples=40", "task.max_length=32", "hardware.threads=1"),
    *("measure=none", "pretrain=mlm", "pretrain.steps=2", "pretrain.length=32", "pretrain.batch_size=4"),
    *("pretrain.eval_sequences=8", "pretrain.evaluations=1", "pretrain.keep=[]", "tracking=none"),
)


def card_of(run: Path, *more: str) -> tuple[ModelCard, str]:
    assert main(["export", str(run), *more]) == 0
    text = (run / "export" / "README.md").read_text()
    return ModelCard(text), text


def predicted(run: Path) -> str:
    """What the snippet of the card prints."""
    snippet = re.search(r"```python\n(.*?)```", (run / "export" / "README.md").read_text(), re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.chdir(run / "export"), contextlib.redirect_stdout(printed):
        exec(snippet, {})  # what a reader of the card runs
    return printed.getvalue().strip()


@pytest.mark.long
def test_cards_of_a_fine_tuning_and_of_its_pretraining(tmp_path, capsys):
    harness.run_study([*STUDY, f"output={tmp_path}"])
    (run,), (pretraining,) = tmp_path.glob("s/*/"), tmp_path.glob("pretrained/*/")
    measured = run_log.result(run)["metrics"]
    card, text = card_of(run, "license=apache-2.0")
    (found,) = card.data.eval_results
    assert (card.data.license, card.data.pipeline_tag, card.data.library_name) == (
        *("apache-2.0", "text-classification"),
        "transformers",
    )
    assert (found.dataset_name, found.metric_type, found.metric_value) == ("bag", "accuracy", measured["eval/accuracy"])
    assert f"accuracy: {measured['eval/accuracy']:.4f} [" in text
    assert "], 40 items" in text
    assert predicted(run) in ("blame", "praise")
    card, text = card_of(pretraining)
    assert (card.data.license, card.data.pipeline_tag, card.data.eval_results) == ("unknown", "fill-mask", None)
    assert f"held-out masked loss: {run_log.result(pretraining)['metrics']['pretrain/masked_loss']:.4f} nats" in text
    assert predicted(pretraining).startswith("torch.Size([1, ")
    model, tokenizer, labels = harness.load(run)
    row = tokenizer.encode(*["very good"] * 2)
    assert model(torch.tensor([row.ids])).shape == (1, len(labels))
    assert labels == ["blame", "praise"]
    (run / run_log.RESULT).write_text("{")
    capsys.readouterr()
    assert main(["export", str(run), f"to={tmp_path / 'again'}"]) == 2
    assert not (tmp_path / "again").exists()


@pytest.mark.long
def test_the_snippet_loads_an_encoder_of_transformers_without_its_head(tmp_path):
    harness.run_study([*STUDY, f"output={tmp_path}"])
    (pretraining,) = tmp_path.glob("pretrained/*/")
    card_of(pretraining)
    of_library = (f"model.init_from={pretraining / 'export'}", "model.provider=transformers", "study=t", "pretrain=none")
    settings = [word for word in STUDY if not word.startswith(("model=", "scale=", "study=", "pretrain"))]
    harness.run_study([*settings, *of_library, f"output={tmp_path}"])
    (run,) = tmp_path.glob("t/*/")
    card, text = card_of(run)
    assert card.data.pipeline_tag == "feature-extraction"
    assert "The head of the task is not in this checkpoint" in text
    assert predicted(run).startswith("torch.Size([1, ")


def test_an_interval_is_the_measured_one_and_the_recipe_has_the_seed(tmp_path):
    task, finetune = {"name": "mine", "kind": "regression", "version": 1}, {"learning_rate": 0.1, "keep_best": "validation"}
    config = {"task": task, "finetune": finetune, "seed": 7, "protocol_name": "roberta"}
    config |= {"model": {"init_from": "a-lab/an-encoder@main"}, "protocol": {"statistic": "median", "seeds": [0, 1]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    measured = {
        "eval/score": 0.5,
        "eval/pearson": 0.5,
        "eval/pearson_low": 0.25,
        "eval/pearson_high": 0.75,
        "eval/examples": 9.0,
    }
    records.write(tmp_path / run_log.RESULT, {"status": "finished", "metrics": measured})
    records.write(tmp_path / run_log.RECORD, {"tags": {"arm": "base"}})
    written = card.text(tmp_path, "mit")
    assert "- Pearson correlation: 0.5000 [0.2500, 0.7500], 9 items" in written
    assert "- learning_rate: 0.1\n- seed: 7\n" in written
    assert "- protocol: roberta, which reports the median over seeds 0, 1; this is one run\n" in written
    assert "- selection: by the validation rows, which makes the scores optimistic\n" in written
    data = ModelCard(written).data
    assert (data.base_model, data.eval_results[0].metric_type) == ("a-lab/an-encoder", "pearsonr")


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ({"backend": "torch", "precision": "int8_dynamic"}, "backend torch, weights in int8_dynamic. The weights here"),
        ({"backend": "torch", "precision": "fp32"}, ""),
    ],
)
def test_scores_of_a_model_as_it_was_served_are_not_said_of_the_exported_weights(tmp_path, measure, expected):
    task = {"name": "mine", "kind": "single", "version": 1}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"task": task, "finetune": {}, "seed": 7, "measure": measure}))
    records.write(tmp_path / run_log.RESULT, {"status": "finished", "metrics": {"eval/score": 0.5, "eval/accuracy": 0.5}})
    records.write(tmp_path / run_log.RECORD, {"tags": {"arm": "base"}})
    written = card.text(tmp_path, "mit")
    assert ("as it was served" in written) == bool(expected)
    assert expected in written


@pytest.mark.parametrize(
    ("kind", "name", "score"), [("single", "accuracy", 0.1), ("single", "f1", 0.0), ("single", "matthews", -0.99)]
)
def test_the_interval_of_a_score_is_within_what_it_can_be(tmp_path, kind, name, score):
    """Of 20 items 1.96 standard errors around 0.1 reach below 0."""
    task = {"name": "mine", "kind": kind, "version": 1}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"task": task, "finetune": {}, "seed": 7}))
    measured = {"eval/score": score, f"eval/{name}": score, "eval/examples": 20.0}
    records.write(tmp_path / run_log.RESULT, {"status": "finished", "metrics": measured})
    records.write(tmp_path / run_log.RECORD, {"tags": {"arm": "base"}})
    low, high = map(float, re.search(rf"{score:.4f} \[(.*), (.*)\], 20 items", card.text(tmp_path, "mit")).groups())
    least, most = ends(name)
    assert least <= low <= score < high < most


def test_a_run_without_weights_has_none_to_load(tmp_path):
    with pytest.raises(InputError, match=r"run='.*nowhere' is neither a folder nor the id"):
        harness.load(str(tmp_path / "nowhere"), output=str(tmp_path))
