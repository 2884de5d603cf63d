"""The options of `python -m reports`, which `--help` reads without what a report needs."""

import argparse
from pathlib import Path

from harness.reports.commands import COMMANDS, Parser, add_where

GC_THRESHOLDS = (100_000, 50, 50)
"""Thresholds of garbage collection: of what a report makes, nearly all is kept until it is written."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line; ReportError for a wrong option."""
    listed = "; ".join(f"{name}: {text}" for name, (_, text) in COMMANDS.items())
    parser = Parser("", "Compare the arms of a study with its baseline.", f"Commands: {listed}")
    parser.add_list(
        "--study", "NAME", "MLflow experiment to report on; several are joined (default: the newest with a finished run)"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to write (default: reports/<study> in --output)")
    add_comparison(parser)
    formats = "what to write, of md, html, csv, latex, parquet, png (default: %(default)s)"
    parser.add_argument("--format", metavar="NAMES", default="md,html,csv", help=formats)
    return parser.parse(arguments)


def add_comparison(parser: Parser) -> None:
    """Options that say what the report compares."""
    add_where(parser)
    of_baseline = "arm that the others are compared with; of several the first that there is (default: base)"
    parser.add_list("--baseline", "NAME", of_baseline)
    of_audit = "verdicts on claims (default: audit/audit.json in --output)"
    parser.add_argument("--audit", metavar="FILE", type=Path, help=of_audit)
    parser.add_argument("--with-wnli", action="store_true", help="count WNLI in the average over GLUE (default: left out)")
    of_target = "quality whose cost is shown, such as pretrain/masked_loss=6.5; may be repeated (default: the baseline's end)"
    parser.add_list("--target", "METRIC=NUMBER", of_target)
