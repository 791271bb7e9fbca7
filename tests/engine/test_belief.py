"""Market data that lies is held: no order is based on it, and the symbol says why."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest

from bot.domain.entry import Decision, Note, Verdict
from bot.domain.instrument import Exchange, Instrument, InstrumentKind, Phase
from bot.domain.message import (
    ClockOffsetChanged,
    DepthReceived,
    InstrumentsRead,
    PlaceOrder,
    QuoteReceived,
    Reconciled,
    TradingDayStarted,
)
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import Side
from bot.domain.quote import ClosesRead, Depth, DepthLevel, LastClose, Quote
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.domain.status import SymbolStatus, TradingMethod
from bot.engine.belief import GOOD_ANSWERS
from bot.engine.settings import EngineSettings
from tests.engine.stage import DAY, HPG, RULEBOOK, START, Stage

YESTERDAY = date(2026, 11, 18)
CLOSE = LastClose("HPG", 27_000, YESTERDAY, average_volume=20_000_000)
OLDER = replace(CLOSE, day=YESTERDAY - timedelta(days=1))
QUOTE = Quote("HPG", Exchange.HOSE, 27_050, 27_000, 28_850, 25_150, None, None, None, 1_000, START)
DEPTH = Depth(
    "HPG",
    (DepthLevel(27_000, 5_000), DepthLevel(26_950, 8_000)),
    (DepthLevel(27_050, 1_000), DepthLevel(27_100, 2_000)),
    START,
)
PRICES = ("last", "reference", "ceiling", "floor")

Quotes = Callable[[Quote], Quote]
Depths = Callable[[Depth], Depth]


def times(quote: Quote, factor: int) -> Quote:
    """All prices of a quote times a factor; a negative one divides: -10 is a tenth."""
    prices: dict[str, Any] = {name: _scaled(getattr(quote, name), factor) for name in PRICES}
    return replace(quote, **prices)


def depth_times(depth: Depth, factor: int) -> Depth:
    bids, asks = (
        tuple(DepthLevel(_scaled(one.price, factor), one.volume) for one in side)
        for side in (depth.bids, depth.asks)
    )
    return replace(depth, bids=bids, asks=asks)


def _scaled(price: int, factor: int) -> int:
    return price * factor if factor > 0 else price // -factor


def swapped(depth: Depth) -> Depth:
    return replace(depth, bids=depth.asks[::-1], asks=depth.bids[::-1])


def stamped(at: datetime) -> Callable[[Quote], Quote]:
    return lambda quote: replace(quote, updated_at=at)


INSANE_QUOTES: dict[str, tuple[str, Quotes]] = {
    "of yesterday": ("OTHER_DAY", stamped(START - timedelta(days=1))),
    "of the year 2099": ("AHEAD", stamped(datetime(2099, 1, 1, tzinfo=UTC))),
    "of 6 seconds ahead": ("AHEAD", stamped(START + timedelta(seconds=6))),
    "times 10": ("JUMP", lambda quote: times(quote, 10)),
    "times 100": ("JUMP", lambda quote: times(quote, 100)),
    "times 1000": ("JUMP", lambda quote: times(quote, 1_000)),
    "a tenth": ("JUMP", lambda quote: times(quote, -10)),
    "a thousandth": ("JUMP", lambda quote: times(quote, -1_000)),
    "the last price alone times 10": ("JUMP", lambda quote: replace(quote, last=270_500)),
    "the band alone times 10": (
        "WIDE_BAND",
        lambda quote: replace(quote, floor=251_500, ceiling=288_500),
    ),
    "the band alone a tenth": (
        "WIDE_BAND",
        lambda quote: replace(quote, floor=2_515, ceiling=2_885),
    ),
    "the reference alone times 10": ("REFERENCE", lambda quote: replace(quote, reference=270_000)),
    "without bounds": ("WIDE_BAND", lambda quote: replace(quote, floor=1, ceiling=10**9)),
    "above the ceiling": ("OUT_OF_BAND", lambda quote: replace(quote, last=28_900)),
    "off tick": ("OFF_TICK", lambda quote: replace(quote, last=27_010)),
    "a reference 10 % off the close": (
        "REFERENCE",
        lambda quote: replace(quote, last=29_700, reference=29_700, ceiling=31_750, floor=27_650),
    ),
    "a reference 7 % off the close and a price 7 % off that": (
        "OFF_CLOSE",
        lambda quote: replace(quote, last=31_000, reference=29_000, ceiling=31_000, floor=27_000),
    ),
    "a high times 10": ("DAY_RANGE", lambda quote: replace(quote, high=271_000)),
    "a low of a tenth": ("DAY_RANGE", lambda quote: replace(quote, low=2_690)),
    "an open times 10": ("DAY_RANGE", lambda quote: replace(quote, open=270_000)),
    "a high off tick": ("DAY_RANGE", lambda quote: replace(quote, high=27_110)),
    "a low above the high": ("DAY_RANGE", lambda q: replace(q, high=27_000, low=27_100)),
    "a high outside the band of our close": (
        "DAY_RANGE",
        lambda q: replace(q, reference=28_500, ceiling=30_450, floor=26_550, high=29_000),
    ),
    "of another exchange": ("EXCHANGE", lambda quote: replace(quote, exchange=Exchange.HNX)),
    "a negative volume": ("VOLUME", lambda quote: replace(quote, volume=-1)),
    "an absurd volume": ("VOLUME", lambda quote: replace(quote, volume=10**11)),
    "a thousand times the usual volume": ("VOLUME", lambda q: replace(q, volume=2 * 10**10)),
    "a volume of 0 after a trade": ("VOLUME", lambda quote: replace(quote, volume=0)),
}
WITHOUT_REFERENCE: dict[str, tuple[str, Quotes]] = {
    "3.7 times": ("WIDE_BAND", lambda q: replace(q, last=100_000, floor=90_000, ceiling=110_000)),
    "a quarter": ("WIDE_BAND", lambda q: replace(q, last=6_800, floor=6_000, ceiling=7_000)),
    "without a band": ("OUT_OF_BAND", lambda q: replace(q, last=33_000, floor=None, ceiling=None)),
    "without a floor": ("WIDE_BAND", lambda q: replace(q, floor=None, ceiling=33_000)),
    "without a ceiling": ("WIDE_BAND", lambda q: replace(q, floor=20_000, ceiling=None)),
    "outside its own band": ("OUT_OF_BAND", lambda q: replace(q, last=27_000, floor=27_050)),
    "a high outside the band": ("DAY_RANGE", lambda quote: replace(quote, high=33_000)),
    "a low outside its own band": ("DAY_RANGE", lambda q: replace(q, low=27_000, floor=27_050)),
    "off tick": ("OFF_TICK", lambda quote: replace(quote, last=27_010)),
}
INSANE_DEPTHS: dict[str, tuple[str, Depths]] = {
    "of yesterday": ("OTHER_DAY", lambda d: replace(d, updated_at=START - timedelta(days=1))),
    "of the year 2099": (
        "AHEAD",
        lambda depth: replace(depth, updated_at=datetime(2099, 1, 1, tzinfo=UTC)),
    ),
    "bids and asks exchanged": ("CROSSED", swapped),
    "times 10": ("OUT_OF_BAND", lambda depth: depth_times(depth, 10)),
    "times 1000": ("OUT_OF_BAND", lambda depth: depth_times(depth, 1_000)),
    "a tenth": ("OUT_OF_BAND", lambda depth: depth_times(depth, -10)),
    "off tick": ("OFF_TICK", lambda depth: replace(depth, bids=(DepthLevel(26_960, 100),))),
    "an absurd volume": ("VOLUME", lambda d: replace(d, asks=(DepthLevel(27_050, 10**11),))),
    "a negative volume": ("VOLUME", lambda d: replace(d, asks=(DepthLevel(27_050, -100),))),
}


def staged(settings: EngineSettings | None = None, close: LastClose = CLOSE) -> Stage:
    """A stage that knows the close and has seen no quote yet."""
    held = RecoveredStrategy({"HPG": (1_000, 27_000_000)}, 0, 0, 0, "on")
    recovery = Recovery(DAY, strategies={"test": held})
    stage = Stage(settings=settings, sellable=1_000, is_open=False, recovery=recovery)
    stage.handle(ClosesRead(stage.now, (close,)))
    stage.open()
    return stage


def unshown(close: LastClose = CLOSE) -> Stage:
    """The same before the first quote: today's band is not known."""
    stage = Stage(is_open=False)
    stage.handle(ClosesRead(stage.now, (close,)))
    stage.handle(InstrumentsRead(stage.now, (HPG,)))
    stage.phase(Phase.PROGRESS)
    stage.account()
    stage.handle(Reconciled(stage.now))
    return stage


