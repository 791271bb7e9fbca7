"""What the oracle lets pass of an order without an intent, and what it does not."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bot.drill.oracle import (
    Promise,
    StoryResult,
    breaks_have_a_reason,
    faults_in,
    fills_add_up,
    fills_go_to_the_strategy_that_asked,
    moves_follow_one_another,
    orders_agree_with_the_ledger,
    outcome_of,
    the_account_is_explained,
    the_last_read_is_the_ledgers,
)

GHOST = "ORD2 is at the broker and looks like BUY 100 HPG LIMIT 26,900 (L-0001), which was REFUSED"
TABLES = (
    "create table orders (order_id, intent_id, symbol, side, quantity, note)",
    "create table intents (intent_id, order_id, symbol, side, quantity, state)",
    "create table notes (kind, symbol, text, numbers default '{}')",
    "create table halts (scope, to_state)",
    "insert into intents values ('L-0001', null, 'HPG', 'BUY', 100, 'REFUSED')",
    "insert into orders values ('ORD2', null, 'HPG', 'BUY', 100, 'looks like L-0001')",
    f"insert into notes (kind, symbol, text) values ('ALERT', 'HPG', '{GHOST}')",
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
    for name in ("executed_quantity", "executed_amount", "fee", "tax"):
        journal.execute(f"alter table orders add {name} default 0")
    ended_at = datetime(2026, 11, 19, 2, 40, tzinfo=UTC)
    at = ended_at - timedelta(seconds=filled_s_before_the_end)
    truth = {"at": at.isoformat(), "executed": 100, "amount": 2_700_000, "remaining": 0}
    truth |= {"fee": 0, "tax": 0}
    url, hand = f"sqlite:///{tmp_path / 'journal.db'}", frozenset(by_hand)

    found = orders_agree_with_the_ledger(
        StoryResult(url, {"ORD2": truth}, by_hand=hand, ended_at=ended_at)
    )

    assert bool(found) is is_found


@pytest.mark.parametrize(
    ("told", "by_hand", "is_found"),
    [
        ({"order_id": "ORD2", "is_kept": True}, {"ORD2"}, False),
        ({"order_id": "ORD2", "is_kept": False}, {"ORD2"}, True),
        ({"order_id": "ORD3", "is_kept": True}, {"ORD2", "ORD3"}, True),
        ({"order_id": "ORD2", "is_kept": True}, set(), True),
    ],
)
def test_what_becomes_of_a_strangers_order_once_it_is_called_one_is_excused(
    tmp_path: Path,
    journal: sqlite3.Connection,
    told: dict[str, object],
    by_hand: set[str],
    *,
    is_found: bool,
) -> None:
    journal.execute("update notes set numbers = ?", (json.dumps(told),))
    journal.execute("update orders set intent_id = 'L-0001'")
    journal.execute("alter table orders add state default 'ACCEPTED'")
    for name in ("executed_quantity", "executed_amount", "fee", "tax"):
        journal.execute(f"alter table orders add {name} default 0")
    truth = {"at": "2026-11-19T02:40:00+00:00", "executed": 0, "amount": 0, "remaining": 0}
    truth |= {"fee": 0, "tax": 0}
    url, hand = f"sqlite:///{tmp_path / 'journal.db'}", frozenset(by_hand)

    found = orders_agree_with_the_ledger(StoryResult(url, {"ORD2": truth}, by_hand=hand))

    assert found == (["ORD2 has ended and is ACCEPTED"] if is_found else [])


def test_a_bot_that_never_made_its_journal_is_a_fault_and_no_bug(tmp_path: Path) -> None:
    (found,) = faults_in(StoryResult(f"sqlite:///{tmp_path / 'journal.db'}", {}))

    assert "no such file" in found


TRADED = """
    drop table orders;
    drop table intents;
    drop table notes;
    create table orders (order_id, intent_id, symbol, side, quantity, note, executed_quantity,
        executed_amount, fee, tax, state);
    create table intents (intent_id, strategy, account, symbol, side, quantity, state);
    create table notes (kind, symbol, text, numbers);
    create table fills (seq, fill_id, order_id, intent_id, strategy, account, symbol, side,
        quantity, amount, fee, tax, position, realised);
    create table account_snapshots (seq, taken_at, account, cash, holdings);
    insert into intents values
        ('L-0001', 'calm', 'A', 'HPG', 'BUY', 200, 'ACKED'),
        ('L-0002', 'calm', 'A', 'HPG', 'SELL', 200, 'ACKED');
    insert into orders values
        ('ORD1', 'L-0001', 'HPG', 'BUY', 200, '', 200, 5400000, 8100, 0, 'FILLED'),
        ('ORD2', 'L-0002', 'HPG', 'SELL', 200, '', 200, 5500000, 8250, 5500, 'FILLED');
    insert into fills values
        (1, 'F-0001', 'ORD1', 'L-0001', 'calm', 'A', 'HPG', 'BUY', 100, 2700000, 4050, 0, 100, 0),
        (2, 'F-0002', 'ORD1', 'L-0001', 'calm', 'A', 'HPG', 'BUY', 100, 2700000, 4050, 0, 200, 0),
        (3, 'F-0003', 'ORD2', 'L-0002', 'calm', 'A', 'HPG', 'SELL', 200, 5500000, 8250, 5500, 0,
        100000);
    insert into account_snapshots values
        (1, '2026-11-19T02:20:01+00:00', 'A.1', 90000000, '{"SSI": {"total": 300}}'),
        (2, '2026-11-19T02:30:00+00:00', 'A.1', 84591900, '{"SSI": {"total": 300}}');
