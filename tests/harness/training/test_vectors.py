"""Similarity and retrieval, without and with training: vectors are those of transformers, runs go through whole commands."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from in_process import metrics_of
from published_bert import save_bert
from pyarrow import parquet
from transformers import BertModel

from harness import load
from harness.config.schema import HardwareConfig
from harness.measure import flops
from harness.models.batch import Batch
from harness.models.config import EncoderConfig
from harness.models.heads import TextVectors, build_classifier
from harness.plugins.shared import memory_formula
from harness.training.finetune import loss_of_pairs

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "is", "here", "town", "who", "."]
PAIRS = [
    ("the cat is here", "the dog is here", 4),
    ("who is here", "the cat", 1),
    ("the town", "the town .", 5),
    ("dog", "who", 0),
    ("the dog", "the cat is", 2.5),
    ("cat cat", "is who town", 0.5),
    ("here is the town", "the town is here", 4.5),
    ("who", "who .", 3),
]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder as transformers saves an encoder."""
    return save_bert(tmp_path / "published", "BertModel", PIECES, max_position_embeddings=256, initializer_range=0.3)


def pairs_file(folder: Path) -> Path:
    path = folder / "pairs.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "score"), *PAIRS])
    return path


def vector(model: BertModel, text: str) -> torch.Tensor:
    ids = [2, *(PIECES.index(word) for word in text.split()), 3]
    with torch.inference_mode():
        return torch.nn.functional.normalize(model(torch.tensor([ids])).last_hidden_state[0].mean(dim=0), dim=-1)


@pytest.mark.long
@pytest.mark.parametrize("task", ["similarity", "retrieval"])
def test_scores_of_a_published_encoder_are_those_of_its_cosines(run_harness, published, tmp_path, task):
    """A second command skips the run: nothing depends on the seed of a fine-tuning."""
    columns = ["task.fields=[a,b]", "task.item=id", *(["task.label=score"] if task == "similarity" else [])]
    arguments = [f"model.init_from={published}", f"task={task}", f"task.validation_file={pairs_file(tmp_path)}", *columns]
    ended = run_harness(*arguments, "report=false", f"output={tmp_path / 'out'}", "study=s")
    assert ended.returncode == 0, ended.stderr
    (folder,) = (path.parent for path in (tmp_path / "out" / "s").glob("*/result.json"))
    found = metrics_of(folder)
    model = BertModel.from_pretrained(published).eval()
    first, second = (torch.stack([vector(model, pair[side]) for pair in PAIRS]) for side in (0, 1))
    rows = parquet.read_table(folder / "predictions.parquet").to_pydict()
    if task == "similarity":
        cosines = (first * second).sum(dim=1).numpy()
        np.testing.assert_allclose(rows["cosine"], cosines, atol=1e-5)
        assert found["eval/pearson"] == pytest.approx(np.corrcoef(cosines, [pair[2] for pair in PAIRS])[0, 1], abs=1e-5)
        assert found["eval/majority_score"] == 0
    else:
        order = (-(first @ second.T)).argsort(dim=1)
        assert rows["ranked"] == order.tolist()
        ranks = [row.tolist().index(at) for at, row in enumerate(order)]
        assert found["eval/ndcg_at_10"] == pytest.approx(np.mean([1 / np.log2(rank + 2) for rank in ranks]))
        assert found["eval/recall_at_10"] == 1
    headline = {"similarity": "pearson", "retrieval": "ndcg_at_10"}[task]
    assert found[f"eval/{headline}_low"] < found["eval/score"] < found[f"eval/{headline}_high"]
    assert found["model/params_random"] == 0
    assert not any(key.startswith("finetune/") for key in found)
    assert run_harness(*arguments, "report=false", f"output={tmp_path / 'out'}", "study=s", "seed=3").returncode == 0
    assert len([*(tmp_path / "out" / "s").glob("*/result.json")]) == 1


