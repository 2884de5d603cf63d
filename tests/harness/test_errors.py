import pytest

from harness.errors import present


def test_a_value_is_itself_and_a_missing_one_an_error():
    assert present(0) == 0
    with pytest.raises(ValueError, match="missing"):
        present(None)
