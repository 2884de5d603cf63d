"""Distillation and going on from published weights, as a user runs them."""

import json
from pathlib import Path

import pytest
import torch
from published_bert import PIECES, save_bert
from transformers import BertForMaskedLM

from harness.checkpoints import native
from harness.checkpoints import teacher as teachers
from harness.config.schema import RunConfig
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.objectives.config import ObjectiveConfig, ObjectiveName

pytestmark = pytest.mark.long

SMALL = [
    "scale=tiny",
    "task=none",
    "corpus.documents=60",
    "tokenizer.vocab_size=200",
    "pretrain.steps=4",
    "pretrain.length=32",
    "pretrain.batch_size=4",
    "pretrain.eval_sequences=8",
    "pretrain.evaluations=1",
    "hardware.threads=1",
]


def folder_of(output: Path, objective: str) -> Path:
    (folder,) = (output / "pretrained").glob(f"*-{objective}-*")
    return folder


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder as transformers saves a masked language model."""
    return save_bert(tmp_path / "published", "BertForMaskedLM", [*PIECES, ".", ","], max_position_embeddings=40)


def test_a_student_learns_from_a_pretraining_of_ours_with_its_tokenizer(run_harness, output):
    assert run_harness(*SMALL, "pretrain=mlm", f"output={output}").returncode == 0
    teacher = folder_of(output, "mlm")
    given = ["model=distilbert", "pretrain=distillation", f"pretrain.teacher={teacher}", "tokenizer.vocab_size=50"]
    done = run_harness(*SMALL[:3], *SMALL[4:], *given, f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    student = folder_of(output, "distillation")
    shapes = [json.loads((folder / "checkpoint" / "model.json").read_text()) for folder in (teacher, student)]
    assert shapes[0]["vocab_size"] == shapes[1]["vocab_size"]
    assert shapes[1]["depth_fraction"] == 0.5


def test_a_published_model_teaches_and_is_gone_on_from(run_harness, output, published):
    given = ["pretrain=distillation", f"pretrain.teacher={published}", "pretrain.cosine_weight=0"]
    done = run_harness(*SMALL, *given, f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    own = [setting for setting in SMALL if not setting.startswith(("scale=", "tokenizer."))]  # the weights have theirs
    done = run_harness(*own, "pretrain=mlm", "recipe=bert", f"model.init_from={published}", f"output={output}")
    assert done.returncode == 0, done.stdout + done.stderr
    shape = json.loads((folder_of(output, "mlm") / "checkpoint" / "model.json").read_text())
    assert (shape["hidden_size"], shape["vocab_size"]) == (32, len(PIECES) + 2)


def test_a_published_teacher_answers_as_its_makers_model(published):
    teacher = teachers.load(published, ObjectiveConfig())
    theirs = BertForMaskedLM.from_pretrained(published).eval()
    ids = torch.randint(5, len(PIECES), (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = teacher.head(teacher.encoder(Batch(ids)))
        torch.testing.assert_close(ours, theirs(ids).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["pretrain.length=64"], "reads at most 40 tokens, but pretrain.length=64"),
        (["tokenizer.vocab_file=other.txt"], "the tokenizer 5"),
        (
            ["pretrain.cosine_weight=1"],
            "has a hidden size of 32, not model.hidden_size=128: set pretrain.cosine_weight=0",
        ),
    ],
)
def test_a_teacher_that_does_not_fit_is_told_in_one_line(run_harness, output, published, tmp_path, given, message):
    (tmp_path / "other.txt").write_text("\n".join(PIECES[:5]))
    named = {argument.split("=")[0] for argument in given}
    named |= {"tokenizer.vocab_size"} & {key.replace("file", "size") for key in named}  # which no file reads
    arguments = [argument for argument in SMALL if argument.split("=")[0] not in named]
    command = [*arguments, *given, "pretrain=distillation", f"pretrain.teacher={published}", f"output={output}"]
    done = run_harness(*command)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert message in line


def test_a_misfit_is_told_before_a_sweep_whose_other_objective_shares_the_text(run_harness, output, published, tmp_path):
    (tmp_path / "other.txt").write_text("\n".join(PIECES[:5]))
    given = ["tokenizer.vocab_file=other.txt", f"pretrain.teacher={published}", f"output={output}"]
    arguments = [a for a in SMALL if not a.startswith("tokenizer.")]
    done = run_harness("-m", *arguments, *given, "pretrain=mlm,distillation")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the tokenizer 5" in done.stderr
    assert not list(output.glob("pretrained/*"))


def test_a_teacher_without_a_head_for_masked_tokens_is_refused(tmp_path):
    from harness.checkpoints import native
    from harness.models.config import EncoderConfig
    from harness.models.encoder import Encoder

    shape = EncoderConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    state = {f"encoder.{name}": tensor for name, tensor in Encoder(shape).state_dict().items()}
    native.save(tmp_path, state, shape)
    with pytest.raises(InputError, match=r"has no masked-LM head: pretrain.soft_weight=0 needs no head, nor does recipe=heal"):
        teachers.load(tmp_path, ObjectiveConfig())
    taught = teachers.load(tmp_path, ObjectiveConfig(soft_weight=0.0))
    assert taught.head is None
    assert all(torch.equal(state[f"encoder.{name}"], tensor) for name, tensor in taught.encoder.state_dict().items())


@pytest.mark.parametrize("decodes", [True, False])
def test_a_teacher_predicts_through_the_mask_decoder_that_it_was_trained_with(tmp_path, decodes):
    from harness.models.config import EncoderConfig, Position
    from harness.models.objectives.masked_lm import MaskedLM

    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    shape = EncoderConfig(**sizes, max_position_embeddings=12, position=Position.disentangled, mask_decoder=True)
    trained = MaskedLM(ObjectiveConfig(), shape, None).eval()
    state = {key: tensor for key, tensor in trained.state_dict().items() if decodes or ".decoder." not in key}
    native.save(tmp_path / "run", state, shape)
    teacher = teachers.load(tmp_path / "run", ObjectiveConfig())
    batch = Batch(torch.randint(5, 60, (2, 12), generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        hidden, read = teacher.head.read(teacher.encoder, batch)
        expected = trained.masked_head.read(trained.encoder, batch)[1] if decodes else trained.encoder(batch)
    torch.testing.assert_close(read, expected, rtol=0, atol=1e-6)
    assert torch.equal(read, hidden) is not decodes


def test_a_teacher_is_its_weights_and_its_shape(published):
    config = RunConfig()
    config.pretrain.objective, config.pretrain.teacher = ObjectiveName.distillation, str(published)
    before = teachers.content_hash(config)
    assert teachers.content_hash(config) == before
    shape = json.loads((published / "config.json").read_text())
    (published / "config.json").write_text(json.dumps(shape | {"num_attention_heads": 4}))
    assert teachers.content_hash(config) != before
