"""Fills that the account shows and no row: a person is told, and nothing else changes."""

from dataclasses import replace

import pytest

from bot.domain.account import AccountSnapshot, Holding, ShareholderRight
from bot.domain.entry import Note, RunState
from bot.domain.message import AccountRead, PlaceOrder
from bot.domain.order import OrderReport, OrderState
from bot.domain.recovery import RecoveredStrategy, Recovery
from tests.engine.stage import ACCOUNT, DAY, PLAN, Stage, report_of

HELD = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
CODE = "FILLS_UNSHOWN"


def _working(*, sells: bool = False) -> tuple[Stage, OrderReport]:
    """A thousand shares, and an order for 500 that works."""
    stage = Stage(sellable=1_000, recovery=Recovery(DAY, strategies={"test": HELD}))
    stage.account()
    stage.after(60).quote()
    if sells:
        stage.request(lambda s: s.sell(500, limit=27_000, why="a test"))
    else:
        stage.request(lambda s: s.buy(500, limit=27_000, why="a test"))
    intent = stage.last(PlaceOrder).intent
    stage.accept(intent)
    row = report_of(intent)
    stage.after(1).book(row)
    return stage, row


def _read(stage: Stage, total: int, *rights: ShareholderRight) -> None:
    holding = Holding("HPG", total, min(total, 500), 0, 20_000)
    snapshot = AccountSnapshot(stage.now, ACCOUNT, stage.cash, 10**8, {"HPG": holding})
    stage.handle(AccountRead(stage.now, snapshot, rights or None))


def _minutes(stage: Stage, row: OrderReport, *totals: int) -> list[str]:
    """A read of the account and a day order book each minute; return what is shown at the end."""
    for total in totals:
        _read(stage.after(59), total)
        stage.after(1).book(replace(row, requested_at=stage.now))
    return [each.code for each in stage.engine.status().standing if each.code == CODE]


def _told(stage: Stage) -> list[str]:
    return [note.text for note in stage.all(Note) if note.numbers.get("alert") == CODE]


@pytest.mark.parametrize(
    ("sells", "total", "words"),
    [(False, 1_300, "300 HPG more than"), (True, 700, "300 HPG fewer than")],
)
def test_shares_that_an_open_order_would_explain_and_no_row_shows_are_told_after_three_minutes(
    *, sells: bool, total: int, words: str
) -> None:
    stage, row = _working(sells=sells)

    early = _minutes(stage, row, total, total, total)
    shown = _minutes(stage, row, total, total)

    assert (early, shown) == ([], [CODE])
    [text] = _told(stage)
    assert words in text
    assert "L-0001 (ORD1)" in text
    assert stage.engine.status().state is RunState.RUNNING
    assert not [note for note in stage.all(Note) if note.numbers.get("alert") == "BREAK"]


def test_it_is_over_once_a_read_agrees_or_a_row_shows_the_fill() -> None:
    stage, row = _working()
    assert _minutes(stage, row, *[1_300] * 5) == [CODE]

    assert _minutes(stage, row, 1_000) == []
    assert _minutes(stage, row, *[1_300] * 5) == [CODE]
    filled = replace(row, executed_quantity=300, executed_amount=300 * 27_000, average_price=27_000)
    assert _minutes(stage, replace(filled, remaining_quantity=200), *[1_300] * 6) == []
    assert len(_told(stage)) == 2


@pytest.mark.parametrize(
    "totals", [[1_300, 1_000] * 4, [1_100, 1_200, 1_300, 1_400, 1_500], [1_000] * 6], ids=str
)
def test_reads_that_do_not_stay_the_same_are_no_fill_that_no_row_shows(totals: list[int]) -> None:
    stage, row = _working()

    assert _minutes(stage, row, *totals) == []
    assert _told(stage) == []


def test_an_account_that_agrees_while_a_sale_works_is_nothing_to_tell() -> None:
    stage, row = _working(sells=True)

    assert _minutes(stage, row, *[1_000] * 6) == []


def test_the_other_side_than_the_orders_is_not_explained_by_it() -> None:
    stage, row = _working()

    _minutes(stage, row, *[700] * 5)

    assert _told(stage) == []


def test_an_account_as_it_was_before_our_own_fill_is_told_as_that() -> None:
    stage, row = _working()
    first = replace(row, executed_quantity=300, executed_amount=300 * 27_000, average_price=27_000)

    _minutes(stage, replace(first, remaining_quantity=200), *[1_300] * 2, *[1_000] * 6)

    assert _told(stage) == []


def test_a_read_of_before_a_sale_of_ours_shows_no_fill_of_a_buy_beside_it() -> None:
    beside = [replace(PLAN, name="other")]
    stage = Stage(sellable=1_000, recovery=Recovery(DAY, strategies={"test": HELD}), beside=beside)
    stage.account()
    stage.after(60).quote()
    stage.request(lambda s: s.sell(300, limit=27_000, why="a test"))
    sale = stage.last(PlaceOrder).intent
    stage.accept(sale)
    stage.request(lambda s: s.buy(500, limit=26_900, why="a test"), by="other")
    buy = stage.last(PlaceOrder).intent
    stage.accept(buy, "ORD2")
    sold = report_of(sale, executed=300, state=OrderState.FILLED, status="MATCHED_ALL")
    stage.after(1).book(sold, report_of(buy, "ORD2"))

    for _ in range(6):
        _read(stage.after(59), 1_000)
        stage.after(1).book(sold, report_of(buy, "ORD2"))

    assert [each.code for each in stage.engine.status().standing] == ["ACCOUNT_OLD"]


def test_shares_of_a_right_may_come_while_an_order_works() -> None:
    stage, row = _working()
    right = ShareholderRight("1", "HPG", "STOCK_DIVIDEND", "10:3", 1_000, 0, 300, None)
    _read(stage, 1_000, right)

    _minutes(stage, row, *[1_300] * 6)

    assert _told(stage) == []


def test_without_a_day_order_book_of_since_then_no_row_is_known_to_lack_it() -> None:
    stage, row = _working()
    for _ in range(6):
        _read(stage.after(60), 1_300)
    early = _told(stage)

    _minutes(stage, row, 1_300, 1_300)

    assert (early, len(_told(stage))) == ([], 1)
