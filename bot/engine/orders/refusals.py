"""What refusals imply beyond the single order: whatever keeps being refused is stopped.

An error of the order API itself (a newly required header or field, a moved path) affects every
order: three equal ones in a row halt the orders of the account. A strategy whose orders the broker
refuses, for whatever reason, is paused after three in a row, or five within ten minutes. A
redirected order has reached an address that is not the broker's. Reads and cancels always continue.
"""

import re
from typing import Final

from bot.domain.entry import ACCOUNT_SCOPE, AttemptFinished, Numbers
from bot.domain.outcome import Refused
from bot.engine import gate
from bot.engine.account_state import OF_LATE, REFUSALS_MAX, REFUSALS_OF_LATE_MAX, Recent
from bot.engine.control_state import BY_ENGINE
from bot.engine.orders.order_words import intent_facts, intent_words
from bot.engine.state import State
from bot.engine.tracked import TrackedIntent

_OF_THE_API: Final = frozenset({400, 404, 405, 422})
_PASSING: Final = frozenset({401, 429})
"""Key and quota have their own breakers."""
_OWN_REASON: Final = re.compile(r"-[0-9]+")
"""The form of an order-level code, such as too little cash: the API has understood the order."""
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
    if is_over and strategy.state == gate.ON:
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
