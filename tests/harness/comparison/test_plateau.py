"""The warning about a pretraining that has not learned."""

import pytest
import yaml

from harness.comparison import plateau
from harness.errors import InputError
from harness.paths import conf_directory

PARAMETERS = {"model_name": "base", "pretrain.tokens": "8000000.0", "pretrain.neighbour_heads": "True"}
REFERENCE = {"of": {"model_name": "base", "pretrain.tokens": 8e6, "pretrain.neighbour_heads": True}, "seeds": 3}
REFERENCE |= {"torch": "2.13.0", "curve": {4_000_000: [4.6, 4.8], 8_000_000: [4.1, 4.3]}}


def ended(loss: float, entropy: float = 6.7) -> dict[str, float]:
    return {plateau.LOSS: loss, plateau.ENTROPY: entropy}


@pytest.mark.parametrize("loss", [7.1, 6.61, 6.44, 6.24])
def test_a_loss_near_the_unigram_entropy_is_on_the_plateau_and_the_warning_has_both(loss):
    assert plateau.is_on(ended(loss))
    assert f"masked loss {loss:.2f} nats, unigram entropy 6.70" in plateau.warning(ended(loss), PARAMETERS)


@pytest.mark.parametrize("metrics", [ended(6.2), ended(5.2), {}, {"eval/score": 0.5}, {plateau.ENTROPY: 6.7}])
def test_a_lower_loss_and_a_run_without_one_get_no_warning(metrics):
    assert not plateau.is_on(metrics)
    assert plateau.warning(metrics, {}) is None


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """In place of conf/reference."""
    (folder := tmp_path / "reference").mkdir()
    monkeypatch.setattr(plateau, "conf_directory", lambda: tmp_path)
    return folder


@pytest.fixture
def _small(folder):
    (folder / "small.yaml").write_text(yaml.safe_dump(REFERENCE))


@pytest.mark.usefixtures("_small")
def test_a_run_with_the_settings_of_a_reference_is_held_against_its_last_band():
    assert plateau.warning(ended(4.2), PARAMETERS) is None
    for loss in (4.0, 4.7):
        assert plateau.warning(ended(loss), PARAMETERS) == (
            f"held-out masked loss {loss:.2f} nats is outside the reference small: 4.10 to 4.30 nats after 8 M tokens "
            "(3 seeds, torch 2.13.0)"
        )


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize(
    "other", [{"model_name": "albert"}, {"pretrain.tokens": "2000000.0"}, {"pretrain.neighbour_heads": "False"}]
)
def test_a_run_with_other_settings_is_not(other):
    assert plateau.warning(ended(4.7), PARAMETERS | other) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seeds: 3\ntorch: 2.13.0\ncurve:\n  500736: [4.66, 8.7", "is not YAML"),
        ("seeds: 3\ntorch: 2.13.0\ncurve:\n  500736: [4.66, 8.71]\n", "lacks of"),
        ("", "lacks seeds, torch, curve, of"),
    ],
    ids=["within a list", "between keys", "empty"],
)
def test_an_incomplete_reference_is_one_line_that_names_the_file(folder, text, expected):
    (folder / "cut.yaml").write_text(text)
    with pytest.raises(InputError, match=rf"cut\.yaml {expected}: restore it, or remove it") as refused:
        plateau.warning(ended(4.2), PARAMETERS)
    assert "\n" not in str(refused.value)


@pytest.mark.long
def test_an_incomplete_reference_stops_a_pretraining_before_it_starts(run_harness, output, folder):
    (folder / "cut.yaml").write_text("seeds: 3")
    text = ["corpus.documents=60", "tokenizer.vocab_size=200", "pretrain.length=32", "pretrain.steps=2"]
    refused = run_harness("task=none", "scale=tiny", "pretrain=mlm", *text, f"output={output}")
    assert refused.returncode == 2
    assert "cut.yaml lacks torch, curve, of" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not list(output.glob("pretrained/*/run.json"))


@pytest.mark.usefixtures("_small")
def test_the_plateau_is_said_first():
    assert plateau.warning(ended(6.6), PARAMETERS).startswith("still on the unigram plateau")


@pytest.mark.parametrize("path", sorted(conf_directory().glob("reference/*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_reference_is_of_keys_that_runs_have(compose, path):
    from harness.study.identity import Identity, Inputs, content_of

    reference = yaml.safe_load(path.read_text())
    (composed,) = compose("task=bag", "pretrain=mlm")
    inputs = Inputs(content=content_of(composed, None, "text", "file", None))
    assert reference["of"].keys() <= Identity(composed, inputs).parameters.keys()
    assert list(reference["curve"]) == sorted(reference["curve"])
    assert all(low < high for low, high in reference["curve"].values())


@pytest.mark.parametrize("name", [path.stem for path in (conf_directory() / "reference").glob("glue_*.yaml")])
def test_the_reference_of_a_published_fine_tuning_has_its_settings(compose, name):
    from harness.study.identity import Identity, Inputs, content_of

    reference = yaml.safe_load((conf_directory() / "reference" / f"{name}.yaml").read_text())
    (composed,) = compose("task=bag", f"finetune={name.removesuffix('_stsb')}")
    parameters = Identity(composed, Inputs(content=content_of(composed, None, "text", "file", None))).parameters
    settings = {key: str(value) for key, value in reference["of"].items() if key.startswith("finetune.")}
    assert len(settings) > 5
    assert {key: str(parameters[key]) for key in settings} == settings


SCORED = {"metric": "eval/score", "of": {"task.name": "stsb", "finetune.epochs": "3.0"}, "seeds": 3, "torch": "2.13.0"}
SCORED |= {"curve": {3.0: [0.7, 0.8]}}
OF_TASK = {"task.name": "stsb", "finetune.epochs": "3.0"}


def test_a_fine_tuning_with_the_settings_of_a_reference_is_held_against_its_scores(folder):
    (folder / "glue.yaml").write_text(yaml.safe_dump(SCORED))
    assert plateau.warning({"eval/score": 0.75}, OF_TASK) is None
    assert plateau.warning({"eval/score": 0.6512}, OF_TASK) == (
        "score 0.651 is outside the reference glue: 0.700 to 0.800 after 3 epochs (3 seeds, torch 2.13.0)"
    )
    for other in (
        {"finetune.trains": "lora"},
        {"finetune.epochs": "2.0"},
        {"finetune.optimizer": "sgd"},
        {"measure.precision": "bf16"},
    ):
        assert plateau.warning({"eval/score": 0.6}, OF_TASK | other) is None
