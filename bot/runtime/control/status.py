"""The answers of a running bot as JSON-ready fields: its status, its orders, its accounts.

`--json` and the control socket show the same fields. Their keys are a stable contract.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final

from bot.broker.broker import Broker
from bot.config.masking import masked_url
from bot.config.settings.load import Loaded
from bot.config.strategies.source_files import Hashes
from bot.domain.account import masked_account
from bot.domain.entry import OrderUpdated
from bot.domain.instrument import Exchange, Phase
from bot.domain.quote import Depth
from bot.domain.rulebook import Rulebook
from bot.engine.account_status import Balance, Compared, LimitUse, Reconciliation
from bot.engine.control_state import Standing
from bot.engine.status import BotStatus, StrategyStatus
from bot.journal.reading.values import PriceRow
from bot.protocol.values.border import MarketPhase
from bot.runtime.control.socket import WHOLE_MAX
from bot.runtime.inbox import Urgency
from bot.runtime.parts import Parts
from bot.runtime.timetable.feeds import RECONCILE, RECONCILE_MINUTES_CLOSED
from bot.runtime.timetable.schedule import Job
from bot.runtime.watches import limited, refused

Fields = dict[str, object]

PERIODS_MAX: Final = 3
"""A read of orders or account that is older than this many of its periods is overdue."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a status contains besides the parts of the run."""

    broker: Broker
    loaded: Loaded
    is_dry_run: bool
    started_at: datetime
    files: Mapping[str, Hashes]
    """What each strategy was loaded from, by name."""
    alerts: Callable[[], Sequence[Standing]]
    """What else is wrong now: broken strategies, channels of notices that fail."""


def status_of(parts: Parts, facts: Facts) -> Fields:
    """Return everything that an operator may want to see. Money is VND, instants are UTC."""
    status, broker, settings = parts.engine.status(), facts.broker, facts.loaded.settings
    trouble = {"text": parts.trouble.text, "since": instant(parts.trouble.since)}
    barred = [*refused(broker.breaker)]
    limits = (*barred, *limited(parts.environment, broker.budget))
    standing = [*parts.retry.standing(), *status.standing, *limits, *facts.alerts()]
    return {
        "trouble": trouble if parts.trouble.text else None,
        "state": status.state,
        "reason": status.reason,
        "since": instant(status.since),
        "causes": [fields_of(each) for each in status.causes],
        "blocked_by": [*status.blocked_by, *(each.text for each in barred)],
        "mode": settings.mode,
        "dry_run": facts.is_dry_run,
        "at": instant(parts.environment.market.now()),
        "started_at": instant(facts.started_at),
        "account": parts.account.masked,
        "journal": masked_url(facts.loaded.journal_url),
        "files": dict(facts.loaded.files),
        "phases": {str(exchange): phase for exchange, phase in sorted(status.phases.items())},
        "two_factor": _two_factor(parts, status),
        "strategies": [_strategy(each, facts) for each in status.strategies],
        "positions": [fields_of(each) for each in status.positions],
        "unloaded": [fields_of(each) for each in status.unloaded],
        "open_orders": [order_fields(each) for each in status.open_orders],
        "cancels": [fields_of(each) for each in status.cancels],
        "amends": [fields_of(each) for each in status.amends],
        "held": [
            {
                "intent_id": each.intent.intent_id,
                "symbol": each.intent.symbol,
                "side": each.intent.side,
                "quantity": each.intent.quantity,
                "until": instant(each.until),
                "code": each.code,
            }
            for each in status.held
        ],
        "sending": [intent.intent_id for intent in status.sending],
        "unknown": [intent.intent_id for intent in status.unknown],
        "faults": [fields_of(each) for each in status.faults],
        "halted_symbols": dict(status.halted_symbols),
        "language": settings.language,
        "alerts": [each.text for each in standing],
        "standing": [fields_of(each) for each in standing],
        "counts": dict(status.counts),
        "orders_today": dict(status.orders_today),
        "day_result": status.day_result,
        "clock_offset_s": broker.offset.value.total_seconds(),
        "rate": _rate(parts, broker),
        "inbox": {  # events waiting for a decision; market data replaced by newer data
            "waiting": sum(parts.inbox.waiting.values()),
            "asked": parts.inbox.waiting[Urgency.OPERATOR],
            "passed_over": parts.inbox.passed_over,
        },
        "limits": limit_fields(parts.engine.limits()),
        "drift": [fields_of(each) for each in broker.drift.seen],
    }


