"""Similarity and retrieval without training: vectors are those of transformers, and runs go through the whole command."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow import parquet
from transformers import BertConfig, BertModel

from models.batch import Batch
from models.config import EncoderConfig
from models.heads import TextVectors, build_classifier

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
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = BertConfig(vocab_size=len(PIECES), max_position_embeddings=256, initializer_range=0.3, **sizes)
    BertModel(config).save_pretrained(tmp_path / "published")
    (tmp_path / "published" / "vocab.txt").write_text("\n".join(PIECES))
    return tmp_path / "published"


def pairs_file(folder: Path) -> Path:
    path = folder / "pairs.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "score"), *PAIRS])
    return path


def vector(model: BertModel, text: str) -> torch.Tensor:
    ids = [2, *(PIECES.index(word) for word in text.split()), 3]
    with torch.inference_mode():
        return torch.nn.functional.normalize(model(torch.tensor([ids])).last_hidden_state[0].mean(dim=0), dim=-1)


def test_vectors_are_means_of_the_real_tokens_of_length_one():
    shape = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    model = build_classifier(shape, 0, 0, TextVectors).eval()
    ids, mask = torch.randint(0, 50, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    with torch.inference_mode():
        vectors = model(Batch(ids, attention_mask=mask))
        alone = model.encoder(Batch(ids[1:, :4]))[0].mean(dim=0)
    torch.testing.assert_close(vectors[1], alone / alone.norm(), atol=1e-5, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("task", ["similarity", "retrieval"])
def test_scores_of_a_published_encoder_are_those_of_its_cosines(run_harness, published, tmp_path, task):
    """A second command skips the run: nothing depends on the seed of a fine-tuning."""
    columns = ["task.fields=[a,b]", "task.item=id", *(["task.label=score"] if task == "similarity" else [])]
    arguments = [f"model.init_from={published}", f"task={task}", f"task.validation_file={pairs_file(tmp_path)}", *columns]
    ended = run_harness(*arguments, "report=false", f"output={tmp_path / 'out'}", "study=s")
    assert ended.returncode == 0, ended.stderr
    (folder,) = (path.parent for path in (tmp_path / "out" / "s").glob("*/result.json"))
    found = json.loads((folder / "result.json").read_text())["metrics"]
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
