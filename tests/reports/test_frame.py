"""`reports.load`: a study as a DataFrame, one row a run."""

import json
from pathlib import Path

import pytest

from harness import metrics, reports, tags
from harness.errors import InputError
from harness.reports.reading import folders


def logged(tracking, arm: str, seed: int = 0, **more):
    return tracking.log(arm, seed, **{"fingerprint": "0123456789", "attempt": f"{arm}{seed}"} | more)


@pytest.mark.long
def test_one_row_a_run_and_none_for_aa_replicates(tracking, typical):
    for arm in ("base", "albert"):
        for seed in (0, 1):
            tracking.log_timed(arm, [10.0, 11.0, 10.5], seed, typical())
    tracking.log_timed("base", [10.0, 11.0, 10.5], replicate="true")
    frame = reports.load("before_after")
    assert frame[["arm", "seed"]].values.tolist() == [["base", 0], ["base", 1], ["albert", 0], ["albert", 1]]
    assert frame["counted"].all()
    assert set(frame["status"]) == {"finished"}
    assert frame["seed"].dtype.kind == "i"
    assert frame["started"].is_monotonic_increasing


def test_units_come_with_it_and_series_and_curves_are_no_results(tracking, typical):
    tracking.log_timed("base", [10.0, 11.0], values=typical())
    frame = reports.load()
    used = [name for name in frame if name in metrics.METRICS]
    assert frame.attrs["study"] == "before_after"
    assert frame.attrs["units"] == {name: metrics.get(name).unit for name in used}
    assert frame["eval/score"].tolist() == [0.8]
    assert {"finetune/loss", "timing/latency_ms"}.isdisjoint(frame.columns)


def test_superseded_failed_and_running_runs_are_marked(tracking, typical):
    for status in ("finished", "finished", "failed", "running"):
        tracking.log("base", values=typical(), status=status)
    tracking.log("base", values={}, status="diverged", seed=1)
    frame = reports.load()
    assert frame["status"].tolist() == ["superseded", "finished", "failed", "running", "diverged"]
    assert frame["counted"].tolist() == [False, True, False, False, False]
    assert frame["eval/score"].isna().tolist() == [False, False, False, False, True]


def test_study_without_base_and_without_a_finished_run(tracking):
    tracking.log("albert", study="A")
    tracking.log("albert", study="B", status="failed")
    assert reports.load("A")["counted"].tolist() == [True]
    assert reports.load("B")["counted"].tolist() == [False]
    assert reports.load(["A", "B"])["study"].tolist() == ["A", "B"]
    assert reports.load(["A", "B"], where="status = 'failed'")["study"].tolist() == ["B"]


@pytest.mark.long
def test_settings_that_differ_are_columns_with_numbers(tracking):
    for size, gated, window in (("64", "True", "None"), ("128", "False", "8")):
        settings = {"model.hidden_size": size, "model.gated": gated, "model.attention_window": window}
        tracking.log("base", params=settings | {"model.act": f"a{size}", "model.same": "1", "environment.load_average": size})
    frame = reports.load()
    assert frame["model.hidden_size"].tolist() == [64, 128]
    assert frame["model.gated"].tolist() == [True, False]
    assert frame["model.attention_window"].tolist()[1] == 8
    assert frame["model.attention_window"].isna().tolist() == [True, False]
    assert frame["model.act"].tolist() == ["a64", "a128"]
    assert {"model.same", "environment.load_average", "model_name"}.isdisjoint(frame.columns)


def test_folder_is_that_of_the_attempt(tracking):
    logged(tracking, "base", 0, enhancements="swiglu,windowed")
    logged(tracking, "base", 1)
    folder = Path("multirun/before_after/base-swiglu-windowed-tiny-sst2-0-01234567").absolute()
    later = Path("multirun/before_after/base-tiny-sst2-1-01234567").absolute()
    for place, attempt in ((folder, "base0"), (later, "another")):
        place.mkdir(parents=True)
        (place / "run.json").write_text(json.dumps({"attempt": attempt}))
    found = reports.load()["folder"]
    assert found[0] == str(folder)
    assert found.isna().tolist() == [False, True]


@pytest.mark.long
def test_folder_name_is_the_one_that_the_harness_gives(run_python, tmp_path):
    small = ["scale=tiny", "task=bag", "task.grammar.train_examples=40", "finetune.max_steps=1", "measure=none"]
    small += ["task.grammar.validation_examples=20", "hardware.threads=1", f"output={tmp_path / 'out'}"]
    done = run_python("-m", "harness", "enhancement=[swiglu,shared]", *small)
    assert done.returncode == 0, done.stderr
    frame = reports.load(uri=f"sqlite:///{tmp_path / 'out' / 'mlflow.db'}")
    assert [Path(frame["folder"][0])] == [path.parent for path in (tmp_path / "out").glob("default/*/run.json")]


def test_pretraining_is_a_row_of_its_own_wherever_it_ran(tracking, make_run, pretrained):
    tracking.log_pretraining(fingerprint="f1", study="other")
    tracking.log("base", pretraining="f1", pretrain_seed="0")
    frame = reports.load("before_after")
    assert frame[["task", "study"]].values.tolist() == [["pretraining", "other"], ["sst2", "before_after"]]
    run = pretrained(fingerprint="abcdefghijk", params={"pretrain.objective": "mlm"})
    assert folders.name_of(run) == "base-tiny-mlm-0-abcdefgh"
    assert folders.name_of(make_run(replicate="true", fingerprint="f")) is None


def test_unknown_study_is_one_line(tracking):
    tracking.log("base")
    with pytest.raises(InputError, match="unknown study 'nope'"):
        reports.load("nope")


def test_importing_reports_is_cheap(run_python):
    code = "import sys, reports; print({'pandas', 'numpy', 'scipy', 'mlflow', 'torch', 'hydra'} & set(sys.modules))"
    assert run_python("-c", code).stdout == "set()\n"


def test_identity_tags_are_columns(tracking):
    tracking.log("base dtype=bf16", **{tags.PRETRAIN_SEED: "3"})
    row = reports.load().iloc[0]
    assert (row["arm"], row["model"], row["scale"], row["task"]) == ("base dtype=bf16", "base", "tiny", "sst2")
    assert row["pretrain_seed"] == 3
