"""A run's notes on itself and its timetable: the pulse, and jobs that were late or missed.

The pulse is one line on recent events, so that silence is never mistaken for death. Missed job runs
are always reported. A job with its own times (a timer, the day's end) gets a row for every gap.
Polls are many and alike: all of a gap share one row with their count, and on a slow machine there
is at most one a minute; what is held back is reported with the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import LAST_PRICE, LATE_NOTE, MISSED_NOTE, PULSE_NOTE, Note, Number, RunState
from bot.domain.instrument import EXCHANGE_TZ, PHASE_WORDS
from bot.domain.quote import Quote
from bot.engine.market import MISSED_TIMER
from bot.engine.risk.view import SILENT_PHASES
from bot.engine.status import BotStatus
from bot.runtime.timetable.schedule import Firing, Job, WhenMissed, WhenOverlapping

_SHOWN: Final = ("quotes", "depths", "signals", "skips", "orders", "fills")
TOLD: Final = timedelta(seconds=60)
"""How often polls are reported: a machine that is too slow stays so for a while."""
OVERLAPS: Final = "the run before is still under way"
DOWN: Final = "the bot was down"


class Pulse:
    """Counts from one pulse to the next."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}
        self._heard_at: datetime | None = None
        self._passed_over = 0

    def beat(self, status: BotStatus, at: datetime, *, passed_over: int = 0) -> Note:
        """Report whether it trades, what is open, and what was counted since the last pulse.

        `passed_over`: how many quotes and depths of this run were replaced by a newer one.
        """
        before, self._before = self._before, dict(status.counts)
        since = {}
        for name, count in status.counts.items():  # each restarts every day
            grown = count - before.get(name, 0)
            since[name] = grown if grown >= 0 else count
        counts = [(since[name], name) for name in _SHOWN if since.get(name)]
        words = [f"{n} {name if n != 1 else name.removesuffix('s')}" for n, name in counts]
        if late := passed_over - self._passed_over:
            self._passed_over, since["passed_over"] = passed_over, late
            words.append(f"{late} passed over for newer")
        is_asleep = all(phase in SILENT_PHASES for phase in status.phases.values())
        if since.get("quotes") or since.get("depths") or is_asleep:
            self._heard_at = at
        elif self._heard_at is None:
            words.insert(0, "no data yet")
        else:
            minutes = (at - self._heard_at).total_seconds() // 60
            words.insert(0, f"no data for {minutes:.0f} min")
        asleep = sorted({PHASE_WORDS[phase] for phase in status.phases.values()})
        shown = ", ".join(words or asleep) or "quiet"
        lost = f", {len(status.sending)} being sent" if status.sending else ""
        lost += f", {len(status.unknown)} with an outcome not known" if status.unknown else ""
        text = f"{_trading(status)}, {len(status.open_orders)} open{lost} · {shown}"
        prices = {f"{LAST_PRICE}{one.symbol}": one.last for one in status.positions if one.last}
        return Note(at, PULSE_NOTE, text, {**since, **prices})


def _trading(status: BotStatus) -> str:
    """How many strategies are on, or what stops them all."""
    if status.state not in {RunState.RUNNING, RunState.REDUCING}:
        return f"{status.state}, no new orders"
    states = [each.state for each in status.strategies]
    waits = [each.reason for each in status.strategies if each.state == "warming"]
    others = [each for each in ("paused", "disabled") if each in states]
    on = [f"{states.count('on')} on"] if "on" in states else []
    if status.state is RunState.REDUCING:
        on.insert(0, "REDUCING, nothing is bought")
    warming = [f"{len(waits)} {waits[0]}"] if waits else []
    return ", ".join([*on, *warming, *(f"{states.count(each)} {each}" for each in others)])


def quote_note(quote: Quote, at: datetime) -> Note:
    """Show a symbol's last price, and how far that is from the reference."""
    change = 0.0 if not quote.reference else 100 * (quote.last - quote.reference) / quote.reference
    text = f"{quote.symbol} {quote.last:,} {change:+.1f}%"
    return Note(at, "QUOTE", text, {"last": quote.last}, quote.symbol)


