"""Every command in README, CONTRIBUTING and docs works: run as typed where that is cheap, else reduced as stated here.

- `python -m harness` and `plan`, `profile`, `memory`, `tokenizer`, which train, measure or read data sets: every run is
  composed and checked, and nothing begins. Of several seeds the first is composed, of the default tasks one.
- The other commands of `python -m harness`, and all of `python -m reports`, run on a small study;
  those that not_run.yaml names are parsed.
- torchrun and sbatch: the command that they start is composed; the options of torchrun are parsed by torchrun.
- make, pip: the target or the extra exists. Other lines that not_run.yaml names are not run; each has its reason.

Placeholders (RUN, STUDY, FOLDER, ...) and files of a user (a.csv) stand for those of the small study.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from torch.distributed.run import get_args_parser

import harness.__main__ as harness_main
import harness.reports.__main__ as reports_main
from harness import grammar
from harness.commands import find, imported, is_command
from harness.config import compose
from harness.config.command_line import refuse_misspelt
from harness.config.schema import RunConfig
from harness.hardware import facts
from harness.reports.options import Report
from harness.study import supervisor

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

COMPOSED = ("run", "plan", "profile", "memory", "tokenizer")
"""Commands that train, measure, or read data sets that may be absent; tests of their own run each."""

NOT_RUN = yaml.safe_load(Path(__file__).with_name("not_run.yaml").read_text())
PARSED, OTHERS = NOT_RUN["parsed"], NOT_RUN["others"]

OF_PACKAGES = ("docs/new_mathematics.md", "docs/bring-your-own.md")
"""Their variants are in packages that tests/docs/test_new_mathematics.py and tests/harness/test_own_encoder.py install."""

STUDY, ARM = "small", "albert"
WORDS = dict.fromkeys(["STUDY", "OTHER", "NEW", "OLD", "loop", "order"], STUDY) | dict.fromkeys(["mine", "c07"], ARM)
WORDS["/shared/runs"] = "multirun"
WORDS["minilm-L6-H384-own-0"] = "base-tiny-own-0"
"""A word of a command -> the study or arm that it stands for."""

SMALL = shlex.split(f"""
    scale=tiny task=order task.grammar.train_examples=60 task.grammar.validation_examples=40 task.max_length=32
    task.tune_share=0.2 finetune.max_steps=4 finetune.keep_best=tune finetune.evaluations_per_epoch=2 finetune.keep=last
    measure=none hardware.threads=1 report=false study={STUDY}
""")
MAIN = {"harness": harness_main.main, "reports": reports_main.main}


@dataclass(frozen=True)
class Command:
    """A line of a page, its words, and what is printed below it there."""

    page: str
    line: str
    words: tuple[str, ...]
    printed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"

    @property
    def module(self) -> str:
        return self.words[2] if self.words[:2] == ("python", "-m") else self.words[0]


def lines_of(page: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Lines of the blocks that have commands, with what a `text` block right below prints, and commands within sentences."""
    text = re.sub(r"^```(?!text$)\w.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for block, output in re.findall(
        r"^((?:    .*\n)+)(?:\n(?:<!-- .* -->\n)?```text\n((?:(?!```).*\n)*)```)?", text, re.MULTILINE
    ):
        lines = [line.strip() for line in re.sub(r" *\\\n *", " ", block).splitlines()]
        if any(re.match(r"(python|make|pip|torchrun|sbatch|docker|initdb) ", line) for line in lines):
            printed = tuple(line for line in output.splitlines() if line.strip(" .…"))
            yield from ((line, printed if line is lines[-1] else ()) for line in lines)
    for line in re.findall(r"(?<!`)`(python -m (?:harness|reports)\b[^`\n]*)`", text):
        yield line, ()
    for rest in re.findall(r"^\| `\.\.\. ([^`]+)`", text, re.MULTILINE):
        yield f"python -m harness {rest}", ()


