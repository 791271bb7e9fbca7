"""The parts that a run works with, put together in `run.py`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bot.broker.broker import Broker
from bot.domain.account import SubAccount
from bot.domain.entry import Entry
from bot.domain.plan import StrategyPlan
from bot.domain.rulebook import Rulebook
from bot.engine.engine import Engine
from bot.engine.settings import Guard
from bot.runtime.activity import Tasks, TimeSlice
from bot.runtime.brake import Brake
from bot.runtime.commits import Commits
from bot.runtime.fence import Fence
from bot.runtime.inbox import Inbox
from bot.runtime.journal_file import counted, where_kept
from bot.runtime.live import Show
from bot.runtime.order_manager import OrderManager, order_words
from bot.runtime.reads import DayBookReader, Reads
from bot.runtime.second_factor import SecondFactor
from bot.runtime.start.retry import BrokerRetry
from bot.runtime.supervisor import Trouble
from bot.runtime.timetable.feeds import PollWatch
from bot.runtime.timetable.gap import Gap
from bot.runtime.timetable.schedule import Job
from bot.runtime.upkeep import Retention
from bot.runtime.worlds.environment import Environment


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that the daemon works with, put together in `run.py`."""

    environment: Environment
    inbox: Inbox
    time_slice: TimeSlice
    tasks: Tasks
    engine: Engine
    commits: Commits
    account: SubAccount
    reads: Reads
    day_order_book: DayBookReader
    orders: OrderManager
    fence: Fence
    second_factor: SecondFactor
    rulebook: Rulebook
    bars_file: Path
    ex_dates_file: Path
    """Where bars are kept for the next start; separate by mode, as a sandbox's prices
    are not real.
    """
    plans: tuple[StrategyPlan, ...]
    polls: PollWatch
    show: tuple[Show, ...]
    go_ahead: Show
    trouble: Trouble
    guard: Guard
    brake: Brake
    retry: BrokerRetry
    broker: Broker
    retention: Retention
    gap: Gap
    """What the time before this run has left to do."""
    jobs: list[Job] = field(default_factory=list)
    """The timetable, once the run has begun."""


def unanswered(parts: Parts) -> tuple[str, ...]:
    """Return, in words, what may have been sent, and has no trusted answer yet."""
    status = parts.engine.status()
    rows = {f"({row.intent_id})": row for row in status.open_orders if row.intent_id}
    found = [*parts.orders.under_way, *map(order_words, status.unknown)]
    named = dict.fromkeys(found)
    for words in found:  # a cancel or a change names its order
        row = rows.get(words.rpartition(" ")[2])
        if row is not None and row.order_id in words:
            named[words] = f"{words}: {row.side} {row.quantity:,} {row.symbol}"
    return tuple(each or words for words, each in named.items())


def tell_missing(parts: Parts, unwritten: Sequence[Entry], *, has_failed: bool) -> None:
    """Say what a run that ends leaves open: answers, orders never sent, events, rows."""
    if left := unanswered(parts):
        text = "the next start asks the broker what has become of that"
        parts.trouble.begin(f"stopped without the answer to {', '.join(left)}; {text}")
    if unsent := parts.orders.unsent:
        text = "the stop came first, and the next start does not send it"
        parts.trouble.begin(f"never sent: {', '.join(unsent)}; {text}")
    if (count := parts.inbox.unheard) and not has_failed:  # else the failure is what to tell
        noun = "event was" if count == 1 else "events were"
        text = "the next start reads orders and account anew"
        parts.trouble.begin(f"stopped before {count:,} {noun} looked at: {text}")
    if has_failed and (rows := [*parts.commits.beside, *unwritten]):
        rest = where_kept(parts.commits.unkept)
        parts.trouble.begin(f"stopped before the journal had taken {counted(rows)}. {rest}")
    elif unwritten and not (has_failed or parts.commits.is_cut):
        text = "no order was sent on it, and the next start reads orders and account anew"
        parts.trouble.begin(f"stopped before the journal had taken {counted(unwritten)}: {text}")
