"""What holds orders back and ends by itself: broker, journal, clock, disk and failing reads.

Each trouble degrades the gate under its own name, so the end of one is not the end of another.
Cancels and reads continue.

The machine's wall clock may be set, or the machine may stand still for a while. The engine's own
clock handles both (`bot.clock`). After a standstill, earlier signals, quotes and depths are older
than their limits; but the engine would trade on the next quote with the earlier orders and account.
So no order is sent until the day order book and the account have been read again, by requests
started after it.

The last space on the journal's disk is reserved for answers, cancels and halts: the end of an order
placed with the disk's last bytes could not be recorded.

A single kind of read that fails while others work is reported until it works again: the known state
just stays as it is, no quote wakes a strategy, no row ends an order. Everything else continues, and
checks the age of its data. What fails later of the same kind is told too, in fewer and fewer
alerts. The detail of an order is read at need; while it fails, an open order's is tried at times.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import Numbers, RunState
from bot.domain.local_time import clock_of
from bot.domain.message import (
    AccountRead,
    BrokerHealthChanged,
    ClockOffsetChanged,
    Event,
    JournalHealthChanged,
    ReadAccount,
    ReadHealthChanged,
    ReadOrder,
    ReadTodaysOrders,
    TodaysOrdersRead,
)
from bot.domain.operations import WARN_OFFSET, ClockStepped, DiskSeen, StoodStill, clock_words
from bot.engine import gate
from bot.engine.control_state import (
    BY_BROKER,
    BY_CLOCK,
    BY_ENGINE,
    BY_JOURNAL,
    FailingReads,
    Standing,
    Standstill,
)
from bot.engine.state import State

JOURNAL_LOST_MAX: Final = 3
JOURNAL_LOST_SPAN: Final = timedelta(minutes=30)
"""A journal lost this often within this span halts entries."""


def on_broker_health(state: State, event: BrokerHealthChanged) -> None:
    """No new orders while reads fail: the market and account are not known. What then fails again
    is told anew, as nobody can have heard of it alone. Begin and end that are no change of state,
    beside another trouble or in a stronger state, are an alert and a note.
    """
    before, was_away = state.gate.state, BY_BROKER in state.gate.troubles
    degrade(state, BY_BROKER, event.detail, is_over=event.is_healthy)
    if state.gate.state is before and event.is_healthy is was_away:
        if was_away:
            state.note("RESUME", "the broker can be read again")
        else:
            _tell(state, _broker_away(event.detail))
    for failing in state.failing_reads.values():
        failing.told.clear()
        failing.alerts, failing.due = 1, None


def on_journal_health(state: State, event: JournalHealthChanged) -> None:
    """No new orders while nothing can be written: none is sent that is not in the journal. Repeated
    failures are left to a person.
    """
    lost = state.gate.journal_lost
    if not event.is_healthy and BY_JOURNAL not in state.gate.troubles:
        lost[:] = [at for at in lost if state.now - at < JOURNAL_LOST_SPAN] + [state.now]
    degrade(state, BY_JOURNAL, event.detail, is_over=event.is_healthy)
    if len(lost) >= JOURNAL_LOST_MAX and RunState.HALTED not in state.gate.causes:
        minutes = round(JOURNAL_LOST_SPAN.total_seconds() / 60)
        text = (
            f"the journal could not be written {len(lost)} times in {minutes} minutes, the last "
            f"time because {event.detail}. No new order is sent any more; open orders stay; "
            "cancels and halt work. Find out what is wrong with disk or database (bot db check), "
            "then: bot resume --reason …"
        )
        facts: Numbers = {"times": len(lost), "minutes": minutes, "detail": event.detail}
        state.alert("JOURNAL_LOST", text, facts)
        why = f"the journal could not be written {len(lost)} times"
        gate.close(state, RunState.HALTED, why, BY_ENGINE, gate.DENIED_JOURNAL)
        lost.clear()


def on_clock_offset(state: State, event: ClockOffsetChanged) -> None:
    """No new orders while our clock is so far off that a lost order could not be recognised by its
    time.
    """
    offset, most, before = event.offset, state.settings.clock_max_offset, state.gate.skew
    seconds = round(offset.total_seconds())
    state.gate.skew = offset if abs(offset) >= WARN_OFFSET else None
    if state.gate.skew is not None:
        _tell(state, _skew(offset, most))
    elif before is not None:
        state.note("RESUME", "our clock agrees with the broker's again", {"offset_s": seconds})
    degrade(state, BY_CLOCK, clock_words(offset), is_over=abs(offset) < most)


def offset_alerts(state: State) -> Iterable[Standing]:
    """Yield how wrong our clock is, if it is."""
    skew = state.gate.skew
    return () if skew is None else (_skew(skew, state.settings.clock_max_offset),)


def _skew(offset: timedelta, most: timedelta) -> Standing:
    seconds, most_s = int(offset.total_seconds()), round(most.total_seconds())
    is_over = abs(offset) >= most
    now_is = f"orders still go on (from {most_s} s on none is sent)"
    if is_over:
        now_is = f"no order is sent until it is below {most_s} s again, and cancels go on"
    text = (
        f"{clock_words(offset)}: {now_is}. "
        "Set the clock of this machine, find out why it is not synchronised, and restart the bot"
    )
    facts = {"offset_s": seconds, "off_s": abs(seconds), "is_behind": seconds > 0}
    return Standing("CLOCK_OFFSET", text, {**facts, "limit_s": most_s, "are_orders_held": is_over})


def trouble_alerts(state: State) -> Iterable[Standing]:
    """Yield what a person can do while nothing can be written or read; the gate says what fails."""
    troubles = state.gate.troubles
    if (why := troubles.get(BY_JOURNAL)) is not None:
        text = (
            f"{why}: no order leaves until it can be written again; then the bot goes on by "
            "itself. Halt, pause, cancel and stop work; what they do is kept beside the journal. "
            "Look at its disk and its database: df, bot db check"
        )
        yield Standing("JOURNAL_AWAY", text, {"detail": why})
    if (why := troubles.get(BY_BROKER)) is not None:
        yield _broker_away(why)


def _broker_away(why: str) -> Standing:
    text = (
        f"nothing can be read from the broker ({why}): no order leaves until it can; then the bot "
        "goes on by itself. Fills and ends of orders are seen late; cancels are still tried. Look "
        "at this machine's network (bot doctor) and at open orders in the broker's app"
    )
    return Standing("BROKER_AWAY", text, {"detail": why})


def _tell(state: State, told: Standing) -> None:
    state.alert(told.code, told.text, told.facts)


def degrade(state: State, by: str, detail: str, *, is_over: bool) -> None:
    """Degrade for one trouble, leaving others in place; the journal's is the one shown."""
    troubles = state.gate.troubles
    if is_over and troubles.pop(by, None) is None:
        return
    if not is_over:
        troubles[by] = detail
    if troubles:
        shown = max(troubles, key=lambda name: name == BY_JOURNAL)
        gate.close(state, RunState.DEGRADED, troubles[shown], shown)
    else:
        gate.lift(state, RunState.DEGRADED, detail, by)