class MissedRuns:
    """Makes the notes about missed jobs of one run."""

    def __init__(self) -> None:
        self._told: datetime | None = None
        self._polls: list[Firing] = []
        self._why = ""

    def notes(self, firings: Sequence[Firing], why: str, now: datetime) -> list[Note]:
        """Return the notes for these. What is held back comes with the next call, also one without
        any.
        """
        self._why = why or self._why
        own = [each for each in firings if each.job.period is None]
        self._polls += [each for each in firings if each.job.period is not None]
        found = [
            missed_note(each, why, now) if each.missed else late_note([each], why, now)
            for each in own
        ]
        if not self._polls or (self._told is not None and now - self._told < TOLD):
            return found
        self._told, polls, self._polls = now, self._polls, []
        missed, late = [each for each in polls if each.missed], [p for p in polls if not p.missed]
        if missed:
            first, due = min(each.first for each in missed), max(each.due for each in missed)
            count, when = sum(each.missed for each in missed), f"{_clock(first, now)} to"
            runs = f"{count:,} run{'s' * (count != 1)} missed, {when} {_clock(due, now)}"
            numbers = _numbers(missed, self._why, "each run once")
            found.append(Note(now, MISSED_NOTE, f"{_named(missed)}: {runs}: {self._why}", numbers))
        if late:
            found.append(late_note(late, self._why, now))
        return found


def late_note(firings: Sequence[Firing], why: str, now: datetime) -> Note:
    """The row for runs that were late but as good as on time."""
    late_s = max(each.late for each in firings).total_seconds()
    numbers = {**_numbers(firings, why, f"run, {late_s:.1f} s late"), "count": len(firings)}
    return Note(now, LATE_NOTE, f"{_named(firings)} came {late_s:.1f} s late: {why}", numbers)


def missed_note(firing: Firing, why: str, now: datetime) -> Note:
    """The row for a job with its own times; an alert if nothing else does its work: a timer's."""
    job = firing.job
    then = "run once, late" if firing.is_run else "not run"
    if firing.is_run and firing.missed < firing.count:
        then = "run for the last time alone"
    when = f"{firing.count} times from {_clock(firing.first, now)} to {_clock(firing.due, now)}"
    if firing.count == 1:
        when = f"due {_clock(firing.due, now)}"
    text, numbers = f"{job.name}, {when}: {then}: {why}", _numbers([firing], why, then)
    if job.missed is WhenMissed.LIST:
        return Note(
            now, MISSED_NOTE, f"{text}. {MISSED_TIMER}", {"alert": "TIMER_MISSED", **numbers}
        )
    return Note(now, MISSED_NOTE, text, numbers)


def overlap_note(job: Job, due: datetime, now: datetime) -> Note:
    """The row for a run that was due while the previous one was still working."""
    is_queued = job.overlapping is WhenOverlapping.QUEUE
    then = "runs after it" if is_queued else "not run"
    firing = Firing(job, due, due, 1, now - due, is_queued)
    text = f"{job.name}, due {_clock(due, now)}: {then}: {OVERLAPS}"
    return Note(now, MISSED_NOTE, text, _numbers([firing], OVERLAPS, then))


def _numbers(firings: Sequence[Firing], why: str, then: str) -> dict[str, Number]:
    first, due = min(each.first for each in firings), max(each.due for each in firings)
    return {
        "job": _named(firings),
        "first": first.isoformat(),
        "last": due.isoformat(),
        "count": sum(each.missed for each in firings) or 1,
        "why": why,
        "then": then,
    }


def _named(firings: Iterable[Firing]) -> str:
    names = sorted({each.job.name for each in firings})
    others = len(names) - 1
    return f"{names[0]} and {others} other{'s' * (others > 1)}" if others else names[0]


def _clock(instant: datetime, now: datetime) -> str:
    local = instant.astimezone(EXCHANGE_TZ)
    is_today = local.date() == now.astimezone(EXCHANGE_TZ).date()
    return f"{local:%H:%M:%S}" if is_today else f"{local:%a %m-%d %H:%M:%S}"