def commands() -> list[Command]:
    """All of them, each once, with the variables of their page filled in."""
    found: dict[tuple[str, ...], Command] = {}
    for page in PAGES:
        name, variables = str(page.relative_to(ROOT)), {}
        for line, printed in lines_of(page):
            if assigned := re.fullmatch(r"([A-Z]+)=\"(.*)\"", line):
                variables[assigned[1]] = assigned[2]
                continue
            filled = re.sub(r"\$([A-Z]+)\b", lambda match, known=variables: known.get(match[1], match[0]), line)
            words = tuple(shlex.split(filled, comments=True))
            if words not in found or printed:
                found[words] = Command(name, " ".join(words), words, printed)
    return list(found.values())


ALL = commands()


def reason(line: str, listed: dict[str, str]) -> str | None:
    """The reason of the longest beginning of the line that is listed."""
    return listed[max(fits, key=len)] if (fits := [beginning for beginning in listed if line.startswith(beginning)]) else None


def harness_words(command: Command) -> tuple[str, list[str]] | None:
    """Name and arguments of the command of the harness that a line is or starts; None for another program."""
    words = list(command.words)
    if command.module == "sbatch":
        wrapped = next(word for word in words if word.startswith("--wrap="))
        words = shlex.split(wrapped.removeprefix("--wrap="))
    elif command.module == "torchrun":
        words = ["python", *words[words.index("-m") :]]
    if words[1:3] != ["-m", "harness"] or "--help" in words:
        return None
    rest = words[3:]
    return (rest[0], rest[1:]) if rest and is_command(rest[0]) else ("run", rest)


def shown(command: Command) -> str:
    return str(command)[:90]


