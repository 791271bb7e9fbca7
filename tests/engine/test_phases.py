"""Which phase counts around a boundary: the timetable's at once where it closes something, the
broker's where something opens.
"""

from datetime import UTC, datetime, time, timedelta

import pytest

from bot.domain.entry import Verdict
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Instrument, Phase
from bot.domain.message import InstrumentsRead, PhaseChanged, PlaceOrder, Reconciled, TimePassed
from bot.domain.operations import Action, OperatorActed
from bot.domain.order import OrderType
from bot.domain.recovery import RecoveredStrategy, Recovery
from bot.engine import belief
from tests.engine.stage import DAY, RULEBOOK, Stage

FRIDAY = DAY + timedelta(days=1)
"""The stage begins in the middle of the day before."""
TICK = timedelta.resolution
LATE = timedelta(seconds=30)
HOSE, HNX, UPCOM = Exchange.HOSE, Exchange.HNX, Exchange.UPCOM


def instant(local: time) -> datetime:
    return datetime.combine(FRIDAY, local, EXCHANGE_TZ).astimezone(UTC)


def counts(
    exchange: Exchange, said: Phase, *, at: datetime, now: datetime, early: bool = False
) -> Phase:
    """What counts `now`, if the broker said a phase `at` a time and nothing since."""
    rules = {"early_closes": [{"date": FRIDAY.isoformat(), "at": "11:00", "name": "a short day"}]}
    rulebook = RULEBOOK.with_override(rules) if early else RULEBOOK
    stage = Stage(rulebook=rulebook, is_open=False)
    stage.handle(PhaseChanged(at, exchange, said))
    stage.handle(TimePassed(now))
    return stage.engine._state.phase_of(exchange).phase


CLOSES = [
    (HOSE, Phase.PROGRESS, time(11, 30), Phase.BREAK),
    (HOSE, Phase.PROGRESS, time(14, 30), Phase.PRE_CLOSED),
    (HOSE, Phase.PRE_CLOSED, time(14, 45), Phase.PUT_THROUGH),
    (HNX, Phase.PRE_CLOSED, time(14, 45), Phase.POST_SESSION),
    (HNX, Phase.POST_SESSION, time(15, 0), Phase.CLOSED),
    (UPCOM, Phase.PROGRESS, time(15, 0), Phase.CLOSED),
]


@pytest.mark.parametrize("read_late", [False, True], ids=["not read since", "read since"])
@pytest.mark.parametrize(("exchange", "before", "boundary", "after"), CLOSES)
def test_where_the_timetable_closes_something_it_counts_at_once(
    exchange: Exchange, before: Phase, boundary: time, after: Phase, read_late: bool
) -> None:
    start = instant(boundary)
    at = start + timedelta(seconds=1) if read_late else start - timedelta(minutes=1)

    if not read_late:
        assert counts(exchange, before, at=at, now=start - TICK) is before
        assert counts(exchange, before, at=at, now=start) is after
    assert counts(exchange, before, at=at, now=start + LATE - TICK) is after
    # Then the broker's word counts again, if it has spoken since the boundary.
    then = before if read_late else after
    assert counts(exchange, before, at=at, now=start + LATE) is then


@pytest.mark.parametrize(
    ("said", "boundary"),
    [
        (Phase.CLOSED, time(9, 0)),
        (Phase.OPEN, time(9, 15)),
        (Phase.BREAK, time(13, 0)),
        (Phase.CLOSED, time(11, 30)),  # a day that the broker has closed, whatever we think
        (Phase.CLOSED, time(14, 30)),
        (Phase.BREAK, time(14, 30)),
    ],
)
def test_where_something_opens_the_broker_s_word_counts_until_it_is_late(
    said: Phase, boundary: time
) -> None:
    start = instant(boundary)

    for at in (start - timedelta(seconds=1), start + timedelta(seconds=1)):
        assert counts(HOSE, said, at=at, now=start + LATE - TICK) is said


def test_a_broker_that_is_ahead_of_the_timetable_is_believed() -> None:
    early = instant(time(14, 29, 50))

    assert counts(HOSE, Phase.PRE_CLOSED, at=early, now=early) is Phase.PRE_CLOSED
    then = early + timedelta(seconds=15)
    assert counts(HOSE, Phase.PRE_CLOSED, at=early, now=then) is Phase.PRE_CLOSED