def unread(close: LastClose) -> Stage:
    """The same, of a bot that holds some of it."""
    stage = staged(close=close)
    belief = stage.engine._state.beliefs["HPG"]
    belief.frame, belief.volumes_shown, belief.references_shown = None, 0, ()
    return stage


def show(stage: Stage, quote: Quote = QUOTE) -> None:
    """Have a quote received now; its own time moves along with ours."""
    moved = quote.updated_at and quote.updated_at + (stage.now - START)
    stage.handle(QuoteReceived(stage.now, replace(quote, updated_at=moved)))


def settled(stage: Stage, quote: Quote = QUOTE) -> None:
    """Have the same quote received until its volume and reference are settled for the day."""
    for _ in range(GOOD_ANSWERS):
        show(stage.after(1), quote)


def show_depth(stage: Stage, depth: Depth = DEPTH) -> None:
    moved = depth.updated_at and depth.updated_at + (stage.now - START)
    stage.handle(DepthReceived(stage.now, replace(depth, updated_at=moved)))


def ask(stage: Stage, side: Side = Side.BUY) -> tuple[str, str]:
    def request(strategy: object) -> None:
        getattr(strategy, side.lower())(100, limit=27_000, why="as asked")

    stage.request(request)
    return stage.decided()


def alerts(stage: Stage) -> list[Note]:
    return [note for note in stage.all(Note) if note.kind == "ALERT"]


@pytest.mark.parametrize("name", INSANE_QUOTES)
def test_no_order_on_an_insane_quote(name):
    kind, spoilt = INSANE_QUOTES[name]
    stage = staged()
    settled(stage)

    show(stage.after(1), spoilt(QUOTE))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    assert stage.last(Decision).numbers["kind"] == kind
    assert [note.numbers["kind"] for note in alerts(stage)] == [kind]
    assert ask(stage, Side.SELL) == (Verdict.BLOCKED, "HELD_DATA")
    assert stage.all(PlaceOrder) == []


@pytest.mark.parametrize("name", WITHOUT_REFERENCE)
@pytest.mark.parametrize("is_frame_known", [False, True])
def test_a_quote_without_a_reference_is_judged_by_todays_band_or_by_the_close(name, is_frame_known):
    kind, spoilt = WITHOUT_REFERENCE[name]
    stage = staged() if is_frame_known else unshown()
    before = stage.engine.symbol_status("HPG").quote

    show(stage.after(1), replace(spoilt(QUOTE), reference=None))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    assert stage.last(Decision).numbers["kind"] == kind
    assert [note.numbers["kind"] for note in alerts(stage)] == [kind]
    assert stage.engine.symbol_status("HPG").quote == before


def test_whoever_reads_of_a_band_by_the_close_is_told_so():
    stage = unshown(OLDER)
    show(stage.after(1), replace(QUOTE, last=31_150, reference=None, floor=None, ceiling=None))

    text = "a price of 31,150 outside the band by the last close, 23,400 to 31,050"
    assert text in alerts(stage)[0].text


def test_on_an_ex_date_without_a_reference_a_quote_is_judged_by_its_own_band():
    close = replace(CLOSE, price=54_000, ex_dates=frozenset({date(2026, 11, 19)}))
    stage = unshown(close)

    show(stage.after(1), replace(QUOTE, last=28_900, reference=None))

    assert [note.numbers["kind"] for note in alerts(stage)] == ["OUT_OF_BAND"]
    assert "outside its own band, 25,150 to 28,850" in alerts(stage)[0].text


@pytest.mark.parametrize("prices", [(None, None, None), (0, 0, 0), (26_900, 28_850, 25_150)])
def test_a_day_that_has_not_traded_and_one_within_its_band_are_believed(prices):
    opened, high, low = prices
    stage = staged()

    show(stage.after(1), replace(QUOTE, open=opened, high=high, low=low))

    assert ask(stage) == (Verdict.PASSED, "OK")


