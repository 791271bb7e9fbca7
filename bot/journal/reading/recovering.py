"""Reads the state from which the engine continues after a stop, a crash or a kill."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from bot.domain.account import AccountSnapshot
from bot.domain.entry import (
    CODE_NOTE,
    LIMITS_NOTE,
    Fill,
    OrderUpdated,
    RunState,
    Verdict,
)
from bot.domain.local_time import local_date
from bot.domain.order import (
    TERMINAL_STATES,
    RowFigures,
    SendState,
    Side,
)
from bot.domain.recovery import (
    PLACES_JUDGED,
    RECENT_BUYS,
    PlaceSeen,
    RecoveredStrategy,
    Recovery,
)
from bot.journal.database import tables
from bot.journal.database.encoding import instant_of, made
from bot.journal.database.tables import COST, SHARES, total
from bot.journal.reading.recovering_state import (
    bases,
    book_accepted_on,
    closes,
    crashes,
    faults,
    flatten,
    halted,
    halted_scopes,
    killed_since,
    newest_by_scope,
    newest_note,
    open_breaks,
    reads_since,
    reduced,
)
from bot.journal.reading.recovering_writes import (
    cancels,
    changes,
    later_ids,
    later_shown,
    rows_shown,
    stored_intents,
    unsettled_amends,
)
from bot.journal.writing.sends import WHOLE_BOT, ScopeState, lasting_state

NOT_ORDERED: Final = (SendState.DENIED, SendState.EXPIRED_LOCAL, SendState.NOT_SENT)
"""Intents in these states were never sent, so they do not count as orders of the day."""
SETTLEMENT_LASTS: Final = timedelta(days=21)
"""Minimum: T+2 over the Tet holidays, which close the exchanges for up to nine days."""
REQUESTS_LOOKED_AT: Final = 500
"""The newest ones: no meaningful per-minute limit is higher."""
INTENTS_SEARCHED: Final = 20_000
"""The newest ones, including refused orders: what a strategy bought long ago says nothing about its
habits.
"""
OF_NO_ORDER: Final = (401, 403, 429)
SALES: Final = (tables.attempts.c.verb == "POST") & (tables.intents.c.side == Side.SELL)
KEPT_STATES: Final = ("on", "paused", "disabled")
"""States of a strategy that are restored; `warming` is not."""
SURVIVING: Final = (RunState.HALTED, RunState.PAUSED)


def read_recovery(
    connection: sa.Connection,
    trading_date: date,
    figures_in: Callable[[str], RowFigures | None] | None = None,
) -> Recovery:
    """Gather everything the engine needs to continue as if it had never stopped. `figures_in` reads
    a journalled row; None: nobody is going to compare rows with those.
    """
    kept = lasting_state(connection, *WHOLE_BOT)
    if kept is None or kept.state not in SURVIVING:
        kept = ScopeState(RunState.RUNNING, "", "")
    fills = tables.fills
    day, first = trading_date.isoformat(), (trading_date - SETTLEMENT_LASTS).isoformat()
    counting, limits = list(bases(connection)), newest_note(connection, LIMITS_NOTE)
    last_start = newest_note(connection, CODE_NOTE)
    since = {base.account: local_date(base.at) - SETTLEMENT_LASTS for base, *_ in counting}
    breaks, next_break_number = open_breaks(connection)
    shown = later_shown(connection, day)
    later, (wanted, knowing) = later_ids(shown), cancels(connection, day)
    return Recovery(
        trading_date=trading_date,
        next_intent_number=_next_intent_number(connection),
        next_fill_number=_next_number(connection, fills.c.fill_id),
        run_state=kept.state,
        run_state_reason=kept.reason,
        run_state_by=kept.by,
        intents=tuple(stored_intents(connection, day)),
        orders=_orders(connection, day),
        traded_elsewhere=_traded_elsewhere(connection, first, since, day),
        amends=tuple(unsettled_amends(connection, day)),
        later_ids=later,
        changes=changes(connection, day, shown),
        rows=rows_shown(connection, day, later, figures_in) if figures_in else {},
        strategies=_strategies(connection, day),
        recent_fills=tuple(
            (date.fromisoformat(row["trading_date"]), _beside_base(row, counting))
            for row in _rows(connection, fills, _unsettled(fills, first, since))
        ),
        bases=tuple(base for base, *_ in counting),
        account_reads=tuple(reads_since(connection, counting)),
        in_bases={name: moved for _, elsewhere, _ in counting for name, moved in elsewhere.items()},
        breaks=breaks,
        next_break_number=next_break_number,
        halted_symbols=halted(connection, "symbol:"),
        halted_scopes=halted_scopes(connection),
        reduced=reduced(connection, trading_date),
        recent_requests=_requests(connection, day, sa.true()),
        recent_sales=_requests(connection, day, SALES),
        places_seen=_places_seen(connection, day),
        limits=limits.numbers if limits is not None else {},
        last_start=last_start.numbers if last_start is not None else {},
        closes=closes(connection, day),
        book_accepted_on=book_accepted_on(connection),
        cancels=wanted,
        knowing_cancels=knowing,
        flatten=flatten(connection),
        faults=tuple(faults(connection)) if kept.state is RunState.HALTED else (),
        crashes=crashes(connection),
        killed_since=killed_since(connection),
    )


def _beside_base(
    row: sa.RowMapping, counting: Sequence[tuple[AccountSnapshot, object, int]]
) -> Fill:
    """Return a fill, later by the least where it is of the instant of its account's figures and
    came after they began to count: in simulated time much happens at one instant.
    """
    fill: Fill = made(Fill, row)
    came_after = any(
        base.account == fill.account and base.at == fill.at and row["seq"] > seq
        for base, _, seq in counting
    )
    return replace(fill, at=fill.at + datetime.resolution) if came_after else fill


def _unsettled(table: sa.Table, first: str, since: Mapping[str, date]) -> sa.ColumnElement[bool]:
    """Return which rows may not have settled, or not be in the figures of their account that count:
    those from a day on, and where these figures are older, from before them on.
    """
    days, own = table.c.trading_date, table.c.account
    further = ((own == name) & (days >= day.isoformat()) for name, day in since.items())
    return sa.or_(days >= first, *further)


def _rows(
    connection: sa.Connection, table: sa.Table, wanted: sa.ColumnElement[bool]
) -> sa.MappingResult:
    return connection.execute(sa.select(table).where(wanted).order_by(table.c.seq)).mappings()


def _next_intent_number(connection: sa.Connection) -> int:
    """Requests have such numbers too, and some become no intent."""
    return max(
        _next_number(connection, tables.intents.c.intent_id),
        _next_number(connection, tables.decisions.c.request_id),
    )


def _next_number(connection: sa.Connection, column: sa.Column[str]) -> int:
    """Return one more than the highest of `L-0001` and so on, zero-padded: the highest is the
    longest, then the last in text order.
    """
    highest = sa.select(column).where(column.is_not(None))
    highest = highest.order_by(sa.func.length(column).desc(), column.desc()).limit(1)
    text = connection.execute(highest).scalar()
    digits = re.search(r"(\d+)$", text or "")
    return int(digits[1]) + 1 if digits else 1


def _orders(connection: sa.Connection, day: str) -> tuple[OrderUpdated, ...]:
    """Return what `Recovery.orders` promises."""
    orders = tables.orders
    wanted = orders.c.state.not_in(TERMINAL_STATES) | (orders.c.trading_date == day)
    return tuple(made(OrderUpdated, row) for row in _rows(connection, orders, wanted))


def _traded_elsewhere(
    connection: sa.Connection, first: str, since: Mapping[str, date], day: str
) -> tuple[OrderUpdated, ...]:
    """Return the ended external orders before a day that traded, as far back as fills are needed; a
    row that turned out to be one of our orders under a later id is none.
    """
    orders, results, own = tables.orders, tables.order_results, tables.orders.alias()
    is_ours = sa.exists().where(
        results.c.order_id == orders.c.order_id,
        own.c.intent_id == results.c.intent_id,
        own.c.account == orders.c.account,
        own.c.trading_date == orders.c.trading_date,
    )
    wanted = sa.and_(
        _unsettled(orders, first, since),
        orders.c.trading_date < day,
        orders.c.intent_id.is_(None),
        orders.c.executed_quantity > 0,
        orders.c.state.in_(TERMINAL_STATES),
        ~is_ours,
    )
    return tuple(made(OrderUpdated, row) for row in _rows(connection, orders, wanted))


def _strategies(connection: sa.Connection, day: str) -> dict[str, RecoveredStrategy]:
    fills, intents = tables.fills, tables.intents
    ours, today = fills.c.strategy.is_not(None), fills.c.trading_date == day

    positions, held_in = _positions(connection)

    sums = sa.select(fills.c.strategy, total(fills.c.realised), total(fills.c.fee + fills.c.tax))
    done = connection.execute(sums.where(ours, today).group_by(fills.c.strategy))
    results = {name: (realised, fees) for name, realised, fees in done}

    again = intents.alias()
    followed = sa.select(again.c.follows).where(
        again.c.trading_date == day, again.c.follows.is_not(None)
    )
    ordered = intents.c.trading_date == day, intents.c.state.not_in(NOT_ORDERED)
    is_last = intents.c.intent_id.not_in(followed)
    times = sa.select(intents.c.strategy, sa.func.count()).where(*ordered, is_last)
    counts = {row[0]: row[1] for row in connection.execute(times.group_by(intents.c.strategy))}

    buys = _recent_buys(connection)
    refused, in_a_row = _refused(connection, day)
    states = newest_by_scope(connection, "strategy:", *KEPT_STATES)
    return {
        name: RecoveredStrategy(
            positions=positions.get(name, {}),
            orders_today=counts.get(name, 0),
            realised_today=results.get(name, (0, 0))[0],
            fees_today=results.get(name, (0, 0))[1],
            state=states[name]["to_state"] if name in states else "on",
            state_reason=states[name]["reason"] if name in states else "",
            state_by=states[name]["by_whom"] if name in states else "",
            state_since=instant_of(states[name]["at"]) if name in states else None,
            recent_buys=tuple(buys.get(name, ())),
            refused=tuple(refused.get(name, ())),
            refused_in_a_row=in_a_row.get(name, 0),
            held_in=frozenset(held_in.get(name, ())),
        )
        for name in sorted({*positions, *results, *counts, *states, *buys})
    }


def _positions(
    connection: sa.Connection,
) -> tuple[dict[str, dict[str, tuple[int, int]]], dict[str, set[str]]]:
    """Return each strategy's shares and their cost, and the accounts on which they were traded."""
    fills = tables.fills
    of_each = (fills.c.strategy, fills.c.symbol, fills.c.account)
    parts = sa.select(*of_each, SHARES, COST).where(fills.c.strategy.is_not(None))
    found: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for name, symbol, account, *held in connection.execute(
        parts.group_by(*of_each).order_by(*of_each)
    ):
        found.setdefault((name, symbol), {})[account] = (held[0], held[1])
    positions: dict[str, dict[str, tuple[int, int]]] = {}
    held_in: dict[str, set[str]] = {}
    for (name, symbol), by_account in found.items():
        shares = sum(each for each, _ in by_account.values())
        if shares != 0:
            cost = sum(each for _, each in by_account.values())
            positions.setdefault(name, {})[symbol] = (shares, cost)
            held_in.setdefault(name, set()).update(a for a, (n, _) in by_account.items() if n)
    return positions, held_in


