"""One quantity, one number: of a real study, on every page and in every table that shows one."""

import csv
import html
import io
import re
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from harness import document, metrics, reports, tags
from harness.metrics import Compared
from harness.reports.__main__ import main as reports_main
from harness.tracking import run_log

pytestmark = pytest.mark.long

QUANTITIES = yaml.safe_load(Path(__file__).with_name("one_number.yaml").read_text())["quantities"]
"""Words of a table, a note or a picture -> what they must be the number of."""
SPEED = re.compile("latency|throughput|training time|memory")
NEVER_THE_QUANTITY = re.compile(
    "latency (min|p90|p99)|sampled|reserved|process|padding counted|in texts|in examples|A/A|floor|utilisation"
)
SIZES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
NUMBER = re.compile(r"([\d,]+(?:\.\d+)?)(?: \[[^]]*\])?(?: ± [\d.,]+)? ?([kMGT])?")
Found = list[tuple[str, str, float]]
"""Arm, words and number."""


class Study:
    """A finished study in a folder, seen by its users."""

    def __init__(self, output: Path, name: str, folders: dict[str, Path]) -> None:
        self.uri, self.name = f"sqlite:///{output / 'mlflow.db'}", name
        self.expected = {arm: run_log.result(folder)["metrics"] for arm, folder in folders.items()}
        self.client = MlflowClient(self.uri)
        experiment = self.client.get_experiment_by_name(name).experiment_id
        every = self.client.search_runs([experiment], f"tags.harness.role = '{tags.ROLE_RUN}'")
        self.runs = {run.data.tags[tags.PREFIX + tags.ARM]: run for run in every}

    def report(self, folder: Path) -> dict[str, str]:
        assert reports_main(["--study", self.name, "--out", str(folder), "--uri", self.uri]) == 0
        return {
            path.suffix: path.read_text()
            for path in folder.iterdir()
            if path.suffix in (".md", ".html", ".csv", ".json") and path.stem not in ("runs", "arms")
        }

    def check(self, found: Found) -> set[str]:
        """The metrics that were found; AssertionError where a number is not that of the run, or nothing says whose it is."""
        checked = set()
        for arm, words, number in found:
            if SPEED.search(words) and not NEVER_THE_QUANTITY.search(words):
                assert words in QUANTITIES, f"{words!r} names a quantity in words of its own"
            if words in QUANTITIES:
                expected = self.expected[arm][QUANTITIES[words]]
                assert number == pytest.approx(expected, rel=6e-3), f"{arm}: {words}"
                checked.add(QUANTITIES[words])
        return checked


def number_of(text: str) -> float | None:
    match = None if "%" in text else NUMBER.match(text.replace("\N{NO-BREAK SPACE}", " "))  # a change may be 0.0 %
    return float(match[1].replace(",", "")) * SIZES.get(match[2], 1.0) if match else None


def of_tables(tables: list[list[list[str]]], arms: list[str]) -> Found:
    """Of tables with one row or one column for each arm."""
    found = []
    for table in tables:
        turned = (
            table if table[0][0] == "arm" and table[0][1] not in arms else [list(line) for line in zip(*table, strict=True)]
        )
        for arm, *cells in turned[1:]:
            for words, cell in zip(turned[0][1:], cells, strict=True):
                if arm in arms and (number := number_of(cell)) is not None:
                    found.append((arm, words.removeprefix("mean "), number))
    return found


def markdown_tables(text: str) -> list[list[list[str]]]:
    blocks = [[line for line in block.splitlines() if line.startswith("| ")] for block in text.split("\n\n")]
    lines = [[[cell.strip() for cell in line.strip("|").split(" | ")] for line in block] for block in blocks]
    return [[table[0], *table[2:]] for table in lines if table and table[0][0] == "arm"]


def page_tables(text: str) -> list[list[list[str]]]:
    tables = []
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in re.findall("<tr.*?</tr>", table, re.DOTALL)]
        plain = [[html.unescape(re.sub("<[^>]+>", "", re.sub("<br.*", "", cell))).strip() for cell in row] for row in rows]
        tables += [plain] if plain and plain[0] and plain[0][0] == "arm" else []
    return tables