@pytest.mark.parametrize(
    ("phase", "volume", "own_time"),
    [
        (Phase.PROGRESS, None, START),
        (Phase.PROGRESS, 900, START),
        (Phase.PROGRESS, 0, START - timedelta(seconds=2)),
        (Phase.CLOSED, 0, START),
    ],
    ids=["not said", "smaller", "of a node that lags", "after the close"],
)
def test_a_volume_that_may_be_honest_is_not_held(phase, volume, own_time):
    stage = staged()
    settled(stage)
    stage.phase(phase)

    show(stage.after(1), replace(QUOTE, volume=volume, updated_at=own_time))

    assert stage.engine._state.beliefs["HPG"].quotes.held is None


def test_a_day_begins_without_a_trade():
    stage = staged()
    settled(stage)
    day = DAY + timedelta(days=1)
    stage.now = START + timedelta(days=1)
    stage.handle(TradingDayStarted(stage.now, day))

    show(stage.after(1), replace(QUOTE, volume=0))

    assert stage.engine._state.beliefs["HPG"].quotes.held is None


@pytest.mark.parametrize("shown", [show, show_depth])
@pytest.mark.parametrize("ahead", [timedelta(hours=7), timedelta(days=27_000)])
def test_who_accepts_a_time_of_the_future_still_hears_a_broker_that_mends_its_clock(shown, ahead):
    stage, data = staged(), QUOTE if shown is show else DEPTH
    wrong = replace(data, updated_at=START + ahead)
    shown(stage.after(10), wrong)
    stage.handle(OperatorActed(stage.now, Action.RESUME, "a zone off", "ann", symbol="HPG"))
    for _ in range(3):
        shown(stage.after(10), wrong)
    status = stage.engine.symbol_status("HPG")
    before = status.quote if shown is show else status.depth
    assert before is not None
    assert before.at == stage.now

    shown(stage.after(10), data)

    status = stage.engine.symbol_status("HPG")
    now = status.quote if shown is show else status.depth
    assert now is not None
    assert now.at == stage.now
    belief = stage.engine._state.beliefs["HPG"]
    assert max((*belief.quotes.gaps, *belief.depths.gaps), default=0) < 60


def _with_reference(reference: int, **changes: Any) -> Quote:
    """A quote around another reference, without a band of its own."""
    return replace(QUOTE, reference=reference, ceiling=None, floor=None, **changes)


def test_a_reference_that_changes_during_the_day_is_not_believed():
    stage = staged()
    settled(stage)

    show(stage.after(1), _with_reference(26_600))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    [alert] = alerts(stage)
    assert (alert.numbers["kind"], alert.numbers["believed"]) == ("REFERENCE", 27_000)
    assert "a reference of 26,600 after 27,000 earlier today" in alert.text

    for _ in range(3):
        show(stage.after(1))
    assert ask(stage) == (Verdict.PASSED, "OK")


@pytest.mark.parametrize(
    "close",
    [replace(CLOSE, ex_dates=frozenset({DAY})), OLDER],
    ids=["an ex-date", "an older close"],
)
@pytest.mark.parametrize("wrong", [1, GOOD_ANSWERS - 1])
def test_a_wrong_reference_at_the_days_first_trade_holds_no_good_one(close, wrong):
    stage = unread(close)
    for _ in range(wrong):
        show(stage.after(1), _with_reference(26_600))

    settled(stage)

    assert alerts(stage) == []
    assert ask(stage, Side.SELL) == (Verdict.PASSED, "OK")
    show(stage.after(1), _with_reference(26_600))
    assert [note.numbers["kind"] for note in alerts(stage)] == ["REFERENCE"]


@pytest.mark.parametrize(
    "shown",
    [
        [(26_600, 1_000), (26_600, 1_000), (27_000, 1_000), (26_600, 1_000), (26_600, 1_000)],
        [(26_600, 1_000), (26_600, 1_000), (27_000, 0), (26_600, 1_000), (26_600, 1_000)],
        [(26_600, 1_000), (26_600, 1_000), (26_600, None)],
    ],
    ids=["another between", "no trade between", "a volume not said"],
)
def test_references_that_are_not_shown_in_a_row_settle_none(shown):
    stage = unread(OLDER)

    for reference, volume in shown:
        show(stage.after(1), _with_reference(reference, volume=volume))

    settled(stage)
    assert alerts(stage) == []


def test_a_false_volume_before_the_first_trade_holds_no_volume_of_0():
    stage = unread(CLOSE)
    for _ in range(GOOD_ANSWERS - 1):
        show(stage.after(1))

    for volume in (0, None, 1_000, 0, 1_000, None, 1_000, 0):
        show(stage.after(1), replace(QUOTE, volume=volume))

    assert alerts(stage) == []
    assert ask(stage, Side.SELL) == (Verdict.PASSED, "OK")


def test_who_resumes_a_symbol_says_that_its_new_reference_is_right():
    stage = staged()
    settled(stage)
    changed = replace(QUOTE, reference=26_600, ceiling=28_450, floor=24_750)
    show(stage.after(1), changed)
    stage.handle(OperatorActed(stage.now, Action.RESUME, "looked", "ann", symbol="HPG"))

    show(stage.after(1), changed)
    assert ask(stage) == (Verdict.PASSED, "OK")
    show(stage.after(1))

    assert stage.engine._state.beliefs["HPG"].quotes.held is not None


@pytest.mark.parametrize(
    ("reference", "phase", "own_time"),
    [
        (27_000, Phase.PROGRESS, START),
        (26_500, Phase.PROGRESS, START - timedelta(seconds=2)),
        (26_500, Phase.CLOSED, START),
    ],
    ids=["our close", "of a node that lags", "after the close"],
)
def test_another_reference_that_may_be_honest_is_not_held(reference, phase, own_time):
    stage = unshown()
    settled(stage, _with_reference(26_600))
    stage.phase(phase)

    show(stage.after(1), _with_reference(reference, updated_at=own_time))

    assert stage.engine._state.beliefs["HPG"].quotes.held is None


@pytest.mark.parametrize("changes", [{"volume": 0}, {"volume": None}, {"updated_at": None}])
def test_before_the_first_trade_of_today_a_reference_may_be_of_yesterday(changes):
    stage = unshown()
    stage.phase(Phase.OPEN)
    settled(stage, _with_reference(26_600, **changes))

    show(stage.after(1), _with_reference(26_700))

    assert stage.engine._state.beliefs["HPG"].quotes.held is None


