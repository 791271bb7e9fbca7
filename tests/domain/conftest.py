"""The shipped rules, read once."""

import pytest

from bot.config.rulebook import load_rulebook
from bot.domain.rulebook import Rulebook


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    return load_rulebook()
