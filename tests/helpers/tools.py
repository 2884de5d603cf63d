"""Programs beside Python that some tests need: `.ci/tools` installs them, and without them these tests are skipped."""

import os
from typing import NoReturn

import pytest


def missing(name: str) -> NoReturn:
    """Skips the test; fails it where the variable REQUIRE_TOOLS says that the tool is there."""
    reason = f"{name} is not installed; .ci/tools installs it on Debian"
    if name in os.environ.get("REQUIRE_TOOLS", "").split():
        pytest.fail(reason)
    pytest.skip(reason)
