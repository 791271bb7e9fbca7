"""The migrations make exactly the tables of `tables.py`, and take them away again."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from bot.config.problems import ExitCode
from bot.config.settings.load import load_settings
from bot.journal.database import tables
from bot.journal.database.engines import file_of, reading_engine, writing_engine
from bot.journal.database.schema import SchemaState, check, migrate, why_unwritable
from bot.journal.database.tables import v_decisions, v_orders, v_pnl, v_timeline
from bot.journal.errors import Holder, NeedsMigration, UnusableUrl
from bot.journal.journal import Journal
from bot.journal.reading.events import EventKind, events
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.values import DecisionRow
from bot.journal.upkeep.verify import verify
from bot.journal.writing.lease import acquire
from bot.runtime.health.doctor_here import of_journal
from tests.cli.stage import call
from tests.journal.facts import T0, Story
from tests.postgres_database import administer

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations"
EARLIER = sorted(path.name[:4] for path in (MIGRATIONS / "versions").glob("0*.py"))[:-1]
"""Every revision but the newest: a journal of any of them may lie on somebody's disk."""
NAMED_BY_THE_DESIGN = {
    *("runs", "intents", "attempts", "orders", "order_results", "transitions", "fills"),
    *("decisions", "auth_events", "halts", "lease", "account_snapshots", "daily_closes"),
}


def described(connection: sa.Connection) -> dict[str, object]:
    """Columns, keys, checks and indexes of every table, without their order."""
    inspector = sa.inspect(connection)
    names = set(inspector.get_table_names()) - {"alembic_version"}
    return {name: table_of(inspector, name) for name in sorted(names)}


def table_of(inspector: sa.Inspector, name: str) -> dict[str, object]:
    columns = [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(name)]
    checks = sorted((str(c["name"]), c["sqltext"]) for c in inspector.get_check_constraints(name))
    unique = sorted(
        (str(u["name"]), tuple(u["column_names"])) for u in inspector.get_unique_constraints(name)
    )
    indexes = sorted(
        (str(i["name"]), tuple(i["column_names"]), i["unique"], predicate_of(i))
        for i in inspector.get_indexes(name)
    )
    return {
        "columns": columns,
        "key": inspector.get_pk_constraint(name)["constrained_columns"],
        "foreign": [f["referred_table"] for f in inspector.get_foreign_keys(name)],
        "checks": checks,
        "unique": unique,
        "indexes": indexes,
    }


def predicate_of(index: Mapping[str, Any]) -> str:
    """What a partial index is limited to, as the database prints it; "" for a whole one."""
    options = index.get("dialect_options", {})
    return str(options.get("sqlite_where", options.get("postgresql_where", "")))


def downgrade(url: str, revision: str) -> None:
    engine = writing_engine(url)
    configuration = Config()
    configuration.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        command.downgrade(configuration, revision)
    engine.dispose()


def read_whole(url: str) -> tuple[object, ...]:
    """What a person reads of a journal: orders, how each came about, decisions, money, events."""
    with JournalReader(url) as reader, reader.decisions(DecisionRow) as page:
        orders = reader.orders()
        told = [reader.timeline(row.id) for row in orders]
        seen = (orders, told, list(page.rows), reader.fills(), reader.summary(T0.date()))
    return (*seen, list(events(url, [*EventKind])))


def test_the_migrated_schema_is_that_of_the_metadata(own_db_url: str) -> None:
    with reading_engine(own_db_url).connect() as connection:
        migrated = described(connection)
        differences = compare_metadata(MigrationContext.configure(connection), tables.metadata)

    downgrade(own_db_url, "base")
    engine = writing_engine(own_db_url)
    tables.metadata.create_all(engine)
    with engine.connect() as connection:
        made = described(connection)
    engine.dispose()

    assert differences == []
    assert migrated == made
    assert "verb = 'POST'" in str(migrated["attempts"]), "predicates of indexes are compared too"