OF_HARNESS = [one for one in ALL if one.page not in OF_PACKAGES and harness_words(one)]
COMPOSING = [one for one in OF_HARNESS if harness_words(one)[0] in COMPOSED]
PARSING = [one for one in OF_HARNESS if one not in COMPOSING and reason(one.line, PARSED)]
RUNNING = [one for one in OF_HARNESS if one not in COMPOSING and one not in PARSING]
OF_REPORTS = [one for one in ALL if one.module == "reports"]
HELP = [one for one in ALL if one.module == "harness" and "--help" in one.words]
OTHER = [one for one in ALL if one.module not in ("harness", "reports", "torchrun", "sbatch")]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A working directory with the files that commands name, and variants that pages add."""
    folder = tmp_path_factory.mktemp("commands") / "work"
    (folder / "small").mkdir(parents=True)
    data = ROOT.parent / "shared" / "data"
    (folder.parent / "shared").mkdir()
    (folder.parent / "shared" / "data").symlink_to(data) if data.is_dir() else (folder.parent / "shared" / "data").mkdir()
    (folder / "reports").mkdir()
    (folder / "reports" / "examples").symlink_to(ROOT / "reports" / "examples")
    (folder / "results").symlink_to(ROOT / "plugins" / "results" / "tests" / "fixtures")
    (folder / "lm_eval_out").symlink_to(folder / "results" / "lm_eval")
    (folder / "mteb").mkdir()
    (folder / "mteb" / "results").symlink_to(folder / "results" / "mteb")
    (folder / "docs").symlink_to(ROOT / "docs")
    for name, arms in (("results.csv", ("base", "big")), ("candidates.csv", ("new",)), ("baseline.csv", ("base",))):
        scores = [f"{arm},rte,{seed},0.{60 + len(arm) + 3 * seed}" for arm in arms for seed in (0, 1, 2)]
        (folder / name).write_text("\n".join(["arm,task,seed,score", *scores]) + "\n")
    (folder / "scores.csv").write_text("model,s1,s2,s3\nbase,0.661,0.655,0.668\nwide,0.684,0.679,0.691\n")
    for name in ("a.csv", "b.csv", "new.csv", "text.txt", "pairs.csv"):
        (folder / name).write_text("id,sentence,text,left,right,a,b,y,topics,score\n1,the wolf,x,x,y,x,y,0,p|q,1\n")
    (folder / "pairs.jsonl").write_text(json.dumps({"good": "a b", "bad": "b a"}) + "\n")
    (folder / "small" / "tokenizer.json").write_text("{}")
    (folder / "multirun").mkdir()
    (folder / "THEIRS").mkdir()
    for page in PAGES:
        for name, content in re.findall(
            r"`conf/model/(\w+\.yaml)`:?\n\n```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            (folder / "my_conf" / "model").mkdir(parents=True, exist_ok=True)
            (folder / "my_conf" / "model" / name).write_text(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def study(work: Path) -> dict[str, str]:
    """A run on a file, then a small study below `multirun` (the newest) and its archive: placeholder -> what it stands for."""
    own = shlex.split(
        "task=own task.file=docs/guides/reviews.csv study=reviews finetune.max_steps=4 measure=none hardware.threads=1"
    )
    code, text = called("harness", [*own, "report=false"])
    assert code == 0, text
    code, text = called("harness", ["-m", "model=base,albert", "seed=1,2,3", *SMALL])
    assert code == 0, text
    code, text = called("reports", ["archive", STUDY, "to=archive"])
    assert code == 0, text
    runs = sorted(str(path.parent.relative_to(work)) for path in work.glob(f"multirun/{STUDY}/*/result.json"))
    return {"RUN_A": runs[0], "RUN_B": runs[-1], "RUN": runs[0], "FOLDER": "archive"}


def called(module: str, words: list[str]) -> tuple[int, str]:
    """Exit code and what is printed, in this process: new ones would take longer than the commands."""
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        patch.setattr(sys, "argv", [module])
        return MAIN[module](list(words)), text.getvalue()


def filled(words: list[str], placeholders: dict[str, str]) -> list[str]:
    """The words with runs, folders and studies in place of placeholders; what is written goes to a file of its own."""
    made = []
    for word in words:
        key, equals, value = word.rpartition("=")
        new = placeholders.get(value, WORDS.get(value, value) if key in ("", "study", "against", "arm", "output") else value)
        if value == "FOLDER" and key == "to":
            new = "archive_again"
        made.append(f"{key}{equals}{new}".replace("'sst2'", "'order'"))
    return made


def composed(name: str, words: list[str]) -> list[RunConfig]:
    """The runs that a command composes, checked as a command checks them before anything begins."""
    words = [re.sub(r"^((?:\w+\.)?seed=[^,()]+),.*", r"\1", word) for word in words]
    if {path.stem for path in Path("my_conf/model").glob("*.yaml")} & set(re.split(r"[ =,]", " ".join(words))):
        words = ["--config-dir", "my_conf", *words]  # in place of a file in conf/model
    runs: list[RunConfig] = []
    reads_as_runs = name == "run" or imported(find(name).options).reads_as_runs
    if name != "run":
        parsed = grammar.parse(words, imported(find(name).options), name)
        refuse_misspelt(grammar.Grammar(type(parsed), name), parsed.choices)
        words = parsed.overrides()
    if not any("task=" in word or "experiment=" in word for word in words):
        words = [*words, "task=bag"]  # in place of all three of the default
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["harness"])
        compose.main(words, lambda configs: runs.extend(configs) or 0, reads_as_runs=reads_as_runs)
        patch.setattr(facts, "cores", lambda: 16)  # of a machine that is large enough for hardware.workers=2
        if name in ("run", "plan"):
            supervisor.refuse_as_one_command(runs)
    return runs


def test_commands_are_found_in_every_page_that_has_some():
    pages = {one.page for one in ALL}
    assert {"README.md", "docs/use.md", "docs/method.md", "docs/beyond_one_machine.md", "docs/studies.md"} <= pages
    assert len(COMPOSING) > 60
    assert len(RUNNING) > 8
    assert len(OF_REPORTS) > 12


def test_brackets_of_commands_are_quoted_as_zsh_expands_them():
    lines = [line for page in PAGES for line, _ in lines_of(page) if line.startswith("python -m harness")]
    assert [line for line in lines if "[" in re.sub(r"'[^']*'|\"[^\"]*\"| #.*", "", line)] == []


def test_no_command_is_indented_below_those_of_its_block():
    assert [page.name for page in PAGES if re.search(r"^ {8}(?:make|python|pip) ", page.read_text(), re.MULTILINE)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_of_a_page_is_missed(page):
    text = re.sub(r"^```text\n.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r" *\\\n *", " ", text).replace("`... ", "`python -m harness ")
    for line in sorted((line for line, _ in lines_of(page)), key=len, reverse=True):
        text = text.replace(line, "")
    assert re.findall(r".*python -m (?:harness|reports)\b.*", text) == []


@pytest.mark.parametrize("command", OTHER, ids=shown)
def test_another_program_is_known(command):
    """A target of make, an extra of pip, a script; any other has a reason why it is not run."""
    line, program = command.line, command.words[0]
    if program == "make":
        targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert {word for word in command.words[1:] if "=" not in word} <= targets
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        named = [re.fullmatch(rf"{project['name']}\[(\w+)\]", word) for word in command.words]
        assert (
            "constraints.txt" in line
            or project["name"] in command.words
            or {one[1] for one in named if one} & {*project["optional-dependencies"]}
            or reason(line, OTHERS)
        )
    elif program in ("python", "sh"):
        assert (ROOT / command.words[1]).is_file()
    else:
        assert reason(line, OTHERS), f"{command}: not run, and no reason is listed"


@pytest.mark.parametrize("listed", [*PARSED, *OTHERS])
def test_a_reason_has_its_command(listed):
    assert any(one.line.startswith(listed) for one in ALL), f"{listed!r} is in no page"
    named = re.findall(r"(?:plugins/\w+/)?tests/[\w/.]+", (PARSED | OTHERS)[listed])
    assert all((ROOT / name).exists() for name in named)


@pytest.mark.long
@pytest.mark.parametrize("command", COMPOSING, ids=shown)
def test_a_command_composes(command, work):
    name, words = harness_words(command)
    assert composed(name, filled(words, {}))
    if command.module == "torchrun":
        get_args_parser().parse_args(["1" if word == "K" else word for word in command.words[1:]])


@pytest.mark.long
def test_a_wrong_key_is_noticed(work):
    for name, words in (("run", ["-m", "model=base,alberta"]), ("plan", ["finetune.rate=1"]), ("profile", ["scal=mini"])):
        with pytest.raises(Exception, match=r"unknown|did you mean"):
            composed(name, words)


@pytest.mark.long
@pytest.mark.parametrize("command", PARSING, ids=shown)
def test_a_command_that_is_not_run_is_parsed(command, work):
    name, words = harness_words(command)
    if name == "submission":
        words = [word.removesuffix("...") for word in words]
    parsed = grammar.parse(filled(words, {}), imported(find(name).options), name)
    if isinstance(parsed, grammar.Composed):
        assert composed(name, words)


@pytest.mark.parametrize("command", HELP, ids=shown)
def test_help_has_a_page(command):
    code, text = called("harness", [word for word in command.words[3:] if word not in ("GROUP", "KEY")])
    assert code == 0, text


@pytest.mark.long
@pytest.mark.parametrize("command", RUNNING, ids=shown)
def test_a_command_runs_as_typed_and_prints_what_the_page_shows(command, study):
    name, words = harness_words(command)
    shutil.rmtree(Path(study["RUN"], "export"), ignore_errors=True)  # of another `export RUN`
    code, text = called("harness", [name, *filled(words, study)])
    assert code == (1 if name == "status" and "to do" in text else 0), text
    for line in command.printed:
        assert line.rstrip() in text, text


@pytest.mark.long
@pytest.mark.parametrize("command", OF_REPORTS, ids=shown)
def test_a_command_of_the_reports_runs(command, study):
    """Exit code 1 is a verdict of `gate` or `pick`: not all limits are shown to be kept."""
    words = filled(list(command.words[3:]), study)
    if reason(command.line, PARSED):
        assert grammar.parse(words, Report, "report").uri == words[-1].removeprefix("tracking.uri=")
        return
    code, text = called("reports", words)
    assert code in ((0, 1) if words[:1] in (["gate"], ["pick"]) else (0,)), text
