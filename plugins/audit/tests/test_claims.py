"""Claims are read from files; a wrong file is one line with file, key and what was expected."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from harness.__main__ import main
from harness.comparison.paired import of_differences
from harness.config.schema import TokenizerConfig
from harness.data import tokenizer
from harness.errors import InputError
from harness.paths import conf_directory
from harness.plugins.audit.claims import Claim, MemoryPart, ModelPart, Reading, Relation, Score, arms_of, read, read_all
from harness.plugins.audit.command import settle
from harness.plugins.audit.measures import Instruments
from harness.plugins.audit.scores import facts_of
from harness.plugins.audit.verdicts import Measured, Point

pytestmark = pytest.mark.long

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
REFERENCE, VOCABULARY = DATA / "bert_reference", DATA / "vocab" / "bert-base-uncased" / "vocab.txt"

GOOD = """
source: a test
claims:
  tiny:
    claim: tiny is tiny
    claimed: 100
    tolerance: 0.1
    readings:
      whole: {measure: parameters, of: model=base scale=tiny}
      layers: {measure: parameters, beside: true, of: model=base scale=tiny, parts: [layers], claimed: 7, relation: at_most}
"""


def written(tmp_path, text: str):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return path


def test_a_reading_takes_from_its_claim_what_it_does_not_say(tmp_path):
    (claim,) = read(written(tmp_path, GOOD.replace("tiny is tiny", ">\n      tiny is\n      tiny")))
    assert claim.text == "tiny is tiny"
    whole, layers = claim.readings.values()
    assert (claim.source, whole.claimed, whole.tolerance, whole.relation) == ("a test", 100, 0.1, Relation.equal)
    assert (layers.claimed, layers.tolerance, layers.relation, layers.parts) == (7, 0.1, Relation.at_most, ["layers"])


WHOLE = "{measure: parameters, of: model=base scale=tiny}"
DAYS = "{measure: pretraining_days, of: model=base scale=tiny, "
PAPER = "{measure: published, stated: a paper, "
WRONG = [
    ("claim: tiny is tiny", 'claim: "tiny\\e[2J"', "x1b[2J", "expected text on one line, without control characters"),
    (WHOLE, "{measure: parameters, of: model=base;}", "readings.whole", "'model=base;' cannot be read as KEY=VALUE"),
    (WHOLE, "{measure: paramters, of: model=base}", "readings.whole.measure", "did you mean 'parameters'"),
    (WHOLE, "{measure: [parameters], of: model=base}", "readings.whole.measure", "did you mean 'parameters'"),
    (WHOLE, "{measure: parameters, part: x}", "readings.whole", "did you mean 'parts'?"),
    (WHOLE, "{measure: parameters}", "readings.whole", "missing required field `of`"),
    ("tolerance: 0.1", "tolerance: much", "claims.tiny.tolerance", "`float`"),
    ("tolerance: 0.1", "tolerance: -0.1", "claims.tiny.tolerance", ">= 0"),
    ("relation: at_most", "relation: below", "readings.layers.relation", "at_most"),
    ("relation: at_most", "relation: better", "readings.layers.relation", "expected `rate: true`"),
    (WHOLE, PAPER + "values: {}}", "whole.values", "length >= 1"),
    (WHOLE, PAPER + "values: {test: [1]}}", "readings.whole.values", "got `array`"),
    (WHOLE, PAPER + "values: {test: x}, against: {test: 1}}", "whole.values", "not {'test': 'x'}"),
    (WHOLE, PAPER + "values: {test: 1}, against: {tests: 1}}", "whole.against", "expected the names of values, test, not"),
    (WHOLE, PAPER + "values: {test: 1, validation: 2}}", "whole.by", "expected what the names in values are"),
    (WHOLE, PAPER + "values: {test: 1}, relation: better}", "whole.relation", "expected `rate: true`, `against` or another"),
    (WHOLE, "{measure: ids, texts: []}", "readings.whole.texts", "length >= 1"),
    ("claimed: 100", "claimed: many", "readings.whole.claimed", "expected a number"),
    ("claimed: 100", "claimed: .nan", "readings.whole.claimed", "all finite, not nan"),
    ("claim: tiny is tiny", "clam: tiny is tiny", "key", "did you mean 'claim'?"),
    ("    claimed: 100", "    claimed: 100\n    of: model=base", "claims.tiny", "did you mean 'claims.tiny.readings.NAME.of'?"),
    (WHOLE, "{measure: flops, of: model=base scale=tiny, lengths: [-3]}", "readings.whole.lengths[0]", ">= 1"),
    (WHOLE, DAYS + "tokens: 5, shares: {0: 1.0}}", "readings.whole.shares", ">= 1"),
    (WHOLE, DAYS + "tokens: 5, shares: {128: 0.5}}", "readings.whole", "must add up to 1, not 0.5"),
    (WHOLE, DAYS + "steps: 5}", "readings.whole", "expected the amount of training: steps"),
    (
        WHOLE,
        DAYS + "steps: 1e6, batch_size: 256, tokens: 132e9, shares: {128: 0.9, 512: 0.1}}",
        "readings.whole",
        "tokens=1.32e+11 contradicts steps, batch_size and shares, which make 4.26e+10",
    ),
    ("claims:\n", "claims:\n  ? [a, b]\n  : 1\n", "x.yaml, line 4", "a list or a mapping is not a key"),
    (GOOD[GOOD.index("      whole") :], "      {}", "claims.tiny.readings", "expected at least one reading"),
    (" beside: true,", "", "claims.tiny.readings", "got 2 that decide: whole, layers"),
    ("whole: {", "whole: {beside: true, ", "claims.tiny.readings", "got 0 that decide\n"),
    (WHOLE, "{measure: score, relation: better, of: model=base, against: [1]}", "readings.whole.against[0]", "`str`"),
    (GOOD[GOOD.index("claims") :], "", "claims", "expected at least one claim"),
    ("source: a test", "source: [a", "x.yaml, line 3, column 7", "expected ',' or ']'"),
]


@pytest.mark.parametrize(("old", "new", "place", "message"), WRONG)
def test_a_wrong_file_is_one_line(tmp_path, capsys, old, new, place, message):
    path = written(tmp_path, GOOD.replace(old, new))
    assert main(["audit", f"claims={path}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"harness audit: {path}")
    assert place in err
    assert message in err


def test_claims_are_found_by_file_and_by_name_and_in_the_folder_of_the_user(tmp_path):
    (tmp_path / "claims").mkdir()
    written(tmp_path / "claims", GOOD)
    everything = [claim.name for claim in read_all([], str(tmp_path))]
    assert len(everything) == 116
    assert everything[-1] == "tiny"
    assert [claim.name for claim in read_all(["x", "gpt-117m", "tiny"], str(tmp_path))] == ["tiny", "gpt-117m"]
    with pytest.raises(InputError, match="did you mean 'gpt-117m'"):
        read_all(["gpt-117"], None)


@pytest.fixture(scope="module")
def shipped() -> list[tuple[Claim, Reading]]:
    claims = [claim for claim in read_all([], None) if claim.file.suffix == ".yaml"]
    return [(claim, reading) for claim in claims for reading in claim.readings.values()]


def test_what_the_shipped_claims_speak_of_exists(shipped):
    shapes = Instruments()
    for claim, reading in shipped:
        if reading.measure == "published":
            continue
        texts = [getattr(reading, "of", None), *arms_of(getattr(reading, "against", None))]
        for text in filter(None, texts):
            if isinstance(reading, Score):
                facts_of(f"{text} {reading.needs}")
            elif reading.measure != "activation_difference":
                assert shapes.config(text).model.hidden_size > 0, claim.name


def test_claims_of_variants_are_no_choices(tmp_path, monkeypatch, capsys):
    """Of a folder of the user, which Hydra searches as it searches ours."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model" / "claims").mkdir(parents=True)
    (tmp_path / "model" / "wide.yaml").write_text("attention_window: 32\n")
    (tmp_path / "model" / "claims" / "wide.yaml").write_text(GOOD)
    assert main(["describe", "--config-dir", str(tmp_path), "model=wide", "scale=tiny"]) == 0
    capsys.readouterr()
    assert main(["describe", "--config-dir", str(tmp_path), "model=claims", "scale=tiny"]) == 2
    assert "unknown model 'claims'" in capsys.readouterr().err