def test_our_close_ends_a_false_reference_at_once():
    stage = unread(CLOSE)
    settled(stage, _with_reference(26_600))
    show(stage.after(1))

    show(stage.after(1), _with_reference(26_600))

    assert [note.numbers["believed"] for note in alerts(stage)] == [27_000]


def test_a_close_that_is_no_reference_by_the_rules_ends_none():
    stage = unshown(OLDER)
    settled(stage, _with_reference(26_600))

    show(stage.after(1), _with_reference(27_000))

    assert alerts(stage)[-1].numbers["kind"] == "REFERENCE"


def test_a_quote_without_a_reference_forgets_none():
    stage = staged()
    settled(stage)
    show(stage.after(1), replace(QUOTE, reference=None))

    show(stage.after(1), _with_reference(26_600))

    assert alerts(stage)[-1].numbers["kind"] == "REFERENCE"


def test_a_new_day_has_a_reference_of_its_own():
    stage = staged()
    settled(stage)
    stage.now = START + timedelta(days=1)
    stage.handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    show(stage.after(1))
    show(stage.after(1), _with_reference(26_600))
    show(stage.after(1), _with_reference(27_000, volume=0))

    assert alerts(stage) == []


def test_a_volume_of_yesterday_is_no_trade_of_today():
    stage = unshown()
    stage.phase(Phase.OPEN)
    settled(stage, replace(QUOTE, updated_at=None))

    show(stage.after(1), replace(QUOTE, volume=0, updated_at=None))

    assert stage.engine._state.beliefs["HPG"].quotes.held is None


def test_what_is_wrong_with_a_days_prices_names_the_number():
    stage = staged()

    show(stage.after(1), replace(QUOTE, high=271_000))
    show(stage.after(1), replace(QUOTE, low=27_100, high=27_000))

    texts = stage.engine.status().alerts
    assert alerts(stage)[0].text.startswith(
        "HPG: its quote is not believed: a high of the day of 271,000 outside the band by the "
        "rules, 25,150 to 28,850. "
    )
    assert "a low of the day of 27,100 above its high of 27,000 (2 held" in texts[0]


@pytest.mark.parametrize(
    ("phase", "volume"),
    [(Phase.CLOSED, QUOTE.volume), (Phase.OPEN, 0), (Phase.PROGRESS, 0)],
)
def test_before_the_first_trade_the_prices_of_the_day_before_are_believed(phase, volume):
    stage = staged()
    stage.engine._state.beliefs["HPG"].has_traded = False
    stage.phase(phase)

    show(stage.after(1), replace(QUOTE, open=24_900, high=27_000, low=24_000, volume=volume))

    assert "HELD_DATA" not in [note.numbers["alert"] for note in alerts(stage)]
    assert stage.engine._state.quotes["HPG"].quote.low == 24_000


def test_before_the_first_trade_a_factor_is_no_price_of_the_day_before():
    stage = staged()

    show(stage.after(1), replace(QUOTE, high=270_000, volume=0))

    assert "HELD_DATA" in [note.numbers["alert"] for note in alerts(stage)]


def test_a_kind_without_a_band_is_judged_by_its_last_price_and_its_reference():
    warrant = replace(HPG, kind=InstrumentKind.CW)
    stage = unshown(replace(CLOSE, price=100))
    stage.engine._state.instruments["HPG"] = warrant
    quote = replace(QUOTE, last=110, reference=100, ceiling=None, floor=None)
    risen = [replace(quote, last=last, high=last, low=90) for last in (110, 500, 2_000)]
    for each in risen:
        show(stage.after(1), each)
    believed = alerts(stage)

    show(stage.after(1), replace(risen[-1], high=20_000))

    assert believed == []
    assert [note.numbers["kind"] for note in alerts(stage)] == ["DAY_RANGE"]


def test_who_accepts_a_days_prices_has_not_accepted_a_last_price_like_them():
    stage = staged()
    show(stage.after(1), replace(QUOTE, high=29_000))
    resumed(stage)

    show(stage.after(1), replace(QUOTE, high=29_000))
    accepted = ask(stage)
    show(stage.after(1), replace(QUOTE, last=29_000, high=29_000))

    assert accepted == (Verdict.PASSED, "OK")
    assert stage.engine._state.quotes["HPG"].quote.last == 27_050
    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")


def test_the_list_of_today_says_where_a_symbol_is_traded():
    stage = staged()
    moved = replace(QUOTE, exchange=Exchange.HNX)
    show(stage.after(1), moved)
    [held] = alerts(stage)

    stage.handle(InstrumentsRead(stage.now, (replace(HPG, exchange=Exchange.HNX),)))
    for _ in range(3):
        show(stage.after(1), moved)

    assert held.text.startswith(
        "HPG: its quote is not believed: it is of HNX, and HOSE in the list of today, which a "
        "start reads anew. "
    )
    assert stage.engine.status().alerts == ()
    assert stage.engine._state.quotes["HPG"].quote.exchange is Exchange.HNX


def test_who_resumes_a_symbol_of_another_exchange_says_that_it_has_moved():
    stage, moved = staged(), replace(QUOTE, exchange=Exchange.HNX, last=27_100)  # HNX's tick is 100
    show(stage.after(1), moved)
    resumed(stage)

    show(stage.after(1), moved)
    again = alerts(stage)[1:]
    show(stage.after(1), QUOTE)

    assert again == []
    assert stage.engine.instruments["HPG"].exchange is Exchange.HNX
    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")


@pytest.mark.parametrize("name", INSANE_DEPTHS)
def test_no_order_on_an_insane_depth(name):
    kind, spoilt = INSANE_DEPTHS[name]
    stage = staged()
    show(stage.after(60))

    show_depth(stage, spoilt(DEPTH))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    assert stage.last(Decision).numbers["kind"] == kind
    assert [note.numbers["kind"] for note in alerts(stage)] == [kind]


