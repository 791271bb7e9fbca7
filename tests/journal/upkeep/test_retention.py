"""What retention deletes is old and about no order; what is left is verified as before."""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.clock import SystemClock
from bot.domain.account import AccountSnapshot, base_words
from bot.domain.entry import (
    CODE_NOTE,
    FLATTEN_NOTE,
    LIMITS_NOTE,
    PRUNED_NOTE,
    RECONCILE_NOTE,
    AccountSeen,
    Entry,
    Note,
    Numbers,
    RunState,
    StateChanged,
)
from bot.domain.order import OrderState
from bot.journal.database import tables
from bot.journal.database.connections import SqliteConnection
from bot.journal.database.engines import one_transaction, reading
from bot.journal.errors import Holder, NotOwner, Unreachable
from bot.journal.journal import Journal
from bot.journal.reading.reader import JournalReader
from bot.journal.reading.recovering import read_recovery
from bot.journal.upkeep import retention
from bot.journal.upkeep.copying import back_up, saved_in
from bot.journal.upkeep.retention import PRUNABLE, Pruned, due_in
from bot.journal.upkeep.verify import damage_of, verify
from bot.journal.writing.heads import HeadsKeeper, read_heads_file
from bot.journal.writing.lease import acquire
from tests.journal.facts import EVERY_KIND, T0, Story, after, but
from tests.journal.forging import without_guards
from tests.journal.reading.test_folding import NO

DAY_S = 86_400.0
CUT = after(6 * DAY_S - 100)
"""What is older goes: the days 0 to 5."""
DAYS = 8
ROLE = f"vnbot_bot_{os.getpid()}"
RIGHTS = (
    f"CREATE ROLE {ROLE} LOGIN",
    f"GRANT USAGE ON SCHEMA public TO {ROLE}",
    f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {ROLE}",
)


async def filled(url: str, folder: Path) -> Journal:
    """A journal of eight days, each with an order, reasons not to order, notes and snapshots."""
    lease = acquire(url, Holder(1, "test", T0))
    keeper = HeadsKeeper(folder, url, SystemClock(), list[str]().append)
    journal = Journal.open(url, epoch=lease.epoch, keeper=keeper)
    lease.release()
    await journal.start_run(at=T0, mode="paper", version="1", config_sha256="ab")
    seen = [each for each in EVERY_KIND if type(each).__name__ in {"AccountSeen", "Note"}]
    for day in range(DAYS):
        story = Story(day + 1, start=day * DAY_S, price=27_000 + 50 * day)
        skips = [but(NO, at=story.at(-60 + number), why=f"no {number}") for number in range(5)]
        entries: list[Entry] = [*skips, *(but(each, at=story.at(-10)) for each in seen)]
        await journal.write(entries)
        for batch in story.placed():
            await journal.write(batch)
        await journal.write(story.filled(500, position=500 * (day + 1)))
    return journal


async def pruned(journal: Journal, at: datetime = CUT) -> dict[str, Pruned]:
    return {name: await journal.prune(name, before=CUT, at=at) for name in PRUNABLE}


async def test_another_day_s_retention_leaves_nothing_behind_in_memory(
    own_db_url: str, tmp_path: Path
) -> None:
    journal = await filled(own_db_url, tmp_path)
    await pruned(journal)
    connection = journal._store._connection
    assert connection is not None
    before = set(connection._compiled)

    await pruned(journal, after(9 * DAY_S))

    assert set(connection._compiled) == before
    await journal.close()


