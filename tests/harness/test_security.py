"""Files and settings of others that would run code or write elsewhere: refused in one line, or ignored, never executed."""

import json
import os
import pickle
import sys
from pathlib import Path

import pyarrow
import pytest
import yaml
from published_bert import save_bert
from pyarrow import parquet
from refusals import assert_refused

from harness.data import sources
from harness.paths import conf_directory
from harness.study.plan import plan

CANARY = "executed"
"""The file that every payload would write in the working directory."""

COMMAND = f"touch {CANARY}"
CODE = f"import pathlib\npathlib.Path('{CANARY}').touch()\n"
CALL = f"{{_target_: os.system, command: {COMMAND}}}"


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No test may leave the file."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob(CANARY))


class Payload:
    def __reduce__(self):
        return os.system, (COMMAND,)


def pickled(*places: Path) -> None:
    for place in places:
        place.write_bytes(pickle.dumps(Payload()))


def test_the_payloads_would_write_the_file():
    pickled(Path("x.bin"))
    pickle.loads(Path("x.bin").read_bytes())
    exec(CODE)
    assert Path(CANARY).exists()
    Path(CANARY).unlink()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A small published model, with the files of others that may lie beside its weights."""
    folder = save_bert(tmp_path / "published", "BertForMaskedLM", num_hidden_layers=1)
    pickled(*(folder / name for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "pytorch_model.pt")))
    (folder / "modeling_evil.py").write_text(CODE)
    (folder / "__init__.py").write_text(CODE)
    entries = {"auto_map": {"AutoConfig": "modeling_evil.C", "AutoModel": "modeling_evil.M"}, "trust_remote_code": True}
    for name in ("config.json", "tokenizer_config.json"):
        known = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps(known | entries | {"architectures": ["os.system"], "_target_": "os.system"}))
    return folder


@pytest.mark.long
def test_pickles_and_code_beside_weights_are_ignored(published, compose):
    from harness.checkpoints import huggingface
    from harness.study.execute import _build

    (item,) = plan(compose("task=bag", "task.max_length=32", f"model.init_from={published}", "output=out"))
    assert huggingface.load_weights(item.config, _build(item.config, item.inputs))
    teacher = ["scale=tiny", "task=none", "pretrain=distillation", f"pretrain.teacher={published}", "pretrain.length=32"]
    teacher += ["pretrain.cosine_weight=0"]  # it is smaller than its student
    assert len(plan(compose(*teacher, "corpus.documents=40", "output=out"))) == 1
    assert "modeling_evil" not in sys.modules


@pytest.mark.long
@pytest.mark.parametrize("key", ["model.init_from", "pretrain.teacher"])
def test_pickled_weights_alone_are_refused(tell, published, key):
    (published / "model.safetensors").unlink()
    more = ["pretrain=distillation"] if key == "pretrain.teacher" else []
    assert_refused(tell("task=bag", *more, f"{key}={published}"), key, "lacks model.safetensors", "can be read")


@pytest.mark.long
def test_a_pickle_under_the_name_of_sound_weights_is_refused(tell, published):
    pickled(published / "model.safetensors")
    assert_refused(tell("task=bag", f"model.init_from={published}"), f"{published / 'model.safetensors'} cannot be read")


@pytest.mark.long
def test_a_config_of_a_run_with_a_tag_is_refused(tell, tmp_path):
    folder = tmp_path / "theirs"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "config.yaml").write_text(f"seed: !!python/object/apply:os.system ['{COMMAND}']\n")
    (folder / "run.json").write_text("{}")
    for name in ("model.safetensors", "model.json", "tokenizer.json"):
        (folder / "checkpoint" / name).write_text("{}")
    assert_refused(tell("task=bag", f"pretrain.from={folder}"), str(folder / "config.yaml"), "python/object/apply:os.system")


SCRIPTED = f"""\
---
configs:
- config_name: sst2
  data_files: [{{split: train, path: sst2/train*}}, {{split: validation, path: sst2/validation*}}]