# ------------------------------------------------------------------------------- the machine's time

STANDSTILL = "standstill"
"""The author of this cause."""


def on_clock_stepped(state: State, event: ClockStepped) -> None:
    """Report which clock the bot uses."""
    state.machine.wall_is_ahead_by = event.ahead
    if event.ahead:
        _tell(state, _stepped(state))
    else:
        state.note("RESUME", "the machine's clock agrees with the bot's again")


def on_stood_still(state: State, event: StoodStill) -> None:
    """Hold orders back until everything has been read again."""
    span_s = event.span.total_seconds()
    text = (
        f"the bot stood still for {span_s:.0f} s until {clock_of(state.now)}: the machine was "
        "suspended, or the process was stopped. What was decided before is too old and is not "
        "sent; no order leaves until the day order book and the account have been read again, by "
        "itself. Nothing to do, but look at the open orders: bot status"
    )
    state.alert("STOOD_STILL", text, {"span_s": round(span_s, 1), "now": clock_of(state.now)})
    state.machine.standstill = Standstill(state.now, due=state.now)
    why = f"stood still for {span_s:.0f} s; reading orders and account"
    degrade(state, STANDSTILL, why, is_over=False)


def note_read(state: State, event: Event) -> None:
    """Record what was read, if it was requested since."""
    still = state.machine.standstill
    assert still is not None, "asked after a standstill"
    if isinstance(event, TodaysOrdersRead) and event.requested_at >= still.ended_at:
        still.has_orders = True
    elif isinstance(event, AccountRead) and event.snapshot.at >= still.ended_at:
        still.has_account = True
    if still.has_orders and still.has_account:
        state.machine.standstill = None
        why = "orders and account were read after the standstill"
        degrade(state, STANDSTILL, why, is_over=True)