def test_every_shipped_name_is_used_once(shipped):
    names = [name for path in (conf_directory() / "claims").glob("*.yaml") for name in OmegaConf.load(path).claims]
    assert len(names) == len(set(names))
    assert {reading.part for _, reading in shipped if hasattr(reading, "part")} == {*ModelPart, *MemoryPart}


def test_a_shipped_claim_is_decided_by_one_reading_and_by_no_other(shipped):
    """Whatever the other readings have found, the verdict is that of the deciding one, and so are its intervals."""
    claims = {claim.name: claim for claim, _ in shipped if len(claim.readings) > 1}
    assert len(claims) > 30
    tests = Point(1.0, {}, difference=of_differences([0.9, 1.0, 1.1])).at(0.95)
    others = [
        Measured(),
        Measured((Point(1.0, {}),)),
        Measured((Point(-1.0, {}),)),
        Measured((tests,)),
        Measured(testable=False),
    ]
    for claim in claims.values():
        (decides,) = (name for name, reading in claim.readings.items() if not reading.beside)
        for deciding in (Measured(missing="a study"), Measured((replace(tests, value=1.0),))):
            if isinstance(claim.readings[decides].claimed, list) and deciding.points:
                continue
            found = [
                settle(claim, [deciding if name == decides else other for name in claim.readings])
                for other in others
                if not other.points or not any(isinstance(one.claimed, list) for one in claim.readings.values() if one.beside)
            ]
            of_deciding = [next(each for each in settled.readings if not each.beside) for settled in found]
            assert len({(each.verdict, each.measured, each.family) for each in of_deciding}) == 1, claim.name


