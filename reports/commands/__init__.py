"""The commands of `python -m reports`, each a module with `main(arguments) -> int`, the exit code."""

COMMANDS = {
    "compare": ("reports.commands.compare", "what differs between two runs: settings, environment, numbers"),
}
"""Name of a command: its module and one line of help."""