def test_every_table_of_the_design_is_there(db_url: str) -> None:
    with reading_engine(db_url).connect() as connection:
        inspector = sa.inspect(connection)

        assert set(inspector.get_table_names()) >= NAMED_BY_THE_DESIGN
        assert set(inspector.get_view_names()) == {
            "v_orders",
            "v_timeline",
            "v_decisions",
            "v_pnl",
        }


def test_every_table_of_sqlite_is_strict(sqlite_url: str) -> None:
    with reading_engine(sqlite_url).connect() as connection:
        lists = connection.exec_driver_sql("PRAGMA table_list").mappings().all()

    ours = {row["name"]: row["strict"] for row in lists if row["name"] in tables.metadata.tables}
    assert ours == dict.fromkeys(tables.metadata.tables, 1)


def test_a_migration_goes_down_and_up_again(own_db_url: str) -> None:
    downgrade(own_db_url, "base")
    assert check(own_db_url) == SchemaState(None)

    migrate(own_db_url)
    assert check(own_db_url) == SchemaState(tables.SCHEMA)
    assert check(own_db_url).is_current


@pytest.mark.sampled(4)
@pytest.mark.parametrize("revision", EARLIER)
async def test_a_journal_of_each_earlier_schema_is_brought_up_to_date_and_read(
    own_db_url: str, revision: str
) -> None:
    lease = acquire(own_db_url, Holder(1, "test", T0))
    journal = Journal.open(own_db_url, epoch=lease.epoch)
    run_id = await journal.start_run(at=T0, mode="live", version="1", config_sha256="ab")
    for entries in Story().placed():
        await journal.write(entries)
    await journal.end_run(run_id, "stopped", at=T0)
    await journal.start_run(at=T0, mode="live", version="1", config_sha256="ab")
    await journal.close()
    lease.release()
    before = read_whole(own_db_url)
    assert before[0], "there is an order to read"
    downgrade(own_db_url, revision)
    with pytest.raises(NeedsMigration):
        JournalReader(own_db_url)

    migrate(own_db_url)

    assert check(own_db_url) == SchemaState(tables.SCHEMA)
    assert verify(own_db_url).problems == ()
    assert read_whole(own_db_url) == before


def test_migrating_twice_changes_nothing(sqlite_url: str) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    before = file.read_bytes()

    migrate(sqlite_url, script_location=MIGRATIONS)

    assert file.read_bytes() == before


@pytest.mark.parametrize("found", ["9999", "deadbeef"])
def test_a_schema_that_this_program_does_not_know_is_left_alone(found: str, db_url: str) -> None:
    engine = writing_engine(db_url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :v"), {"v": found})
    engine.dispose()

    with pytest.raises(NeedsMigration) as raised:
        migrate(db_url)

    assert not raised.value.is_known
    assert check(db_url) == SchemaState(found)


def test_the_newest_migration_is_the_schema_of_this_program() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))

    assert scripts.get_current_head() == tables.SCHEMA


@pytest.mark.parametrize("view", [v_orders, v_timeline, v_decisions, v_pnl], ids=lambda v: v.name)
def test_a_view_has_the_columns_that_the_reader_names(view: sa.TableClause, db_url: str) -> None:
    with reading_engine(db_url).connect() as connection:
        columns = {column["name"] for column in sa.inspect(connection).get_columns(view.name)}

    assert columns == set(view.c.keys())


def test_a_new_journal_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "vnbot" / "journal.db"

    migrate(f"sqlite:///{file}")

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_journal_that_others_could_read_is_closed_to_them(sqlite_url: str) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    file.chmod(0o644)

    migrate(sqlite_url)

    assert file.stat().st_mode & 0o777 == 0o600


