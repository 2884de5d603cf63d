"""What is printed of recorded studies stays as it was, byte for byte, whatever is moved or rewritten behind it."""

import pytest
from render_studies import RENDERED, STUDIES, of, unpacked


@pytest.fixture(scope="module", autouse=True)
def _studies():
    with unpacked():
        yield


@pytest.mark.long
@pytest.mark.parametrize("study", STUDIES)
def test_a_recorded_study_is_rendered_as_before(study):
    """After a change that is meant: `python tests/reports/render_studies.py`, and look at the difference."""
    assert of(study) == {path.name: path.read_text("utf-8") for path in (RENDERED / study).iterdir()}