def test_what_a_paper_states_has_its_place(shipped):
    """An arXiv id, or the name of what has none, and for tables the page as far as it was looked up."""
    published = [(claim.name, reading.stated) for claim, reading in shipped if reading.measure == "published"]
    assert len(published) > 20
    assert all(re.search(r"arXiv:\d{4}\.\d{4,5}|Radford et al\. 2019|multilingual\.md", stated) for _, stated in published)
    assert all("page" in stated for name, stated in published if name.startswith("bert-base-") and "dimensions" not in name)


def test_every_shipped_claim_on_training_says_how_it_would_be_settled(shipped):
    deciding = {claim.name: reading for claim, reading in shipped if isinstance(reading, Score) and not reading.beside}
    assert len(deciding) > 10
    assert all(reading.study for reading in deciding.values()), deciding


def test_totals_of_the_notebook_are_explained_to_the_last_parameter():
    """What the notes of two claims say: matrices and biases that its formula has, and BERT has not, or the reverse."""
    shapes, width, inner = Instruments(), 768, 3072
    matrix = width * inner + inner
    gated = "model.gated_feed_forward=true model.feed_forward_size=3072"
    assert shapes.parameters(f"model=base scale=base {gated}", "total") - width == 137_831_426
    full = shapes.parameters("model=enhanced scale=base model.feed_forward_size=3072", "total")
    projection_bias, norm = width, 2 * 128
    assert full + matrix - projection_bias - norm + width == 16_476_418
    original = shapes.parameters(f"model=base scale=base {gated}", "layers")
    enhanced = shapes.parameters("model=enhanced scale=base model.feed_forward_size=3072", "layers") + matrix
    assert (original, enhanced) == (113_402_880, 11_812_608)
    assert (round(1 - enhanced / original, 3), round(1 - 16_476_418 / 137_831_426, 3)) == (0.896, 0.880)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason=f"needs {REFERENCE}")
def test_texts_of_the_notebook_have_the_pieces_that_the_claim_states(shipped):
    lines = [line.strip() for line in (REFERENCE / "sample_text.txt").read_text().splitlines()]
    texts = [line for line in lines if len(line) > 50 and not line.startswith(("Text should", "This text is included"))][:3]
    pieces = tokenizer.build(TokenizerConfig(vocab_file=str(VOCABULARY)), [])
    readings = [reading for claim, reading in shipped if claim.name == "notebook-feature-memory"]
    assert [reading.lengths for reading in readings] == [
        [len(text.split()) + 2 for text in texts],
        [len(pieces.encode(text).ids) for text in texts],
    ]
