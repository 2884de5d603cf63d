"""Values that are packed into tags come back as they were."""

import random

import pytest

from harness import tags

VALUES = {"model.hidden_size": "256", "empty": "", "text with % and ü": "[1, 2]", "number": 0.1, "count": 900682.0}


def test_packed_values_come_back(monkeypatch):
    assert tags.unpacked("t", tags.packed("t", VALUES)) == VALUES
    assert list(tags.packed("t", VALUES)) == ["t.0"]
    monkeypatch.setattr(tags, "PIECE", 7)
    assert len(tags.packed("t", VALUES)) > 10
    assert tags.unpacked("t", tags.packed("t", VALUES)) == VALUES


def test_fewer_pieces_replace_more(monkeypatch):
    """Tags are overwritten one by one, so that surplus ones of an earlier, longer content stay."""
    noise = random.Random(0)
    long = {str(number): noise.random() for number in range(2000)}
    assert tags.unpacked("t", tags.packed("t", long) | tags.packed("t", VALUES)) == VALUES
    assert max(map(len, tags.packed("t", long).values())) <= 8000


def test_tags_without_packed_values_have_none():
    assert tags.unpacked("t", {"arm": "base", "t": "x"}) == {}
    kept = {"arm": "base", "mlflow.runName": "base"}
    assert tags.without_packed(kept | tags.packed(tags.PARAMETERS, VALUES) | tags.packed(tags.METRICS, VALUES)) == kept


@pytest.mark.parametrize("torn", ["1:abc", "nonsense", "2:eJyrVg==", "1:AAAA"])
def test_torn_values_are_named(torn):
    with pytest.raises(ValueError, match="tag 't' is corrupt"):
        tags.unpacked("t", {"t.0": torn})


def test_the_environment_is_read_as_tags_of_its_own():
    stored = {"arm": "base"} | tags.packed(tags.ENVIRONMENT, {"environment.cores": "2"})
    assert tags.without_packed(stored) == {"arm": "base", "environment.cores": "2"}


def test_names_of_tags_in_mlflow_begin_alike_and_come_back():
    known = {"arm": "base", "hardware/peak_flops_per_s": "1", "mlflow.note.content": "text", "expected_low": "0.5"}
    stored = tags.in_store(known)
    names = {"harness.arm", "harness.hardware/peak_flops_per_s", "mlflow.note.content", "mlflow.harness_expected_low"}
    assert {*stored} == names
    others = {"arm": "of somebody else", "harness.expected_low": "of an older version"}
    assert tags.plain(others | stored) == tags.plain(stored | others) == known
