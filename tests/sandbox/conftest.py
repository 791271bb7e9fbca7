"""Closes the ledgers that a test of the sandbox has opened."""

from collections.abc import Iterator

import pytest

from tests.sandbox.client import OPENED


@pytest.fixture(autouse=True)
def closed_ledgers() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()
