"""Code beside published weights: run by its hash alone, which a command types, and never by what a file says."""

import json
import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
import transformers
from gate_folder import modeling_gate
from gate_folder.modeling_gate import GateConfig, GateForMaskedLM
from published_bert import save_bert
from refusals import assert_refused

from harness import extensions
from harness.checkpoints import foreign, native, remote_code
from harness.errors import InputError
from harness.models.batch import Batch
from harness.models.foreign import Foreign
from harness.plugins.export.checkpoint import write_published

CODE = Path(__file__).resolve().parents[2] / "helpers" / "gate_folder"
MAP = {
    "AutoConfig": "configuration_gate.GateConfig",
    "AutoModel": "modeling_gate.GateModel",
    "AutoModelForMaskedLM": "modeling_gate.GateForMaskedLM",
}
SMALL = ("task=bag", "task.max_length=32", "task.grammar.train_examples=20", "task.grammar.validation_examples=10")
HASH = remote_code.hash_of(CODE)


@pytest.fixture(autouse=True)
def imported(tmp_path, monkeypatch):
    """The file that the code writes where it is imported; nothing may run before a command says so."""
    monkeypatch.setenv("GATE_IMPORTED", str(tmp_path / "imported"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv(extensions.ALLOWED, "")
    return tmp_path / "imported"


@pytest.fixture
def folder(tmp_path):
    """Weights with code of their own, as the hub has them."""
    folder = save_bert(tmp_path / "gate", num_hidden_layers=1)
    torch.manual_seed(0)
    GateForMaskedLM(GateConfig(vocab_size=57)).save_pretrained(folder)
    write(folder, auto_map=MAP)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    for file in CODE.glob("*.py"):
        shutil.copy(file, folder)
    return folder


def write(folder, **changes):
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    return config


def shape_of(folder):
    return foreign.published_shape(remote_code.stated(write(folder), folder, str(folder), HASH), "x")


@pytest.mark.long
def test_vectors_and_predictions_are_those_of_the_code(folder, tmp_path, imported):
    extensions.allow([HASH])
    encoder = Foreign(shape_of(folder)).eval()
    foreign.load_published(folder, encoder, "x")
    ids = torch.tensor([[5, 6, 7, 0], [8, 9, 10, 11]])
    mask, own = ids > 0, GateForMaskedLM.from_pretrained(folder).eval()
    batch = Batch(ids, attention_mask=mask)
    torch.testing.assert_close(encoder(batch), own.gate(ids, mask).last_hidden_state)
    state = foreign.masked_lm(folder, encoder.config, "x")
    torch.testing.assert_close(state["masked_head.model.model.decoder.weight"], own.decoder.weight.detach())
    assert foreign.code_facts(encoder.config) == f"transformers {transformers.__version__}, remote code {HASH}"

    native.save(tmp_path / "run", encoder.state_dict(prefix="encoder."), encoder.config)
    (folder / "modeling_gate.py").write_text("raise SystemExit('changed')")
    again = native.encoder_of(*native.read(tmp_path / "run"))  # by the code that was allowed
    torch.testing.assert_close(again.eval()(batch), encoder(batch))
    (tmp_path / "written").mkdir()
    write_published(tmp_path / "written", encoder.state_dict(prefix="encoder."), encoder.config)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "written", trust_remote_code=True).eval()
    torch.testing.assert_close(theirs(ids, mask).last_hidden_state, encoder(batch))


@pytest.mark.long
def test_the_command_line_says_what_may_run(tell, folder, imported):
    run = (*SMALL, f"model.init_from={folder}")
    code = f"model.remote_code={HASH}"
    assert_refused(tell(*run), "own code (auto_map) runs with model.remote_code alone")
    assert_refused(tell(*run, "model.remote_code=show"), f"model.remote_code=show: expected {HASH}, the hash of the .py files")
    assert_refused(tell(*run[:-1], code), "read only by", "model.init_from=NAME without model.provider=native")
    assert_refused(tell(*run, code, "model.provider=native"), "without model.provider=native")
    assert not imported.exists()
    said = tell("plan", *run, code)
    assert (said.code, said.err) == (0, "")
    assert f"remote code {HASH}, model_type=gate" in " ".join(said.out.split())
    with (folder / "modeling_gate.py").open("a") as file:
        file.write("# changed\n")
    assert f"model.remote_code={HASH}: expected {remote_code.hash_of(folder)}" in tell(*run, code).err
    (folder / "linked.py").symlink_to("nowhere")
    assert "No such file" in tell(*run, code).err


@pytest.mark.long
def test_a_file_runs_nothing(tell, folder, tmp_path, imported):
    """An experiment that names the code, and weights whose config.json does."""
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    values = {"model": {"init_from": str(folder), "remote_code": HASH}}
    (tmp_path / "conf" / "experiment" / "own.yaml").write_text(f"# @package _global_\n{json.dumps(values)}")
    own = (*SMALL, "--config-dir", str(tmp_path / "conf"), "+experiment=own")
    assert_refused(tell(*own), f"model.remote_code={HASH} is set in a file", f"add --allow-code {HASH} to allow it")
    write(folder, remote_code=HASH)
    assert_refused(tell(*SMALL, f"model.init_from={folder}"), "is set in a file")
    assert not imported.exists()
    assert tell("plan", *own, "--allow-code", HASH).code == 0
    assert imported.exists()


HUB = {auto: f"owner/code--{name}" for auto, name in MAP.items()}
WRONG = {
    "no class": ({"AutoConfig": "configuration_gate.GateConfig"}, HASH, "names MODULE.CLASS for AutoConfig and AutoModel"),
    "no table": (["modeling_gate.GateModel"], HASH, "names MODULE.CLASS"),
    "elsewhere": (MAP | {"AutoModel": "/tmp/modeling_gate.GateModel"}, HASH, "names MODULE.CLASS"),
    "two places": (MAP | {"AutoModel": HUB["AutoModel"]}, HASH, "both of one place"),
    "a branch": (HUB, "main", "expected 40 hexadecimal digits, the commit of owner/code"),
    "not kept": (MAP, "0" * 40, "does not have this code"),
    "not there": (MAP | {"AutoModel": "modeling_gate.Gone"}, HASH, "cannot be imported (AttributeError"),
}


@pytest.mark.parametrize(("named", "code", "said"), WRONG.values(), ids=WRONG)
def test_code_that_cannot_be_read_is_refused(folder, named, code, said, imported):
    with pytest.raises(InputError, match=f"is set in a file .* add --allow-code {code} to allow it|names MODULE.CLASS"):
        remote_code.config_class({"remote_code": code, "auto_map": named}, transformers)
    assert not imported.exists()
    extensions.allow([code])
    remote_code.copy(folder, remote_code.kept(HASH))
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        remote_code.config_class({"remote_code": code, "auto_map": named}, transformers)


def test_code_of_the_hub_is_that_of_a_commit(folder, tmp_path, monkeypatch):
    """Of a repository that its references name, or else of its own."""
    asked = []

    def find(reference, place, code_revision):
        asked.append((reference, code_revision))
        return getattr(modeling_gate, reference.rpartition(".")[2])

    commit = "0f" * 20
    extensions.allow([commit])
    monkeypatch.setattr(transformers.dynamic_module_utils, "get_class_from_dynamic_module", find)
    for own, repository in ((MAP, "owner/weights"), (HUB, "owner/code")):
        stated = remote_code.stated({"auto_map": own}, folder, "owner/weights@v1", commit)
        assert remote_code.config_class(stated, transformers) is GateConfig
        assert asked == [(f"{repository}--{one}", commit) for one in MAP.values()]
        asked.clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "code").mkdir(parents=True)
    with pytest.raises(InputError, match="the commit of owner/code whose code you have read, and no folder of its name here"):
        remote_code.config_class(stated, transformers)
    assert not asked
