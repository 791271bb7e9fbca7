"""What the answers to orders imply beyond the single order.

Whatever keeps being refused is stopped. An error of the order API itself (a newly required header
or field, a moved path) affects every order: three equal ones in a row halt the orders of the
account. A strategy whose orders the broker refuses, for whatever reason, is paused after three in a
row, or five within ten minutes. A redirected order has reached an address that is not the broker's.
Reads and cancels always continue.

When several of the last few orders were answered late, or with nothing that proves an outcome, an
alert stands until the broker answers well again. `unknown.py` handles a single lost answer, and a
single late one does not matter. But a broker whose order route is slow all day makes each order a
gamble while nothing else looks wrong: a price is ten seconds old on arrival, an exit is as late,
and each lost answer blocks other orders until its order is found. Only these answers show it: reads
still work as usual.
"""

import re
from collections.abc import Iterator
from typing import Final

from bot.domain.entry import ACCOUNT_SCOPE, AttemptFinished, Numbers
from bot.domain.local_time import clock_of
from bot.domain.outcome import ORDER_WORDS, NotSent, Outcome, Refused, Unknown
from bot.domain.recovery import PlaceSeen
from bot.engine import gate
from bot.engine.account_state import OF_LATE, REFUSALS_MAX, REFUSALS_OF_LATE_MAX, Recent
from bot.engine.control_state import BY_ENGINE, Standing
from bot.engine.orders.order_words import intent_facts, intent_words
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

LATE_MS: Final = 5_000
"""Half of the time that an answer may take: a healthy broker needs well under a second."""
ILL_MIN: Final = 3
"""So many of the last few, `PLACES_JUDGED`."""
GOOD_AGAIN: Final = 3
"""So many in a row are answered in time before it is over."""
_OF_THE_API: Final = frozenset({400, 404, 405, 422})
_PASSING: Final = frozenset({401, 429})
"""Key and quota have their own breakers."""
_OWN_REASON: Final = re.compile("|".join([r"-[0-9]+", *sorted(ORDER_WORDS)]))
"""An order-level code, such as of too little cash: the API has understood the order."""
_RESUME: Final = 'then: bot resume --reason "…"'


def note_accepted(state: State, tracked: TrackedIntent) -> None:
    """The order API works, and accepts this strategy's orders."""
    state.refusals.pop(tracked.intent.account, None)
    strategy = state.strategies.get(tracked.intent.strategy)
    if strategy is not None:
        strategy.refusals = 0


def note_refused(state: State, tracked: TrackedIntent, refused: Refused) -> None:
    """Count a refusal of the API itself, or of a strategy's order."""
    intent, status = tracked.intent, refused.http_status
    if status in _PASSING:
        return
    said = f"{refused.code} {refused.reason}".strip()
    if status in _OF_THE_API and not _OWN_REASON.fullmatch(refused.code):
        code = f"HTTP {status} {refused.code}"
        before, count = state.refusals.get(intent.account, ("", 0))
        count = count + 1 if before == code else 1
        state.refusals[intent.account] = code, count
        if count >= REFUSALS_MAX:
            del state.refusals[intent.account]
            text = (
                f"API changed? {count} orders in a row were refused with {code}: {refused.reason}"
            )
            _halt(state, tracked, "API_CHANGED", text, {"code": code, "said": said, "count": count})
            return
    else:
        state.refusals.pop(intent.account, None)
    strategy = state.strategies.get(intent.strategy)
    if strategy is None:
        return
    strategy.refusals += 1
    strategy.refused_of_late.add(state.now)
    count, of_late = strategy.refusals, strategy.refused_of_late.count(state.now)
    is_over = count >= REFUSALS_MAX or of_late >= REFUSALS_OF_LATE_MAX
    if is_over and gate.hears_market(strategy):
        minutes = round(OF_LATE.total_seconds() / 60)
        span = "in a row" if count >= REFUSALS_MAX else f"within {minutes} minutes"
        count = count if count >= REFUSALS_MAX else of_late
        strategy.refusals, strategy.refused_of_late = 0, Recent(OF_LATE)
        why = f"the broker has refused {count} of its orders {span}, the last with {said}"
        text = (
            f"{intent.strategy} is paused: {why}, for {intent_words(intent)}. Its open orders "
            "stay, other strategies go on. Look at bot orders, then: bot strategy enable "
            f"{intent.strategy}"
        )
        facts: Numbers = {"strategy": intent.strategy, "said": said, "count": count, "span": span}
        facts = {**intent_facts(tracked), **facts}
        state.alert("STRATEGY_REFUSED", text, facts, symbol=intent.symbol)
        gate.switch(state, strategy, gate.PAUSED, why, BY_ENGINE)


