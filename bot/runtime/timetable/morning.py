"""Checks before the first session that everything a trading day needs is there.

There are eleven rows, each of which names its fix if it fails. Together they are one line of the
journal and the screen; in the morning each failure is an alert, too. Rows are made from plain
facts, so that `bot doctor` shows the same.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from bot.broker.broker import Broker
from bot.domain.calendar import TradingCalendar, day_words
from bot.domain.entry import Note, Number
from bot.domain.local_time import local_date
from bot.domain.message import Noted
from bot.domain.operations import WARN_OFFSET
from bot.domain.rulebook import Rulebook
from bot.engine.account_status import Reconciliation
from bot.engine.engine import Engine
from bot.engine.health import LOW_BYTES, RESERVE_BYTES
from bot.engine.risk.gone_shares import words_of
from bot.engine.status import BotStatus
from bot.journal.writing.thread import in_time
from bot.runtime.activity import Post
from bot.runtime.parts import Parts
from bot.runtime.second_factor import SecondFactor
from bot.runtime.supervisor import Trouble
from bot.runtime.timetable.feeds import SLOWER_MAX, PollWatch
from bot.runtime.watches import ANSWER_S, free_on

AT_START: Final = frozenset({"calendar", "strategies"})
"""What is an alert at a start, too; everything else has its own alert as soon as it is certain."""
AHEAD: Final = timedelta(days=30)
"""A calendar that ends sooner than this is reported."""
_MB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One check: what was found and, if that is not good, what to do."""

    name: str
    is_ok: bool
    found: str
    fix: str = ""


def calendar_row(calendar: TradingCalendar, day: date) -> Row:
    """Check that it is known whether the exchanges trade today, and in the next weeks."""
    last = date(max(calendar.years), 12, 31)
    fix = "add the year and its closed days to the file of market_rules, or update the bot"
    if not calendar.covers(day):
        found = f"{day} is in no year of the calendar, which ends on {last}: nothing is traded"
        return Row("calendar", False, found, fix)
    if not calendar.covers(day + AHEAD):
        return Row("calendar", False, f"the calendar ends on {last}: no day after is traded", fix)
    return Row("calendar", True, day_words(calendar, day))


def rules_row(rulebook: Rulebook, day: date) -> Row:
    """Check the calendar, and that the run goes by the rules of the day: it never changes them."""
    row, changed = calendar_row(rulebook.calendar, day), rulebook.changed_until(day)
    if not row.is_ok or not changed:
        return row
    names = ", ".join(changed)
    found = f"rules have changed since this run began ({names}), and it does not use them"
    return Row("calendar", False, found, "restart the bot before the open")


def token_row(calendar: TradingCalendar, day: date, *, is_ready: bool) -> Row:
    """Check that orders can be written today; not needed on a day without trading."""
    if not calendar.is_trading_day(day):
        return Row("token", True, "none is needed on a day without trading")
    found = "is there" if is_ready else "no 2FA token that is good today"
    return Row("token", is_ready, found, "bot otp request")


def clock_row(offset: timedelta) -> Row:
    """Check that our clock agrees with the broker's, which is `offset` ahead of it."""
    restart = "then restart a bot that runs, as only a start reads it"
    fix = f"set the clock: timedatectl set-ntp true; {restart}"
    if abs(offset) < WARN_OFFSET:
        return Row("clock", True, f"within {WARN_OFFSET.total_seconds():g} s of the broker's", fix)
    seconds, side = abs(offset.total_seconds()), "behind" if offset > timedelta() else "ahead of"
    return Row("clock", False, f"ours is {seconds:.1f} s {side} the broker's", fix)


def disk_row(free: int | None) -> Row:
    """Check that there is room to write; `free` is None if the disk does not say."""
    if free is None:
        return Row("disk", False, "it does not answer", "bot db check, bot status")
    fix = f"make room (df, du): below {RESERVE_BYTES // _MB:,} MB no order leaves"
    if free >= LOW_BYTES:
        return Row("disk", True, f"at least {LOW_BYTES // _MB:,} MB free", fix)
    return Row("disk", False, f"{free // _MB:,} MB free", fix)


def symbols_row(
    traded: Sequence[str], listed_on: Mapping[str, date], day: date, *, is_day_begun: bool
) -> Row:
    """Check that the broker has said today where each symbol is listed. It is asked for that last,
    so while the start of the day waits a restart would only wait too, or end the bot.
    """
    old = [symbol for symbol in traded if listed_on.get(symbol) != day]
    if not old:
        return Row("symbols", True, f"{len(traded)} symbols where the broker lists them")
    if not is_day_begun:
        then = f"then asks where {', '.join(old)} trades"
        found = f"the start of the day waits for the broker, and {then}"
        return Row("symbols", False, found, "leave the bot running, and look at bot status")
    found = f"the broker has not said today where {', '.join(old)} trades: it may have moved"
    return Row("symbols", False, found, f"look at bot quote {old[0]}, then restart the bot")