def test_an_order_book_is_judged_by_the_last_close_too():
    stage = unshown()
    show(stage.after(1), replace(QUOTE, last=28_000, reference=28_500, ceiling=None, floor=None))

    asks = (DepthLevel(28_900, 1_000),)
    show_depth(stage.after(1), replace(DEPTH, asks=asks))

    [held] = alerts(stage)
    assert held.text.startswith(
        "HPG: its depth is not believed: a price of 28,900 (its reference is 28,500) outside "
        "25,150 to 28,850, the band of our last close of 27,000, without a known ex-date. "
    )


@pytest.mark.parametrize("factor", [10, 100, 1_000, -10, -100, -1_000])
def test_a_slip_of_everything_together_is_held_from_the_first_answer_on(factor):
    stage = unshown()
    show(stage, times(QUOTE, factor))

    for _ in range(5):
        show_depth(stage.after(1), depth_times(DEPTH, factor))
        show(stage, times(QUOTE, factor))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    assert stage.engine.symbol_status("HPG").quote is None
    assert stage.engine.symbol_status("HPG").depth is None


def test_without_any_close_nothing_confirms_a_price():
    stage = staged(close=LastClose("HPG", None, date.min))

    show(stage.after(1))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    assert stage.last(Decision).numbers["kind"] == "UNCONFIRMED"


def test_a_close_that_comes_later_confirms_the_price():
    stage = staged(close=LastClose("HPG", None, date.min))

    stage.handle(ClosesRead(stage.now, (CLOSE,)))
    for _ in range(3):
        show(stage.after(1))

    assert ask(stage) == (Verdict.PASSED, "OK")


def test_held_data_is_counted_and_not_journalled_again():
    stage = staged()
    for _ in range(20):
        show(stage.after(1), replace(QUOTE, last=27_010))

    texts = stage.engine.status().alerts
    assert len(alerts(stage)) == 1
    assert len(texts) == 1
    assert texts[0].startswith(
        "HPG: its quote is not believed: a price of 27,010 off the tick of 50 (20 held since "
    )


def test_three_good_answers_in_a_row_are_believed_again():
    stage = staged()
    show(stage.after(1), times(QUOTE, 10))
    for _ in range(2):
        show(stage.after(1))
    show(stage.after(1), times(QUOTE, 10))
    for _ in range(2):
        show(stage.after(1))
    held = ask(stage)

    show(stage.after(1))

    assert held == (Verdict.BLOCKED, "HELD_DATA")
    assert ask(stage) == (Verdict.PASSED, "OK")
    assert stage.engine.status().alerts == ()
    assert stage.last(Note).text == (
        "HPG: its quote is believed again: 3 good answers in a row (2 quotes held)"
    )


def test_good_quotes_do_not_make_a_bad_depth_good():
    stage = staged()
    show_depth(stage.after(60), depth_times(DEPTH, 10))
    for _ in range(5):
        show(stage.after(1))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")


def test_an_exit_may_be_let_out_by_the_last_believed_price():
    stage = staged(EngineSettings(exit_on_held_data=True))
    show(stage.after(1))
    for _ in range(60):
        show(stage.after(1), times(QUOTE, 10))

    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")
    assert ask(stage, Side.SELL) == (Verdict.PASSED, "OK")


def test_held_data_moves_neither_state_nor_bars_nor_value():
    stage = staged()
    show(stage.after(1))
    before = stage.engine.symbol_status("HPG").quote

    show(stage.after(1), times(QUOTE, 10))

    assert stage.engine.symbol_status("HPG").quote == before


def test_an_older_answer_never_takes_the_place_of_a_newer_one():
    stage = staged()
    newest = replace(QUOTE, last=27_100, updated_at=START + timedelta(seconds=9))
    stage.handle(QuoteReceived(START + timedelta(seconds=9), newest))

    asked_before = replace(QUOTE, updated_at=START + timedelta(seconds=10))
    stage.handle(QuoteReceived(START + timedelta(seconds=8), asked_before))
    of_a_node_behind = replace(QUOTE, updated_at=START + timedelta(seconds=1))
    stage.handle(QuoteReceived(START + timedelta(seconds=10), of_a_node_behind))

    seen = stage.engine.symbol_status("HPG").quote
    assert seen is not None
    assert seen.quote == newest
    assert stage.engine.status().alerts == ()


# ------------------------------------------------------------------------------- no false alarms


def test_a_book_may_be_crossed_in_an_auction_and_for_a_moment_after_it():
    stage = staged()
    stage.now = datetime(2026, 11, 19, 7, 43, tzinfo=UTC)  # 14:43 local
    stage.phase(Phase.PRE_CLOSED)
    show_depth(stage.after(60), swapped(DEPTH))
    in_auction = stage.engine.symbol_status("HPG").depth
    stage.now = datetime(2026, 11, 19, 7, 45, 1, tzinfo=UTC)
    stage.phase(Phase.POST_SESSION)
    show_depth(stage.after(1), swapped(DEPTH))

    assert in_auction is not None
    assert stage.engine.symbol_status("HPG").depth == in_auction
    assert stage.engine.status().alerts == ()


def test_a_quiet_symbol_is_believed_by_its_own_pace():
    stage = staged()
    stamp = START
    for minute in range(100):
        if minute in {10, 20, 30}:
            stamp = stage.now
        quote = replace(QUOTE, updated_at=stamp)
        stage.handle(QuoteReceived(stage.after(60).now, quote))

    assert alerts(stage) == []


def test_a_feed_that_stands_still_is_noticed():
    stage = staged()
    show(stage.after(5))
    frozen = replace(QUOTE, updated_at=stage.now)
    for _ in range(16):
        stage.handle(QuoteReceived(stage.after(60).now, frozen))

    assert [note.numbers["kind"] for note in alerts(stage)] == ["STALE"]


def test_a_depth_that_stands_still_is_noticed_sooner():
    stage = staged()
    show_depth(stage.after(1))
    stage.after(62).handle(DepthReceived(stage.now, replace(DEPTH, updated_at=START)))

    assert [note.numbers["kind"] for note in alerts(stage)] == ["STALE"]


