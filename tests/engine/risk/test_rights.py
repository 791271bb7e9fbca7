"""Several corporate actions between two reads explain their sum."""

from dataclasses import replace
from datetime import timedelta

import pytest

from bot.domain.account import ShareholderRight
from bot.engine.risk import rights
from tests.engine.risk.test_ledgers import BONUS, DIVIDEND, Broker, having_bought
from tests.engine.stage import ACCOUNT, DAY, Stage

OF_SSI = ShareholderRight("000003", "SSI", "CASH_DIVIDEND", "1:1000", 300, 300_000, 0)
FREE = ShareholderRight("000004", "HPG", "BONUS_SHARES", "100:10", 200, 0, 20)


def knowing(*known: ShareholderRight) -> Stage:
    stage = Stage()
    stage.engine._state.rights[ACCOUNT] = known
    return stage


def told(stage: Stage, symbol: str | None, difference: int) -> str:
    return rights.explanation(stage.engine._state, ACCOUNT, symbol, difference)


@pytest.mark.parametrize(
    ("came", "of_hpg", "of_ssi"),
    [
        (760_000, "+475,000 after tax", "+285,000 after tax"),
        (800_000, "+500,000 before tax", "+300,000 before tax"),
    ],
)
def test_two_dividends_of_one_morning_are_named(came: int, of_hpg: str, of_ssi: str) -> None:
    broker = having_bought()
    broker.read(rights=(DIVIDEND, OF_SSI))

    broker.read(2, cash=broker.cash + came)

    assert broker.notes() == [
        f"cash dividend HPG 500 VND/share: {of_hpg}; cash dividend SSI 1,000 VND/share: {of_ssi}"
    ]
    broker.read(2, cash=broker.cash + came)
    assert broker.notes()[1].endswith("VND that no order explains")


def test_a_stock_dividend_and_a_bonus_of_one_ex_date_are_named_and_halt_the_symbol() -> None:
    broker: Broker = having_bought()
    broker.read(rights=(BONUS, OF_SSI, FREE))

    broker.read(2, total=250)

    named = "stock dividend HPG 100:15: +30 shares; bonus shares HPG 100:10: +20 shares"
    assert broker.notes() == [named]
    assert "HPG" in broker.stage.engine.status().halted_symbols


def test_a_right_that_explains_all_by_itself_comes_before_a_sum() -> None:
    alone = replace(OF_SSI, number="000005", dividend=800_000)
    stage = knowing(DIVIDEND, OF_SSI, alone)

    assert told(stage, None, 760_000) == "cash dividend SSI 2,666 VND/share: +760,000 after tax"


@pytest.mark.parametrize(
    ("other", "came"),
    [
        (OF_SSI, 475_000 + 300_000),  # one broker withholds the tax, or does not
        (OF_SSI, 760_001),
        (replace(OF_SSI, paid_on=DAY - timedelta(days=8)), 760_000),
    ],
)
def test_what_is_no_exact_sum_of_rights_of_today_is_not_explained(
    other: ShareholderRight, came: int
) -> None:
    assert told(knowing(DIVIDEND, other), None, came) == ""


@pytest.mark.parametrize(
    ("summed", "known", "is_named"), [(3, 12, True), (4, 12, False), (2, 13, False)]
)
def test_sums_are_of_few_rights_among_few(summed: int, known: int, is_named: bool) -> None:
    every = [replace(FREE, number=str(each), shares=10**each) for each in range(known)]

    text = told(knowing(*every), "HPG", sum(each.shares for each in every[:summed]))

    assert (text.count("bonus shares HPG") == summed) is is_named
    assert bool(text) is is_named


def test_no_difference_is_explained_by_no_right() -> None:
    assert told(knowing(), None, 0) == ""