license: !!python/object/apply:os.system ['{COMMAND}']
---
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Local data as of GLUE, with loading scripts at every place where a library has looked for one."""
    folder = tmp_path / "root" / "glue"
    (folder / "sst2").mkdir(parents=True)
    rows = {"sentence": ["a film", "no film"] * 5, "label": [1, 0] * 5, "idx": list(range(10)), "text": ["a"] * 10}
    for split in ("train", "validation"):
        parquet.write_table(pyarrow.table(rows), folder / "sst2" / f"{split}-0.parquet")
    (folder / "README.md").write_text(SCRIPTED.replace("license:", "#"))
    for name in ("glue.py", "sst2.py", "__init__.py", "dataset.py", "sst2/sst2.py", "sst2/__init__.py", "../glue.py"):
        (folder / name).write_text(CODE)
    return tmp_path / "root"


SST2 = ("task=sst2", "data=local")


@pytest.mark.long
def test_scripts_beside_data_are_ignored(root, compose):
    (root / "glue" / "glue.py").unlink()
    (config,) = compose(*SST2, f"data.root={root}")
    assert sources.load(config, "train").columns["label"] == [1, 0] * 5


@pytest.mark.long
def test_a_script_in_the_place_of_data_is_refused(tell, root):
    for path in (root / "glue").rglob("*.parquet"):
        path.unlink()
    assert_refused(tell(*SST2, f"data.root={root}"), "sst2", "cannot be loaded")


@pytest.mark.long
def test_a_script_for_the_whole_data_set_is_refused(tell, root):
    assert_refused(tell(*SST2, f"data.root={root}"), "Dataset scripts are no longer supported, but found glue.py")


@pytest.mark.long
@pytest.mark.parametrize("name", ["root/glue/glue.py", "root/glue"])
def test_a_path_for_a_name_on_the_hub_runs_no_script(tell, root, name):
    for path in (root / "glue").rglob("*.parquet"):
        path.unlink()
    assert_refused(tell("task=sst2", f"task.hub={name}"), "sst2", name)


def test_a_tag_in_the_description_of_data_is_not_built(tell, root):
    (root / "glue" / "README.md").write_text(SCRIPTED)
    assert_refused(tell(*SST2, f"data.root={root}"), "sst2", "cannot be loaded")


def test_a_script_in_the_place_of_a_corpus_is_refused(tell, root):
    for path in (root / "glue").rglob("*.parquet"):
        path.unlink()
    corpus = ["corpus=text", "corpus.folder=glue", "data=local", f"data.root={root}"]
    assert_refused(tell("task=none", "pretrain=mlm", *corpus), "corpus")


TYPED, FILES, HOSTILE = yaml.safe_load(Path(__file__).with_name("security.yaml").read_text()).values()


@pytest.mark.parametrize("name", TYPED)
def test_code_that_the_command_line_names_is_refused(tell, name):
    arguments, fragment = TYPED[name]
    assert_refused(tell("task=bag", *arguments), fragment)


@pytest.mark.parametrize(
    "override",
    [
        *("hydra.run.dir=elsewhere", "+hydra.run.dir=elsewhere", "hydra.job.chdir=true", "hydra.sweep.dir=elsewhere"),
    ],
)
@pytest.mark.parametrize("sweep", [(), ("-m", "seed=1,2")])
def test_a_folder_of_hydra_beside_the_output_is_refused(tell, tmp_path, override, sweep):
    assert_refused(tell("task=bag", *sweep, override), f"{override.lstrip('+').partition('=')[0]} cannot be set")
    assert not list(tmp_path.rglob("elsewhere*"))


EMPTIES = "{version: 1, root: {}, handlers: {x: {class: logging.FileHandler, filename: kept, mode: w}}}"
"""Settings of logging that empty a file in the working directory."""

GLOBAL = "# @package _global_\n"
SWEPT = GLOBAL + "hydra: {{mode: MULTIRUN, sweeper: {{params: {{{}}}}}}}\n"


@pytest.mark.parametrize("name", FILES)
def test_code_that_a_file_names_is_refused(tell, tmp_path, name):
    group, content, fragment = FILES[name]
    (tmp_path / "my" / group).mkdir(parents=True)
    (tmp_path / "my" / group / "mine.yaml").write_text(content)
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "elsewhere.yaml").write_text("pooling: cls\n")
    chosen = "+experiment=mine" if group == "experiment" else f"{group}=mine"
    assert_refused(tell("--config-dir", "my", *(["task=bag"] if group != "task" else []), chosen), fragment)
    assert (tmp_path / "kept").read_text() == "kept"
    assert "antigravity" not in sys.modules


@pytest.mark.long
@pytest.mark.parametrize(
    "way", [["hydra.searchpath=['file://my']"], ["--config-dir", "my"], ["--config-dir", "my", "--info=all"]]
)
def test_a_later_arm_of_a_sweep_sets_no_logging(tell, tmp_path, way):
    (tmp_path / "my" / "model").mkdir(parents=True)
    (tmp_path / "my" / "model" / "mine.yaml").write_text(f"{GLOBAL}hydra: {{job_logging: {EMPTIES}}}\n")
    (tmp_path / "kept").write_text("kept")
    for launcher in ("basic", "joblib"):
        models = "mine" if "--info=all" in way else "base,mine"
        printed = tell(*way, "-m", "task=bag", f"model={models}", f"hydra/launcher={launcher}")
        assert_refused(printed, "hydra.job_logging.")
        assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.long
def test_a_file_in_the_place_of_a_default_of_hydra_changes_nothing(tell, tmp_path):
    """Folders of the user are searched before the launchers that plugins have."""
    for name in ("config", "launcher/basic", "launcher/joblib"):
        (tmp_path / "my" / "hydra" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "my" / "hydra" / f"{name}.yaml").write_text("temp_folder: elsewhere\n")
        refused = tell("--config-dir", "my", "-m", "task=bag", "seed=1,2", f"hydra/launcher={name[9:] or 'basic'}")
        assert refused.code == 2, (name, refused)
        assert refused.err.count("\n") == 1, refused.err


@pytest.mark.long
def test_a_config_in_the_place_of_the_shipped_one_sets_no_logging(tell, tmp_path):
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "mine.yaml").write_text("defaults: [config, override hydra/job_logging: default, _self_]\n")
    printed = tell(
        "--config-path", "my", "--config-name", "mine", f"hydra.searchpath=['file://{conf_directory()}']", "task=bag"
    )
    assert_refused(printed, "hydra.job_logging.")


@pytest.mark.long
def test_a_file_sends_no_password_to_its_server(tell, compose, tmp_path, monkeypatch):
    (tmp_path / "my" / "tracking").mkdir(parents=True)
    (tmp_path / "my" / "tracking" / "mine.yaml").write_text("mlflow: true\nuri: http://127.0.0.1:9\n")
    command = ["--config-dir", str(tmp_path / "my"), "tracking=[mine]", "task=bag"]
    assert compose(*command)[0].tracking.uri == "http://127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "password-of-test")
    assert_refused(
        tell(*command), "tracking.uri=http://127.0.0.1:9 is set by a file, and MLFLOW_TRACKING_PASSWORD would be sent"
    )
    assert len(compose(*command, "tracking.uri=http://127.0.0.1:9")) == 1


@pytest.mark.long
def test_a_file_may_choose_a_launcher_and_what_is_swept(compose, tmp_path):
    (tmp_path / "my" / "experiment").mkdir(parents=True)
    text = (
        f"{GLOBAL}hydra: {{mode: MULTIRUN, launcher: {{n_jobs: 2, prefer: threads}}, sweeper: {{params: {{seed: '1,2'}}}}}}\n"
    )
    (tmp_path / "my" / "experiment" / "mine.yaml").write_text(text + "defaults: [override /hydra/launcher: joblib]\n")
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from harness.config.compose import Source, Sweep

    typed = OverridesParser.create().parse_overrides(["task=bag", "+experiment=mine"])
    source = Source.of({"--config-dir": str(tmp_path / "my")}, typed)
    with source.opened():
        sweep = Sweep.of({"--config-dir": str(tmp_path / "my")}, typed, source)
    assert (sweep.has_launcher, len(sweep.jobs)) == (True, 2)


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_line(tell, name):
    setting, fragment = HOSTILE[name]
    words = setting.split(" ") if " " in setting and "(" not in setting else [setting]
    assert_refused(tell(*(["task=bag"] if "task=" not in setting else []), *words), fragment)


HARMLESS = "$(touch executed);`touch executed` <img src=x onerror=alert(1)> ../up"


@pytest.mark.long
def test_names_that_a_shell_or_a_page_would_run_stay_names(run_harness, small, output, tmp_path):
    """From the command to the folder, the tracking store, the report and the command that `status` prints."""
    study = HARMLESS.replace("/", "∕")
    done = run_harness(*small, "-m", "measure=none", f"arm='{HARMLESS}'", f"study='{study}'", "seed=1,2", "output=out")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [path.parent for path in (output / study).glob("*/run.json")]
    assert len(runs) == 2
    assert not [path for path in tmp_path.iterdir() if path.name != "out"]
    assert _named_on_the_page(study, tmp_path) > 2
    assert run_harness("status", study, "output=out").returncode == 0


def _named_on_the_page(study: str, folder: Path) -> int:
    """How often the page names the study, as text; never as an element."""
    from harness.reports.__main__ import main

    assert main(["--uri", f"sqlite:///{folder}/out/mlflow.db", "--study", study, "--out", "page", "--format", "html"]) == 0
    text = Path("page/report.html").read_text()
    assert "<img src=x" not in text
    return text.count("&lt;img src=x")