def ask_after_standstill(state: State) -> None:
    """Request what is still to be read, repeatedly."""
    still = state.machine.standstill
    assert still is not None, "asked after a standstill"
    if still.due > state.now:
        return
    still.due = state.now + state.settings.read_patience
    if not still.has_orders:
        state.command(ReadTodaysOrders("after a standstill"))
    if not still.has_account:
        state.command(ReadAccount("after a standstill"))


def step_alerts(state: State) -> Iterable[Standing]:
    """Yield that the machine's clock differs from the bot's, while it does."""
    return [_stepped(state)] if state.machine.wall_is_ahead_by else []


def _stepped(state: State) -> Standing:
    ahead_s = state.machine.wall_is_ahead_by.total_seconds()
    back_or_on = "ahead" if ahead_s > 0 else "back"
    text = (
        f"the machine's clock was set {back_or_on} by {abs(ahead_s):.1f} s. The bot goes on by the "
        f"time that it started with ({clock_of(state.now)} now): orders, polls and signatures do "
        "not notice. If the new time is the right one, restart the bot when the market is closed; "
        "else set the machine's clock right: timedatectl"
    )
    facts: Numbers = {"ahead_s": round(ahead_s, 1), "now": clock_of(state.now)}
    return Standing("CLOCK_STEPPED", text, facts)


# ------------------------------------------------------------------------------- the journal's disk

LOW_BYTES: Final = 512 * 1024 * 1024
"""Below this an alert is raised: a trading day with thirty symbols writes some 100 MB."""
RESERVE_BYTES: Final = 64 * 1024 * 1024
"""Below this no order is sent: the rest is for the journal of open orders."""
DISK: Final = "disk"


def on_disk_seen(state: State, event: DiskSeen) -> None:
    """Report a disk that is filling up, and hold orders back if it is nearly full."""
    before, now = state.machine.disk_free, event.free_bytes
    state.machine.disk_free = now if now < LOW_BYTES else None
    if now < LOW_BYTES and _level(before) != _level(now):
        _tell(state, _low(now))
    elif before is not None and now >= LOW_BYTES:
        state.note("RESUME", f"the journal's disk has {now // 1024**2:,} MB again")
    text = f"the journal's disk has {now // 1024**2:,} MB left"
    degrade(state, DISK, text, is_over=now >= RESERVE_BYTES)


def disk_alerts(state: State) -> Iterable[Standing]:
    """Yield how much room there is, while it is low."""
    free = state.machine.disk_free
    return () if free is None else (_low(free),)


def _level(free: int | None) -> int:
    return 0 if free is None else 1 if free >= RESERVE_BYTES else 2


