"""A package that adds a command, a chapter, a tracker, an attention and a kind of task: a file and an entry point each."""

from harness.commands import Command

WORDS = Command("counts the words of a text", "plugin_package.words:Words", "plugin_package.words:main")
