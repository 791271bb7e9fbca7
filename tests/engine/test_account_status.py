"""What an account is worth: our fills since the broker's numbers, and what settles when."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import Fill
from bot.domain.message import AccountRead
from bot.domain.order import Side
from bot.domain.recovery import Recovery
from bot.engine.account_status import Balance, Due, HeldShares
from tests.engine.stage import ACCOUNT, DAY, START, Stage, report_of

MONDAY = START.replace(day=23, hour=6, minute=0, second=0, microsecond=0)
"""13:00 of the second trading day after."""


def test_a_buy_and_a_sale_move_cash_at_once_and_what_they_bring_is_due_with_its_time() -> None:
    stage = Stage(cash=50_000_000, sellable=500)
    bought = stage.working(100, 27_000, "ORD1")
    stage.after(1).book(report_of(bought, "ORD1", executed=100))
    stage.after(5).buy(200, 26_800)

    (balance,) = stage.engine.balances()

    assert balance == Balance(
        account=ACCOUNT,
        read_at=START,
        cash=50_000_000 - 2_700_000 - 4_050,
        broker_cash=50_000_000,
        broker_net_assets=50_000_000,
        buying_power=50_000_000 - 2_704_050 - 5_360_000 - 8_040,
        due=(Due(MONDAY, 0, (("HPG", 100),)),),
        held=(HeldShares("HPG", 600, 500, 100, 27_000, START),),
    )


def test_what_is_due_has_come_after_its_time() -> None:
    stage = Stage(cash=50_000_000, sellable=500)
    bought = stage.working(100, 27_000, "ORD1")
    stage.after(1).book(report_of(bought, "ORD1", executed=100))

    stage.pass_time((MONDAY - stage.now + timedelta(seconds=1)).total_seconds())
    (balance,) = stage.engine.balances()

    assert balance.due == ()
    assert [(one.total, one.sellable, one.receiving) for one in balance.held] == [(600, 600, 0)]


@pytest.mark.parametrize("read_after", [1, -1])
def test_after_a_restart_too_what_is_due_has_come_after_its_time(read_after: int) -> None:
    """The last read of before was after the sale, or before it."""
    before = Stage(cash=50_000_000, sellable=500)
    intent = before.working(100, 27_000)
    before.after(1).book(report_of(intent, executed=100))
    sold = replace(before.all(Fill)[0], side=Side.SELL, tax=2_700)
    read_at = sold.at + timedelta(seconds=read_after)
    shares = 400 if read_after > 0 else 500
    holding = Holding("HPG", shares, shares, 0, 20_000)
    base = AccountSnapshot(read_at, ACCOUNT, 50_000_000, 50_000_000, {"HPG": holding})
    known = Recovery(DAY, bases=(base,), recent_fills=((DAY, sold),))

    stage = Stage(recovery=known, is_open=False)
    stage.after(60).handle(AccountRead(stage.now, base))
    (early,) = stage.engine.balances()
    stage.pass_time((MONDAY - stage.now + timedelta(seconds=1)).total_seconds())
    (balance,) = stage.engine.balances()

    proceeds = sold.amount - sold.fee - sold.tax
    assert (early.cash, early.due) == (50_000_000, (Due(MONDAY, proceeds, ()),))
    assert (balance.cash, balance.due) == (50_000_000 + proceeds, ())
    assert balance.buying_power == 50_000_000 + proceeds
    assert [(one.total, one.sellable, one.receiving) for one in balance.held] == [(400, 400, 0)]


def test_an_account_that_was_not_read_has_no_balance() -> None:
    assert Stage(is_open=False).engine.balances() == ()