"""
"""Two buys of 100 HPG and their sale: 90,000,000 VND become 84,591,900 and 5,486,250 to come."""
CAME = [{"symbol": "", "quantity": 5_486_250, "at": "2026-11-23T06:00:00+00:00"}]
POSITIONS = [{"symbol": "SSI", "settled": 300}, {"symbol": "HPG", "settled": 0}]
ACCOUNT = {"cash": 84_591_900, "positions": POSITIONS, "due": CAME, "entitlements": []}
LEDGER = (
    {"kind": "order", "order": "ORD1", "symbol": "HPG", "side": "BUY", "executed": 200,
     "amount": 5_400_000, "fee": 8_100, "tax": 0, "remaining": 0},
    {"kind": "order", "order": "ORD2", "symbol": "HPG", "side": "SELL", "executed": 200,
     "amount": 5_500_000, "fee": 8_250, "tax": 5_500, "remaining": 0},
    {"kind": "account", "account": "A", "record": ACCOUNT},
)  # fmt: skip
MONEY: tuple[Promise, ...] = (
    orders_agree_with_the_ledger,
    fills_add_up,
    fills_go_to_the_strategy_that_asked,
    the_account_is_explained,
    the_last_read_is_the_ledgers,
    breaks_have_a_reason,
)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        pytest.param("select 1", set(), id="as it was"),
        pytest.param(
            "update fills set fee = fee + 777 where seq = 2",
            {"fills_add_up", "the_account_is_explained"},
            id="a fee of a fill",
        ),
        pytest.param(
            "update fills set tax = 0", {"fills_add_up", "the_account_is_explained"}, id="no tax"
        ),
        pytest.param(
            "update orders set fee = fee + 1", {"orders_agree_with_the_ledger"}, id="an order's fee"
        ),
        pytest.param(
            "update fills set strategy = 'wild' where seq = 1",
            {"fills_go_to_the_strategy_that_asked"},
            id="another strategy's",
        ),
        pytest.param(
            "update fills set position = 100 where seq = 2",
            {"fills_go_to_the_strategy_that_asked"},
            id="not counted in the position",
        ),
        pytest.param(
            "update fills set realised = realised - 1 where seq = 3",
            {"fills_go_to_the_strategy_that_asked"},
            id="not all of the cost",
        ),
        pytest.param(
            "update account_snapshots set cash = cash + 1 where seq = 2",
            {"the_last_read_is_the_ledgers"},
            id="cash at the end",
        ),
        pytest.param(
            """update account_snapshots set holdings = '{"SSI": {"total": 200}}' where seq = 2""",
            {"the_last_read_is_the_ledgers"},
            id="shares at the end",
        ),
        pytest.param(
            """update account_snapshots set holdings = '{"SSI": {"total": 200}}' where seq = 1""",
            {"the_account_is_explained"},
            id="shares from nowhere",
        ),
        pytest.param(
            """insert into notes values ('ALERT', 'HPG', 'HPG in all', '{"alert": "BREAK"}')""",
            {"breaks_have_a_reason"},
            id="a break",
        ),
    ],
)
def test_every_dong_and_every_share_is_judged(
    tmp_path: Path, journal: sqlite3.Connection, change: str, broken: set[str]
) -> None:
    journal.executescript(TRADED + change)
    lines = ({"at": "2026-11-19T02:25:00+00:00", **line} for line in LEDGER)
    (tmp_path / "sandbox.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    outcome = outcome_of(tmp_path)

    assert {check.__name__ for check in MONEY if check(outcome)} == broken


def test_somebody_elses_order_explains_a_break_of_its_symbol_and_of_cash_and_its_money(
    tmp_path: Path, journal: sqlite3.Connection
) -> None:
    journal.executescript(TRADED + "delete from fills where order_id = 'ORD1'")
    for symbol in ("HPG", None, "SSI"):
        broke = """insert into notes values ('ALERT', ?, 'in all', '{"alert": "BREAK"}')"""
        journal.execute(broke, (symbol,))
    lines = ({"at": "2026-11-19T02:25:00+00:00", **line} for line in LEDGER)
    (tmp_path / "sandbox.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    outcome = replace(outcome_of(tmp_path), by_hand=frozenset({"ORD1"}))

    assert the_account_is_explained(outcome) == []
    assert len(breaks_have_a_reason(outcome)) == 1
