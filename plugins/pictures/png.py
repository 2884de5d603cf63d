"""The pictures of a report as PNG files."""

import io

import matplotlib as mpl

from harness.errors import InputError
from harness.plugins.pictures.plots import STYLE, Picture
from harness.reports.render import Files, Format, Report

PNG_DPI = 192
"""Twice the 96 pixels that a browser gives an inch."""


def png_files(report: Report) -> Files:
    """One for each picture; InputError without any."""
    files = {}
    for name, picture in report.files.items():
        if isinstance(picture, Picture):
            buffer = io.BytesIO()
            with mpl.rc_context(fname=STYLE):
                picture.figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
            files[f"{name.removesuffix('.svg')}.png"] = buffer.getvalue()
    if not files:
        raise InputError(f"--format png: study {report.study!r} has no pictures; expected another format")
    return files


PNG = Format(png_files, of_figures=True)
