"""A write is whole, durable, numbered and linked, and comes back as it went in."""

import typing
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa

from bot.domain.entry import Entry, Note
from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.encoding import WHOLE_MAX, link
from bot.journal.database.engines import reading_engine
from bot.journal.errors import Contradicted, JournalError, NeedsMigration, Unreachable, UnusableUrl
from bot.journal.journal import Journal
from bot.journal.upkeep.verify import verify
from bot.journal.writing.rows import sealed_content
from tests.journal.facts import DAY, EVERY_KIND, Story, after, but


def rows(url: str, table: sa.Table) -> list[dict[str, object]]:
    with reading_engine(url).connect() as connection:
        order = table.c.seq if "seq" in table.c else None
        return [dict(row) for row in connection.execute(table.select().order_by(order)).mappings()]


def count(url: str, table: sa.Table) -> int:
    return len(rows(url, table))


async def test_every_kind_of_entry_is_stored(journal: Journal, db_url: str) -> None:
    assert {type(entry) for entry in EVERY_KIND} == set(typing.get_args(Entry))

    await journal.write(EVERY_KIND)

    stored = {table.name: count(db_url, table) for table in (*tables.CHAINED, tables.orders)}
    assert stored == {
        "intents": 1,
        "attempts": 1,
        "orders": 1,
        "order_results": 1,
        "transitions": 2,
        "fills": 1,
        "decisions": 1,
        "auth_events": 1,
        "halts": 2,
        "notes": 1,
        "account_snapshots": 1,
        "daily_closes": 0,
    }


async def test_one_bad_entry_takes_the_whole_transaction_back(
    journal: Journal, db_url: str
) -> None:
    lost = but(Story().finished, attempt_id="nobody's")

    with pytest.raises(Contradicted, match="attempts has no row nobody's"):
        await journal.write([Story().decision, lost])

    assert count(db_url, tables.decisions) == 0
    await journal.write([Story().decision])
    assert [row["seq"] for row in rows(db_url, tables.decisions)] == [1]


async def test_a_number_that_no_database_holds_is_stored_as_the_largest(
    journal: Journal, db_url: str
) -> None:
    decision = but(Story().decision, quantity=10**30, price=-(10**30))
    order = but(Story().accepted, price=10**30)

    await journal.write([decision, Story().recorded, order])

    [stored], [row] = rows(db_url, tables.decisions), rows(db_url, tables.orders)
    assert (stored["quantity"], stored["price"]) == (WHOLE_MAX, -WHOLE_MAX)
    assert row["price"] == WHOLE_MAX
    assert verify(db_url).is_whole


async def test_entries_are_numbered_in_one_row_over_all_tables(
    journal: Journal, db_url: str
) -> None:
    await journal.write([Story().decision, Story().recorded])
    await journal.write([Note(after(1), "PULSE", "alive")])

    assert [
        rows(db_url, t)[0]["seq"] for t in (tables.decisions, tables.intents, tables.notes)
    ] == [
        1,
        2,
        3,
    ]


async def test_rows_are_linked_from_the_genesis_hash(journal: Journal, db_url: str) -> None:
    await journal.write(EVERY_KIND)

    first, second = rows(db_url, tables.transitions)

    assert first["prev_hash"] == tables.GENESIS
    assert second["prev_hash"] == first["hash"]
    content = sealed_content(tables.transitions, second)  # type: ignore[arg-type]
    assert second["hash"] == link(str(first["hash"]), content)


def test_a_hash_covers_the_hash_before_and_the_row_as_json() -> None:
    by_hand = sha256('0000|{"a":"Giá","b":1,"c":null}'.encode()).hexdigest()

    assert link("0000", {"c": None, "b": 1, "a": "Giá"}) == by_hand


async def test_instants_are_utc_text_with_microseconds(journal: Journal, db_url: str) -> None:
    await journal.write([Story().decision])

    assert rows(db_url, tables.decisions)[0]["at"] == "2026-11-19T02:21:00.102000+00:00"


async def test_a_polled_element_that_says_nothing_new_is_stored_once(
    journal: Journal, db_url: str
) -> None:
    story = Story()

    await journal.write([story.result(0.1, "A", "place"), story.result(1, "A")])
    await journal.write([story.result(2, "A"), story.result(3, "A", "detail")])
    await journal.write([story.result(4, "B"), story.result(5, "A"), story.result(6, "A", "place")])

    seen = [(row["source"], row["raw"]) for row in rows(db_url, tables.order_results)]
    assert seen == [("place", "A"), ("book", "A"), ("book", "B"), ("book", "A"), ("place", "A")]


async def test_whatever_a_broker_says_can_be_stored(journal: Journal, db_url: str) -> None:
    hostile = "NUL \x00, lone \ud800, '; DROP TABLE orders; --, Giá nằm ngoài, \u202e"

    await journal.write(
        [Story().result(1, hostile), Note(after(1), "ALERT", hostile, {"x": 1e999})]
    )

    stored = "NUL \ufffd, lone ?, '; DROP TABLE orders; --, Giá nằm ngoài, \u202e"
    assert rows(db_url, tables.order_results)[0]["raw"] == stored
    assert rows(db_url, tables.notes)[0]["numbers"] == '{"x": "inf"}'
    assert verify(db_url).is_whole


