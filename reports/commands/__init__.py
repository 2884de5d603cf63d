"""The commands of `python -m reports`, each a module with `main(arguments) -> int`, the exit code."""

COMMANDS = {
    "compare": ("reports.commands.compare", "what differs between two runs: settings, environment, numbers"),
    "gate": ("reports.commands.gate", "exit code 1 where an arm is not shown to be at most so much worse, for CI"),
    "pick": ("reports.commands.pick", "the arms that satisfy limits on size, speed, memory and score"),
}
"""Name of a command: its module and one line of help."""
