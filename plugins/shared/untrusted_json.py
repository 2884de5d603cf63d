"""JSON that others may have written: data of a known shape and a limited size, or an error of one line."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, ConfigDict, FailFast, Field, TypeAdapter, ValidationError

from harness.errors import InputError
from harness.reports.reading.untrusted import LARGEST_JSON, LARGEST_TEXT

LATEST = 253_402_300_799_999
"""The last millisecond that can be written as a date, in the year 9999."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected text on one line, without control characters")
    return text


Line = Annotated[str, Field(max_length=LARGEST_TEXT), AfterValidator(_printable)]
"""Text that is printed."""

Time = Annotated[int, Field(ge=0, le=LATEST)]
"""In ms since 1970."""

Entry = TypeVar("Entry")
Entries = Annotated[list[Entry], FailFast()]
"""A list, of which one wrong entry is enough to refuse it."""

SHAPE = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""Options of a class that JSON is read as: exact types, no unknown keys, finite numbers."""

PART = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
"""Options of a class with the fields that are read; the object may have more."""

Shape = TypeVar("Shape")


def json_of(content: bytes, shape: type[Shape], where: str, expected: str) -> Shape:
    """The JSON as a value of this shape; InputError that names the first part which is none."""
    if len(content) > LARGEST_JSON:
        raise InputError(f"{where} has {len(content):,} bytes: expected {expected}, of at most {LARGEST_JSON:,} bytes")
    try:
        return TypeAdapter(shape).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = f" at {'.'.join(map(str, first['loc']))}"[:100] if first["loc"] else ""
        raise InputError(f"{where}{place} ({first['msg']}); expected {expected}") from error
