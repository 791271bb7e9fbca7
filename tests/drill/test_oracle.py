"""What the oracle lets pass of an order without an intent, and what it does not."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.drill.oracle import (
    StoryResult,
    faults_in,
    moves_follow_one_another,
    orders_agree_with_the_ledger,
)

GHOST = "ORD2 is at the broker and looks like BUY 100 HPG LIMIT 26,900 (L-0001), which was REFUSED"
TABLES = (
    "create table orders (order_id, intent_id, symbol, side, quantity, note)",
    "create table intents (intent_id, order_id, symbol, side, quantity, state)",
    "create table notes (kind, symbol, text)",
    "create table halts (scope, to_state)",
    "insert into intents values ('L-0001', null, 'HPG', 'BUY', 100, 'REFUSED')",
    "insert into orders values ('ORD2', null, 'HPG', 'BUY', 100, 'looks like L-0001')",
    f"insert into notes values ('ALERT', 'HPG', '{GHOST}')",
    "insert into halts values ('symbol:HPG', 'HALTED')",
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A journal in which a ghost of a refused order was named, and its symbol halted."""
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as made:
        for statement in TABLES:
            made.execute(statement)
        yield made


def doubtful(tmp_path: Path) -> set[str]:
    return set(StoryResult(f"sqlite:///{tmp_path / 'journal.db'}", {}).doubtful())


def test_a_ghost_of_a_refused_order_is_nobodys_once_it_is_named_and_halts(
    tmp_path: Path, journal: sqlite3.Connection
) -> None:
    assert doubtful(tmp_path) == {"ORD2"}
    journal.execute("update orders set note = note || ' (scripted by scenario demo)'")
    assert doubtful(tmp_path) == {"ORD2"}


@pytest.mark.parametrize(
    "lacking",
    [
        "delete from notes",
        "delete from halts",
        "update halts set scope = 'symbol:SSI'",
        "update orders set note = 'not placed here'",
        "update orders set note = note || '1'",
        "update intents set state = 'NOT_PLACED'",
        "update intents set state = 'ACKED'",
        "update orders set intent_id = 'L-0001'",
    ],
)
def test_one_in_silence_or_without_a_halt_or_of_no_refusal_is_not_excused(
    tmp_path: Path, journal: sqlite3.Connection, lacking: str
) -> None:
    journal.execute(lacking)

    assert doubtful(tmp_path) == set()


MOVES = (
    "drop table orders",
    "create table orders (order_id, state)",
    "create table transitions (seq, machine, order_id, from_state, to_state)",
    "insert into orders values ('ORD2', 'FILLED')",
    "insert into transitions values (1, 'order', 'ORD2', 'SUBMITTED', 'ACCEPTED')",
    "insert into transitions values (2, 'order', 'ORD2', 'ACCEPTED', 'FILLED')",
    "insert into transitions values (3, 'send', null, 'SENDING', 'ACKED')",
)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("select 1", []),
        (
            "insert into transitions values (4, 'order', 'ORD2', 'ACCEPTED', 'FILLED')",
            ["ORD2 moves from ACCEPTED to FILLED, and was FILLED"],
        ),
        (
            "insert into transitions values (4, 'order', 'ORD2', 'FILLED', 'FILLED')",
            ["ORD2 moves from FILLED to FILLED, and was FILLED"],
        ),
        (
            "delete from transitions where seq = 2",
            ["ORD2 is FILLED, and moved to ACCEPTED"],
        ),
    ],
)
def test_a_move_that_is_told_twice_or_not_at_all_is_found(
    tmp_path: Path, journal: sqlite3.Connection, change: str, found: list[str]
) -> None:
    for statement in (*MOVES, change):
        journal.execute(statement)

    assert (
        moves_follow_one_another(StoryResult(f"sqlite:///{tmp_path / 'journal.db'}", {})) == found
    )


@pytest.mark.parametrize(
    ("filled_s_before_the_end", "by_hand", "is_found"),
    [(30, {"ORD2"}, False), (120, {"ORD2"}, True), (30, set(), True)],
)
def test_a_fill_of_the_last_minute_is_excused_for_somebody_elses_order_alone(
    tmp_path: Path,
    journal: sqlite3.Connection,
    filled_s_before_the_end: int,
    by_hand: set[str],
    *,
    is_found: bool,
) -> None:
    journal.execute("update orders set note = ''")
    journal.execute("alter table orders add state default 'ACCEPTED'")
    for name in ("executed_quantity", "executed_amount"):
        journal.execute(f"alter table orders add {name} default 0")
    ended_at = datetime(2026, 11, 19, 2, 40, tzinfo=UTC)
    at = ended_at - timedelta(seconds=filled_s_before_the_end)
    truth = {"at": at.isoformat(), "executed": 100, "amount": 2_700_000, "remaining": 0}
    url, hand = f"sqlite:///{tmp_path / 'journal.db'}", frozenset(by_hand)

    found = orders_agree_with_the_ledger(
        StoryResult(url, {"ORD2": truth}, by_hand=hand, ended_at=ended_at)
    )

    assert bool(found) is is_found


def test_a_bot_that_never_made_its_journal_is_a_fault_and_no_bug(tmp_path: Path) -> None:
    (found,) = faults_in(StoryResult(f"sqlite:///{tmp_path / 'journal.db'}", {}))

    assert "no such file" in found
