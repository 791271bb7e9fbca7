"""How the broker answers orders: when several of the last few were answered late, or with nothing
that proves an outcome, an alert stands until it answers well again.

`unknown.py` handles a single lost answer, and a single late one does not matter. But a broker whose
order route is slow all day makes each order a gamble while nothing else looks wrong: a price is ten
seconds old on arrival, an exit is as late, and each lost answer blocks other orders until its order
is found. Only these answers show it: reads still work as usual.
"""

from collections.abc import Iterator
from typing import Final

from bot.domain.entry import AttemptFinished, Numbers
from bot.domain.local_time import clock_of
from bot.domain.outcome import NotSent, Outcome, Unknown
from bot.domain.recovery import PLACES_JUDGED, PlaceSeen
from bot.engine.control_state import Standing
from bot.engine.state import State

LATE_MS: Final = 5_000
"""Half of the time that an answer may take: a healthy broker needs well under a second."""
ILL_MIN: Final = 3
"""So many of the last `PLACES_JUDGED`."""
GOOD_AGAIN: Final = 3
"""So many in a row are answered in time before it is over."""


def note_answer(state: State, outcome: Outcome, finished: AttemptFinished | None) -> None:
    """Record how one order was answered; an order that was not sent does not count."""
    if finished is None or isinstance(outcome, NotSent):
        return
    _add(state, PlaceSeen(state.now, isinstance(outcome, Unknown), finished.latency_ms))
    places = state.places
    if places.since is None and _is_ill(state):
        places.since = next(each.at for each in places.last if _is_bad(each))
        told = _standing(state)
        state.alert(told.code, told.text, told.facts)
    elif places.since is not None and not _is_ill(state):
        places.since = None
        state.note("RESUME", "the broker answers orders in time again", {"good": GOOD_AGAIN})


def restore(state: State, seen: tuple[PlaceSeen, ...]) -> None:
    """Restore the answers to the day's last orders from before the restart."""
    for each in seen:
        _add(state, each)
        if state.places.since is None and _is_ill(state):
            state.places.since = next(one.at for one in state.places.last if _is_bad(one))
        elif not _is_ill(state):
            state.places.since = None


def begin_day(state: State) -> None:
    """Forget the answers of the day before."""
    state.places.last.clear()
    state.places.since = None


def alerts(state: State) -> Iterator[Standing]:
    """Yield the alert while orders are answered late or not at all."""
    if state.places.since is not None:
        yield _standing(state)


def _add(state: State, seen: PlaceSeen) -> None:
    last = state.places.last
    last.append(seen)
    while len(last) > PLACES_JUDGED:
        last.popleft()


def _is_bad(seen: PlaceSeen) -> bool:
    return seen.is_lost or seen.latency_ms >= LATE_MS


def _is_ill(state: State) -> bool:
    """Return whether answers are bad: from `ILL_MIN` bad ones until `GOOD_AGAIN` good in a row."""
    last = state.places.last
    if state.places.since is not None:
        newest = list(last)[-GOOD_AGAIN:]
        return len(newest) < GOOD_AGAIN or any(map(_is_bad, newest))
    return sum(map(_is_bad, last)) >= ILL_MIN


def _standing(state: State) -> Standing:
    last, since = state.places.last, state.places.since
    assert since is not None, "told only while it is ill"
    lost = sum(each.is_lost for each in last)
    late = sum(map(_is_bad, last)) - lost
    slowest_s = max(each.latency_ms for each in last) / 1000
    words = clock_of(since)
    text = (
        f"the broker answers orders badly since {words}: of the last {len(last)}, {lost} had no "
        f"answer that proves anything and {late} took {LATE_MS // 1000} s or more (the slowest "
        f"{slowest_s:.1f} s). Orders go on, and what has no answer is looked for and never sent "
        "again; but they get there late, exits too, and a lost one keeps others back. Look in the "
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
