"""The command line: `python -m harness [-m] [group=choice ...] [key=value ...]`."""

import sys

from harness.errors import InputError


def main() -> None:
    """Leaves with 0 when every cell finished, 1 when one failed, 2 for a wrong input (told in one line)."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        from harness.config.help import help_text

        print(help_text())
        return
    sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    from harness.config import compose
    from harness.study import supervisor  # heavy imports wait until they are needed

    try:
        return compose.main(arguments, supervisor.run_study)
    except InputError as error:
        print(f"harness: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    main()