def count(url: str, table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
    with reading(url) as connection:
        query = sa.select(sa.func.count()).select_from(table).where(*where)
        return connection.execute(query).scalar_one()


async def test_what_is_old_and_about_no_order_goes_and_the_rest_is_proven(
    own_db_url: str, tmp_path: Path
) -> None:
    journal = await filled(own_db_url, tmp_path)
    with JournalReader(own_db_url) as reader:
        orders, stories = reader.orders(), reader.timeline("L-0001")
    with reading(own_db_url) as connection:
        due = {name: due_in(connection, name, CUT) for name in PRUNABLE}

    done = await pruned(journal)
    await journal.close()

    assert done == due
    assert (done["decisions"].deleted, done["account_snapshots"].deleted) == (30, 6)
    decisions = tables.decisions
    assert count(own_db_url, decisions, decisions.c.request_id.is_(None)) == 10
    assert count(own_db_url, decisions, decisions.c.request_id.is_not(None)) == DAYS
    with JournalReader(own_db_url) as reader:
        assert reader.orders() == orders
        raw = {"polled", "result"}
        left = [each for each in reader.timeline("L-0001") if each.kind not in raw]
    assert left == [each for each in stories if each.kind not in raw]
    heads = read_heads_file(tmp_path, own_db_url).kept
    assert verify(own_db_url, heads).is_whole
    assert damage_of(own_db_url, heads[-1], 2) == damage_of(own_db_url, None, 2) == ()


async def test_pruning_goes_on_where_it_stopped(own_db_url: str, tmp_path: Path) -> None:
    journal = await filled(own_db_url, tmp_path)
    first = await journal.prune("decisions", before=after(2 * DAY_S - 100), at=CUT)
    second = await journal.prune("decisions", before=CUT, at=CUT)
    again = await journal.prune("decisions", before=CUT, at=CUT)
    await journal.write([but(NO, at=after(9 * DAY_S))])
    await journal.close()

    assert (first.deleted, second.deleted, again.deleted) == (10, 20, 0)
    assert verify(own_db_url, read_heads_file(tmp_path, own_db_url).kept).is_whole


async def test_the_newest_row_of_a_table_stays(sqlite_url: str, tmp_path: Path) -> None:
    journal = await filled(sqlite_url, tmp_path)

    await journal.prune("account_snapshots", before=after(99 * DAY_S), at=CUT)
    await journal.close()

    assert count(sqlite_url, tables.account_snapshots) == 1
    assert verify(sqlite_url).is_whole


async def test_triggers_stand_after_pruning(own_db_url: str, tmp_path: Path) -> None:
    journal = await filled(own_db_url, tmp_path)
    await pruned(journal)
    await journal.close()

    engine = sa.create_engine(own_db_url)
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError, match="never deleted"):
        connection.execute(tables.decisions.delete())
    engine.dispose()


def edit(connection: sa.Connection, seq: int) -> None:
    table = tables.decisions
    connection.execute(table.update().where(table.c.seq == seq).values(why="forged"))


def delete(connection: sa.Connection, seq: int) -> None:
    connection.execute(tables.decisions.delete().where(tables.decisions.c.seq == seq))


def unsign(connection: sa.Connection, seq: int) -> None:
    notes = tables.notes
    connection.execute(notes.delete().where(notes.c.kind == PRUNED_NOTE))


def move_anchor(connection: sa.Connection, seq: int) -> None:
    """Cut more of the beginning off, as if that had been pruned too."""
    table, chains = tables.decisions, tables.chains
    anchor = chains.c.name == "decisions.pruned"
    last = connection.execute(sa.select(chains.c.last_seq).where(anchor)).scalar_one()
    later = sa.select(table.c.seq, table.c.hash).where(table.c.seq > last).order_by(table.c.seq)
    row = connection.execute(later).first()
    assert row is not None
    connection.execute(table.delete().where(table.c.seq == row.seq))
    grown = {"last_seq": row.seq, "head_hash": row.hash, "row_count": chains.c.row_count + 1}
    connection.execute(chains.update().where(anchor).values(**grown))