def halt_rows(calendar: TradingCalendar, day: date, status: BotStatus) -> Iterator[Row]:
    """Check that orders can leave today as far as a person decides it; a day without trading needs
    nobody.
    """
    halts = [*status.until_resume]
    halts += [f"{symbol} is halted: {why}" for symbol, why in status.halted_symbols.items()]
    blocks = [each for each in status.blocked_by if each not in halts]
    if not calendar.is_trading_day(day):
        halts, blocks = [], []
    found = "; ".join(halts) or "nothing waits for bot resume"
    yield Row("halts", not halts, found, "bot resume --reason …")
    found = "; ".join(blocks) or "at least one can order, or all only watch"
    yield Row("strategies", not blocks, found, "bot status")


def book_rows(status: BotStatus, compared: Reconciliation, day: date) -> Iterator[Row]:
    """Check that every order of an earlier day has ended, and journal and broker agree."""
    open_rows = [row.order_id for row in status.open_orders if row.trading_date < day]
    open_rows += [each.intent_id for each in status.unknown if each.trading_date < day]
    found = f"not known how {', '.join(open_rows)} of an earlier day ended"
    if open_rows:
        yield Row("orders", False, found, f"bot order {open_rows[0]} --timeline")
    else:
        yield Row("orders", True, "all orders of earlier days have ended")
    reads = (compared.book_read_at, compared.account_read_at)
    apart = [one.text for one in compared.breaks] + list(compared.doubts)
    apart += [words_of(each.symbol, each.shares) for each in compared.gone]
    if apart:
        yield Row("positions", False, "; ".join(apart), "bot reconcile")
    elif any(read is None or local_date(read) != day for read in reads):
        found = "orders or account have not been read today"
        yield Row("positions", False, found, "bot reconcile --apply")
    else:
        yield Row("positions", True, "journal and broker agree")


@dataclass(eq=False, slots=True)
class MorningCheck:
    """Gathers the facts of a run, and posts the result."""

    engine: Engine
    broker: Broker
    second_factor: SecondFactor
    polls: PollWatch
    trouble: Trouble
    folders: Sequence[Path]
    rulebook: Rulebook
    traded: Sequence[str]
    listed_on: Mapping[str, date]
    post: Post

    @classmethod
    def of(cls, parts: Parts, listed_on: Mapping[str, date]) -> Self:
        """Make it from a run's parts. `listed_on` is filled later."""
        return cls(
            engine=parts.engine,
            broker=parts.broker,
            second_factor=parts.second_factor,
            polls=parts.polls,
            trouble=parts.trouble,
            folders=parts.commits.folders,
            rulebook=parts.rulebook,
            traded=sorted({symbol for plan in parts.plans for symbol in plan.symbols}),
            listed_on=listed_on,
            post=parts.inbox.post,
        )

    async def check(self, at: datetime, *, alerting: Container[str] | None = None) -> None:
        """Report all on one line, and each failing row as an alert; only those in `alerting`, if
        given.
        """
        for row in await self.tell(at):
            if alerting is not None and row.name not in alerting:
                continue
            text = f"before the open, {row.name}: {row.found}. {row.fix}"
            numbers: dict[str, Number] = {"alert": "MORNING_CHECK", "check": row.name}
            numbers |= {"found": row.found, "fix": row.fix}
            self.post(Noted(at, Note(at, "ALERT", text, numbers)))

    async def tell(self, at: datetime) -> list[Row]:
        """Report all on one line; return what is not as it should be."""
        rows = await self.rows(at)
        failed = [row for row in rows if not row.is_ok]
        named = " · ".join(f"{row.name}: {row.found} ({row.fix})" for row in failed)
        text = f"{len(rows) - len(failed)} of {len(rows)} checks ok{' · ' if failed else ''}{named}"
        numbers: dict[str, Number] = {row.name: row.found for row in rows}
        numbers["failed"] = ", ".join(row.name for row in failed)
        self.post(Noted(at, Note(at, "MORNING", text, numbers)))
        return failed

    async def rows(self, at: datetime) -> list[Row]:
        """Run every check now. Good results are reported without the machine's own figures, so that
        a day gives the same story on any machine.
        """
        day, status = local_date(at), self.engine.status()
        quota = f"{self.polls.needed:,.0f} polls a minute, {self.polls.room:,} have room"
        is_fast = self.polls.slower <= SLOWER_MAX and not self.broker.budget.is_degraded
        try:
            free: int | None = await in_time(lambda: min(map(free_on, self.folders)), ANSWER_S)
        except (TimeoutError, OSError):
            free = None
        return [
            rules_row(self.rulebook, day),
            symbols_row(self.traded, self.listed_on, day, is_day_begun=self.engine.is_day_begun),
            token_row(self.rulebook.calendar, day, is_ready=self.second_factor.is_ready),
            clock_row(self.broker.offset.value),
            Row("quota", is_fast, quota, "poll fewer symbols or less often, or ask for a class"),
            disk_row(free),
            Row(
                "journal",
                not self.trouble.text,
                self.trouble.text or "is written",
                "bot db check, bot status",
            ),
            *halt_rows(self.rulebook.calendar, day, status),
            *book_rows(status, self.engine.reconciliation(), day),
        ]