def _two_factor(parts: Parts, status: BotStatus) -> Fields:
    """The token, which ends by the broker's clock, and how many codes a person can still have
    mailed.
    """
    token = parts.second_factor.state()
    return {
        "until": instant(status.token_until) if token["is_ready"] else None,
        "is_unproven": status.is_unproven,
        "missed_signals": status.missed_signals,
        "codes_used": token["codes_used"],
        "codes_per_day": token["codes_per_day"],
    }


def limit_fields(limits: Iterable[LimitUse]) -> list[Fields]:
    """How much of each limit is used; accounts are masked."""
    found = [fields_of(each) for each in limits]
    return [
        {**row, "of": masked_account(str(row["of"]))} if row["scope"] == "account" else row
        for row in found
    ]


def _rate(parts: Parts, broker: Broker) -> Fields:
    """The requests of this minute; degraded: the broker limits us in the long term."""
    budget, polls = broker.budget, parts.polls
    return {
        "used": budget.used,
        "per_minute": budget.per_minute,
        "waiting": budget.waiting,
        "is_degraded": budget.is_degraded,
        "starved": polls.starved,
        # requests a minute: as the files ask for, as actually made, and what there is room for
        "polls": {
            "asked": round(polls.asked, 1),
            "made": round(polls.needed, 1),
            "room": polls.room,
            "slower": round(polls.slower, 2),
            "quote_every_s": polls.quote_every.total_seconds(),
        },
    }


def _strategy(each: StrategyStatus, facts: Facts) -> Fields:
    return {
        "name": each.name,
        "state": each.state,
        "reason": each.reason,
        "mode": each.mode,
        "symbols": list(each.symbols),
        "files": dict(facts.files.get(each.name, {})),
        "orders_today": each.orders_today,
        "day_result": each.day_result,
    }


def order_fields(each: OrderUpdated) -> Fields:
    """An open order: shares, VND per share, the broker's status and our state."""
    return {
        "order_id": each.order_id,
        "intent_id": each.intent_id,
        "strategy": each.strategy,
        "symbol": each.symbol,
        "side": each.side,
        "quantity": each.quantity,
        "price": each.price,
        "order_type": each.order_type,
        "executed": each.executed_quantity,
        "state": each.state,
        "broker_status": each.broker_status,
    }


def comparison_fields(
    found: Reconciliation, now: datetime, not_read: Sequence[Fields] = ()
) -> Fields:
    """Return it ready for JSON. The keys are a stable contract; accounts are masked."""
    return {
        "at": instant(now),
        "unread": list(not_read),
        "book_read_at": instant(found.book_read_at),
        "account_read_at": instant(found.account_read_at),
        "numbers": [_number(each) for each in found.numbers],
        "breaks": [{**fields_of(each), "rests_on": list(each.rests_on)} for each in found.breaks],
        "doubts": list(found.doubts),
        "unsettled": list(found.unsettled),
        "external": [order_fields(each) for each in found.external],
        "not_listed": [order_fields(each) for each in found.not_listed],
        "gone": [
            {**fields_of(each), "account": masked_account(each.account)} for each in found.gone
        ],
        "rows": list(found.rows),
    }


def reads_every(phases: Mapping[Exchange, Phase], rulebook: Rulebook, now: datetime) -> timedelta:
    """Return the period by which reads of orders and account may be overdue: that of closed
    exchanges, too, until those in trading could have passed a few times.
    """
    earlier = now - RECONCILE * PERIODS_MAX
    were_closed = {rulebook.phase_at(each, earlier) for each in phases} <= {Phase.CLOSED}
    is_seldom = were_closed or set(phases.values()) <= {Phase.CLOSED}
    return RECONCILE * (RECONCILE_MINUTES_CLOSED if is_seldom else 1)