def _refused(
    connection: sa.Connection, day: str
) -> tuple[dict[str, list[datetime]], dict[str, int]]:
    """Return when each strategy's orders of a day were refused, and how many since the last
    accepted one. Refusals because of key, token or quota do not count.
    """
    intents, attempts = tables.intents, tables.attempts
    answered = (
        sa.select(intents.c.strategy, intents.c.state, attempts.c.finished_at)
        .join(intents, intents.c.intent_id == attempts.c.intent_id)
        .where(
            intents.c.trading_date == day,
            attempts.c.verb == "POST",
            attempts.c.http_status.not_in(OF_NO_ORDER),
            intents.c.state.in_((SendState.REFUSED, SendState.ACKED)),
        )
        .order_by(attempts.c.seq)
    )
    refused: dict[str, list[datetime]] = {}
    in_a_row: dict[str, int] = {}
    for strategy, state, at in connection.execute(answered):
        is_refused = state == SendState.REFUSED
        in_a_row[strategy] = in_a_row.get(strategy, 0) + 1 if is_refused else 0
        if is_refused:
            refused.setdefault(strategy, []).append(instant_of(at))
    return refused, in_a_row


def _recent_buys(connection: sa.Connection) -> dict[str, list[int]]:
    """Return what each strategy's last sent buys were worth, oldest first; a market order counts as
    the most that it could have cost, as the decision saw it.
    """
    intents, decisions = tables.intents, tables.decisions
    further = sa.select(intents.c.seq).order_by(intents.c.seq.desc()).offset(INTENTS_SEARCHED)
    before = connection.execute(further.limit(1)).scalar() or 0
    rank = sa.func.row_number().over(partition_by=intents.c.strategy, order_by=intents.c.seq.desc())
    left = (
        sa.select(
            intents.c.seq,
            intents.c.strategy,
            intents.c.intent_id,
            rank.label("rank"),
            intents.c.quantity,
            intents.c.limit_price,
        )
        .where(
            intents.c.seq > before,
            intents.c.side == Side.BUY,
            intents.c.state.not_in((*NOT_ORDERED, SendState.READY)),
        )
        .subquery()
    )
    is_its = (decisions.c.request_id == left.c.intent_id) & (decisions.c.verdict == Verdict.PASSED)
    found: dict[str, list[int]] = {}
    for strategy, quantity, price, saw in connection.execute(
        sa.select(left.c.strategy, left.c.quantity, left.c.limit_price, decisions.c.saw)
        .outerjoin(decisions, is_its & left.c.limit_price.is_(None))
        .where(left.c.rank <= RECENT_BUYS)
        .order_by(left.c.seq)
    ):
        seen = json.loads(saw) if saw else {}
        worth = quantity * (price or seen.get("ceiling") or seen.get("last") or 0)
        if worth:
            found.setdefault(strategy, []).append(worth)
    return found