@pytest.mark.parametrize("forge", [edit, delete, unsign, move_anchor])
async def test_what_is_changed_before_an_anchor_is_found(
    forge: Callable[[sa.Connection, int], None], sqlite_url: str, tmp_path: Path
) -> None:
    journal = await filled(sqlite_url, tmp_path)
    await pruned(journal)
    await journal.close()
    with reading(sqlite_url) as connection:
        kept = list(
            connection.execute(
                sa.select(tables.decisions.c.seq).where(tables.decisions.c.at < CUT.isoformat())
            ).scalars()
        )

    with without_guards(sqlite_url) as connection:
        forge(connection, random.Random(7).choice(kept))

    assert not verify(sqlite_url).is_whole


async def test_no_more_is_deleted_at_once_than_may_be(sqlite_url: str, tmp_path: Path) -> None:
    journal = await filled(sqlite_url, tmp_path)
    bound, retention.AT_ONCE_MAX = retention.AT_ONCE_MAX, 12  # type: ignore[misc]
    try:
        parts = [await journal.prune("decisions", before=CUT, at=CUT) for _ in range(5)]
    finally:
        retention.AT_ONCE_MAX = bound  # type: ignore[misc]
    await journal.close()

    assert [part.deleted for part in parts] == [10, 10, 10, 0, 0]
    assert verify(sqlite_url).is_whole


async def test_a_pass_reads_no_more_rows_than_it_may_delete(sqlite_url: str) -> None:
    journal = Journal.open(sqlite_url)
    await journal.write([but(NO, at=after(at), why=f"{at}") for at in range(4_000)])
    connection, hundreds = journal._store._connection, list[int]()
    assert isinstance(connection, SqliteConnection)
    bound, retention.AT_ONCE_MAX = retention.AT_ONCE_MAX, 10  # type: ignore[misc]
    try:
        await journal.prune("decisions", before=after(3_000), at=after(DAY_S))
        connection._raw.set_progress_handler(lambda: hundreds.append(1), 100)
        done = await journal.prune("decisions", before=after(3_000), at=after(DAY_S))
    finally:
        retention.AT_ONCE_MAX = bound  # type: ignore[misc]
    await journal.close()

    assert (done.deleted, done.has_more) == (10, True)
    assert len(hundreds) < 40


async def test_what_a_start_goes_on_from_stays_however_old_it_is(own_db_url: str) -> None:
    journal = Journal.open(own_db_url)
    await journal.start_run(at=T0, mode="live", version="1", config_sha256="ab")
    account = AccountSnapshot(at=after(1), account="A1", cash=100, net_asset_value=100, holdings={})
    counts = StateChanged(
        *(after(1), RunState.RUNNING, RunState.RUNNING, base_words(after(1), {}), "engine"),
        scope="base:A1",
    )
    notes = [
        Note(after(2), kind, kind, {"a": 1})
        for kind in (LIMITS_NOTE, CODE_NOTE, FLATTEN_NOTE, "PULSE")
    ]
    later = [
        AccountSeen(after(day * DAY_S), replace(account, at=after(day * DAY_S))) for day in (1, 2)
    ]
    await journal.write([AccountSeen(after(1), account), counts, *notes, *later])

    for name in ("account_snapshots", "notes"):
        await journal.prune(name, before=after(3 * DAY_S), at=after(4 * DAY_S))

    await journal.close()
    with reading(own_db_url) as connection:
        assert read_recovery(connection, T0.date()).bases == (account,)
        kinds = connection.execute(sa.select(tables.notes.c.kind)).scalars().all()
    assert {*kinds} == {LIMITS_NOTE, CODE_NOTE, FLATTEN_NOTE, PRUNED_NOTE}


async def test_figures_that_counted_are_looked_up_once_and_not_for_every_snapshot(
    sqlite_url: str,
) -> None:
    journal = Journal.open(sqlite_url)
    agreed = RunState.RUNNING, RunState.RUNNING, "agreed", "engine"
    counted = [StateChanged(after(at), *agreed, scope="base:A1") for at in range(0, 8_000, 4)]
    account = AccountSnapshot(at=T0, account="A1", cash=100, net_asset_value=100, holdings={})
    read = [AccountSeen(after(at), replace(account, at=after(at))) for at in range(501)]
    await journal.write([*counted, *read])
    connection, thousands = journal._store._connection, list[int]()
    assert isinstance(connection, SqliteConnection)
    connection._raw.set_progress_handler(lambda: thousands.append(1), 1_000)

    done = await journal.prune("account_snapshots", before=after(DAY_S), at=after(DAY_S))

    await journal.close()
    assert done.deleted == 375
    assert len(thousands) < 200