async def test_an_intent_moves_only_along_the_table(journal: Journal, db_url: str) -> None:
    story = Story()
    await journal.write([story.recorded])

    with pytest.raises(Contradicted, match="L-0003 is READY; it can't move READY to ACKED"):
        await journal.write([story.moved(SendState.READY, SendState.ACKED)])
    with pytest.raises(Contradicted, match="L-0003 is READY; it can't move SENDING to ACKED"):
        await journal.write([story.moved(SendState.SENDING, SendState.ACKED)])
    with pytest.raises(Contradicted, match="L-0009 is not in the journal"):
        await journal.write([Story(9).moved(SendState.READY, SendState.SENDING)])

    assert rows(db_url, tables.intents)[0]["state"] == "READY"


async def test_a_verdict_of_not_placed_carries_its_proof(journal: Journal) -> None:
    story = Story()
    await journal.write([story.recorded, *story.sending])
    await journal.write(
        [
            story.moved(SendState.SENDING, SendState.UNKNOWN),
            story.moved(SendState.UNKNOWN, SendState.FRESH),
        ]
    )

    bare = story.moved(SendState.FRESH, SendState.NOT_PLACED)
    with pytest.raises(Contradicted):
        await journal.write([bare])

    await journal.write([but(bare, proof="FRESH")])


@pytest.mark.parametrize(
    "changes",
    [
        {"quantity": 100.5},  # no whole number: SQLSTATE class 22
        {"order_id": "".join(map(chr, range(0x4E00, 0x7E00)))},  # too long for an index: class 54
    ],
)
async def test_what_the_database_can_never_hold_is_no_database_out_of_reach(
    postgres_url: str, changes: dict[str, object]
) -> None:
    """A bot waits for one that is out of reach, and writes the same again until it is stored."""
    journal = Journal.open(postgres_url)

    with pytest.raises(Contradicted):
        await journal.write([but(Story(1).accepted, **changes)])
    await journal.write([Story(2).accepted])
    await journal.close()


async def test_a_signal_makes_one_intent(journal: Journal) -> None:
    await journal.write([Story(1).recorded])

    twin = but(Story(2).recorded, intent=but(Story(2).intent, signal_id="signal-1"))
    with pytest.raises(Contradicted):
        await journal.write([twin])


async def test_a_fill_has_the_trading_date_of_its_order(journal: Journal, db_url: str) -> None:
    story = Story(trading_date=DAY.replace(day=18))
    order, fill = story.filled(200, position=200)[1:]
    await journal.write([story.recorded, order])
    await journal.write([fill])

    assert rows(db_url, tables.fills)[0]["trading_date"] == "2026-11-18"


async def test_a_write_of_nothing_is_nothing(journal: Journal) -> None:
    await journal.write([])


async def test_runs_are_counted_over_the_life_of_a_journal(journal: Journal, db_url: str) -> None:
    facts = {"mode": "sandbox", "version": "0.1.0", "config_sha256": "ab" * 32}
    first = await journal.start_run(at=after(0), **facts)
    await journal.end_run(first, "SIGTERM", at=after(60))
    second = await journal.start_run(at=after(90), **facts)

    assert [first, second] == [1, 2]
    ended = [(row["run_id"], row["end_reason"]) for row in rows_of_runs(db_url)]
    assert ended == [(1, "SIGTERM"), (2, None)]


def rows_of_runs(url: str) -> list[dict[str, object]]:
    with reading_engine(url).connect() as connection:
        query = tables.runs.select().order_by(tables.runs.c.run_id)
        return [dict(row) for row in connection.execute(query).mappings()]


def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "new" / "journal.db"

    with pytest.raises(Unreachable, match="no such file"):
        Journal.open(f"sqlite:///{missing}")

    assert not missing.parent.exists()


def test_a_database_without_the_schema_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "journal.db"
    empty.touch()

    with pytest.raises(NeedsMigration, match="has schema none, this program needs"):
        Journal.open(f"sqlite:///{empty}")


@pytest.mark.parametrize("url", ["sqlite://", "mysql://x/y", "journal.db", "sqlite:///:memory:"])
def test_a_url_without_a_journal_is_refused(url: str) -> None:
    with pytest.raises(UnusableUrl):
        Journal.open(url)


def test_an_unreachable_server_whose_url_names_no_user_is_asked_as_the_systems() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 as this system's user, database"):
        Journal.open("postgresql+psycopg://127.0.0.1:1/journal")


def test_an_unreachable_server_is_named_by_the_parameters_of_its_url() -> None:
    url = "postgresql+psycopg:///journal?host=127.0.0.1&port=1&user=bob&password=hunter2"

    with pytest.raises(Unreachable, match=r"postgres at 127\.0\.0\.1:1 as user 'bob'") as caught:
        Journal.open(url)

    assert "hunter2" not in str(caught.value)


def test_a_parameter_that_postgres_does_not_know_is_a_mistake_in_the_url() -> None:
    with pytest.raises(UnusableUrl, match='invalid connection option "abc"; write'):
        Journal.open("postgresql+psycopg://bob:hunter2@127.0.0.1:1/journal?abc=5")


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(Unreachable) as caught:
        Journal.open("postgresql+psycopg://bot:hunter2@127.0.0.1:1/journal")

    error: BaseException | None = caught.value
    assert str(error).startswith(
        "can't reach postgres at 127.0.0.1:1 as user 'bot', database 'journal' ("
    )
    assert "refused" in str(error)
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__


def test_every_error_is_a_journal_error() -> None:
    assert issubclass(Unreachable, JournalError)
    assert issubclass(Contradicted, JournalError)
