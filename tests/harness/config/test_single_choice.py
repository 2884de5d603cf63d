"""A group takes one choice, unless its default is a list."""

import pytest

from harness.config import compose as composition
from harness.config import mistakes
from harness.errors import InputError

SINGLE = sorted(set(mistakes.groups()) - mistakes.listed_groups() - {"pretrain"})
"""Without the one whose list is phases."""


def refusal(compose, *arguments: str) -> str:
    with pytest.raises(InputError) as error:
        compose(*arguments)
    return str(error.value)


def test_lists_by_design_are_enhancements_and_trackers():
    assert mistakes.listed_groups() == {"enhancement", "tracking"}
    assert {"model", "task", "scale", "recipe", "experiment"} <= set(SINGLE)


@pytest.mark.parametrize("group", SINGLE)
def test_a_list_of_choices_is_refused_in_every_way_of_typing_it(compose, group):
    names = [path.stem for path in sorted((mistakes.conf_directory() / group).glob("*.yaml"))][:2]
    for sign in ("", "+", "++"):
        line = refusal(compose, f"{sign}{group}=[{','.join(names)}]")
        assert line.startswith(f"{group} takes one choice; 2 were given: {', '.join(names)}; ")
        assert (f"-m {group}={','.join(names)}" in line) == (group != "experiment")
    swept = refusal(compose, "-m", f"{group}=[{','.join(names)}],{names[0]}")
    assert swept.startswith(f"{group} takes one choice; 2 were given: ")
    with pytest.raises(InputError, match=f"{group} takes one choice"):
        composition.outside_of_a_command([f"{group}=[{','.join(names)}]"], None)


def test_a_list_of_one_and_an_empty_list_are_refused(compose):
    assert refusal(compose, "recipe=[bert]") == "recipe takes one choice and no list: expected recipe=bert"
    assert refusal(compose, "pretrain=[]") == "pretrain takes one choice; none was given: expected pretrain=NAME"


@pytest.mark.parametrize(
    "listed", ["defaults: [{override /recipe: [bert, small]}]", "hydra: {sweeper: {params: {recipe: '[bert,small]'}}}"]
)
def test_a_list_in_a_file_of_the_user_is_refused(compose, tmp_path, listed):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{listed}\n")
    mode = ["-m"] if "sweeper" in listed else []
    line = refusal(compose, *mode, "--config-dir", str(tmp_path), "+experiment=mine", "task=bag")
    assert line == "recipe takes one choice: expected recipe=NAME, where a file has a list or nothing"


def test_lists_by_design_compose(compose):
    (run,) = compose("task=bag", "enhancement=[shared,swiglu]", "tracking=[mlflow,tensorboard]")
    assert (sorted(run.enhancements), run.tracking.mlflow, run.tracking.tensorboard) == (["shared", "swiglu"], True, True)
