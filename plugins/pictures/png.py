"""The pictures of a report as PNG or PDF files."""

import io
from functools import partial
from typing import Any

import matplotlib as mpl

from harness.errors import InputError
from harness.plugins.pictures.plots import STYLE, Picture
from harness.reports.render import Files, Format, Report

PNG_DPI = 192
"""Twice the 96 pixels that a browser gives an inch."""


def files_of(report: Report, kind: str, **options: Any) -> Files:
    """One for each picture; InputError without any."""
    files = {}
    for name, picture in report.files.items():
        if isinstance(picture, Picture):
            buffer = io.BytesIO()
            with mpl.rc_context(fname=STYLE):
                picture.figure.savefig(buffer, format=kind, **options)
            files[f"{name.removesuffix('.svg')}.{kind}"] = buffer.getvalue()
    if not files:
        raise InputError(f"format={kind}: study {report.study!r} has no pictures; expected another format")
    return files


PNG = Format(partial(files_of, kind="png", dpi=PNG_DPI, metadata={"Software": None}), of_figures=True)
PDF = Format(partial(files_of, kind="pdf", metadata={"CreationDate": None}), of_figures=True)
