"""Reads back what the engine continues from after a stop, a crash or a kill."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date, timedelta
from typing import Final

import sqlalchemy as sa

from bot.domain.entry import Fill, OrderUpdated, RunState
from bot.domain.instrument import Exchange
from bot.domain.order import (
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    Intent,
    OrderState,
    OrderType,
    SendState,
    Side,
)
from bot.domain.recovery import RecoveredStrategy, Recovery, StoredAttempt, StoredIntent
from bot.journal import tables
from bot.journal.encoding import instant_of
from bot.journal.positions import flow, total
from bot.journal.sends import WHOLE_BOT, Standing, lasting_state

NOT_ORDERED: Final = (SendState.DENIED, SendState.EXPIRED_LOCAL)
"""Intents in these states never left, so they do not count as orders of the day."""
UNDECIDED: Final = UNRESOLVED_SENDS | {SendState.READY, SendState.HELD}
MAY_BE_SEEN_YET: Final = UNRESOLVED_SENDS | {
    SendState.REFUSED,
    SendState.NOT_SENT,
    SendState.NOT_PLACED,
}
"""Unresolved, or settled as no order: a row that looks like one of the latter is a late ghost."""
SETTLEMENT_LASTS: Final = timedelta(days=21)
"""At least: T+2 over the holidays of Tet, which close the exchanges for up to nine days."""
SURVIVING: Final = (RunState.HALTED, RunState.PAUSED)

Fields = Mapping[str, object]


def read_recovery(connection: sa.Connection, trading_date: date) -> Recovery:
    """Gather everything the engine needs to go on as if it had never stopped."""
    day = trading_date.isoformat()
    standing = lasting_state(connection, *WHOLE_BOT)
    if standing is None or standing.state not in SURVIVING:
        standing = Standing(RunState.RUNNING, "", "")
    return Recovery(
        trading_date=trading_date,
        next_intent_number=_next_intent_number(connection),
        next_fill_number=_next_number(connection, tables.fills.c.fill_id),
        run_state=standing.state,
        run_state_reason=standing.reason,
        run_state_by=standing.by,
        intents=tuple(_intents(connection, day)),
        orders=tuple(_orders(connection, day)),
        strategies=dict(_books(connection, day)),
        recent_fills=tuple(_recent_fills(connection, trading_date)),
        halted_symbols=dict(_halted_symbols(connection)),
    )


def _recent_fills(connection: sa.Connection, trading_date: date) -> Iterator[tuple[date, Fill]]:
    table = tables.fills
    since = (trading_date - SETTLEMENT_LASTS).isoformat()
    query = sa.select(table).where(table.c.trading_date >= since).order_by(table.c.seq)
    for row in connection.execute(query).mappings():
        values = {each.name: row[each.name] for each in fields(Fill)}
        at, side = instant_of(row["at"]), Side(row["side"])
        yield date.fromisoformat(row["trading_date"]), Fill(**{**values, "at": at, "side": side})


def _next_intent_number(connection: sa.Connection) -> int:
    """One more than the highest `L-0001`, of an intent or of a request that never became one."""
    return max(
        _next_number(connection, tables.intents.c.intent_id),
        _next_number(connection, tables.decisions.c.request_id),
    )


def _next_number(connection: sa.Connection, column: sa.Column[str]) -> int:
    """Numbers are padded with zeros: the highest is the longest, then the last by text."""
    highest = sa.select(column).where(column.is_not(None))
    highest = highest.order_by(sa.func.length(column).desc(), column.desc()).limit(1)
    text = connection.execute(highest).scalar()
    digits = re.search(r"(\d+)$", text or "")
    return int(digits[1]) + 1 if digits else 1


def _intents(connection: sa.Connection, day: str) -> Iterator[StoredIntent]:
    table = tables.intents
    wanted = table.c.state.in_(UNDECIDED) | (table.c.trading_date == day)
    query = sa.select(table).where(wanted).order_by(table.c.seq)
    posts = _posts(connection, wanted)
    for row in connection.execute(query):
        state = SendState(row.state)
        yield StoredIntent(_intent_of(row), state, row.order_id, posts.get(row.intent_id))


def _posts(connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> dict[str, StoredAttempt]:
    """The POST of every wanted intent whose order may turn up yet, by intent."""
    table, intents = tables.attempts, tables.intents
    query = (
        sa.select(table)
        .join(intents, intents.c.intent_id == table.c.intent_id)
        .where(wanted, table.c.verb == "POST", intents.c.state.in_(MAY_BE_SEEN_YET))
    )
    return {row.intent_id: _attempt_of(row) for row in connection.execute(query)}


def _attempt_of(row: sa.Row[tuple[object, ...]]) -> StoredAttempt:
    return StoredAttempt(
        attempt_id=row.attempt_id,
        intent_id=row.intent_id,
        verb=row.verb,
        order_id=row.order_id,
        nonce=row.nonce,
        signed_ms=row.signed_ms,
        boot_id=row.boot_id,
        boottime_ns=row.boottime_ns,
        at=instant_of(row.at),
        known_ids=tuple(json.loads(row.known_ids)),
    )


def _intent_of(row: sa.Row[tuple[object, ...]]) -> Intent:
    expire_us: int | None = row.expire_after_us
    return Intent(
        intent_id=row.intent_id,
        signal_id=row.signal_id,
        strategy=row.strategy,
        account=row.account,
        trading_date=date.fromisoformat(row.trading_date),
        symbol=row.symbol,
        exchange=Exchange(row.exchange),
        side=Side(row.side),
        quantity=row.quantity,
        order_type=OrderType(row.order_type),
        limit_price=row.limit_price,
        why=row.why,
        created_at=instant_of(row.created_at),
        ttl_at=instant_of(row.ttl_at),
        expire_after=None if expire_us is None else timedelta(microseconds=expire_us),
        follows=row.follows,
        closes_position=bool(row.closes_position),
    )


def _orders(connection: sa.Connection, day: str) -> Iterator[OrderUpdated]:
    table = tables.orders
    wanted = table.c.state.not_in(TERMINAL_STATES) | (table.c.trading_date == day)
    for row in connection.execute(sa.select(table).where(wanted).order_by(table.c.seq)):
        yield order_of(row)


def order_of(row: sa.Row[tuple[object, ...]]) -> OrderUpdated:
    """Read a row of `orders` back as the entry that it was."""
    return OrderUpdated(
        at=instant_of(row.at),
        order_id=row.order_id,
        account=row.account,
        trading_date=date.fromisoformat(row.trading_date),
        intent_id=row.intent_id,
        strategy=row.strategy,
        symbol=row.symbol,
        exchange=Exchange(row.exchange) if row.exchange else None,
        side=Side(row.side),
        quantity=row.quantity,
        order_type=row.order_type,
        price=row.price,
        state=OrderState(row.state),
        broker_status=row.broker_status,
        executed_quantity=row.executed_quantity,
        executed_amount=row.executed_amount,
        cancelled_quantity=row.cancelled_quantity,
        fee=row.fee,
        tax=row.tax,
        code=row.code,
        reason=row.reason,
        note=row.note,
    )


def _books(connection: sa.Connection, day: str) -> Iterator[tuple[str, RecoveredStrategy]]:
    positions = _positions(connection)
    results = _results(connection, day)
    counts = _counts(connection, day)
    states = _strategy_states(connection)
    for strategy in sorted({*positions, *results, *counts, *states}):
        realised, fees = results.get(strategy, (0, 0))
        yield (
            strategy,
            RecoveredStrategy(
                positions=positions.get(strategy, {}),
                orders_today=counts.get(strategy, 0),
                realised_today=realised,
                fees_today=fees,
                state=states.get(strategy, "on"),
            ),
        )


def _positions(connection: sa.Connection) -> dict[str, dict[str, tuple[int, int]]]:
    """strategy -> symbol -> (shares, their cost), where there are any."""
    fills = tables.fills
    query = (
        sa.select(
            fills.c.strategy,
            fills.c.symbol,
            total(flow(fills.c.quantity, fills.c.quantity)).label("shares"),
            total(flow(fills.c.amount, fills.c.amount - fills.c.realised)).label("cost"),
        )
        .where(fills.c.strategy.is_not(None))
        .group_by(fills.c.strategy, fills.c.symbol)
        .order_by(fills.c.strategy, fills.c.symbol)
    )
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for strategy, symbol, shares, cost in connection.execute(query):
        if shares != 0:
            found.setdefault(strategy, {})[symbol] = (shares, cost)
    return found


def _results(connection: sa.Connection, day: str) -> dict[str, tuple[int, int]]:
    """strategy -> (realised today, fees and tax today)."""
    fills = tables.fills
    query = (
        sa.select(fills.c.strategy, total(fills.c.realised), total(fills.c.fee + fills.c.tax))
        .where(fills.c.strategy.is_not(None), fills.c.trading_date == day)
        .group_by(fills.c.strategy)
    )
    return {name: (realised, fees) for name, realised, fees in connection.execute(query)}


def _counts(connection: sa.Connection, day: str) -> dict[str, int]:
    intents = tables.intents
    query = (
        sa.select(intents.c.strategy, sa.func.count().label("orders"))
        .where(intents.c.trading_date == day, intents.c.state.not_in(NOT_ORDERED))
        .group_by(intents.c.strategy)
    )
    return {row.strategy: row.orders for row in connection.execute(query)}


def _strategy_states(connection: sa.Connection) -> dict[str, str]:
    """The newest state of every strategy that was ever switched; `warming` is not kept."""
    halts = tables.halts
    prefix = "strategy:"
    kept = halts.c.scope.startswith(prefix) & halts.c.to_state.in_(("on", "paused", "disabled"))
    query = sa.select(halts.c.scope, halts.c.to_state).where(kept).order_by(halts.c.seq)
    return {scope.removeprefix(prefix): state for scope, state in connection.execute(query)}


def _halted_symbols(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """Each symbol whose newest word is a halt, and why."""
    halts, prefix = tables.halts, "symbol:"
    mine = halts.c.scope.startswith(prefix)
    query = sa.select(halts.c.scope, halts.c.to_state, halts.c.reason).where(mine)
    newest = {row.scope: row for row in connection.execute(query.order_by(halts.c.seq))}
    for scope, row in newest.items():
        if row.to_state == RunState.HALTED:
            yield scope.removeprefix(prefix), row.reason