@pytest.mark.parametrize("half", [False, True])
def test_equal_paragraphs_and_those_of_an_equal_question_are_no_negatives(half):
    """One vector for each first token: the loss counts what is left of the batch, in float32 also where products are halved."""
    vectors = torch.nn.functional.normalize(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), dim=-1)

    def of_first(batch: Batch) -> torch.Tensor:
        return vectors[batch.input_ids[:, 0]]

    def loss(questions: list[int], paragraphs: list[int]) -> torch.Tensor:
        first, second = (torch.tensor(ids)[:, None] for ids in (questions, paragraphs))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            return loss_of_pairs(of_first, 1.0, Batch(first, labels=torch.tensor(paragraphs), second=Batch(second)))

    assert loss([0, 1], [2, 2]) == 0  # one paragraph twice
    assert loss([0, 0], [2, 3]) == 0  # one question twice
    first, second = (vectors[question] @ vectors[texts].T for question, texts in ((0, [2, 3]), (1, [3, 2, 2])))
    expected = [2 / 3 * (first.logsumexp(dim=0) - first[0]), 1 / 3 * (second.logsumexp(dim=0) - second[0])]
    torch.testing.assert_close(loss([0, 0, 1], [2, 2, 3]), sum(expected))


def test_memory_of_a_step_by_formula_is_of_both_texts_of_each_pair():
    shape = EncoderConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    formula = memory_formula.parts(flops.Shape(shape, 1, 4, 24, TextVectors), HardwareConfig(), False).activations
    first, second = torch.randint(1, 50, (2, 4, 24), generator=torch.Generator().manual_seed(0))
    model, batch = (
        build_classifier(shape, 1, 0, TextVectors).train(),
        Batch(first, labels=torch.arange(4), second=Batch(second)),
    )
    saved = memory_formula.Saved([*model.parameters(), first, second, batch.labels])
    with saved:
        loss_of_pairs(model, 0.05, batch)
    assert saved.bytes == pytest.approx(formula, rel=0.02)


@pytest.fixture
def pairs_of_words(tmp_path: Path) -> list[str]:
    """Questions of two words of one half of a vocabulary, and paragraphs of the two that belong to them."""
    pairs = [(f"a{one} a{two}", f"b{two} b{one}") for one in range(10) for two in range(one)]
    order = np.random.default_rng(0).permutation(len(pairs)).tolist()
    for name, rows in (("train", order[:35]), ("validation", order[35:])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("a", "b"), *(pairs[row] for row in rows)])
    files = [f"task.{name}_file={tmp_path / name}.csv" for name in ("train", "validation")]
    return [
        "task=retrieval",
        *files,
        "task.fields=[a,b]",
        "scale=tiny",
        "report=false",
        f"output={tmp_path / 'out'}",
        "study=s",
    ]


@pytest.mark.long
def test_pairs_that_are_trained_on_teach_to_find_others(run_harness, pairs_of_words, tmp_path):
    budget = ["finetune.epochs=60", "finetune.batch_size=16", "finetune.learning_rate=3e-3", "finetune.ema_decay=0.5"]
    ended = run_harness("-m", *pairs_of_words, "finetune=none,contrastive", "seed=0", *budget, "finetune.keep=last")
    assert ended.returncode == 0, ended.stderr
    folders = [path.parent for path in (tmp_path / "out" / "s").glob("*/result.json")]
    found = {json.loads((one / "run.json").read_text())["tags"]["arm"]: (one, metrics_of(one)) for one in folders}
    (_, before), (folder, after) = found["base"], found["base finetune=contrastive"]
    assert after["eval/score"] > before["eval/score"] + 0.2
    assert after["eval/ndcg_at_10_low"] <= after["eval/score"] <= after["eval/ndcg_at_10_high"]
    assert after["finetune/flops"] > 0
    assert before["eval/examples"] == after["eval/examples"] == 10
    conditions = {json.loads((one / "run.json").read_text())["tags"]["conditions"] for one in folders}
    assert len(conditions) == 1
    model, tokenizer, labels = load(str(folder))
    assert (type(model), labels) == (TextVectors, [])
    rows = parquet.read_table(folder / "predictions.parquet").to_pydict()
    with (tmp_path / "validation.csv").open() as file:
        questions, paragraphs = zip(*[*csv.reader(file)][1:], strict=True)
    first, second = (
        torch.cat([model(torch.tensor([tokenizer.encode(one).ids])) for one in side]) for side in (questions, paragraphs)
    )
    assert (-(first @ second.T)).argsort(dim=1, stable=True)[:, :3].tolist() == [ranked[:3] for ranked in rows["ranked"]]
    again = run_harness(*pairs_of_words, f"pretrain.from={folder}")
    assert again.returncode == 0, again.stderr
    scores = [metrics_of(path.parent)["eval/score"] for path in (tmp_path / "out" / "s").glob("*/result.json")]
    assert scores.count(after["eval/score"]) == 2