def _requests(
    connection: sa.Connection, day: str, wanted: sa.ColumnElement[bool]
) -> tuple[tuple[str, datetime], ...]:
    """Return account and time of a day's last order requests, oldest first."""
    columns = tables.intents.c.account, tables.attempts.c.at
    found = _newest(connection, day, columns, wanted, REQUESTS_LOOKED_AT)
    return tuple((account, instant_of(at)) for account, at in found)


def _places_seen(connection: sa.Connection, day: str) -> tuple[PlaceSeen, ...]:
    """How the last orders of a day were answered, the oldest first."""
    attempts = tables.attempts
    columns = attempts.c.finished_at, attempts.c.outcome, attempts.c.latency_ms
    answered = attempts.c.outcome.in_(("ACCEPTED", "REFUSED", "UNKNOWN"))
    wanted = (attempts.c.verb == "POST") & answered
    return tuple(
        PlaceSeen(instant_of(at), outcome == "UNKNOWN", latency_ms)
        for at, outcome, latency_ms in _newest(connection, day, columns, wanted, PLACES_JUDGED)
    )


def _newest(
    connection: sa.Connection,
    day: str,
    columns: Iterable[sa.Column[Any]],
    wanted: sa.ColumnElement[bool],
    most: int,
) -> Sequence[tuple[Any, ...]]:
    """Return columns of at most `most` attempts of a day, the newest ones, oldest first."""
    attempts, intents = tables.attempts, tables.intents
    newest = (
        sa.select(*columns)
        .join_from(attempts, intents, intents.c.intent_id == attempts.c.intent_id)
        .where(intents.c.trading_date == day, wanted)
        .order_by(attempts.c.seq.desc())
        .limit(most)
    )
    return connection.execute(newest).all()[::-1]