def test_while_our_clock_is_behind_the_brokers_an_honest_answer_is_ahead():
    stage = staged()
    stage.handle(ClockOffsetChanged(stage.now, timedelta(seconds=15)))
    show(stage.after(1), replace(QUOTE, updated_at=START + timedelta(seconds=15)))
    believed = stage.engine.status().alerts

    show(stage.after(1), replace(QUOTE, updated_at=START + timedelta(seconds=26)))

    assert [text for text in believed if text.startswith("HPG")] == []
    assert alerts(stage)[-1].numbers["kind"] == "AHEAD"
    assert alerts(stage)[-1].numbers["ahead_s"] == 26


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_of_the_answers_the_newest_stands(seed):
    stage = staged()
    seconds = [(asked, Random(asked).randint(0, 5)) for asked in range(400)]
    Random(seed).shuffle(seconds)
    for asked, behind in seconds:
        at, own = START + timedelta(seconds=asked), START + timedelta(seconds=asked - behind)
        price = 27_000 + 50 * (asked % 30)
        quote = replace(QUOTE, last=price, updated_at=own, volume=asked)
        stage.handle(QuoteReceived(at, quote, START + timedelta(seconds=asked + 1)))

    seen = stage.engine.symbol_status("HPG").quote
    newest = max((asked - behind, asked) for asked, behind in seconds)
    assert seen is not None
    assert seen.quote.updated_at == START + timedelta(seconds=newest[0])
    assert stage.engine.status().alerts == ()


def test_over_lunch_nothing_grows_old():
    stage = staged()
    show(stage.after(1))
    last = replace(QUOTE, updated_at=stage.now)
    stage.now = datetime(2026, 11, 19, 4, 30, 1, tzinfo=UTC)  # 11:30:01 local
    stage.phase(Phase.BREAK)
    stage.now = datetime(2026, 11, 19, 6, 0, 1, tzinfo=UTC)  # 13:00:01 local
    stage.phase(Phase.PROGRESS)

    stage.handle(QuoteReceived(stage.now, last))
    stage.handle(QuoteReceived(stage.after(600).now, last))

    assert alerts(stage) == []


def test_before_its_first_trade_a_symbol_waits_in_silence():
    stage = Stage(is_open=False)
    stage.now = datetime(2026, 11, 19, 2, 1, tzinfo=UTC)  # 09:01 local, the opening auction
    stage.handle(ClosesRead(stage.now, (CLOSE,)))
    stage.phase(Phase.OPEN)
    untraded = replace(QUOTE, last=27_000, volume=0, updated_at=START - timedelta(hours=19))

    stage.handle(QuoteReceived(stage.now, untraded))

    assert alerts(stage) == []
    assert len(stage.engine.status().alerts) == 1


@pytest.mark.parametrize("reference", [46_500, None])
def test_the_reference_of_upcom_is_an_average(reference):
    stage = Stage(is_open=False)
    stage.handle(ClosesRead(stage.now, (LastClose("VEA", 38_700, YESTERDAY),)))
    quote = replace(QUOTE, symbol="VEA", exchange=Exchange.UPCOM, last=46_500)
    quote = replace(quote, reference=reference, ceiling=53_400, floor=39_600)

    stage.handle(QuoteReceived(stage.now, quote))

    assert stage.engine.status().alerts == ()


def test_on_an_ex_date_the_reference_may_be_anywhere_near():
    close = replace(CLOSE, price=33_750, ex_dates=frozenset({date(2026, 11, 19)}))
    stage = staged(close=close)

    assert stage.engine.status().alerts == ()
    assert ask(stage) == (Verdict.PASSED, "OK")


@pytest.mark.parametrize("last", [25_150, 27_000, 28_850])
@pytest.mark.parametrize("close", [26_000, 27_000, 28_000])
def test_a_quote_without_a_reference_is_believed_near_an_older_close(close, last):
    stage = unshown(replace(OLDER, price=close))
    show(stage.after(1), replace(QUOTE, last=last, reference=None))

    assert stage.engine.status().alerts == ()


@pytest.mark.parametrize("reference", [26_000, 27_900, None])
@pytest.mark.parametrize("last", [25_950, 26_000, 27_800])
def test_another_reference_than_the_close_holds_no_price_that_lies_in_both_bands(reference, last):
    quote = replace(QUOTE, last=last, reference=reference, floor=None, ceiling=None)
    stage = unshown()
    show(stage.after(1), quote)

    assert stage.engine.status().alerts == ()


