"""Who may import whom, held over the syntax trees of all files."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from harness import commands as registry
from harness.commands import commands
from harness.grammar import Composed

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ("harness", "models", "plugins", "reports")


def imported(path: Path) -> set[str]:
    """Dotted names that a file imports, wherever in it: `from a import b` is `a.b`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def top_levels(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.split(".")[0] for name in imported(path)}


def files(package: str) -> list[Path]:
    found = sorted(path for path in (ROOT / package).rglob("*.py") if "tests" not in path.parts and path.name != "conftest.py")
    assert found
    return found


def importers(package: str, library: str) -> list[str]:
    """Files of the package that import the library."""
    return [str(path.relative_to(ROOT)) for path in files(package) if library in top_levels(path)]


def test_models_import_torch_and_the_standard_library_alone_and_what_finds_other_packages():
    allowed = {"torch"} | sys.stdlib_module_names
    for path in files("models"):
        ours = ("harness.models", "harness.extensions", "harness.errors")
        foreign = {name for name in imported(path) if not name.startswith(ours)}
        assert {name.split(".")[0] for name in foreign} <= allowed, path


GUARDED = {
    ("plugins/export/checkpoint.py", "transformers"),  # only where `find_spec` finds it
    ("plugins/trackers/wandb_log.py", "wandb"),  # InputError names the extra
    ("plugins/trackers/tensorboard_log.py", "tensorboard"),
}
"""Imports of what a user may not have installed."""


def test_what_is_imported_is_a_dependency_of_the_project_and_of_what_runs_it():
    def normalised(requirement: str) -> str:
        return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["run"]]
    base, providers = {normalised(one) for one in declared}, packages_distributions()
    found = {
        (str(path.relative_to(ROOT)), name)
        for package in PROJECT
        for path in files(package)
        for name in top_levels(path) - set(PROJECT) - sys.stdlib_module_names
        if not base & {normalised(one) for one in providers.get(name, [])}
    }
    assert found <= GUARDED


def test_harness_never_imports_reports_and_what_draws_is_a_plug_in():
    assert importers("harness", "reports") == importers("harness", "matplotlib") == importers("reports", "matplotlib") == []


def test_results_of_other_tools_are_judged_without_what_trains():
    """By the light installation, which has none of these packages."""
    heavy = ["torch", "hydra", "omegaconf", "mlflow", "datasets", "tokenizers", "transformers"]
    chapters = "from harness.reports.chapters import chapters; chapters()"
    assert loaded_after(f"from harness.plugins.judge import judging; {chapters}", *heavy, "pandas") == ["pandas"]


