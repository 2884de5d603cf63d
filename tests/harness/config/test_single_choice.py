"""A group takes one choice, unless its default is a list."""

import pytest

from harness.config import compose as composition
from harness.config.help import GROUPS, listed_groups, names
from harness.errors import InputError

SINGLE = sorted(GROUPS.keys() - listed_groups() - {"pretrain"})
"""Without the one whose list is phases."""


def refusal(compose, *arguments: str) -> str:
    with pytest.raises(InputError) as error:
        compose(*arguments)
    return str(error.value)


@pytest.mark.parametrize("group", SINGLE)
def test_a_list_of_choices_is_refused_in_every_way_of_typing_it(compose, group):
    first, *_ = names(group)
    listed, refused = f"{group}=[{','.join(names(group)[:2])}]", f"{group} takes one choice: expected {group}=NAME, or -m "
    for word in (listed, f"+{listed}", f"++{listed}"):
        assert refusal(compose, word).startswith(f"{word}: {refused}")
    assert refused in refusal(compose, "-m", f"{listed},{first}")
    with pytest.raises(InputError, match=refused):
        composition.outside_of_a_command([listed], None)


def test_an_empty_list_is_refused(compose):
    assert refusal(compose, "pretrain=[]").startswith("pretrain=[]: pretrain takes one choice")


@pytest.mark.long
@pytest.mark.parametrize(
    "listed", ["defaults: [{override /recipe: [bert, small]}]", "hydra: {sweeper: {params: {recipe: '[bert,small]'}}}"]
)
def test_a_list_in_a_file_of_the_user_is_refused(compose, tmp_path, listed):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{listed}\n")
    mode = ["-m"] if "sweeper" in listed else []
    line = refusal(compose, *mode, "--config-dir", str(tmp_path), "+experiment=mine", "task=bag")
    assert line == "recipe takes one choice, but a file has a list or nothing: expected recipe=NAME"


@pytest.mark.long
def test_lists_by_design_compose(compose):
    assert listed_groups() == {"enhancement", "tracking"}
    (run,) = compose("task=bag", "enhancement=[shared,swiglu]", "tracking=[mlflow,tensorboard]")
    assert (sorted(run.enhancements), run.tracking.mlflow, run.tracking.tensorboard) == (["shared", "swiglu"], True, True)