def _low(free: int) -> Standing:
    reserve, is_full = f"{RESERVE_BYTES // 1024**2} MB", free < RESERVE_BYTES
    does = "no order leaves" if is_full else f"below {reserve} no order leaves"
    text = (
        f"the disk of the journal has {free // 1024**2:,} MB left: {does}; the last {reserve} are "
        "for answers, cancels and halts. Make room on it: df, du"
    )
    facts = {"free_mb": free // 1024**2, "reserve_mb": RESERVE_BYTES // 1024**2}
    return Standing("DISK_LOW", text, {**facts, "are_orders_held": is_full})


# ------------------------------------------------------------------------------------- single reads

READS_TOGETHER: Final = timedelta(seconds=15)
"""What fails so soon after another read of its kind is one alert: each symbol is polled within it.
The next of that kind take twice as long each time, at most DOUBLINGS_MAX times.
"""
DOUBLINGS_MAX: Final = 6
DETAIL: Final = "the detail of an order"
DETAIL_AGAIN: Final = timedelta(seconds=30)
"""How soon a detail is tried again while none can be read, if an own order is open."""
SHOWN_MAX: Final = 5
"""How many are named; of further ones only the number."""
WITHOUT: Final[Mapping[str, str]] = {
    "the day order book": (
        "no order is sent, fills and ends of orders are seen late; cancels still go out. Look in "
        "the broker's app for what is open"
    ),
    DETAIL: (
        "cancels go out all the same; cancels and fills go by the day order book, and no order is "
        "changed"
    ),
    "the account": (
        "sales and cancels go on by the last cash and shares that were read, and by the bot's own "
        "fills; nothing is bought while these are older than {limit_s} s"
    ),
    "the account, of any age": (
        "orders go on by the last cash and shares that were read, and by the bot's own fills"
    ),
    "the account, unread today": "no order is sent until it has been read once today",
    "the phase": "orders go by the exchange's timetable",
    "the quote": "no order goes by an old one, and it wakes no strategy",
    "the depth": "no order goes by an old one, and it wakes no strategy",
    "the history": (
        "nothing is ordered in a symbol whose last close this bot does not know. If its price is "
        "right: bot resume SYMBOL --reason TEXT"
    ),
    "the ex-dates": (
        "strategies go on, and their indicators take the fall of an ex-date on which this bot did "
        "not run for a fall of the price. Look what went ex, and pause who decides by it"
    ),
}
"""What the bot does while one kind of read fails."""


def on_read_health(state: State, event: ReadHealthChanged) -> None:
    """Report a failing read while others work; the first of a kind at once, further ones together.
    Its end is told once all of the kind works again.
    """
    failing = state.failing_reads.setdefault(event.kind, FailingReads())
    if event.is_healthy:
        was_failing = failing.details.pop(event.about, None) is not None
        failing.told.discard(event.about)
        if not failing.details:
            del state.failing_reads[event.kind]
            if was_failing:
                now_is = "is not polled until a session begins"
                now_is = now_is if event.is_resting else "can be read again"
                state.note("RESUME", f"{event.kind} {now_is}", {"read": event.kind})
        return
    failing.details[event.about] = event.detail
    if event.kind == DETAIL and failing.again is None:
        failing.again = state.now + DETAIL_AGAIN
    if failing.due is None and event.about not in failing.told:
        more = READS_TOGETHER * 2 ** min(failing.alerts - 1, DOUBLINGS_MAX)
        failing.due = state.now + more if failing.alerts else state.now


def reads_due(state: State) -> datetime | None:
    """Return when failing reads are to be reported, or tried, next."""
    dues = [due for each in state.failing_reads.values() for due in (each.due, each.again) if due]
    return min(dues, default=None)


def tell_reads(state: State) -> None:
    """Report what fails and was not reported yet, once it is due; try a detail again."""
    for kind, failing in state.failing_reads.items():
        if failing.again is not None and failing.again <= state.now:
            failing.again = state.now + DETAIL_AGAIN
            own = [each for each in state.open_orders() if each.is_own]
            if order := min(own, key=lambda each: each.shown.is_missing, default=None):
                state.command(ReadOrder(order.row.order_id, "details can't be read"))
        if failing.due is None or failing.due > state.now:
            continue
        failing.due = None
        if BY_BROKER not in state.gate.troubles and failing.details.keys() - failing.told:
            failing.told, failing.alerts = set(failing.details), failing.alerts + 1
            _tell(state, _standing(state, kind, failing.details))


def read_alerts(state: State) -> Iterable[Standing]:
    """Yield which reads fail now, one sentence per kind."""
    if BY_BROKER in state.gate.troubles:
        return  # nothing can be read, which the state itself says
    needs_detail = any(each.is_own for each in state.open_orders()) or state.pending_intents()
    for kind, failing in state.failing_reads.items():
        if kind != DETAIL or needs_detail:
            yield _standing(state, kind, failing.details)


def _standing(state: State, kind: str, failing: Mapping[str, str]) -> Standing:
    names, detail = sorted(filter(None, failing)), list(failing.values())[-1]
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    about = f"{', '.join(names[:SHOWN_MAX])}{more}"
    of = f" of {about}" if about else ""
    limit, without = state.settings.account_limits.max_account_age, kind
    limit_s = 0 if limit is None else round(limit.total_seconds())
    if kind == "the account" and not (state.is_reconciled and limit_s):
        without += ", of any age" if state.is_reconciled else ", unread today"
    now_is = f"it is asked for again and again: {WITHOUT[without].format(limit_s=limit_s)}"
    text = f"{kind}{of} can't be read ({detail}); {now_is}. If it lasts, ask the broker"
    facts = {"read": kind, "without": without, "about": about, "detail": detail}
    return Standing("READ_FAILS", text, {**facts, "limit_s": limit_s})