async def test_a_break_that_nobody_has_accepted_keeps_its_figures_however_old_it_is(
    own_db_url: str,
) -> None:
    journal = Journal.open(own_db_url)
    await journal.start_run(at=T0, mode="live", version="1", config_sha256="ab")
    account = AccountSnapshot(at=after(1), account="A1", cash=100, net_asset_value=100, holdings={})
    moved = RunState.RUNNING, RunState.RUNNING, base_words(after(1), {}), "engine"
    counts = StateChanged(after(1), *moved, scope="base:A1")
    found = (("B-0001", "FPT", 1_000, 1_500), ("B-0002", None, 100, 93))
    told: list[Entry] = [AccountSeen(after(1), account), counts]
    for name, symbol, ours, theirs in found:
        began = RunState.RUNNING, RunState.HALTED, f"{name} differs", "engine"
        numbers: Numbers = {"alert": "BREAK", "break": name, "ours": ours, "theirs": theirs}
        told.append(StateChanged(after(2), *began, scope=f"break:{name}"))
        told.append(Note(after(2), "ALERT", f"{name} differs", numbers, symbol))
    told.append(Note(after(3), RECONCILE_NOTE, "a dividend", {"difference": 25}))
    told.append(Note(after(3), "ALERT", "a late quote", {"alert": "QUOTE_OLD"}))
    await journal.write([*told, Note(after(DAY_S), "PULSE", "the newest stays")])
    with reading(own_db_url) as connection:
        before = read_recovery(connection, T0.date())
    assert [(one.ours, one.theirs) for one in before.breaks] == [(1_000, 1_500), (100, 93)]
    assert before.bases[0].cash == 100 - 7 + 25

    done = await journal.prune("notes", before=after(3 * DAY_S), at=after(4 * DAY_S))

    await journal.close()
    assert done.deleted == 1
    with reading(own_db_url) as connection:
        assert read_recovery(connection, T0.date()) == before
    assert verify(own_db_url).is_whole


async def test_the_later_ids_of_our_orders_stay_however_old_they_are(own_db_url: str) -> None:
    journal = Journal.open(own_db_url)
    await journal.start_run(at=T0, mode="live", version="1", config_sha256="ab")
    left_open, ended = Story(), Story(2, price=27_100)
    for story in (left_open, ended):
        for entries in story.placed():
            await journal.write(entries)
    unowned = but(ended.accepted, intent_id=None, strategy=None, order_id="ORD9")
    unowned = but(unowned, state=OrderState.FILLED, executed_quantity=500)
    stranger = but(unowned, order_id="APP1")
    seen = but(ended.result(1, "raw"), order_id="APP1", intent_id=None)
    await journal.write(
        [
            but(left_open.result(1, "raw"), order_id="ORD7"),
            but(ended.result(1, "raw"), order_id="ORD9"),
            but(ended.accepted, state=OrderState.CANCELLED),
            *(unowned, stranger, seen, but(ended.result(2, "newest"), at=after(2 * DAY_S))),
        ]
    )
    day = T0.date() + timedelta(days=1)
    with reading(own_db_url) as connection:
        before = read_recovery(connection, day)
    assert before.later_ids == {left_open.order_id: ("ORD7",)}
    assert [row.order_id for row in before.traded_elsewhere] == ["APP1"]

    done = await journal.prune("order_results", before=after(3 * DAY_S), at=after(4 * DAY_S))

    await journal.close()
    assert done.deleted > 0
    with reading(own_db_url) as connection:
        assert read_recovery(connection, day) == before
    assert verify(own_db_url).is_whole


