"""Published folders of every shape that is drawn, read as transformers' own class computes the clean one.

A folder is drawn by its family, head, names of rows, prefix of a wrapper, shards, numbers, old names of norms, and files beside
it. Hidden states and logits are compared, the latter row by row by the names of labels.
"""

import contextlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from drawn_families import FAMILY, MASKED, SPANS, TEXT, TOKENS, UNREADABLE, batch_of, logits_of, reference_of
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.checkpoints import huggingface
from harness.checkpoints.sentence_transformers import pooling_of
from harness.config.choices import TaskKind
from harness.config.schema import ModelConfig, RunConfig, TaskConfig
from harness.errors import InputError
from harness.models.config import Pooling
from harness.models.heads import MaskedLMHead, TextVectors, build_classifier, pool
from harness.models.huggingface import FAMILIES, config_of
from harness.tasks import kind_of

NAMES = {TEXT: ["bad", "good", "dull"], TOKENS: ["O", "B-PER", "I-PER"], SPANS: []}
KINDS = {TEXT: TaskKind.classification, TOKENS: TaskKind.tokens, SPANS: TaskKind.spans}
WRAPPERS = ["", "", "_orig_mod.", "module.", "module._orig_mod.", "model.", "net.inner."]
NUMBERS = [torch.float32, torch.float32, torch.float16, torch.bfloat16]
POOLINGS = {
    "cls_token": Pooling.cls,
    "mean_tokens": Pooling.mean,
    "max_tokens": Pooling.max,
    "lasttoken": Pooling.last,
    "mean_sqrt_len_tokens": Pooling.mean,
}


class Drawn:
    """A folder, the model that it was made of, and what reading it must decide."""

    def __init__(self, family: str, seed: int, folder: Path) -> None:
        draw = random.Random(f"{family} {seed}")
        heads = [head for head in FAMILY[family].heads if head in KINDS or head == MASKED]
        self.family, self.head = family, draw.choice([None, *(head for head in heads if (family, head) not in UNREADABLE)])
        self.folder, self.notes = folder, []
        self.reference = self._reference(seed, draw)
        self.names, self.labels = self._names(draw)
        self._save(draw)

    def _reference(self, seed: int, draw: random.Random) -> transformers.PreTrainedModel:
        """As transformers reads the clean folder."""
        head = self.head or next(head for head in FAMILY[self.family].heads if (self.family, head) not in UNREADABLE)
        reference, self.numbers = reference_of(FAMILY[self.family], head, seed), draw.choice(NUMBERS)
        if self.head is None:
            reference = reference.base_model
            if self.family == "t5":
                reference = transformers.T5EncoderModel(reference.config)
        reference.to(self.numbers).save_pretrained(self.folder)
        return type(reference).from_pretrained(self.folder, dtype=torch.float32).eval()

    def _names(self, draw: random.Random) -> tuple[list[str], list[str]]:
        """Of the rows, as they are published and as the task lists them."""
        names = NAMES.get(self.head, [])[: self.reference.config.num_labels]
        return draw.sample(names, len(names)), draw.sample(names, len(names))

    def _save(self, draw: random.Random) -> None:
        """Writes the folder anew, as a wrapper, an older version or another tool does."""
        path, config = self.folder / "config.json", json.loads((self.folder / "config.json").read_text())
        self.by = draw.choice(["id2label", "label2id", "both", "placeholders"])
        for key in ("id2label", "label2id"):
            config.pop(key, None)
        if self.names and self.by == "placeholders":
            config["id2label"] = {str(row): f"LABEL_{row}" for row in range(len(self.names))}
            self.names = self.labels
        if self.names and self.by in ("id2label", "both"):
            config["id2label"] = {str(row): name for row, name in enumerate(self.names)}
        if self.names and self.by in ("label2id", "both"):
            config["label2id"] = {name: row for row, name in enumerate(self.names)}
        if self.reference.config.num_labels == 2 and draw.random() < 0.1:
            config["auto_map"] = {"AutoModel": "code.Model"}
            self.notes.append("not by its own code")
        path.write_text(json.dumps(config))
        state = self._renamed(load_file(self.folder / huggingface.WEIGHTS), draw)
        if self.numbers is not torch.float32:
            self.notes.append("read as float32")
        (self.folder / huggingface.WEIGHTS).unlink()
        if draw.random() < 0.3:
            self._shards(state, draw.choice([1, 2, 3]))
        else:
            save_file(state, self.folder / huggingface.WEIGHTS, metadata={"format": "pt"})
            if draw.random() < 0.3:
                torch.save({}, self.folder / "pytorch_model.bin")
                self.notes.append("not pytorch_model.bin")
        for name in ("optimizer.pt", "scheduler.pt", "training_args.bin") if draw.random() < 0.3 else ():
            torch.save({}, self.folder / name)

    def _renamed(self, state: dict[str, Tensor], draw: random.Random) -> dict[str, Tensor]:
        """Tensors under other names, and others beside them."""
        if draw.random() < 0.3:
            state = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): tensor for name, tensor in state.items()}
            state = {name.replace("LayerNorm.bias", "LayerNorm.beta"): tensor for name, tensor in state.items()}
            self.notes += ["gamma and beta"] if any(name.endswith(".gamma") for name in state) else []
        if draw.random() < 0.2 and self.family in ("bert", "roberta", "xlm-roberta", "camembert", "albert", "electra"):
            state[f"{self.family}.embeddings.position_ids"] = torch.arange(40)[None]
        if draw.random() < 0.2:
            state["contrastive.weight"] = torch.ones(3)
            self.notes.append("not read: contrastive.weight")
        wrapper = draw.choice(WRAPPERS)
        own = "model." if self.family == "modernbert" else ""  # what its classes with a head put before the encoder
        self.notes += [f"{wrapper!r} left out"] if wrapper in ("model.", "net.inner.") and wrapper != own else []
        return {f"{wrapper}{name}": tensor for name, tensor in state.items()}

    def _shards(self, state: dict[str, Tensor], count: int) -> None:
        places = {name: f"model-{place % count}.safetensors" for place, name in enumerate(state)}
        for file in {*places.values()}:
            save_file({name: tensor for name, tensor in state.items() if places[name] == file}, self.folder / file)
        (self.folder / huggingface.INDEX).write_text(json.dumps({"weight_map": places}))
        self.notes.append(f"{min(count, len(state))} files of")

    def config(self, kind: TaskKind | None = None, labels: list[str] | None = None) -> RunConfig:
        """A run from the folder."""
        task = TaskConfig(name="own", kind=kind or KINDS.get(self.head, TaskKind.classification))
        if task.kind in (TaskKind.classification, TaskKind.tokens):
            task = replace(task, labels=self.labels if labels is None else labels)
        shape = config_of(json.loads((self.folder / "config.json").read_text()))
        return RunConfig(task=task, model=ModelConfig(**vars(shape), init_from=str(self.folder)))