@pytest.mark.parametrize("command", ["model=base", "describe model=albert", "export RUN"])
def test_what_needs_the_extra_run_says_so_in_one_line(command):
    missing = "import sys; sys.modules |= dict.fromkeys(['hydra', 'torch', 'mlflow', 'tokenizers'])"
    words = [
        sys.executable,
        "-c",
        f"{missing}; from harness.__main__ import main; sys.exit(main({command.split()}, called=False))",
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("pip install 'encoder-variant-harness[run]'\n")


def test_a_timed_process_imports_nothing_of_a_study():
    others = [
        "mlflow",
        "datasets",
        "pandas",
        "matplotlib",
        "hydra",
        "harness.study",
        "harness.commands",
        "harness.training.pretrain",
    ]
    assert loaded_after("import harness.training.measure_worker", *others, "harness.measure.timing") == [
        "harness.measure.timing"
    ]


def test_checkpoints_know_no_commands():
    for path in files("harness/checkpoints"):
        assert not any(name.startswith("harness.commands") for name in imported(path)), path


def test_imports_inside_functions_of_commands_have_a_reason():
    for path in files("harness/commands"):
        lines = path.read_text().splitlines()
        functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
        inside = [
            node for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        assert all("  # " in lines[node.end_lineno - 1] for node in inside), path


def test_nothing_imports_a_main_but_the_command_line_of_the_reports():
    every = {path.relative_to(ROOT): imported(path) for package in PROJECT for path in files(package)}
    found = [str(path) for path, names in every.items() if any("__main__" in name.split(".") for name in names)]
    assert found == ["reports/__main__.py"]


def test_hydra_is_known_to_what_composes_and_one_name_of_it_is_private():
    found = {path for package in PROJECT for path in importers(package, "hydra")}
    assert found == {f"harness/config/{name}.py" for name in ("compose", "sweep", "mistakes")}
    private = re.findall(r"hydra\._internal\S*|_internal import .*", "".join((ROOT / path).read_text() for path in found))
    assert private == ["hydra._internal"], "one name, config_loader_impl.CachingConfigRepository"


def test_mlflow_is_known_to_plug_ins_alone():
    assert importers("models", "mlflow") == importers("harness", "mlflow") == importers("reports", "mlflow") == []


def test_transformers_is_for_tests_and_for_checking_an_export_alone():
    found = [path for package in PROJECT for path in importers(package, "transformers")]
    assert {*found} <= {"plugins/export/checkpoint.py"}  # where it is installed, it runs the exported checkpoint once


def loaded_after(code: str, *libraries: str) -> list[str]:
    """Which of the libraries a fresh interpreter has loaded after running the code."""
    ask = f"import sys; print([name for name in {libraries!r} if name in sys.modules])"
    command = [sys.executable, "-c", f"{code}\n{ask}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout.splitlines()[-1])


def test_a_worker_loads_neither_hydra_nor_mlflow():
    assert loaded_after("import harness.study.worker", "torch", "hydra", "mlflow") == ["torch"]


def after(*commands: str) -> str:
    """Code that runs command lines, one after the other, and goes on when each exits."""
    return f"""
import runpy, sys
for line in {commands!r}:
    sys.argv = ["harness", *line.split()]
    try: runpy.run_module("harness", run_name="__main__")
    except SystemExit: pass"""


HEAVY = ("torch", "mlflow", "datasets", "transformers", "pandas", "matplotlib")
WRONG = [
    *("modle=albert", "model=albrt", "model.hidden_size=big", "finetune.epochs=0"),
    *(
        f"{name} model=albrt"
        for name in commands()
        if name != "run" and issubclass(registry.imported(registry.find(name).options), Composed)
    ),
]


def test_help_of_every_command_and_its_options_load_nothing_heavy():
    assert loaded_after(after("--help"), "argparse", "yaml", "hydra", "omegaconf", "numpy", *HEAVY) == []
    code = "import harness.plugins.shared.options" + after("--help model", *(f"{command} --help" for command in commands()))
    assert loaded_after(code, "hydra", "omegaconf", "numpy", *HEAVY) == []


def test_wrong_input_is_refused_and_words_are_completed_by_hydra_alone():
    code = after(*WRONG) + "\nimport os; os.environ['COMP_LINE'] = 'harness model=alb'\n" + after("-sc query=bash")
    assert loaded_after(code, "hydra", "numpy", *HEAVY) == ["hydra"]


LATE_IMPORTS = 60
"""Imports inside functions of the harness at most: each saves start-up time or needs what may not be installed."""


def late_imports() -> list[tuple[Path, int, str]]:
    """File, line and text of every import inside a function, with the line above it."""
    found = {}
    for path in files("harness"):
        lines = path.read_text().splitlines()
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, (ast.Import, ast.ImportFrom)):
                        found[path, node.lineno] = "\n".join(lines[node.lineno - 2 : node.end_lineno])
    return [(path, line, text) for (path, line), text in found.items()]


def test_imports_inside_functions_are_few_and_each_has_its_reason():
    found = late_imports()
    assert len(found) <= LATE_IMPORTS
    assert [f"{path}:{line}" for path, line, text in found if "#" not in text] == []


def test_top_of_the_harness_has_few_files():
    assert len(list((ROOT / "harness").glob("*.py"))) <= 14
