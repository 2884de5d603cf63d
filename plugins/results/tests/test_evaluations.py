"""Results of evaluation tools: values, items and errors are those that the tools printed, and no other file is taken for theirs.

Fixtures: lm-evaluation-harness 0.4.13, lighteval 0.13.0 and MTEB 2.26.24 wrote theirs (`make_evaluations.py`); those of EncodEval
and of the BabyLM challenge have the form of what is in their repositories.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from harness.errors import InputError
from harness.plugins.results.babylm import BABYLM
from harness.plugins.results.encodeval import ENCODEVAL
from harness.plugins.results.lighteval import LIGHTEVAL
from harness.plugins.results.lm_eval import LM_EVAL
from harness.plugins.results.mteb import MTEB
from harness.reports.reading import results
from harness.reports.reading.results import Asked

FIXTURES = Path(__file__).with_name("fixtures")
TOOLS = {"lm_eval": LM_EVAL, "lighteval": LIGHTEVAL, "mteb": MTEB, "encodeval": ENCODEVAL, "babylm": BABYLM}
NUMBERS = {
    "lm_eval": """
tiny-a | colour 1-shot | 1 | acc,none | 0.2500 | 0.2500 | 4
tiny-a | animal 1-shot | 1 | acc,none | 1.0000 | 0.0000 | 3
tiny-a | colour 1-shot | 2 | acc,none | 0.7500 | 0.2500 | 4
tiny-a | animal 1-shot | 2 | acc,none | 1.0000 | 0.0000 | 3
tiny-a | write | 0,1234 | exact_match,strict | 0 | 0 | 3
tiny-a | write | 0,1234 | exact_match,first | 0 | 0 | 3
tiny-b | colour 1-shot | 1 | acc,none | 0.2500 | 0.2500 | 4
tiny-b | animal 1-shot | 1 | acc,none | 0.6667 | 0.3333 | 3
tiny-b | colour 1-shot | 2 | acc,none | 0.5000 | 0.2887 | 4
tiny-b | animal 1-shot | 2 | acc,none | 0.6667 | 0.3333 | 3
tiny-b | write | 0,1234 | exact_match,strict | 0 | 0 | 3
tiny-b | write | 0,1234 | exact_match,first | 0 | 0 | 3
""",
    "lighteval": """
tiny-a | words:colour|0 | | acc | 0.5000 | 0.2887 |
tiny-a | words:animal|0 | | acc | 0.6667 | 0.3333 |
tiny-a | write|0 | | em | 0.0000 | 0.0000 |
tiny-b | words:colour|0 | | acc | 0.5000 | 0.2887 |
tiny-b | words:animal|0 | | acc | 0.6667 | 0.3333 |
tiny-b | write|0 | | em | 0.0000 | 0.0000 |
""",
    "mteb": """
made/tiny-a | Colours | | main_score | 0.6625 | |
made/tiny-a | Pairs eng | | main_score | 0.587441 | |
made/tiny-a | Pairs fra | | main_score | 0.612322 | |
made/tiny-b | Colours | | main_score | 0.825 | |
made/tiny-b | Pairs eng | | main_score | 0.574128 | |
made/tiny-b | Pairs fra | | main_score | 0.448818 | |
""",
    "encodeval": """
encoder-a | seahorse | | spearman | 0.31 | |
encoder-b | seahorse | | spearman | 0.42 | |
""",
    "babylm": """
ltgbert | rte | | accuracy | 0.5755 | |
ltgbert | rte | | f1 | 0.50 | |
ltgbert | rte | | mcc | 0.10 | |
ltgbert | wug_past_tense | | spearman's rho | 0.30 | |
elcbert | rte | | accuracy | 0.5899 | |
elcbert | rte | | f1 | 0.52 | |
elcbert | rte | | mcc | 0.12 | |
elcbert | wug_past_tense | | spearman's rho | 0.32 | |
""",
}
"""Arm, task, seed, metric, value, error and number of items, as the tools print them."""
ITEMS = {
    "lm_eval": {("tiny-a", "colour 1-shot", "2"): "1110", ("tiny-b", "animal 1-shot", "1"): "110"},
    "lighteval": {},
    "encodeval": {("encoder-a", "sst2", "0"): "11000", ("encoder-b", "sst2", "1"): "11100", ("encoder-b", "xnli fr", None): "111"},
    "babylm": {},
}