def drawn_folder(family: str, seed: int, folder: Path) -> Drawn:
    """Of a config that ours expresses; `test_heads_of_families.py` holds that others are refused by name."""
    for part in range(100):
        drawn = Drawn(family, 100 * seed + part, folder / f"{seed}-{part}")
        with contextlib.suppress(ValueError):
            shape = config_of(json.loads((drawn.folder / "config.json").read_text()))
            if drawn.head != MASKED or FAMILIES[family].masked_act in (None, shape.hidden_act.value):
                return drawn
    raise AssertionError(f"no config of {family} is read")


def assert_equal(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * max(1.0, expected.abs().max().item()))


def hidden_of(reference: transformers.PreTrainedModel, batch) -> Tensor:
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask.long(), "output_hidden_states": True}
    if type(reference).__name__.startswith("Longformer"):
        inputs["global_attention_mask"] = torch.zeros_like(batch.input_ids).index_fill(1, torch.tensor([0]), 1)
    return reference(**inputs).hidden_states[-1]


def compare(one: Drawn) -> None:
    """Hidden states, logits by the names of their labels, and notes."""
    batch = batch_of(FAMILY[one.family], one.reference.config.pad_token_id)
    mask = batch.attention_mask
    config = one.config()
    outputs = kind_of(config.task).num_outputs(config.task) or 2
    notes, expected = "; ".join(huggingface.notes(config)), hidden_of(one.reference, batch)
    assert all(note in notes for note in one.notes), (one.notes, notes)
    if one.head == MASKED:
        state, shape = huggingface.masked_lm(one.folder, "model.init_from")
        head = MaskedLMHead(shape, torch.nn.Embedding(shape.vocab_size, shape.embedding_width)).eval()
        head.load_state_dict({name[12:]: tensor for name, tensor in state.items() if name.startswith("masked_head.")})
    model = build_classifier(config.model, outputs, 1, kind_of(config.task).head()).eval()
    origins = huggingface.load_weights(config, model)
    assert_equal(model.encoder(batch)[mask], expected[mask])
    if one.head == MASKED:
        assert_equal(head(model.encoder(batch))[mask], logits_of(one.reference, batch)[mask])
    elif one.head is None:
        assert "new head, as none is published" in notes
        assert origins["head.weight"].kind == "random"
    else:
        rows = [one.names.index(label) for label in one.labels] or list(range(outputs))
        real = slice(None) if one.head == TEXT else mask
        assert_equal(model(batch)[real], logits_of(one.reference, batch)[real][..., rows])
        assert ("config.json names none" in notes) == (one.by == "placeholders" and one.names != [])


def compare_vectors(one: Drawn, seed: int) -> None:
    """As Sentence Transformers pools them."""
    mode = random.Random(seed).choice([*POOLINGS])
    modules = [
        {"idx": place, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(
            [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")][: 2 + seed % 2]
        )
    ]
    (one.folder / "modules.json").write_text(json.dumps(modules))
    (one.folder / "1_Pooling").mkdir()
    (one.folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{key}": key == mode for key in POOLINGS}))
    config = one.config(TaskKind.similarity)
    pooling = pooling_of(one.folder)
    config = replace(config, model=replace(config.model, vector_pooling=pooling))
    assert huggingface.notes(config)[-1].endswith("(modules.json)")
    model = TextVectors(config.model).eval()
    huggingface.load_weights(config, model)
    batch = batch_of(FAMILY[one.family], one.reference.config.pad_token_id)
    expected = pool(hidden_of(one.reference, batch), batch.attention_mask, POOLINGS[mode])
    assert_equal(model(batch), torch.nn.functional.normalize(expected, dim=-1))


def compare_all(family: str, seeds: range, folder: Path) -> None:
    with torch.inference_mode():
        for seed in seeds:
            one = drawn_folder(family, seed, folder)
            try:
                compare(one)
                if seed % 3 == 0:
                    compare_vectors(one, seed)
            except (AssertionError, InputError) as error:
                raise AssertionError(f"{one.folder}: {one.head}, {one.by}, {one.notes}: {error}") from error


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILY)
def test_a_drawn_folder_is_read_as_transformers_reads_the_clean_one(family, tmp_path):
    compare_all(family, range(3), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILY)
def test_many_drawn_folders_are(family, tmp_path):
    compare_all(family, range(100, 115), tmp_path)
