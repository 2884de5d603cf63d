"""Files that Hydra reads once: what is composed is the same, nothing is shared between two configs, and a change is seen."""

import hydra
import pytest
from hydra._internal import defaults_list
from hydra._internal.config_repository import ConfigRepository
from hydra.core.object_type import ObjectType
from omegaconf import OmegaConf

from harness.config import compose, hydra_reads
from harness.paths import conf_directory

COMMANDS = [
    ["task=bag"],
    ["task=bag", "model=albert", "scale=tiny", "enhancement=[shared]"],
    ["task=sst2", "pretrain=mlm", "model.num_hidden_layers=3", "+experiment=mask_rate"],
]


@pytest.fixture
def composing():
    compose._store_schema()
    with hydra.initialize_config_dir(str(conf_directory()), version_base="1.3"):
        yield


def composed(arguments: list[str]):
    return hydra.compose("config", arguments, return_hydra_config=True)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_what_is_composed_is_what_hydra_composes(arguments, composing):
    plain = composed(arguments)
    with hydra_reads.shared():
        shared = [composed(arguments) for _ in range(2)]
    for one in shared:
        assert OmegaConf.to_yaml(one) == OmegaConf.to_yaml(plain)
        assert one.hydra.runtime.choices == plain.hydra.runtime.choices
        assert OmegaConf.get_type(one.model) is OmegaConf.get_type(plain.model)
        assert OmegaConf.is_struct(one) == OmegaConf.is_struct(plain)
    assert [OmegaConf.to_yaml(composed(arguments))] == [OmegaConf.to_yaml(plain)]


def test_a_config_that_is_changed_changes_no_other_one(composing):
    with hydra_reads.shared():
        first = composed(["task=bag"])
        before = OmegaConf.to_yaml(first)
        first.model.num_hidden_layers = 77
        first.tracking.uri = "elsewhere"
        first.finetune.adam_betas.append(0.5)
        assert OmegaConf.to_yaml(composed(["task=bag"])) == before


def test_each_file_is_read_and_looked_for_once(composing, monkeypatch):
    read, found = [], []
    load, find = ConfigRepository.load_config, ConfigRepository._find_object_source
    monkeypatch.setattr(ConfigRepository, "load_config", lambda self, path: read.append(path) or load(self, path))
    monkeypatch.setattr(
        ConfigRepository, "_find_object_source", lambda self, path, kind: found.append((path, kind)) or find(self, path, kind)
    )
    monkeypatch.setattr(hydra_reads, "_read", {})
    with hydra_reads.shared():
        for model in ("base", "albert", "base"):
            composed(["task=bag", f"model={model}"])
    assert {"model/base", "model/albert", "config", "task/bag"} <= set(read)
    existing = [
        path for path in read if not path.startswith("hydra/") or path == "hydra/config"
    ]  # some defaults of Hydra are None
    assert len(existing) == len(set(existing)) > 15
    assert ("model/base", ObjectType.CONFIG) in found
    assert len(found) == len(set(found))


def test_files_of_the_user_are_read_again_by_the_next_command(composing, tmp_path):
    own = tmp_path / "model" / "mine.yaml"
    own.parent.mkdir()
    layers = []
    for count in (3, 4):
        own.write_text(f"# @package _global_\nmodel: {{num_hidden_layers: {count}}}\n")
        with hydra_reads.shared():
            node = composed(["task=bag", "model=mine", f"hydra.searchpath=[file://{tmp_path}]"])
        layers.append(node.model.num_hidden_layers)
    assert layers == [3, 4]


def test_a_choice_may_be_named_by_another_one(composing, tmp_path):
    """`${...}` in a defaults list, for which Hydra needs the choices as nodes."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "by_hardware.yaml").write_text("# @package _global_\ndefaults:\n  - sub: ${hardware}_own\n")
    (folder / "sub" / "cpu_own.yaml").write_text("# @package _global_\nmodel: {num_hidden_layers: 5}\n")
    with hydra_reads.shared():
        node = composed(["task=bag", "scale=tiny", "model=by_hardware", f"hydra.searchpath=[file://{tmp_path}]"])
    assert node.model.num_hidden_layers == 5


def test_everything_is_put_back():
    before = [ConfigRepository.load_config, ConfigRepository._find_object_source, defaults_list._create_interpolation_map]
    with pytest.raises(KeyError), hydra_reads.shared():
        raise KeyError
    assert [
        *(ConfigRepository.load_config, ConfigRepository._find_object_source, defaults_list._create_interpolation_map)
    ] == before
    assert not hasattr(ConfigRepository, "__deepcopy__")
