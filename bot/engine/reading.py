"""What can't be read though the broker's other answers come: named until it can be read again.

A read that fails changes nothing in what is known, so that it would be missed in silence: no quote
wakes a strategy, no row ends an order. The rest goes on, and checks how old what it uses is.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from bot.domain.message import ReadHealthChanged
from bot.engine.state import BY_BROKER, State
from bot.engine.watched import Standing

SHOWN_MAX: Final = 5
"""So many are named; of more the number is said."""
WITHOUT: Final[Mapping[str, str]] = {
    "the day order book": (
        "no order is sent, fills and ends of orders are seen late; cancels still go out. Look in "
        "the broker's app for what is open"
    ),
    "the account": (
        "orders go on by the last cash and shares that were read, and by the bot's own fills"
    ),
    "the phase": "orders go by the exchange's timetable",
    "the quote": "no order goes by an old one, and it wakes no strategy",
    "the depth": "no order goes by an old one, and it wakes no strategy",
    "the ex-dates": (
        "strategies go on, and their indicators take the fall of an ex-date on which this bot did "
        "not run for a fall of the price. Look what went ex, and pause who decides by it"
    ),
}
"""What the bot does while it can't read one of a kind."""


def on_read_health(state: State, event: ReadHealthChanged) -> None:
    """Name a read that fails while others work, once a kind until all of it can be read again."""
    failing = state.failing_reads.setdefault(event.kind, {})
    if event.is_healthy:
        if failing.pop(event.about, None) is not None and not failing:
            state.note("RESUME", f"{event.kind} can be read again", {"read": event.kind})
        return
    is_first, failing[event.about] = not failing, event.detail
    if is_first and BY_BROKER not in state.gate.troubles:
        told = _standing(event.kind, failing)
        state.alert(told.code, told.text, told.facts)


def alerts(state: State) -> Iterable[Standing]:
    """Return what can't be read now, a sentence a kind."""
    if BY_BROKER in state.gate.troubles:
        return  # nothing can be read, which is what the state says
    for kind, failing in state.failing_reads.items():
        if failing:
            yield _standing(kind, failing)


def _standing(kind: str, failing: Mapping[str, str]) -> Standing:
    names, more = sorted(filter(None, failing)), ""
    if len(names) > SHOWN_MAX:
        names, more = names[:SHOWN_MAX], f" and {len(names) - SHOWN_MAX} more"
    of = f" of {', '.join(names)}{more}" if names else ""
    detail = list(failing.values())[-1]
    now_is = f"it is asked for again and again: {WITHOUT[kind]}"
    text = f"{kind}{of} can't be read ({detail}); {now_is}. If it lasts, ask the broker"
    facts = {"read": kind, "without": kind, "about": f"{', '.join(names)}{more}", "detail": detail}
    return Standing("READ_FAILS", text, facts)