async def test_rows_that_all_stay_hold_up_none_behind_them(sqlite_url: str) -> None:
    journal = Journal.open(sqlite_url)
    await journal.start_run(at=T0, mode="live", version="1", config_sha256="ab")
    orders = [but(NO, at=after(at), request_id=f"L-{at:04}") for at in range(12)]
    await journal.write([*orders, *(but(NO, at=after(100 + at), why=f"{at}") for at in range(20))])
    bound, retention.AT_ONCE_MAX = retention.AT_ONCE_MAX, 10  # type: ignore[misc]
    try:
        done = [
            await journal.prune("decisions", before=after(DAY_S), at=after(DAY_S)) for _ in range(4)
        ]
    finally:
        retention.AT_ONCE_MAX = bound  # type: ignore[misc]
    await journal.close()

    assert [each.deleted for each in done] == [0, 8, 10, 1]
    assert verify(sqlite_url, ()).is_whole


async def test_only_what_a_backup_of_this_journal_holds_is_deleted(
    own_db_url: str, tmp_path: Path
) -> None:
    journal = await filled(own_db_url, tmp_path)
    folder = tmp_path / "backups"
    folder.mkdir()
    await journal.write([but(NO, at=after(8 * DAY_S), why=f"late {each}") for each in range(3)])
    back_up(own_db_url, folder / "a.db")
    await journal.write([but(NO, at=after(9 * DAY_S), why=f"later {each}") for each in range(4)])
    (folder / "b.db").write_text("no journal")
    shutil.copy(folder / "a.db", folder / "c.db")
    with without_guards(f"sqlite:///{folder / 'c.db'}") as connection:  # another journal's end
        connection.execute(tables.chains.update().values(last_seq=9_999, head_hash="0" * 64))

    saved = saved_in(folder, own_db_url)["decisions"]
    late = after(20 * DAY_S)
    done = await journal.prune("decisions", before=late, at=late, saved=saved)
    none = await journal.prune("decisions", before=late, at=late, saved=())
    await journal.close()

    assert (done.deleted, done.unsaved) == (5 * DAYS + 3, 3)
    assert (none.deleted, none.unsaved) == (0, 3)
    assert count(own_db_url, tables.decisions, tables.decisions.c.why.like("later%")) == 4
    assert verify(own_db_url, read_heads_file(tmp_path, own_db_url).kept).is_whole


@pytest.mark.postgres
async def test_a_role_that_does_not_own_the_tables_writes_a_journal_and_deletes_nothing(
    own_postgres_url: str, tmp_path: Path
) -> None:
    engine = sa.create_engine(own_postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for command in RIGHTS:
            connection.exec_driver_sql(command)
    bots = sa.make_url(own_postgres_url).set(username=ROLE).render_as_string(hide_password=False)
    try:
        journal = await filled(bots, tmp_path)
        with pytest.raises(NotOwner, match=f"'{ROLE}' does not own the table decisions"):
            await journal.prune("decisions", before=CUT, at=CUT)
        await journal.write([but(NO, at=after(9 * DAY_S))])
        await journal.close()

        heads = read_heads_file(tmp_path, bots).kept
        assert damage_of(bots, heads[-1], 2) == ()
        assert verify(bots, heads).is_whole
        assert count(bots, tables.decisions) == 6 * DAYS + 1
        with pytest.raises(Unreachable, match="must be owner"), one_transaction(bots) as connection:
            connection.exec_driver_sql("ALTER TABLE decisions DISABLE TRIGGER ALL")
        owner = Journal.open(own_postgres_url)
        done = await pruned(owner)
        await owner.close()
        assert done["decisions"].deleted == 30
        assert verify(own_postgres_url).is_whole
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {ROLE}")
            connection.exec_driver_sql(f"DROP ROLE {ROLE}")
        engine.dispose()


def test_the_page_grants_what_this_role_has() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text()

    assert all(command.replace(ROLE, "vnbot_bot") in page for command in RIGHTS[1:])
