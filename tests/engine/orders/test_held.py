"""An order that was held for a token goes out only into the market that it was decided in."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest

from bot.domain.entry import AuthEvent, Decision, Transition, Verdict
from bot.domain.instrument import EXCHANGE_TZ, Phase
from bot.domain.message import (
    CancelOrder,
    PlaceOrder,
    ReadOrderToCancel,
    Recovered,
    TimerFired,
    TradingDayStarted,
)
from bot.domain.operations import Action, CancelAsked, OperatorActed
from bot.domain.order import Intent, OrderState
from bot.domain.outcome import Refused
from bot.domain.plan import AccountLimits, Wake
from bot.domain.quote import Quote
from bot.domain.recovery import Recovery
from bot.engine.engine import Engine
from bot.engine.settings import EngineSettings, LoadedStrategy
from bot.engine.state import Position
from bot.engine.tracked import CancelStage, Hindrance
from bot.strategy import Strategy
from tests.engine.stage import DAY, HPG, PLAN, RULEBOOK, START, Stage, report_of

PATIENT = replace(PLAN, hold_2fa=timedelta(hours=3))
OTHER = replace(PATIENT, name="other")


def held_stage(sellable: int = 0) -> Stage:
    stage = Stage(PATIENT, sellable=sellable)
    stage.block_for_token(stage.buy())
    return stage


def given_up(stage: Stage) -> list[tuple[str, object]]:
    return [
        (each.code, each.numbers["reason"])
        for each in stage.all(Decision)
        if each.verdict is Verdict.EXPIRED
    ]


def follows(stage: Stage) -> list[str | None]:
    intents: list[Intent] = [each.intent for each in stage.all(PlaceOrder)]
    return [each.follows for each in intents]


def at(stage: Stage, hour: int, minute: int) -> datetime:
    return stage.now.astimezone(EXCHANGE_TZ).replace(hour=hour, minute=minute)


@pytest.mark.parametrize("last", [27_250, 26_750], ids=["up", "down"])
def test_a_price_that_moved_by_less_than_a_percent_lets_the_entry_out(last: int) -> None:
    stage = held_stage()

    stage.after(30).quote(last)
    stage.token()

    assert (follows(stage), given_up(stage)) == ([None, "L-0001"], [])


@pytest.mark.parametrize("last", [27_300, 26_700], ids=["up", "down"])
def test_a_price_that_moved_further_gives_the_entry_up(last: int) -> None:
    stage = held_stage()

    stage.after(30).quote(last)
    stage.token()

    reason = f"the price moved from 27,000 to {last:,} (1.1 %, limit 1 %)"
    assert given_up(stage) == [("PRICE_MOVED", reason)]
    assert follows(stage) == [None]


def test_a_price_that_is_seen_only_after_the_token_is_judged_too() -> None:
    stage = held_stage()
    stage.after(60)
    stage.token()
    assert follows(stage) == [None]

    stage.after(1).quote(27_300)

    assert [code for code, _ in given_up(stage)] == ["PRICE_MOVED"]
    assert follows(stage) == [None]


def test_an_entry_that_waits_for_a_quote_does_not_go_out_under_a_pause_that_came_first() -> None:
    stage = held_stage()
    stage.after(60).token()  # the last quote is too old to judge by
    assert follows(stage) == [None]

    stage.handle(OperatorActed(stage.now, Action.PAUSE, "wait", "me"))
    stage.quote()
    assert (follows(stage), given_up(stage)) == ([None], [])
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "me"))
    stage.quote()

    assert follows(stage) == [None, "L-0001"]


def test_a_403_of_the_token_before_waits_for_a_quote_where_the_new_one_is_here() -> None:
    stage = Stage(PATIENT)
    intent = stage.buy()
    stage.send(intent)
    old = Refused("OTP_SESSION_EXPIRED", "2FA", 403, is_of_old_token=True)
    stage.after(60).answer(intent, old)
    assert follows(stage) == [None]

    stage.quote()

    assert follows(stage) == [None, "L-0001"]


def test_another_phase_gives_the_entry_up() -> None:
    stage = Stage(PATIENT)
    stage.now = at(stage, 14, 29)
    stage.quote()
    stage.block_for_token(stage.buy())
    stage.after(90).phase(Phase.PRE_CLOSED)
    stage.quote()

    stage.token()

    words = "it was held in continuous, now it is closing auction (ATC)"
    assert given_up(stage) == [("PHASE_CHANGED", words)]


def test_a_lunch_in_between_gives_the_entry_up_though_the_phase_is_alike() -> None:
    stage = Stage(PATIENT)
    stage.now = at(stage, 11, 29)
    stage.quote()
    stage.block_for_token(stage.buy())
    stage.now = at(stage, 13, 1)
    stage.quote()

    stage.token()

    words = "it was held in continuous, now it is continuous"
    assert given_up(stage) == [("PHASE_CHANGED", words)]


def test_the_strategy_that_wants_the_opposite_by_now_takes_the_entry_back() -> None:
    stage = held_stage(sellable=500)

    stage.after(10).request(lambda s: s.sell(100, limit=27_000, why="out"))

    assert given_up(stage) == [("SIGNAL_GONE", "its strategy wants to SELL by now: out")]
    stage.token()
    assert follows(stage) == [None]


def test_an_entry_on_its_way_whose_strategy_wants_out_meanwhile_is_not_requested_again() -> None:
    stage = Stage(PATIENT, sellable=500)
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).request(lambda s: s.sell(100, limit=27_000, why="out"))

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.token()
    stage.after(1).quote()

    assert given_up(stage) == [("SIGNAL_GONE", "its strategy wants to SELL by now: out")]
    assert follows(stage) == [None]


def test_an_exit_on_its_way_whose_strategy_wants_to_buy_meanwhile_is_not_requested_again() -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.request(lambda s: s.sell(100, limit=27_100))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.after(1).request(lambda s: s.buy(100, limit=27_000, why="in"))

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.token()
    stage.after(1).quote()

    assert given_up(stage) == [("SIGNAL_GONE", "its strategy wants to BUY by now: in")]
    assert follows(stage) == [None, None]


def test_an_exit_on_its_way_that_its_strategy_wants_again_meanwhile_is_requested_again() -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.request(lambda s: s.sell(100, limit=27_100))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.after(1).request(lambda s: s.buy(100, limit=27_000, why="in"))
    stage.after(1).request(lambda s: s.sell(100, limit=27_100, why="out again"))
    assert stage.decided() == (Verdict.BLOCKED, "DUPLICATE")

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.token()
    stage.after(1).quote()

    assert (follows(stage), given_up(stage)) == ([None, None, intent.intent_id], [])


def test_a_buy_on_its_way_that_its_strategy_wants_again_meanwhile_is_requested_again() -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.after(61).quote()
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).request(lambda s: s.sell(100, limit=27_100, why="out"))
    sale = stage.last(PlaceOrder).intent
    stage.send(sale)
    stage.answer(sale, Refused("PRICE", "too dear", 400))
    stage.after(1).request(lambda s: s.buy(100, limit=27_000, why="in again"))
    assert stage.decided() == (Verdict.SKIPPED, "ORDER_WORKING")

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.token()
    stage.after(1).quote()

    assert (follows(stage)[-1], given_up(stage)) == (intent.intent_id, [])


def test_of_two_exits_on_their_way_around_a_wish_to_buy_the_later_one_is_held() -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.after(61).quote()
    stage.request(lambda s: s.sell(100, limit=27_000, why="out"))
    first = stage.last(PlaceOrder).intent
    stage.send(first)
    stage.after(1).request(lambda s: s.buy(100, limit=26_900, why="in"))
    stage.after(1).request(lambda s: s.sell(100, limit=27_050, why="out, dearer"))
    later = stage.last(PlaceOrder).intent
    stage.send(later)
    stage.after(1)
    for intent in (first, later):
        stage.answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))

    stage.after(1).token()
    for _ in range(5):
        stage.after(1).quote()

    assert [each for each in follows(stage) if each] == [later.intent_id]
    assert [code for code, _ in given_up(stage)] == ["SIGNAL_GONE"]


def test_what_is_asked_for_in_the_very_instant_of_the_order_contradicts_nothing() -> None:
    stage = held_stage(sellable=500)

    stage.request(lambda s: s.sell(100, limit=27_000))

    assert given_up(stage) == []


def test_the_strategy_that_cancels_takes_the_entry_back() -> None:
    stage = held_stage()

    stage.after(10).request(lambda s: s.cancel(why="no more"))

    assert given_up(stage) == [("SIGNAL_GONE", "its strategy has taken it back: no more")]


@pytest.mark.parametrize("has_token", [False, True])
def test_an_entry_that_was_cancelled_on_its_way_is_not_requested_again(has_token: bool) -> None:
    stage = Stage(PATIENT)
    intent = stage.buy()
    stage.send(intent)
    stage.after(1).request(lambda s: s.cancel(why="no more"))

    stage.answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    if has_token:
        stage.token()

    stage.after(1).quote()
    assert given_up(stage) == [("SIGNAL_GONE", "it was to be cancelled: no more")]
    assert follows(stage) == [None]


@pytest.mark.parametrize("strategy", [None, "test"], ids=["the bot", "its strategy"])
def test_a_sale_on_its_way_at_a_halt_is_not_requested_again_after_it(strategy: str | None) -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.request(lambda s: s.sell(100, limit=27_100))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.handle(OperatorActed(stage.now, Action.HALT, "no more", "ann", strategy=strategy))

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    assert given_up(stage) == [("HALTED", "halted")]
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "ann", strategy=strategy))
    stage.token()
    stage.after(1).quote()

    assert follows(stage) == [None, None]


def test_an_order_on_its_way_at_the_halt_of_another_strategy_stays_held() -> None:
    stage = Pair()
    intent = stage.buy()
    stage.send(intent)
    stage.handle(OperatorActed(stage.now, Action.HALT, "no more", "ann", strategy="other"))

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))

    assert given_up(stage) == []


def test_a_sale_that_was_cancelled_on_its_way_stays_held_as_any_exit() -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.request(lambda s: s.sell(100, limit=27_100))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.after(1).request(lambda s: s.cancel(why="no more"))

    stage.answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))

    assert (stage.decided()[0], given_up(stage)) == (Verdict.HELD, [])


def test_a_wish_for_more_of_the_same_leaves_the_entry_held() -> None:
    stage = held_stage()

    stage.after(10).request(lambda s: s.buy(200, limit=27_000))

    assert given_up(stage) == []
    assert stage.engine.status().missed_signals == 1


def own(stage: Stage, shares: int) -> None:
    position = Position(shares, shares * 26_000)
    stage.engine._state.strategies["test"].positions["HPG"] = position


def held_sale(shares: int, quantity: int) -> Stage:
    stage = Stage(PATIENT, sellable=500)
    own(stage, shares)
    stage.request(lambda s: s.sell(quantity, limit=27_000))
    stage.block_for_token(stage.last(PlaceOrder).intent)
    return stage


def test_shares_that_came_meanwhile_change_what_an_entry_was_decided_by() -> None:
    stage = held_stage()
    own(stage, 100)
    stage.after(20).quote()

    stage.token()

    words = "its strategy holds 100 shares, 0 when it was held"
    assert given_up(stage) == [("SIGNAL_GONE", words)]


def test_an_exit_for_which_a_second_token_was_refused_goes_out_with_the_third() -> None:
    stage = Stage(PATIENT, sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.request(lambda s: s.sell(100, limit=27_100))
    stage.block_for_token(stage.last(PlaceOrder).intent)
    stage.after(5).quote()
    stage.token()
    stage.block_for_token(stage.last(PlaceOrder).intent, "OTP_SESSION_INVALID")

    stage.after(5).quote()
    stage.token()

    assert (follows(stage), given_up(stage)) == ([None, None, "L-0002", "L-0003"], [])


def test_an_exit_goes_out_however_far_the_price_has_moved() -> None:
    stage = held_sale(200, 100)

    stage.after(60).quote(26_550)
    stage.token()

    assert (follows(stage), given_up(stage)) == ([None, "L-0001"], [])


@pytest.mark.parametrize(("left", "goes"), [(100, True), (99, False)])
def test_an_exit_whose_shares_are_gone_does_not_go_out(left: int, goes: bool) -> None:
    stage = held_sale(200, 100)
    own(stage, left)

    stage.after(5).quote()
    stage.token()

    assert len(follows(stage)) == 1 + goes
    assert [code for code, _ in given_up(stage)] == ([] if goes else ["SIGNAL_GONE"])


def test_a_wish_to_buy_takes_a_held_exit_back() -> None:
    stage = held_sale(200, 100)

    stage.after(5).request(lambda s: s.buy(100, limit=27_000, why="in again"))

    assert given_up(stage) == [("SIGNAL_GONE", "its strategy wants to BUY by now: in again")]


def test_a_cancel_of_the_strategy_leaves_a_held_exit() -> None:
    stage = held_sale(200, 100)

    stage.after(5).request(lambda s: s.cancel())

    assert given_up(stage) == []


@pytest.mark.parametrize("order_id", ["L-0001", None], ids=["by its id", "all"])
@pytest.mark.parametrize("is_exit", [False, True])
def test_a_person_s_cancel_ends_what_is_held_and_no_token_brings_it_back(
    order_id: str | None, *, is_exit: bool
) -> None:
    stage = held_sale(200, 100) if is_exit else held_stage()

    stage.handle(CancelAsked(stage.now, order_id, "ann", "I have sold in the app"))

    assert given_up(stage) == [("CANCEL", "cancelled by ann: I have sold in the app")]
    stage.after(5).quote()
    stage.token()
    assert follows(stage) == [None]
    assert not stage.engine.status().unknown


class Pair(Stage):
    """Two strategies in one symbol, so that one's order is cancelled while the other's waits.

    Each requests what was put in for it, at the next timer of its name.
    """

    def __init__(self) -> None:
        super().__init__(PATIENT, sellable=500, is_open=False)
        self.engine = Engine(
            rulebook=RULEBOOK,
            strategies=[
                LoadedStrategy(replace(PATIENT, name=name), self._class({}), (HPG,))
                for name in ("test", "other")
            ],
            settings=EngineSettings(),
            invoke=self._invoke,
        )
        self.entries, self.commands = [], []
        self.handle(Recovered(self.now, Recovery(DAY)))
        self.open()

    def other(self, request: Callable[[Strategy], None]) -> None:
        self._requesters.append(request)
        self.handle(TimerFired(self.now, "other", time(9, 30)))


def test_an_entry_waits_until_the_cancels_have_left() -> None:
    stage = Pair()
    first = stage.working(200, 26_900)
    stage.other(lambda s: s.buy(100, limit=26_950))
    second = stage.last(PlaceOrder).intent
    stage.send(second)
    stage.after(1).request(lambda s: s.cancel())
    stage.answer(second, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.after(5).quote()

    stage.token()
    assert stage.new(ReadOrderToCancel) != []
    assert follows(stage) == [None, None]
    done = stage.after(1).row(report_of(first))

    sent = [one for one in done if isinstance(one, CancelOrder | PlaceOrder)]
    assert [type(one) for one in sent] == [CancelOrder, PlaceOrder]
    assert follows(stage) == [None, None, "L-0002"]


def _one_a_second(*, sellable: int = 0) -> Stage:
    settings = EngineSettings(account_limits=AccountLimits(max_orders_per_second=1))
    return Stage(PATIENT, settings=settings, sellable=sellable, beside=(OTHER,))


def test_held_orders_go_out_one_after_another_as_the_rate_of_the_account_allows() -> None:
    stage = _one_a_second()
    stage.send(stage.buy())
    stage.after(1).request(lambda s: s.buy(200, limit=26_900), by="other")
    stage.send(stage.last(PlaceOrder).intent)
    refused = Refused("OTP_SESSION_EXPIRED", "2FA", 403)
    for placed in stage.all(PlaceOrder):
        stage.after(1).answer(placed.intent, refused)
    stage.after(5).quote()

    stage.token()
    assert follows(stage) == [None, None, "L-0001"]
    assert stage.due() == stage.now + timedelta(seconds=1)
    stage.pass_time(1)

    assert follows(stage) == [None, None, "L-0001", "L-0002"]


def test_an_exit_refused_within_its_second_goes_out_with_the_token_that_has_come() -> None:
    stage = _one_a_second(sellable=500)
    stage.after(1).book(report_of(stage.working(500), executed=500))
    stage.after(5).quote()
    stage.request(lambda s: s.sell(100, limit=27_100))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)

    old = Refused("OTP_SESSION_EXPIRED", "2FA", 403, is_of_old_token=True)
    stage.after(0.3).answer(intent, old)
    assert (follows(stage), given_up(stage)) == ([None, None], [])
    stage.pass_time(0.7)

    assert follows(stage) == [None, None, "L-0002"]


def test_an_entry_that_a_token_finds_under_a_pause_of_entries_waits_for_its_end() -> None:
    stage = held_stage()
    stage.handle(OperatorActed(stage.now, Action.PAUSE, "wait", "me", entries_only=True))

    stage.after(1).quote()
    stage.token()
    assert (follows(stage), given_up(stage)) == ([None], [])
    stage.after(1).handle(OperatorActed(stage.now, Action.RESUME, "go on", "me"))

    assert follows(stage) == [None, "L-0001"]


def test_exits_go_before_entries() -> None:
    stage = Pair()
    stage.engine._state.strategies["other"].positions["HPG"] = Position(100, 2_600_000)
    buy = stage.buy(100, 26_900)
    stage.other(lambda s: s.sell(100, limit=28_000))
    sale = stage.last(PlaceOrder).intent
    stage.block_for_token(buy)
    stage.block_for_token(sale)
    stage.after(5).quote()

    stage.token()

    assert follows(stage) == [None, None, "L-0002", "L-0001"]


@pytest.mark.parametrize("order_id", ["L-0001", None], ids=["by its id", "all"])
@pytest.mark.parametrize("is_exit", [False, True])
def test_a_person_s_cancel_of_what_is_refused_a_moment_later_for_want_of_a_token_stands(
    order_id: str | None, *, is_exit: bool
) -> None:
    stage = Stage(PATIENT, sellable=500)
    own(stage, 200)
    stage.request(lambda s: s.sell(100, limit=27_000) if is_exit else s.buy(100, limit=27_000))
    intent = stage.last(PlaceOrder).intent
    stage.send(intent)
    stage.handle(CancelAsked(stage.now, order_id, "ann", "I have sold in the app"))

    stage.after(1).answer(intent, Refused("OTP_SESSION_EXPIRED", "2FA", 403))

    assert given_up(stage) == [("CANCEL", "cancelled by ann: I have sold in the app")]
    stage.after(5).quote()
    stage.token()
    stage.after(1).quote()
    assert follows(stage) == [None]


def test_a_person_s_cancel_of_one_leaves_the_others_held() -> None:
    stage = Pair()
    first = stage.buy(100, 26_900)
    stage.other(lambda s: s.buy(100, limit=26_850, why="as asked"))
    second = stage.last(PlaceOrder).intent
    stage.block_for_token(first)
    stage.block_for_token(second)

    stage.handle(CancelAsked(stage.now, first.intent_id, "ann", ""))

    assert given_up(stage) == [("CANCEL", "cancelled by ann")]
    stage.after(5).quote()
    stage.token()
    assert follows(stage) == [None, None, second.intent_id]


def test_a_held_order_that_is_given_up_counts_as_missed() -> None:
    stage = held_stage()
    stage.after(30).quote(27_500)

    stage.token()

    assert stage.last(AuthEvent).detail.endswith("1 signal missed")
    assert stage.engine.status().counts["expired"] == 1


def test_what_is_held_when_the_day_ends_is_given_up_for_that() -> None:
    stage = held_stage()

    stage.after(86_400).handle(TradingDayStarted(stage.now, DAY + timedelta(days=1)))

    assert [reason for _, reason in given_up(stage)] == ["the day ended"]


def test_entries_that_are_held_are_counted_and_the_missed_of_before_are_not_told_again() -> None:
    stage = held_stage()
    stage.after(30).quote(27_500)
    stage.token()

    stage.token()

    assert stage.engine.status().counts["held"] == 1
    assert [one.detail for one in stage.all(AuthEvent) if one.kind == "ready"] == [
        "until 17:30, 1 signal missed",
        "until 17:30",
    ]


def test_what_a_person_ends_counts_as_no_missed_signal() -> None:
    stage = held_stage()

    stage.handle(OperatorActed(stage.now, Action.HALT, "look", "me"))

    assert [code for code, _ in given_up(stage)] == ["HALTED"]
    assert stage.engine.status().missed_signals == 0


def test_what_is_given_up_when_the_token_has_come_is_no_missed_signal() -> None:
    stage = held_stage()
    stage.after(60).token()

    stage.after(1).quote(27_300)

    assert [code for code, _ in given_up(stage)] == ["PRICE_MOVED"]
    assert stage.engine.status().missed_signals == 0


def test_a_token_that_comes_under_a_pause_leaves_the_entry_held_for_its_time() -> None:
    stage = held_stage()
    stage.handle(OperatorActed(stage.now, Action.PAUSE, "wait", "me"))

    stage.after(30).quote()
    stage.token()
    assert follows(stage) == [None]
    stage.handle(OperatorActed(stage.now, Action.RESUME, "go on", "me"))
    stage.quote()

    assert follows(stage) == [None, "L-0001"]


@pytest.mark.parametrize(
    ("is_paused", "why"),
    [(True, "the bot is PAUSED: wait"), (False, "no fresh quote of HPG came")],
    ids=["paused", "no quote"],
)
def test_what_a_token_could_not_bring_back_in_time_is_not_given_up_for_want_of_one(
    is_paused: bool, why: str
) -> None:
    stage = Stage(replace(PLAN, hold_2fa=timedelta(seconds=120)))
    stage.block_for_token(stage.buy())
    if is_paused:
        stage.handle(OperatorActed(stage.now, Action.PAUSE, "wait", "me"))

    stage.after(60).token()
    stage.pass_time(60)

    reason = f"a token has come, but it could not be requested again within 2 min: {why}"
    assert given_up(stage) == [("HELD_TOO_LONG", reason)]


@pytest.mark.parametrize(("early_s", "is_sent"), [(1, True), (0, False)])
def test_a_token_in_the_last_second_of_the_wait_comes_too_late(early_s: int, is_sent: bool) -> None:
    stage = Stage(replace(PLAN, hold_2fa=timedelta(seconds=90)))
    stage.block_for_token(stage.buy())

    stage.after(90 - early_s).quote()
    stage.token()

    assert (follows(stage) == [None, "L-0001"]) is is_sent
    reason = ("HELD_TOO_LONG", "no 2FA within 90 s")
    assert given_up(stage) == ([] if is_sent else [reason])


@pytest.mark.parametrize(("seconds", "words"), [(300, "5 min"), (330, "330 s")])
def test_the_time_that_is_over_is_told_in_whole_minutes_where_it_is_some(
    seconds: int, words: str
) -> None:
    stage = Stage(replace(PLAN, hold_2fa=timedelta(seconds=seconds)))
    stage.block_for_token(stage.buy())

    stage.pass_time(seconds)

    assert given_up(stage) == [("HELD_TOO_LONG", f"no 2FA within {words}")]


def test_the_second_in_which_a_phase_ends_gives_the_entry_up() -> None:
    stage = Stage(PATIENT)
    stage.now = at(stage, 11, 29)
    stage.quote()
    stage.block_for_token(stage.buy())
    stage.now = at(stage, 11, 30).replace(second=0, microsecond=0)
    stage.quote()

    stage.token()

    assert [code for code, _ in given_up(stage)] == ["PHASE_CHANGED"]


def test_a_move_of_exactly_a_percent_lets_the_entry_out() -> None:
    stage = Stage(PATIENT)
    shape = {"reference": 25_000, "ceiling": 26_750, "floor": 23_250}
    stage.engine._state.beliefs["HPG"].reference = None
    stage.quote(25_000, **shape)
    stage.block_for_token(stage.buy(100, 25_000))

    stage.after(30).quote(25_250, **shape)
    stage.token()

    assert (follows(stage), given_up(stage)) == ([None, "L-0001"], [])


@pytest.mark.parametrize(("was", "last"), [(0, 27_000), (27_000, 0)])
def test_a_price_that_is_not_known_has_not_moved(was: int, last: int) -> None:
    stage = Stage(PATIENT)
    intent = stage.buy()
    stage.quote(was)
    stage.block_for_token(intent)

    stage.after(30).quote(last)
    stage.token()

    assert (given_up(stage), stage.engine.status().faults) == ([], ())


@pytest.mark.parametrize(("early_s", "is_held_back"), [(0.5, False), (0, True)])
def test_only_a_cancel_that_is_due_holds_an_entry_back(early_s: float, is_held_back: bool) -> None:
    stage = Pair()
    first = stage.working(200, 26_900)
    stage.other(lambda s: s.buy(100, limit=26_950))
    second = stage.last(PlaceOrder).intent
    stage.send(second)
    stage.after(1).request(lambda s: s.cancel())
    stage.row(report_of(first, may_cancel=False))
    stage.answer(second, Refused("OTP_SESSION_EXPIRED", "2FA", 403))
    stage.after(20).token()
    stage.row(report_of(first, may_cancel=False))  # looked at again soon
    waiting = stage.engine._state.cancels["ORD1"]
    assert (waiting.stage, waiting.hindrance) == (CancelStage.WANTED, Hindrance.FORBIDDEN)

    stage.now = waiting.due - timedelta(seconds=early_s)
    stage.quote()

    assert (follows(stage) == [None, None]) is is_held_back


def test_an_order_that_is_held_has_ended_at_the_broker() -> None:
    stage = held_stage()

    move = stage.last(Transition)

    assert (move.to_state, move.note) == (OrderState.REJECTED, "OTP_SESSION_EXPIRED")


@pytest.mark.parametrize(("late_s", "is_sent"), [(0, True), (0.1, False)])
def test_a_held_order_is_judged_by_a_quote_of_its_full_age(late_s: float, is_sent: bool) -> None:
    stage = held_stage()
    age_s = EngineSettings().max_quote_age.total_seconds()

    stage.after(age_s + late_s).token()

    assert (follows(stage) == [None, "L-0001"]) is is_sent


def test_an_order_that_does_not_wait_for_a_token_ends_and_its_strategy_is_told() -> None:
    stage = Stage(replace(PLAN, hold_2fa=None))

    stage.block_for_token(stage.buy())

    [(kind, told)] = stage.told
    assert (kind, told.intent_id, told.code) == ("reject", "L-0001", "OTP_SESSION_EXPIRED")
    assert stage.last(Transition).to_state is OrderState.REJECTED
    assert stage.engine.status().held == ()


def test_what_the_strategy_wants_at_the_quote_that_was_waited_for_counts_first() -> None:
    def opposite(strategy: Strategy, quote: Quote) -> None:
        if quote.updated_at != START:
            strategy.sell(100, limit=27_000, why="out")

    waking = replace(PATIENT, wake=Wake(quote=timedelta(seconds=1)))
    stage = Stage(waking, sellable=500, hooks={"on_quote": opposite})
    stage.block_for_token(stage.buy())
    stage.after(60).token()

    stage.after(1).quote()

    assert given_up(stage) == [("SIGNAL_GONE", "its strategy wants to SELL by now: out")]
    assert follows(stage) == [None]
