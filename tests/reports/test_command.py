"""`python -m reports` from a real store: what it writes, and one line for what cannot be."""

import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from harness.comparison.compare import compare
from harness.comparison.runs import by_step
from harness.errors import InputError
from harness.reports.__main__ import main
from harness.reports.read import connect
from harness.reports.reading import store
from harness.reports.render import render
from harness.reports.report import default_out


def refused(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    """The one line on stderr of a command that must write nothing and end with 2."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert not Path("multirun", "reports").exists()
    return err


@pytest.mark.long
def test_report_pictures_and_summary_are_written(tracking, typical, capsys):
    """What they say stands in the golden reports."""
    for seed in (0, 1):
        tracking.log("base", seed, typical(1, 0.8 + seed / 100))
        tracking.log("small", seed, typical(2 + seed, 0.79 + seed / 100))
    assert main([]) == 0
    table, page = capsys.readouterr().out.rsplit("\n\n", 1)
    assert page == "multirun/reports/before_after/report.html\n"
    assert table.splitlines()[1].startswith("arm ")
    assert "Score: small" in table
    report = Path("multirun/reports/before_after/report.md")
    drawn = {f"{name}.svg" for name in ("changes", "loss", "parameters", "score_latency", "score_parameters")}
    others = {"report.md", "report.json", "report.html", "summary.csv", "runs.csv", "arms.csv"}
    assert {path.name for path in report.parent.iterdir()} == drawn | others
    assert all(f"]({name})" in report.read_text() for name in drawn)


@pytest.mark.long
def test_a_newer_study_without_a_finished_run_is_passed_over_in_one_line(tracking, capsys):
    tracking.log("base", study="older")
    tracking.log("base", study="wrong", status="invalid")
    tracking.log("base", study="going", status="running")
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("reports/older/report.html\n")
    assert said.err == "study 'older'; newer ones without a finished run: 'going' (1 running), 'wrong' (1 invalid)\n"


def test_where_no_study_has_a_finished_run_the_newest_says_so(tracking, capsys):
    tracking.log("base", study="older", status="failed")
    tracking.log("base", study="newer", status="invalid")
    assert "study 'newer' has no finished run (1 invalid)" in refused(capsys)


def test_curves_come_back_in_order_of_steps(tracking):
    number = tracking.log("base")
    reader = connect(tracking.uri)
    runs = store.read_study(reader, "before_after")
    curve = by_step(store.read_history(reader, runs, "finetune/loss"))[number]
    assert list(curve) == list(range(40))
    assert curve[20] == pytest.approx(0.35)
    assert runs[0].metrics["finetune/loss"] == pytest.approx(0.7 / (1 + 39 / 20))


def test_missing_store_is_not_created(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "no tracking store at" in refused(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"no database, and long enough to be looked at twice", "cannot be read"), (b"", "is not a tracking store")],
)
def test_file_that_is_no_store_is_left_alone(tmp_path, monkeypatch, capsys, content, says):
    monkeypatch.chdir(tmp_path)
    Path("x.db").write_bytes(content)
    assert says in refused(capsys, "--uri", "sqlite:///x.db")
    assert Path("x.db").read_bytes() == content


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--uri multirun/mlflow.db", "expected an address such as sqlite:///"),
        ("--study before_aftr", "did you mean 'before_after'? choices for `study`: before_after, empty, fell"),
        ("--study empty", "study 'empty' has no runs"),
        ("--study fell", "no finished run (1 diverged)"),
        (
            "--study before_after --baseline albrt",
            "unknown baseline 'albrt'; did you mean 'albert'? choices for `baseline`: albert, base",
        ),
    ],
)
def test_what_the_store_does_not_have_is_one_line(tracking, capsys, words, says):
    for arm in ("base", "albert"):
        tracking.log(arm)
    tracking.log("base", status="diverged", study="fell")
    tracking.client.create_experiment("empty")
    assert says in refused(capsys, *words.split())


def test_a_store_without_runs_is_refused(tracking, capsys):
    assert "no runs in any study" in refused(capsys)


@pytest.mark.long
def test_of_several_baselines_the_first_that_fits_is_taken(tracking, capsys):
    for arm in ("gpt", "albert"):
        tracking.log(arm)
    assert "unknown baseline 'bert'" in refused(capsys, "--baseline", "base", "--baseline", "bert")
    assert main(["--baseline", "base", "--baseline", "gpt"]) == 0
    assert "albert against **gpt**" in Path("multirun/reports/before_after/report.md").read_text()


@pytest.mark.long
def test_folder_that_cannot_be_written_is_refused(tracking, capsys):
    tracking.log("base")
    Path("taken").touch()
    assert "to='taken' cannot be written" in refused(capsys, "--out", "taken")


@pytest.mark.long
def test_the_folder_of_the_runs_is_read_and_written_to(tracking, capsys):
    tracking.log("base")
    Path("multirun").rename("elsewhere")
    assert "no tracking store at" in refused(capsys)
    for output in (["--output", "elsewhere"], ["output=elsewhere"]):
        assert main([*output, "--format", "md"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "elsewhere/reports/before_after/report.md"


FULL_DISK = """
import pathlib, resource
from harness.reports.report import InputError, write
out = pathlib.Path("report")
write({"report.md": b"old", "a.svg": b"old"}, out)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # a longer file fails after so many bytes, as on a full disk
try:
    write({"report.md": b"new", "a.svg": b"new" * 4096}, out)
except InputError as error:
    print(error)
print({path.name: path.read_bytes() for path in out.iterdir()} == {"report.md": b"old", "a.svg": b"old"})
"""


@pytest.mark.long
def test_a_disk_that_is_full_leaves_the_report_before_whole(run_python):
    done = run_python("-c", FULL_DISK)
    assert done.stdout.splitlines() == [
        "to='report' cannot be written (File too large); expected a folder with space for it",
        "True",
    ], done.stderr


@pytest.mark.parametrize(("study", "folder"), [("a b/c", "a_b_c-539138d5"), ("../up", "__up-8c722b8a"), ("v1.2", "v1.2")])
def test_study_name_stays_inside_the_reports_folder(study: str, folder: str):
    assert default_out(study) == Path("multirun", "reports", folder)


@pytest.mark.long
def test_report_of_a_file_loads_neither_mlflow_nor_pandas(tracking, typical, run_python):
    tracking.log("base", values=typical())
    code = "import sys; from harness.reports.__main__ import main; main([]); "
    code += "print({'mlflow', 'pandas', 'scipy.stats'} & set(sys.modules))"
    done = run_python("-c", code, cwd=Path.cwd())
    assert done.stdout.splitlines()[-2:] == ["multirun/reports/before_after/report.html", "set()"], done.stderr


@pytest.mark.long
def test_png_is_every_picture_at_two_pixels_for_one_of_the_page(tracking, typical):
    for seed in (0, 1):
        tracking.log("base", seed, typical())
        tracking.log("small", seed, typical(2, 0.79))
    assert main(["--format", "md,png", "--out", "both"]) == 0
    pictures = {path.stem: path for path in Path("both").glob("*.svg")}
    assert len(pictures) == 5
    assert {path.stem for path in Path("both").glob("*.png")} == set(pictures)
    for name, path in pictures.items():
        points = [float(size) for size in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', path.read_text()).groups()]
        pixels = imread(path.with_suffix(".png"))
        assert pixels.shape[1::-1] == pytest.approx([192 / 72 * size for size in points], abs=1), name
        assert 0.5 < pixels[..., :3].mean() < 1, name  # a white page with something on it


def test_png_of_a_study_without_pictures_is_refused(make_run, study_of):
    with pytest.raises(InputError, match="format=png: study 's' has no pictures"):
        render(study_of(compare("s", [make_run()])), "png")
