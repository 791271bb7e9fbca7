"""P7: a migration whose process dies at a step leaves the old schema whole, or the new one."""

import os
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
import sqlalchemy as sa

from bot.journal.database.engines import reading_engine, writing_engine
from bot.journal.database.schema import check, migrate
from bot.journal.database.tables import SCHEMA
from tests.faults.strikes import STRIKES, is_in_full
from tests.journal.database.test_schema import EARLIER, described, downgrade
from tests.simulation.simulate import in_child

pytestmark = pytest.mark.process

KILLED = 9
OFTEN = 20
"""In `make test` only every so many steps are cut."""


def _cut(url: str, step: int) -> None:
    """Migrate, and die before the step; the last one is the commit."""
    steps = count(1)

    def die(*_: object) -> None:
        if next(steps) == step:
            os._exit(KILLED)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", die)
    sa.event.listen(sa.engine.Engine, "commit", die)
    migrate(url)


def _schema(url: str) -> tuple[str | None, dict[str, object]]:
    engine = reading_engine(url)
    with engine.connect() as connection:
        found = check(url).found, described(connection)
    engine.dispose()
    return found


def _empty(url: str) -> None:
    """Leave nothing, not even the table of the versions: a database before its first start."""
    downgrade(url, "base")
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("drop table alembic_version"))
    engine.dispose()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("revision", ["nothing", *EARLIER])
def test_a_migration_that_dies_is_done_whole_or_not_at_all(
    own_db_url: str, revision: str, record_property: Callable[[str, object], None]
) -> None:
    new = _schema(own_db_url)
    _empty(own_db_url) if revision == "nothing" else downgrade(own_db_url, revision)
    old, struck, step = _schema(own_db_url), 0, 1

    while (ended := in_child(partial(_cut, own_db_url, step))) == KILLED:
        assert _schema(own_db_url) == old, f"cut at step {step}"
        struck += 1
        step += 1 if is_in_full() else OFTEN

    assert (ended, _schema(own_db_url)) == (0, new)
    assert struck > 0
    migrate(own_db_url)
    assert check(own_db_url).found == SCHEMA
    record_property(STRIKES, struck)
