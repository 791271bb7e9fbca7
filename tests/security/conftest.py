"""A project whose journal holds a day; one serves all tests of a module, which only read it."""

from pathlib import Path

import pytest

from tests.cli.stage import make_project


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a project with a day in its journal."""
    return make_project(tmp_path_factory.mktemp("project"))