def unread_fields(
    reads: Mapping[str, datetime | None],
    failing: Mapping[str, str],
    *,
    every: timedelta,
    now: datetime,
) -> list[Fields]:
    """Return which of some reads fails now, or is older than a few of its periods.

    `reads`: when each kind was last read; `failing`: why it fails. `age_s` is None before the
    first answer.
    """
    rows = list[Fields]()
    for kind, read_at in reads.items():
        age = None if read_at is None else now - read_at
        if kind in failing or (age is not None and age > every * PERIODS_MAX):
            age_s = None if age is None else round(age.total_seconds())
            rows.append({"read": kind, "age_s": age_s, "detail": failing.get(kind, "")})
    return rows


def balance_fields(each: Balance, prices: Mapping[str, PriceRow]) -> Fields:
    """Return it ready for JSON; `prices` come from the journal, for shares without one here.

    `net_assets` is ours: cash, amounts due, and shares at their last price; None while one has no
    price. Its difference is the sum of the difference in cash, `due` (sale money that the broker's
    figure omits) and `rest`: what the broker counts besides cash, as one number (`other`), less
    what our shares are worth. The keys are a stable contract; the account is masked.
    """
    held = list[Fields]()
    for one in each.held:
        price = prices.get(one.symbol) if one.last is None else None
        last, at = (price.last, price.at) if price else (one.last, one.last_at)
        value = None if last is None else one.total * last
        held.append({**fields_of(one), "last": last, "last_at": instant(at), "value": value})
    values, due = [row["value"] for row in held], sum(one.cash for one in each.due)
    known = [value for value in values if isinstance(value, int)]
    worth = each.cash + due + sum(known) if len(known) == len(values) else None
    other = each.broker_net_assets - each.broker_cash
    apart, in_cash = other - sum(known) - due, each.broker_cash - each.cash
    left_out = -due if abs(apart + due) < abs(apart) else 0
    return {
        "account": masked_account(each.account),
        "read_at": instant(each.read_at),
        "cash": each.cash,
        "buying_power": each.buying_power,
        "due": [
            {"at": instant(one.at), "cash": one.cash, "shares": dict(one.shares)}
            for one in each.due
        ],
        "due_cash": due,
        "holdings": held,
        "holdings_value": sum(known),
        "net_assets": worth,
        "broker": {
            "cash": each.broker_cash,
            "other": other,
            "net_assets": each.broker_net_assets,
        },
        "difference": {
            "cash": in_cash,
            "due": left_out,
            "rest": None if worth is None else apart - left_out,
            "net_assets": None if worth is None else in_cash + apart,
        },
    }


def _number(each: Compared) -> Fields:
    masked = masked_account(each.account)
    return {**fields_of(each), "account": masked, "difference": each.difference}


def instant(value: datetime | None) -> str | None:
    """An instant as ISO 8601 in UTC."""
    return value.isoformat() if value is not None else None


def fields_of(value: Any) -> Fields:
    """The fields of a flat dataclass, by their names; instants as text."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: instant(it) if isinstance(it, datetime) else it for name, it in found.items()}


def job_fields(job: Job, now: datetime) -> Fields:
    """A job of the timetable: when it is due, and what happens if it cannot run on time."""
    late, period = job.late_max, job.period
    return {
        "job": job.name,
        "next": instant(job.next_due(now)),
        "every_s": period.total_seconds() if period else None,
        "late_max_s": late.total_seconds() if late else None,
        "missed": job.missed,
        "overlapping": job.overlapping,
        "done_by_start": job.done_by_start,
    }


def whole_or_none(value: object) -> int | None:
    """A whole number from JSON; None for anything else, and for one that is too large."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) <= WHOLE_MAX else None


def depth_fields(depth: Depth) -> Fields:
    """Levels best first, as [price, volume]."""
    return {
        "symbol": depth.symbol,
        "bids": [[level.price, level.volume] for level in depth.bids],
        "asks": [[level.price, level.volume] for level in depth.asks],
        "updated_at": instant(depth.updated_at),
    }


def phase_fields(found: MarketPhase) -> Fields:
    """The phase of an exchange and the order types that the broker lists there."""
    return {
        "exchange": found.exchange,
        "phase": found.phase,
        "available_order_types": sorted(found.available) if found.available is not None else None,
    }