def note_redirect(state: State, finished: AttemptFinished | None) -> None:
    """An order, cancel or amendment answered with a redirect has missed the API."""
    status = finished.http_status if finished is not None else None
    tracked = state.intents.get(finished.intent_id) if finished is not None else None
    if tracked is not None and status is not None and 300 <= status < 400:
        text = (
            f"configuration: an order was answered with a redirect (HTTP {status}), which is never "
            "followed. Look at broker.base_url, and for a proxy or a portal in between"
        )
        _halt(state, tracked, "ORDER_REDIRECTED", text, {"http_status": status})


def _halt(state: State, tracked: TrackedIntent, code: str, text: str, facts: Numbers) -> None:
    intent = tracked.intent
    now_is = "No order is sent any more; reads and cancels go on"
    whole = f"{text}. The last was {intent_words(intent)}. {now_is}. Mend it, {_RESUME}"
    state.alert(code, whole, {**intent_facts(tracked), **facts}, symbol=intent.symbol)
    gate.halt_scope(state, f"{ACCOUNT_SCOPE}{intent.account}", text)


# ------------------------------------------------------------- answers that come late or not at all


def note_answer(state: State, outcome: Outcome, finished: AttemptFinished | None) -> None:
    """Record how one order was answered; an order that was not sent does not count."""
    if finished is None or isinstance(outcome, NotSent):
        return
    answers = state.place_answers
    answers.last.append(PlaceSeen(state.now, isinstance(outcome, Unknown), finished.latency_ms))
    if answers.since is None and _is_ill(state):
        answers.since = next(each.at for each in answers.last if _is_bad(each))
        told = _standing(state)
        state.alert(told.code, told.text, told.facts)
    elif answers.since is not None and not _is_ill(state):
        answers.since = None
        state.note("RESUME", "the broker answers orders in time again", {"good": GOOD_AGAIN})


def restore(state: State, seen: tuple[PlaceSeen, ...]) -> None:
    """Restore the answers to the day's last orders from before the restart."""
    answers = state.place_answers
    for each in seen:
        answers.last.append(each)
        if answers.since is None and _is_ill(state):
            answers.since = next(one.at for one in answers.last if _is_bad(one))
        elif not _is_ill(state):
            answers.since = None


def begin_day(state: State) -> None:
    """Forget the answers of the day before."""
    state.place_answers.last.clear()
    state.place_answers.since = None


def alerts(state: State) -> Iterator[Standing]:
    """Yield the alert while orders are answered late or not at all."""
    if state.place_answers.since is not None:
        yield _standing(state)


def _is_bad(seen: PlaceSeen) -> bool:
    return seen.is_lost or seen.latency_ms >= LATE_MS


def _is_ill(state: State) -> bool:
    """Return whether answers are bad: from `ILL_MIN` bad ones until `GOOD_AGAIN` good in a row."""
    last, since = state.place_answers.last, state.place_answers.since
    if since is not None:
        newest = list(last)[-GOOD_AGAIN:]
        return len(newest) < GOOD_AGAIN or any(map(_is_bad, newest))
    return sum(map(_is_bad, last)) >= ILL_MIN


def _standing(state: State) -> Standing:
    last, since = state.place_answers.last, state.place_answers.since
    assert since is not None, "told only while it is ill"
    lost = sum(each.is_lost for each in last)
    late = sum(map(_is_bad, last)) - lost
    slowest_s = max(each.latency_ms for each in last) / 1000
    words = clock_of(since)
    text = (
        f"the broker has answered orders badly since {words}: of the last {len(last)}, {lost} had "
        f"no answer that proves anything and {late} took {LATE_MS // 1000} s or more (the slowest "
        f"{slowest_s:.1f} s). Orders go on; one without an answer is looked for and never sent "
        "again. But orders, exits too, arrive late, and a lost one holds others back. Look in the "
        "broker's app and news; to buy nothing meanwhile: bot pause --entries"
    )
    facts: Numbers = {
        "since": since.isoformat(),
        "of": len(last),
        "lost": lost,
        "late": late,
        "slowest_s": round(slowest_s, 1),
        "late_s": LATE_MS // 1000,
    }
    return Standing("PLACES_ILL", text, facts)
