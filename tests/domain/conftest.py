"""The shipped rules, read once."""

import pytest

from bot.domain.rulebook import Rulebook
from bot.runtime.rulebook import load_rulebook


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    return load_rulebook()