def test_a_short_day_ends_by_its_own_timetable() -> None:
    end = instant(time(11, 0))
    at = end - timedelta(minutes=1)

    assert counts(HOSE, Phase.PROGRESS, at=at, now=end - TICK, early=True) is Phase.PROGRESS
    assert counts(HOSE, Phase.PROGRESS, at=at, now=end, early=True) is Phase.CLOSED


class Turning(Stage):
    """A stage that holds shares and plays seconds of the turn of a phase, which the broker says
    late.
    """

    def __init__(self, exchange: Exchange, turn: time) -> None:
        held = {"test": RecoveredStrategy({"HPG": (300, 8_100_000)}, 0, 0, 0, "on")}
        super().__init__(recovery=Recovery(DAY, strategies=held), sellable=300, is_open=False)
        self.exchange = exchange
        self.turn = datetime.combine(DAY, turn, EXCHANGE_TZ).astimezone(UTC)
        self.now = self.turn - timedelta(seconds=10)
        self.handle(InstrumentsRead(self.now, (Instrument("HPG", exchange),)))

    def at(self, second: int, said: Phase, *listed: OrderType) -> None:
        self.now = self.turn + timedelta(seconds=second)
        self.handle(PhaseChanged(self.now, self.exchange, said, frozenset(listed) or None))
        band = {"floor": 24_300, "ceiling": 29_700} if self.exchange is HNX else {}
        self.quote(exchange=self.exchange, **band)
        self.depth(bid=26_900)
        self.account()
        self.handle(Reconciled(self.now))


TURNS = [
    (HOSE, time(14, 30), Phase.PROGRESS, OrderType.MTL, Phase.PRE_CLOSED, OrderType.ATC),
    (HNX, time(14, 45), Phase.PRE_CLOSED, OrderType.ATC, Phase.POST_SESSION, OrderType.PLO),
]


@pytest.mark.parametrize(("exchange", "turn", "before", "old", "after", "new"), TURNS)
def test_a_type_of_the_next_phase_waits_for_the_brokers_word(
    exchange: Exchange, turn: time, before: Phase, old: OrderType, after: Phase, new: OrderType
) -> None:
    stage = Turning(exchange, turn)
    decided = []

    for second, said, listed in ((-5, before, old), (2, before, old), (7, after, new)):
        stage.at(second, said, OrderType.LO, listed)
        stage.request(lambda s: s.sell(100, market=new, why="at the end"))
        decided.append(stage.decided())

    early = (Verdict.BLOCKED, "ORDER_TYPE")
    assert decided == [early, early, (Verdict.PASSED, "OK")]
    [sold] = stage.all(PlaceOrder)
    assert stage.engine.reason_not_to_send(sold.intent) is None


@pytest.mark.parametrize(
    ("second", "said", "listed", "kind"),
    [
        (2, Phase.PROGRESS, OrderType.MTL, OrderType.LO),
        (2, Phase.PRE_CLOSED, OrderType.ATC, OrderType.ATC),
    ],
)
def test_a_flatten_sells_by_what_the_broker_takes_already(
    second: int, said: Phase, listed: OrderType, kind: OrderType
) -> None:
    stage = Turning(HOSE, time(14, 30))
    stage.at(second, said, OrderType.LO, listed)

    stage.handle(OperatorActed(stage.now, Action.HALT, "enough", "operator", flatten=True))
    stage.handle(TimePassed(stage.now + timedelta(seconds=1)))

    assert [each.intent.order_type for each in stage.all(PlaceOrder)] == [kind]


def test_the_auctions_crossed_book_is_no_false_one_until_the_broker_says_that_it_is_over() -> None:
    stage = Turning(HNX, time(14, 45))
    stage.at(-5, Phase.PRE_CLOSED)

    for second in (5, 11, 18):
        stage.at(second, Phase.PRE_CLOSED)
        stage.depth(bid=27_100, ask=26_900)

    assert not belief.is_held(stage.engine._state, "HPG")
    stage.at(19, Phase.POST_SESSION)
    stage.depth(bid=27_100, ask=26_900)
    assert belief.is_held(stage.engine._state, "HPG")
