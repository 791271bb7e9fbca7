"""The pulse: what happened lately, in one line, so that silence is never mistaken for death."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bot.domain.entry import LAST_PRICE, PULSE_NOTE, Note, RunState
from bot.domain.instrument import PHASE_WORDS
from bot.domain.quote import Quote
from bot.engine.risk.view import SILENT_PHASES
from bot.engine.status import BotStatus

_SHOWN: Final = ("quotes", "depths", "signals", "skips", "orders", "fills")


class Trouble:
    """What keeps the bot from its work at this moment, and since when: `bot status` says it first.

    It is kept in memory alone, for it may be the journal itself that nothing can be written to.
    """

    def __init__(self, now: Callable[[], datetime], show: Callable[[str], None]) -> None:
        self._now = now
        self._show = show
        self.text = ""
        """Empty while nothing is wrong."""
        self.since: datetime | None = None

    def begin(self, text: str) -> None:
        """Say what is wrong; it may be said again, in other words too, until it is over."""
        self.since = self.since or self._now()
        self.text = text
        self._show(text)

    def end(self, text: str) -> None:
        """It is over, in words."""
        self.text, self.since = "", None
        self._show(text)


class Pulse:
    """Counts from one pulse to the next."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}
        self._heard_at: datetime | None = None
        self._passed_over = 0

    def beat(self, status: BotStatus, at: datetime, *, passed_over: int = 0) -> Note:
        """Say whether it trades, what is open, and what was counted since last time.

        `passed_over`: how many quotes and depths of this run made room for a newer one.
        """
        before, self._before = self._before, dict(status.counts)
        since = {}
        for name, count in status.counts.items():  # each begins again every day
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
        text = f"{_trading(status)}, {len(status.open_orders)} open · {shown}"
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
