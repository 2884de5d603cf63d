"""Folders as the hub has them, of eight families: read, changed, and healed by the command."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import BertWordPieceTokenizer

from harness.__main__ import main
from harness.checkpoints import huggingface, start
from harness.config.resolve import resolve
from harness.models.batch import Batch
from harness.models.heads import build_classifier

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
SHAPE = {
    "vocab_size": len(PIECES),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 96,
    "pad_token_id": 0,
}
IDS = {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
LAYERS = {
    "bert": ("encoder.layer", {}),
    "roberta": ("encoder.layer", {}),
    "distilbert": ("transformer.layer", {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}),
    "electra": ("encoder.layer", {"embedding_size": 16}),
    "deberta-v2": (
        "encoder.layer",
        {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]},
    ),
    "modernbert": ("layers", IDS | {"local_attention": 8, "global_attn_every_n_layers": 2}),
    "albert": (None, {"embedding_size": 16}),
    "xlnet": ("layer", {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48}),
}
"""Family -> where its layers are, None where all are one, and what its config needs."""
WITHOUT_RELATIONS = ("deberta-v2", "xlnet")
"""Families whose queries, keys and values are not one projection, so that their relations are not compared."""

pytestmark = pytest.mark.long


@pytest.fixture(params=LAYERS)
def published(request, tmp_path: Path):
    """A small encoder as transformers saves it, with a vocabulary of letters, and that encoder without its last layer."""
    torch.manual_seed(0)
    family, (place, more) = request.param, LAYERS[request.param]
    shape = {
        key: value for key, value in SHAPE.items() if family not in ("distilbert", "xlnet") or not key.endswith(("size", "s"))
    }
    model = transformers.AutoModel.from_config(
        transformers.AutoConfig.for_model(family, **shape | {"vocab_size": len(PIECES), "pad_token_id": 0} | more)
    ).eval()
    folder = tmp_path / family
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))  # for any family
    BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True).save(str(folder / "tokenizer.json"))
    if place is None:
        model.config.num_hidden_layers = model.encoder.config.num_hidden_layers = 1
    else:
        del model.get_submodule(place)[1:]
    return folder, model


def test_one_layer_is_what_transformers_computes_without_the_other(published, compose):
    folder, theirs = published
    (run,) = compose("task=bag", "task.max_length=64", f"model.init_from={folder}", "model.num_hidden_layers=1")
    config = resolve(run, start.read(run))
    model = build_classifier(config.model, 2, 0).eval()
    origins = huggingface.load_weights(config, model)
    assert {origin.kind for name, origin in origins.items() if name.startswith("encoder.")} == {"kept"}
    ids = torch.randint(5, len(PIECES), (2, 20), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 20, dtype=torch.bool)
    with torch.inference_mode():
        expected = theirs(ids, attention_mask=mask.long()).last_hidden_state
        torch.testing.assert_close(model.encoder(Batch(ids, attention_mask=mask)), expected, atol=1e-5, rtol=1e-4)


def test_it_is_healed_and_fine_tuned_by_the_command(published, tmp_path, capsys):
    folder, _ = published
    output = tmp_path / "out"
    heal = ["pretrain=distillation", "recipe=heal", "pretrain.steps=2", "pretrain.batch_size=2", "pretrain.length=16"]
    small = ["pretrain.eval_sequences=2", "pretrain.probe_steps=1", "pretrain.evaluations=1", "corpus.documents=50"]
    tune = ["task=bag", "task.max_length=32", "finetune.max_steps=1", "data.validation_examples=8", "measure=none"]
    given = [f"model.init_from={folder}", "model.num_hidden_layers=1", f"output={output}", "report=false", "tracking=none"]
    if folder.name in WITHOUT_RELATIONS:
        assert main([*given, *heal, *small, *tune]) == 2
        assert capsys.readouterr().err.endswith("set pretrain.relation_weight=0\n")
        heal.append("pretrain.relation_weight=0")
    assert main([*given, *heal, *small, *tune]) == 0
    healed, tuned = (json.loads((path / "result.json").read_text()) for path in runs_of(output))
    assert healed["metrics"]["pretrain/steps"] == 2
    assert tuned["metrics"]["model/params_random"] < tuned["metrics"]["model/params_kept"]


def runs_of(output: Path) -> list[Path]:
    """Folders of the pretraining and of the fine-tuning."""
    return [path.parent for folder in ("pretrained", "default") for path in output.glob(f"{folder}/*/result.json")]
