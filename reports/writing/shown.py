"""Which metrics the report shows where: `shown.yaml`."""

import msgspec

from harness.comparison.verdicts import Verdict
from harness.records import shipped


class Said(msgspec.Struct):
    """What some metrics are."""

    of: list[str]
    text: str


class Shown(msgspec.Struct):
    """Lists of metrics, as the file has them."""

    overview: dict[str, str]
    overview_of_pretrainings: list[str]
    task: list[str]
    adaptation: list[str]
    pretraining: list[str]
    parts: list[str]
    own: list[str]
    detail: list[str]
    said: list[Said]
    marks: dict[Verdict, str]


SHOWN = shipped(__file__, Shown)
