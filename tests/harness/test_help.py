"""The help page has every choice that there is, with its meaning."""

import re

from harness.config.help import GROUPS, help_text
from harness.paths import conf_directory

CHOICES = sorted(conf_directory().glob("*/*.yaml"))


def test_every_group_is_explained():
    assert set(GROUPS) == {path.name for path in conf_directory().iterdir() if path.is_dir()}


def test_every_choice_is_listed_with_its_meaning():
    text = help_text()
    silent = [str(path) for path in CHOICES if not re.search(rf"^   [ *] {path.stem} +\w.*", text, re.MULTILINE)]
    assert len(CHOICES) > 50
    assert silent == [], "these files say in no comment what they are"


def test_default_choices_are_marked():
    marked = re.findall(r"^   \* (\w+)", help_text(), re.MULTILINE)
    assert {"base", "mini", "builtin", "hub", "standard", "quick", "cpu", "local", "wordpiece", "none"} == set(marked)


def test_help_goes_to_stdout_and_leaves_with_0(run_module):
    done = run_module("harness", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == help_text().strip()