def test_a_database_that_another_program_uses_is_left_alone(own_db_url: str) -> None:
    engine = writing_engine(own_db_url)
    with engine.begin() as connection:
        connection.execute(sa.text("drop table alembic_version"))

    with pytest.raises(NeedsMigration, match="beside other tables") as caught:
        migrate(own_db_url)

    assert not caught.value.is_known
    with engine.connect() as connection:
        assert not sa.inspect(connection).has_table("alembic_version")
    engine.dispose()


def test_a_path_with_signs_of_a_url_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "năm 2026#1 100%" / "journal.db"

    migrate(f"sqlite:///{file}")

    assert check(f"sqlite:///{file}").is_current


def test_sqlite_writes_through_a_log_and_waits_for_the_disk(sqlite_url: str) -> None:
    engine = writing_engine(sqlite_url)
    with engine.connect() as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
    engine.dispose()

    assert (mode, synchronous) == ("wal", 2)


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_postgres_that_can_not_hold_every_text_is_refused_by_name(
    pg_server: str, encoding: str
) -> None:
    name = f"vnbot_{encoding.lower()}"
    form = f"encoding '{encoding}' lc_collate 'C' lc_ctype 'C' template template0"
    administer(pg_server, f"create database {name} {form}")
    try:
        url = f"{pg_server}{name}"
        for each in (migrate, check):
            with pytest.raises(UnusableUrl, match=f"'{name}' has the encoding {encoding}, and a"):
                each(url)
    finally:
        administer(pg_server, f"drop database {name}")


@pytest.mark.postgres
def test_postgres_waits_for_the_disk(postgres_url: str) -> None:
    engine = writing_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
    engine.dispose()


def alter(url: str, statement: str) -> None:
    engine = writing_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def test_nothing_is_in_the_way_of_a_journal_that_can_be_written(db_url: str) -> None:
    assert why_unwritable(db_url) == ""


@pytest.mark.postgres
def test_a_server_that_takes_no_writes_is_not_said_to_be_well(own_postgres_url: str) -> None:
    database = sa.make_url(own_postgres_url).database
    alter(own_postgres_url, f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')

    assert check(own_postgres_url).is_current
    assert why_unwritable(own_postgres_url).startswith("the server lets nothing be written")


@pytest.mark.postgres
def test_a_user_who_may_only_read_is_told_of_the_tables(own_postgres_url: str) -> None:
    role = f"reader_{os.getpid()}"
    alter(own_postgres_url, f"CREATE ROLE {role} LOGIN")
    alter(own_postgres_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    alter(own_postgres_url, f"GRANT INSERT ON runs TO {role}")
    url = sa.make_url(own_postgres_url).set(username=role).render_as_string(hide_password=False)

    try:
        why = why_unwritable(url)
    finally:
        alter(own_postgres_url, f"DROP OWNED BY {role}")
        alter(own_postgres_url, f"DROP ROLE {role}")

    assert why.startswith("this user may not write to ")
    assert " intents," in why
    assert " runs," not in why


def test_a_file_or_folder_that_takes_no_writes_is_not_said_to_be_well(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(sqlite_url)
    for shut in (file, file.parent):
        monkeypatch.setattr(os, "access", lambda path, _, shut=shut: Path(path) != shut)

        assert why_unwritable(sqlite_url).startswith(f"{shut} can't be written to")


@pytest.mark.postgres
def test_db_check_and_doctor_name_a_server_that_takes_no_writes(
    own_postgres_url: str, tmp_path: Path
) -> None:
    config = tmp_path / "bot.yaml"
    config.write_text(f"mode: sandbox\nstate_dir: state\njournal: {{url: '{own_postgres_url}'}}\n")
    database = sa.make_url(own_postgres_url).database
    alter(own_postgres_url, f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')

    checked = call("db", "check", "-c", str(config))
    found = [*of_journal(load_settings(config, environment={}))]

    assert checked.code == ExitCode.DATABASE
    assert "E-DB-009 the journal can be read, but not written: the server lets" in checked.err
    assert "can be read, but not written: the server lets nothing" in str(found[0])