@pytest.mark.parametrize("exchange", [Exchange.HOSE, Exchange.HNX, Exchange.UPCOM])
def test_only_an_average_may_allow_more_than_the_band_of_the_last_close(exchange):
    width = RULEBOOK.venues[exchange].band_width(InstrumentKind.STOCK).normal
    last = RULEBOOK.ticks_of(Instrument("VEA", exchange)).down(30_000 * (102 + width) // 100)
    stage = Stage(is_open=False)
    stage.handle(InstrumentsRead(stage.now, (Instrument("VEA", exchange),)))
    stage.handle(ClosesRead(stage.now, (LastClose("VEA", 30_000, YESTERDAY),)))
    quote = replace(QUOTE, symbol="VEA", exchange=exchange, last=last, reference=31_000)

    stage.handle(QuoteReceived(stage.now, replace(quote, ceiling=None, floor=None)))

    held = [note.numbers["kind"] for note in alerts(stage)]
    assert held == ([] if exchange is Exchange.UPCOM else ["OFF_CLOSE"])


@pytest.mark.parametrize(("close", "ceiling"), [(26_950, 28_850), (26_995, 28_850)])
def test_a_close_that_is_the_reference_but_for_a_rounding_allows_its_whole_band(close, ceiling):
    stage = unshown(replace(CLOSE, price=close))
    show(stage.after(1), replace(QUOTE, last=ceiling))

    assert stage.engine.status().alerts == ()


def test_a_close_that_is_only_our_own_last_quote_may_be_followed_by_another_reference():
    stage = unshown()
    show(stage.after(1))
    stage.now = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
    stage.handle(TradingDayStarted(stage.now, date(2026, 11, 20)))
    stage.phase(Phase.PROGRESS)
    quote = replace(QUOTE, last=30_900, reference=28_900, floor=26_900, ceiling=30_900)

    stage.handle(QuoteReceived(stage.now, replace(quote, updated_at=stage.now)))
    as_shown = alerts(stage)
    read = replace(CLOSE, price=27_050, day=DAY)
    stage.handle(ClosesRead(stage.now, (read,)))
    stage.handle(QuoteReceived(stage.now, replace(quote, updated_at=stage.now)))

    assert as_shown == []
    assert [note.numbers["kind"] for note in alerts(stage)] == ["OFF_CLOSE"]


@pytest.mark.parametrize("reference", [27_000, None])
def test_on_an_ex_date_the_close_says_nothing_of_a_price(reference):
    close = replace(CLOSE, price=54_000, ex_dates=frozenset({date(2026, 11, 19)}))
    stage = unshown(close)

    show_depth(stage.after(1))
    show(stage.after(1), replace(QUOTE, reference=reference))

    assert stage.engine.status().alerts == ()


@pytest.mark.parametrize("reference", [25_650, None])
def test_while_the_ex_dates_are_unread_a_symbol_that_fell_as_on_one_can_be_sold(reference):
    stage = unread(close=replace(CLOSE, are_ex_dates_unread=True))
    fallen = replace(QUOTE, last=25_050, reference=reference, ceiling=27_400, floor=23_900)

    show(stage.after(1), fallen)
    show_depth(stage, replace(DEPTH, bids=(DepthLevel(25_000, 100),), asks=()))

    assert stage.engine.status().alerts == ()
    assert ask(stage, Side.SELL) == (Verdict.PASSED, "OK")


@pytest.mark.parametrize("reference", [28_500, None])
def test_while_the_ex_dates_are_unread_no_price_above_the_band_of_the_close_is_believed(reference):
    stage = unread(close=replace(CLOSE, are_ex_dates_unread=True))

    show(stage.after(1), replace(QUOTE, last=29_000, reference=reference, ceiling=None, floor=None))

    assert [note.numbers["kind"] for note in alerts(stage)] == ["OFF_CLOSE"]


def test_once_the_ex_dates_are_known_the_band_of_the_close_holds_again():
    stage = unread(close=replace(CLOSE, are_ex_dates_unread=True))
    fallen = replace(QUOTE, last=25_050, reference=25_650, ceiling=27_400, floor=23_900)
    show(stage.after(1), fallen)

    nothing_new = LastClose("HPG", None, date.min)
    stage.handle(ClosesRead(stage.now, (nothing_new,)))
    show(stage.after(1), fallen)

    assert [note.numbers["kind"] for note in alerts(stage)] == ["OFF_CLOSE"]


def test_a_quote_before_the_opening_may_have_the_reference_of_yesterday():
    stage = unshown()
    limit_up = replace(QUOTE, last=28_850, updated_at=stage.now)
    stage.handle(QuoteReceived(stage.now, limit_up))
    stage.now = datetime(2026, 11, 20, 1, 45, tzinfo=UTC)  # 08:45 local
    stage.handle(TradingDayStarted(stage.now, date(2026, 11, 20)))

    stage.handle(QuoteReceived(stage.now, limit_up))
    stage.now = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
    stage.phase(Phase.PROGRESS)
    asks = (DepthLevel(29_500, 1_000),)
    stage.handle(DepthReceived(stage.now, Depth("HPG", (), asks, stage.now)))
    today = replace(QUOTE, last=29_500, reference=None, ceiling=30_850, floor=26_850)
    stage.handle(QuoteReceived(stage.now, replace(today, updated_at=stage.now)))

    assert alerts(stage) == []


def test_on_a_first_day_the_close_of_another_exchange_says_nothing_of_a_price():
    status = SymbolStatus(method=TradingMethod.NWE)
    stage = unshown(replace(CLOSE, price=54_000))
    stage.engine._state.instruments["HPG"] = replace(HPG, status=status)

    show_depth(stage.after(1))
    show(stage.after(1), replace(QUOTE, reference=None))

    assert stage.engine.status().alerts == ()


def test_on_a_first_day_prices_follow_the_reference_alone():
    stage = unshown()
    first_day = replace(HPG, status=SymbolStatus(method=TradingMethod.NWE))
    stage.engine._state.instruments["HPG"] = first_day

    show(stage.after(1), replace(QUOTE, last=33_000, reference=28_000, floor=None, ceiling=None))

    assert stage.engine.status().alerts == ()


def test_before_the_first_trade_a_reference_may_be_shown_that_is_off_the_tick():
    stage = unshown(replace(CLOSE, ex_dates=frozenset({DAY})))

    show(stage.after(1), replace(QUOTE, last=26_017, reference=26_017))

    assert stage.engine.status().alerts == ()


def test_a_symbol_that_no_table_knows_may_be_an_etf():
    stage = Stage(is_open=False)
    stage.handle(InstrumentsRead(stage.now, (Instrument("FUEVN100", Exchange.HOSE),)))
    stage.handle(ClosesRead(stage.now, (LastClose("FUEVN100", 24_370, YESTERDAY),)))
    etf = replace(QUOTE, symbol="FUEVN100", last=24_380, reference=24_370)

    stage.handle(QuoteReceived(stage.now, replace(etf, ceiling=26_070, floor=22_670)))

    assert stage.engine.status().alerts == ()


def test_limit_up_and_limit_down_are_believed():
    stage = staged()
    for last in (28_850, 25_150):
        show(stage.after(1), replace(QUOTE, last=last))

    assert stage.engine.status().alerts == ()


# ------------------------------------------------------------------------------- a person decides


def resumed(stage: Stage, symbol: str = "HPG", reason: str = "seen in the app") -> None:
    stage.handle(OperatorActed(stage.now, Action.RESUME, reason, "operator", symbol=symbol))


def test_who_resumes_a_symbol_says_that_its_new_level_is_right():
    split = replace(QUOTE, last=13_500, reference=13_500, ceiling=14_400, floor=12_600)
    stage = staged()
    show(stage.after(1), split)
    held = ask(stage)

    resumed(stage)
    show(stage.after(1), split)
    show(stage.after(1), times(split, 10))

    assert held == (Verdict.BLOCKED, "HELD_DATA")
    seen = stage.engine.symbol_status("HPG").quote
    assert seen is not None
    assert seen.quote.last == 13_500
    assert stage.last(Decision).numbers["kind"] == "REFERENCE"
    assert [note.numbers["kind"] for note in alerts(stage)] == ["REFERENCE", "JUMP"]


@pytest.mark.parametrize("reference", [26_000, None])
def test_who_resumes_after_an_ex_date_that_nobody_named_lets_its_prices_count(reference):
    went_ex = replace(QUOTE, last=24_500, reference=reference, floor=24_200, ceiling=27_800)
    stage = staged()
    stage.engine._state.beliefs["HPG"].frame = None
    show(stage.after(1), went_ex)
    held = ask(stage)
    [told] = alerts(stage)

    resumed(stage)
    show(stage.after(1), went_ex)
    show_depth(stage, replace(DEPTH, bids=(DepthLevel(24_450, 100),), asks=()))

    assert held == (Verdict.BLOCKED, "HELD_DATA")
    assert "25,150 to 28,850, the band of our last close of 27,000" in told.text
    assert told.text.endswith('If the data is right: bot resume HPG --reason "…"')
    assert stage.engine.status().alerts == ()
    show(stage.after(1), replace(went_ex, last=30_000, ceiling=None))
    assert alerts(stage)[-1].numbers["kind"] == "OUT_OF_BAND"


def test_a_level_that_a_person_has_confirmed_is_no_close_of_the_day_after():
    stage = staged()
    show(stage.after(1), replace(QUOTE, last=13_500, reference=13_500, floor=None, ceiling=None))
    resumed(stage)
    stage.now = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
    stage.handle(TradingDayStarted(stage.now, date(2026, 11, 20)))
    stage.phase(Phase.PROGRESS)

    risen = replace(QUOTE, last=15_200, reference=14_400, floor=None, ceiling=None)
    stage.handle(QuoteReceived(stage.now, replace(risen, updated_at=stage.now)))

    assert [note.numbers["kind"] for note in alerts(stage)] == ["REFERENCE"]


def test_data_that_contradicts_itself_is_told_again_to_who_resumes_it():
    split = replace(QUOTE, last=13_500, reference=13_500, ceiling=14_400, floor=12_600)
    stage = staged()
    show(stage.after(1), times(split, 10))
    resumed(stage)

    show(stage.after(1), split)
    show(stage.after(1), split)
    resumed(stage)
    show(stage.after(1), times(split, 10))

    told = [note.text.partition(". ")[0] for note in alerts(stage)]
    assert len(told) == 3
    assert [text.endswith(", again after a resume") for text in told] == [False, True, True]


def _held_at(stage: Stage, *, minutes: int, good_each: int = 0) -> list[int]:
    """Show bad quotes a minute apart, now and then good ones; return when that was told."""
    began = stage.now
    for minute in range(minutes):
        show(stage.after(60), times(QUOTE, 10))
        if good_each and minute % good_each == 0:
            for _ in range(3):
                show(stage.after(0))
    told = [note.at - began for note in alerts(stage) if note.at > began]
    return [round(after / timedelta(minutes=1)) for after in told]


def test_data_that_is_held_again_later_is_told_again():
    stage = staged()
    show(stage.after(1))
    assert _held_at(stage, minutes=5) == [1]
    for _ in range(3):
        show(stage.after(60))

    assert _held_at(stage.after(3 * 3_600), minutes=5) == [1]


def test_data_that_is_held_again_soon_is_told_again_once_that_lasts():
    stage = staged()
    show(stage.after(1))
    assert _held_at(stage, minutes=1) == [1]
    for _ in range(3):
        show(stage.after(60))

    assert _held_at(stage, minutes=90) == [27]


def test_data_that_comes_and_goes_is_told_each_half_hour():
    stage = staged()
    show(stage.after(1))

    assert _held_at(stage, minutes=70, good_each=2) == [1, 31, 61]
    ends = [note for note in stage.all(Note) if note.kind == "RESUME"]
    assert len(ends) == 3


def test_a_kind_that_a_person_has_accepted_is_not_held_again_today():
    stage = staged()
    special = replace(QUOTE, ceiling=32_400, floor=21_600)
    show(stage.after(1), special)

    resumed(stage)
    show(stage.after(1), special)

    assert ask(stage) == (Verdict.PASSED, "OK")


def test_a_halted_symbol_alone_is_resumed():
    recovery = Recovery(DAY, halted_symbols={"HPG": "shares moved", "FPT": "shares moved"})
    stage = Stage(recovery=recovery)

    resumed(stage)

    assert stage.engine.status().halted_symbols == {"FPT": "shares moved"}
    assert ask(stage) == (Verdict.PASSED, "OK")


@pytest.mark.parametrize(("symbol", "reason"), [("HPG", " "), ("FPT", "a reason")])
def test_a_resume_of_a_symbol_that_changes_nothing_says_so(symbol, reason):
    stage = staged()
    show(stage.after(1), times(QUOTE, 10))
    known = len(alerts(stage))

    resumed(stage, symbol, reason)

    assert len(alerts(stage)) == known + 1
    assert "nothing" in alerts(stage)[-1].text
    assert ask(stage) == (Verdict.BLOCKED, "HELD_DATA")


def test_an_approved_entry_does_not_leave_when_the_data_turns_bad():
    stage = staged()
    show(stage.after(1))
    intent = stage.buy()

    show(stage.after(1), times(QUOTE, 10))

    reason = stage.engine.reason_not_to_send(intent)
    assert reason is not None
    assert reason.startswith(
        "HPG: its quote is not believed: a price of 270,500, more than 5 times"
    )


# --------------------------------------------------------------------------------- from day to day


def test_the_close_of_a_day_confirms_the_next_ones_prices():
    stage = staged(close=replace(CLOSE, price=26_500))
    stage.now = datetime(2026, 11, 19, 8, 0, tzinfo=UTC)  # 15:00 local
    stage.phase(Phase.CLOSED)
    show(stage.after(60), replace(QUOTE, last=28_350))
    noted = [note for note in stage.all(Note) if note.kind == "CLOSE"]

    stage.now = datetime(2026, 11, 20, 2, 30, tzinfo=UTC)
    stage.handle(TradingDayStarted(stage.now, date(2026, 11, 20)))
    stage.phase(Phase.PROGRESS)
    tomorrow = replace(
        QUOTE, last=28_900, reference=28_350, ceiling=30_300, floor=26_400, updated_at=stage.now
    )
    stage.handle(QuoteReceived(stage.now, times(tomorrow, 10)))
    slipped = stage.engine.status().alerts
    for _ in range(3):
        quote = replace(tomorrow, updated_at=stage.after(1).now)
        stage.handle(QuoteReceived(stage.now, quote))

    assert [(note.symbol, dict(note.numbers)) for note in noted] == [
        ("HPG", {"day": "2026-11-19", "close": 28_350})
    ]
    assert any("more than 5 times" in each for each in slipped)
    assert stage.engine.status().alerts == ()