def every_surface(study: Study, folder: Path) -> dict[str, Found]:
    """Surface -> what it says."""
    arms, files = list(study.expected), study.report(folder)
    found = {
        "report.md": of_tables(markdown_tables(files[".md"]), arms),
        "report.html": of_tables(page_tables(files[".html"]), arms),
    }
    columns = {QUANTITIES[words]: words for words in QUANTITIES}
    lines = [line for line in csv.DictReader(io.StringIO(files[".csv"])) if line["metric"] in columns]
    found["summary.csv"] = [(line["arm"], columns[line["metric"]], float(line["mean"])) for line in lines]
    frame = reports.load(study.name, study.uri)
    found["frame"] = [
        (row["arm"], columns[name], row[name]) for _, row in frame.iterrows() for name in columns if name in frame
    ]
    for arm, run in study.runs.items():
        details = tags.unpacked(tags.METRICS, run.data.tags)
        known = {**run.data.metrics, **details}
        found.setdefault("MLflow", []).extend((arm, columns[name], known[name]) for name in columns if name in known)
        note = run.data.tags["mlflow.note.content"]
        rows = [line.strip("| ").split(" | ") for line in note.splitlines() if line.startswith("| ")]
        found.setdefault("note", []).extend(
            (arm, row[0], number_of(row[1])) for row in rows if len(row) == 2 and number_of(row[1])
        )
    return found


@pytest.fixture
def timed(sweep) -> Study:
    return Study(sweep.output, "sweep", {model: sweep.folder(model) for model in ("base", "enhanced")})


def test_every_surface_gives_the_number_of_the_session(timed, tmp_path):
    judged = {
        *("inference/latency_device_ms", "inference/device_tokens_per_s", "train_step/device_tokens_per_s"),
        *("inference/peak_memory_bytes", "model/params_total"),
    }
    for surface, found in every_surface(timed, tmp_path / "report").items():
        missing = judged - timed.check(found)
        assert not missing, f"{surface} lacks {missing}"


def test_the_first_screen_and_the_note_of_the_study_have_the_reports_table(timed, tmp_path):
    files = timed.report(tmp_path / "report")
    report = files[".md"]
    cells = [cell.partition("<br>")[0] for row in markdown_tables(report)[0][1:] for cell in row]
    screen = document.read(files[".json"].encode()).screen
    assert all(any(cell.text in of_report for of_report in cells) for row in screen.table.rows for cell in row)
    assert {"ms", "bytes"} <= {cell.unit for row in screen.table.rows for cell in row}


OWN_CLOCK = [name for name, metric in metrics.METRICS.items() if metric.compared is Compared.OWN_CLOCK]


def check_own_clock(study: Study, folder: Path) -> None:
    """No change of what one run's clock says, anywhere."""
    files = study.report(folder)
    lines = [line for line in csv.DictReader(io.StringIO(files[".csv"])) if line["metric"] in OWN_CLOCK]
    assert {line["metric"] for line in lines} >= {"finetune/tokens_per_s", "finetune/duration_s"}
    assert {line[column] for line in lines for column in ("change", "change_percent", "verdict", "ci_low", "p_holm")} == {""}
    arms = list(study.expected)
    for table in (*markdown_tables(files[".md"]), *page_tables(files[".html"])):
        turned = table if table[0][1] not in arms else [list(line) for line in zip(*table, strict=True)]
        at = [index for index, words in enumerate(turned[0]) if "own clock" in words]
        assert not any(sign in row[index] for row in turned[1:] for index in at for sign in "%△▽▲▼~≈")
    assert "training throughput (" not in files[".md"].replace("device time", "") or "train_step/tokens_per_s" in files[".csv"]


def test_what_the_clock_of_one_training_says_is_no_comparison(timed, tmp_path):
    check_own_clock(timed, tmp_path / "report")


def test_without_a_session_the_own_clock_is_named_and_nothing_is_compared(run_harness, small, output, tmp_path):
    command = ["-m", *small, "model=base,enhanced", "seed=0", "measure=none", "study=plain", f"output={output}"]
    done = run_harness(*command)
    assert done.returncode == 0, done.stderr
    folders = {model: next((output / "plain").glob(f"{model}-*")) for model in ("base", "enhanced")}
    study = Study(output, "plain", folders)
    for found in every_surface(study, tmp_path / "report").values():
        checked = study.check(found)
        assert not any("latency" in name or name.startswith(("train_step", "inference/device")) for name in checked)
    check_own_clock(study, tmp_path / "again")
    assert "training throughput, tokens/s, timed during training" in study.report(tmp_path / "third")[".md"]
