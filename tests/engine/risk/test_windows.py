"""The times of `when:` in a strategy file: a request outside is journalled with the window."""

from dataclasses import replace
from datetime import datetime, time
from pathlib import Path

import pytest

from bot.domain.entry import Decision
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import PlaceOrder
from bot.domain.operations import AmendAsked
from bot.domain.order import OrderType, Side
from bot.domain.plan import When
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine.settings import EngineSettings
from tests.engine.stage import DAY, PLAN, Stage, report_of

ROOT = Path(__file__).resolve().parents[3]
LUNCH = When(frozenset(), time(11, 0), time(13, 30))
"""A window over lunch: the exchange takes nothing from 11:30 to 13:00, whatever the file says."""


def decided_at(local: time, when: When) -> Decision:
    stage = Stage(replace(PLAN, when=when))
    stage.now = datetime.combine(DAY, local, EXCHANGE_TZ).astimezone(stage.now.tzinfo)
    stage.account()
    stage.quote()
    stage.request(lambda s: s.buy(100, limit=27_000, why="asked"))
    found: Decision = stage.last(Decision)
    return found


@pytest.mark.parametrize(
    ("local", "code"),
    [
        (time(10, 59, 59), "WINDOW"),
        (time(11, 0), "OK"),
        (time(13, 29, 59), "OK"),
        (time(13, 30), "WINDOW"),
    ],
)
def test_a_window_holds_from_its_first_second_to_before_its_last(local: time, code: str) -> None:
    assert decided_at(local, LUNCH).code == code


@pytest.mark.parametrize(
    "when", [When(end=time(13, 30)), When(phases=frozenset({Phase.PROGRESS}), end=time(13, 30))]
)
def test_what_is_held_can_be_sold_outside_the_window(when: When) -> None:
    stage = Stage(replace(PLAN, when=when), sellable=100)
    stage.after(1).book(report_of(stage.working(100), executed=100))
    stage.now = datetime.combine(DAY, time(14, 0), EXCHANGE_TZ).astimezone(stage.now.tzinfo)
    if when.phases:
        stage.phase(Phase.PRE_CLOSED, OrderType.LO)
    stage.account(200)
    stage.quote()

    stage.request(lambda s: s.sell(100, limit=27_050, why="out"))

    found: Decision = stage.last(Decision)
    assert (found.side, found.code) == (Side.SELL, "OK")


def test_the_page_of_limits_says_so():
    page = (ROOT / "docs" / "limits.md").read_text("utf-8")
    keeps = page.partition("What still keeps a\nsale: ")[2].partition("\n\n")[0]

    assert keeps.endswith("Its own window does not.")
    assert "window" not in keeps.partition(".")[0]


@pytest.mark.parametrize(
    ("price", "quantity", "refused"),
    [(27_050, None, "WINDOW"), (26_950, None, None), (None, 300, "WINDOW"), (None, 100, None)],
)
def test_outside_the_window_a_change_may_only_lower_a_buy(
    price: int | None, quantity: int | None, refused: str | None
) -> None:
    settings = EngineSettings(amend_enabled=True)
    stage = Stage(replace(PLAN, when=When(end=time(9, 31))), settings=settings)
    stage.working(200)
    stage.after(120).quote()
    stage.account()

    ask = AmendAsked(stage.now, "ORD1", price, quantity, "operator", "by hand")

    found = stage.engine.objection(ask)
    assert (found.code if found else None) == refused


def test_outside_the_window_a_sale_may_be_changed_either_way() -> None:
    settings = EngineSettings(amend_enabled=True)
    when = When(phases=frozenset({Phase.OPEN}), end=time(9, 15))
    held = RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    stage = Stage(replace(PLAN, when=when), settings=settings, recovery=recovery, sellable=300)
    stage.after(1).quote()
    stage.request(lambda s: s.sell(200, limit=27_000, why="out"))
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.accept(sale)

    for price, quantity in ((27_050, None), (26_950, None), (None, 300), (None, 100)):
        ask = AmendAsked(stage.now, "ORD1", price, quantity, "operator", "by hand")
        assert stage.engine.objection(ask) is None


def test_a_request_outside_is_journalled_with_the_window() -> None:
    decision = decided_at(time(14, 0), LUNCH)

    assert (decision.verdict, decision.code) == ("BLOCKED", "WINDOW")
    assert decision.checks[-1].numbers == {"time": "14:00:00", "start": "11:00", "end": "13:30"}
    assert "14:00:00" in decision.checks[-1].text
    assert "11:00-13:30" in decision.checks[-1].text
