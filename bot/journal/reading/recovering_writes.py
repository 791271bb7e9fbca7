"""Reads what a start has to know about writes: intents, attempts with every order id that was known
before each, amendments without a verdict, wishes to cancel, what amendments have changed, and the
rows that orders have shown.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from typing import Final

import sqlalchemy as sa

from bot.domain import local_time
from bot.domain.entry import IN_DOUBT, AttemptStarted, Verdict
from bot.domain.order import (
    TERMINAL_STATES,
    UNRESOLVED_SENDS,
    Intent,
    OrderState,
    RowFigures,
    SendState,
)
from bot.domain.recovery import (
    LATE_ROWS,
    StoredAmend,
    StoredChanges,
    StoredIntent,
    questions_in,
)
from bot.journal.database import tables
from bot.journal.database.encoding import instant_of, instant_text, made
from bot.journal.database.tables import total
from bot.journal.writing.batch import POLLS

_ORDERS: Final = tables.orders
_ATTEMPTS: Final = tables.attempts
_DECISIONS: Final = tables.decisions
_RESULTS: Final = tables.order_results
_FILLS: Final = tables.fills
_MOVES: Final = tables.transitions
_MAY_CHANGE: Final = (OrderState.PENDING_REPLACE, OrderState.PENDING_CANCEL)
"""A cancel that the broker shows hides that an amendment is under way. One that has its verdict is
over with the next row.
"""


UNDECIDED: Final = UNRESOLVED_SENDS | {SendState.READY, SendState.HELD}
MAY_BE_SEEN_YET: Final = UNRESOLVED_SENDS | {
    SendState.REFUSED,
    SendState.NOT_SENT,
    SendState.NOT_PLACED,
    SendState.HELD,
    SendState.EXPIRED_LOCAL,
    SendState.EOD_ABSENT,
    SendState.MATCHED,
}
"""Unresolved, or settled as no order or as one matched by its looks: a row that looks like one of
these is a late ghost or a duplicate.
"""


def _is_lost_of_late(day: str) -> sa.ColumnElement[bool]:
    since = (date.fromisoformat(day) - LATE_ROWS).isoformat()
    intents = tables.intents
    return (intents.c.state == SendState.EOD_ABSENT) & (intents.c.trading_date >= since)


def stored_intents(connection: sa.Connection, day: str) -> Iterator[StoredIntent]:
    """Return the intents, with their POSTs where an order may still turn up: also one that was
    accepted under an id that no row has shown with anything new.
    """
    intents, attempts, orders = tables.intents, _ATTEMPTS, _ORDERS
    wanted = intents.c.state.in_(UNDECIDED) | (intents.c.trading_date == day)
    wanted |= _is_lost_of_late(day)
    results = _RESULTS
    is_shown = sa.exists().where(
        results.c.order_id == orders.c.order_id,
        results.c.intent_id == orders.c.intent_id,
        results.c.source.in_(POLLS),
    )
    unseen = sa.select(orders.c.intent_id).where(
        orders.c.intent_id.is_not(None), orders.c.state.not_in(TERMINAL_STATES), ~is_shown
    )
    may_be_seen = intents.c.state.in_(MAY_BE_SEEN_YET) | intents.c.intent_id.in_(unseen)
    posted = (
        sa.select(attempts)
        .join(intents, intents.c.intent_id == attempts.c.intent_id)
        .where(wanted, attempts.c.verb == "POST", may_be_seen)
    )
    found = attempts_of(connection, connection.execute(posted).mappings().all())
    posts = {attempt.intent_id: attempt for attempt in found.values()}
    others = _others_of_lost(connection, day)
    for row in connection.execute(
        sa.select(intents).where(wanted).order_by(intents.c.seq)
    ).mappings():
        intent = made(Intent, {**row, "expire_after": row["expire_after_us"]})
        name, proof = intent.intent_id, row["proof"] or ""
        yield StoredIntent(
            intent=intent,
            state=SendState(row["state"]),
            order_id=row["order_id"],
            attempt=posts.get(name),
            proof=proof,
            day_ids=others.get(name, frozenset()),
        )


def _others_of_lost(connection: sa.Connection, day: str) -> dict[str, frozenset[str]]:
    """Return `StoredIntent.day_ids` by intent. An order that may be the one in question is no known
    other one until the question has ended; then a person was told of it.
    """
    intents, results = tables.intents, _RESULTS
    is_open = intents.c.state.in_(UNRESOLVED_SENDS) & (intents.c.trading_date < day)
    columns = intents.c.seq, intents.c.trading_date, intents.c.intent_id, intents.c.state
    lost = connection.execute(sa.select(*columns).where(is_open | _is_lost_of_late(day))).all()
    if not lost:
        return {}
    days = {row.trading_date for row in lost}
    todays = sa.select(_ORDERS.c.trading_date, _ORDERS.c.order_id, _ORDERS.c.note)
    known = connection.execute(todays.where(_ORDERS.c.trading_date.in_(days))).all()
    # Under the name of an intent without an order there are only late rows that look like it.
    first = sa.select(sa.func.min(intents.c.seq)).where(intents.c.trading_date.in_(days))
    shown = connection.execute(
        sa.select(intents.c.trading_date, intents.c.intent_id, results.c.order_id)
        .join(results, results.c.intent_id == intents.c.intent_id)
        .where(
            intents.c.trading_date.in_(days),
            results.c.seq > first.scalar_subquery(),
            intents.c.order_id.is_not(None) | results.c.source.in_(POLLS),
        )
        .distinct()
    ).all()
    found = {}
    for _, lost_on, name, state in lost:
        is_over = state == SendState.EOD_ABSENT
        ids = {
            row.order_id
            for row in known
            if row.trading_date == lost_on and (is_over or name not in questions_in(row.note))
        }
        found[name] = frozenset(
            ids | {row.order_id for row in shown if row.trading_date == lost_on}
        )
    return found


def attempts_of(
    connection: sa.Connection, rows: Sequence[sa.RowMapping]
) -> dict[str, AttemptStarted]:
    """Return the attempts of these rows, by their ids.

    A row has the ids that none before it has, of the same run (`epoch`) and local day. Former
    versions stored all of them in each row, which gives the same.
    """
    wanted = {row["seq"]: made(AttemptStarted, row) for row in rows}
    if not wanted:
        return {}
    table = _ATTEMPTS
    first = local_time.local_date(min(attempt.at for attempt in wanted.values()))
    since = instant_text(local_time.instant_of(first, time()))
    stored = (
        sa.select(table.c.seq, table.c.epoch, table.c.at, table.c.known_ids)
        .where(table.c.at >= since, table.c.seq <= max(wanted))
        .order_by(table.c.seq)
    )
    known: defaultdict[tuple[int, date], dict[str, None]] = defaultdict(dict)
    found = {}
    for seq, epoch, at, new in connection.execute(stored):
        so_far = known[epoch, local_time.local_date(instant_of(at))]
        so_far.update(dict.fromkeys(json.loads(new)))
        if (attempt := wanted.get(seq)) is not None:
            found[attempt.attempt_id] = replace(attempt, known_ids=tuple(so_far))
    return found


def unsettled_amends(connection: sa.Connection, day: str) -> Iterator[StoredAmend]:
    """Yield each amendment of today that may have no verdict, with what was requested."""
    is_open = (_ORDERS.c.trading_date == day) & _ORDERS.c.state.in_(_MAY_CHANGE)
    puts = (
        sa.select(_ATTEMPTS, _ORDERS.c.order_id.label("first_id"))
        .join(_ORDERS, _ORDERS.c.intent_id == _ATTEMPTS.c.intent_id)
        .where(is_open, _ATTEMPTS.c.verb == "PUT")
        .order_by(_ATTEMPTS.c.seq)
    )
    newest = {row["first_id"]: row for row in connection.execute(puts).mappings()}
    attempts = attempts_of(connection, [*newest.values()])
    for order_id, put in newest.items():
        decision = _asked_by(connection, put["intent_id"], put["seq"])
        if decision is not None:
            numbers = json.loads(decision["numbers"])
            yield StoredAmend(
                order_id=order_id,
                attempt=attempts[put["attempt_id"]],
                outcome=put["outcome"],
                limit_price=numbers.get("price"),
                quantity=numbers.get("quantity"),
                old=numbers.get("old"),
                by=str(numbers.get("by", "")),
                reason=decision["why"],
            )


def cancels(connection: sa.Connection, day: str) -> tuple[dict[str, str], frozenset[str]]:
    """Return why each order of today is to be cancelled: from the decision, else from a DELETE; and
    `Recovery.knowing_cancels`. A cancel that was given up, because the order may be somebody
    else's, is not taken up again.
    """
    intents, decisions, attempts = tables.intents, _DECISIONS, _ATTEMPTS
    is_wish = (decisions.c.code == "CANCEL") & (decisions.c.verdict == Verdict.PASSED)
    is_wish |= decisions.c.code == "IN_DOUBT"
    columns = intents.c.intent_id, decisions.c.why, decisions.c.code, decisions.c.numbers
    wishes = sa.select(*columns).join(decisions, decisions.c.request_id == intents.c.intent_id)
    deletes = sa.select(intents.c.intent_id).join(
        attempts, attempts.c.intent_id == intents.c.intent_id
    )
    today = intents.c.trading_date == day
    found = dict.fromkeys(
        connection.execute(deletes.where(today, attempts.c.verb == "DELETE")).scalars(), "cancel"
    )
    knowing = set[str]()
    for intent_id, why, code, numbers in connection.execute(
        wishes.where(today, is_wish).order_by(decisions.c.seq)
    ):
        found[intent_id] = why
        if code == "IN_DOUBT":
            del found[intent_id]
            knowing.discard(intent_id)
        elif json.loads(numbers).get(IN_DOUBT):
            knowing.add(intent_id)
    return found, frozenset(knowing)


def later_ids(shown: Sequence[tuple[str, str, int]]) -> dict[str, tuple[str, ...]]:
    """Return the later ids of each order, oldest first, of what `later_shown` has found."""
    found: dict[str, tuple[str, ...]] = {}
    for order_id, later, _ in shown:
        found[order_id] = (*found.get(order_id, ()), later)
    return found


def rows_shown(
    connection: sa.Connection,
    day: str,
    later: Mapping[str, Sequence[str]],
    figures_in: Callable[[str], RowFigures | None],
) -> dict[str, tuple[RowFigures, ...]]:
    """Return which rows of today's orders were journalled, oldest first: under the newest id of
    each, as the rows of a new id follow none. What a place was answered is one of them as soon as
    another has come: a row that shows no more than it is not journalled.
    """
    wanted = _RESULTS.c.order_id, _RESULTS.c.source, _RESULTS.c.raw
    since = instant_text(local_time.instant_of(date.fromisoformat(day), time()))
    are_rows = _RESULTS.c.at >= since, _RESULTS.c.source.in_(("place", *POLLS))
    firsts = sa.select(*wanted).join(_ORDERS, _RESULTS.c.order_id == _ORDERS.c.order_id)
    shown = connection.execute(
        firsts.where(_ORDERS.c.trading_date == day, *are_rows).order_by(_RESULTS.c.seq)
    ).all()
    for ids in later.values():
        newest = sa.select(*wanted).where(_RESULTS.c.order_id == ids[-1], *are_rows)
        shown = [*shown, *connection.execute(newest.order_by(_RESULTS.c.seq))]
    polled = {row.order_id for row in shown if row.source in POLLS}
    found = defaultdict[str, dict[RowFigures, None]](dict)
    for row in shown:
        figures = figures_in(row.raw) if row.order_id in polled else None
        if figures is not None:
            found[row.order_id].setdefault(figures)
    current = {ids[-1]: first for first, ids in later.items()}
    return {
        current.get(order_id, order_id): tuple(rows)
        for order_id, rows in found.items()
        if order_id not in later
    }


def later_shown(connection: sa.Connection, day: str) -> Sequence[tuple[str, str, int]]:
    """Return each later id of the orders that `Recovery.orders` has, with its order's first one
    before it and the number of its first row after it; oldest first.
    """
    is_meant = (_ORDERS.c.trading_date == day) | _ORDERS.c.state.not_in(TERMINAL_STATES)
    first = connection.execute(sa.select(sa.func.min(_ORDERS.c.seq)).where(is_meant)).scalar()
    if first is None:
        return ()
    number = sa.func.min(_RESULTS.c.seq).label("since")
    shown = (
        sa.select(_ORDERS.c.order_id, _RESULTS.c.order_id.label("later"), number)
        .join(_RESULTS, _RESULTS.c.intent_id == _ORDERS.c.intent_id)
        .where(is_meant, _RESULTS.c.seq > first, _RESULTS.c.order_id != _ORDERS.c.order_id)
        .group_by(_ORDERS.c.order_id, _RESULTS.c.order_id)
        .order_by(number)
    )
    return [(row.order_id, row.later, row.since) for row in connection.execute(shown)]


def changes(
    connection: sa.Connection, day: str, shown: Sequence[tuple[str, str, int]]
) -> dict[str, StoredChanges]:
    """Return what amendments have made of today's orders: those with a PUT or a later id."""
    asked = _values_asked(connection, day)
    ids_since = defaultdict[str, list[int]](list)
    for order_id, _, seq in shown:
        ids_since[order_id].append(seq)
    found: dict[str, StoredChanges] = {}
    for order_id in sorted({*asked, *ids_since}):
        sent, since = asked[order_id], max(ids_since[order_id], default=None)
        quantities = tuple(quantity for _, quantity, _ in sent if quantity)
        prices = tuple(price for _, _, price in sent if price)
        if since is None:
            found[order_id] = StoredChanges(quantities, prices=prices)
            continue
        before = [quantity for seq, quantity, _ in sent if seq < since]
        *matched_before, matched = (
            _matched_before(connection, order_id, day, each) for each in ids_since[order_id]
        )
        had_ended = connection.execute(
            sa.select(sa.func.count()).where(
                _MOVES.c.order_id == order_id,
                _MOVES.c.machine == "order",
                _MOVES.c.to_state.in_(TERMINAL_STATES),
                _MOVES.c.seq < since,
                _MOVES.c.seq >= _first_of(order_id, day),
            )
        ).scalar()
        # What has its verdict is in the order's own row.
        total_now = before[-1] if had_ended and before else 0
        found[order_id] = StoredChanges(
            quantities, total_now or None, matched, bool(had_ended), prices, tuple(matched_before)
        )
    return found


def _matched_before(
    connection: sa.Connection, order_id: str, day: str, seq: int
) -> tuple[int, int]:
    amounts = sa.select(total(_FILLS.c.quantity), total(_FILLS.c.amount))
    its = amounts.where(_FILLS.c.order_id == order_id, _FILLS.c.trading_date == day)
    shares, amount = connection.execute(its.where(_FILLS.c.seq < seq)).one()
    return shares, amount


def _first_of(order_id: str, day: str) -> sa.ScalarSelect[int]:
    """The number of an order's first row; an id may have been another order's on another day."""
    its = (_ORDERS.c.order_id == order_id) & (_ORDERS.c.trading_date == day)
    return sa.select(sa.func.min(_ORDERS.c.seq)).where(its).scalar_subquery()


def _values_asked(
    connection: sa.Connection, day: str
) -> defaultdict[str, list[tuple[int, int, int]]]:
    """Return what PUTs have asked for, by order: number of the PUT, total and price, of which one
    is 0.
    """
    puts = (
        sa.select(_ORDERS.c.order_id, _ATTEMPTS.c.intent_id, _ATTEMPTS.c.seq)
        .join(_ORDERS, _ORDERS.c.intent_id == _ATTEMPTS.c.intent_id)
        .where(_ORDERS.c.trading_date == day, _ATTEMPTS.c.verb == "PUT")
        .order_by(_ATTEMPTS.c.seq)
    )
    found = defaultdict[str, list[tuple[int, int, int]]](list)
    for order_id, intent_id, seq in connection.execute(puts).all():
        decision = _asked_by(connection, intent_id, seq)
        if decision is not None:
            asked = json.loads(decision["numbers"])
            values = seq, asked.get("quantity") or 0, asked.get("price") or 0
            found[order_id].append(values)
    return found


def _asked_by(connection: sa.Connection, intent_id: str, put: int) -> sa.RowMapping | None:
    """Return the decision behind a PUT, by its number: the newest before it."""
    asked = (
        sa.select(_DECISIONS.c.numbers, _DECISIONS.c.why)
        .where(_DECISIONS.c.request_id == intent_id, _DECISIONS.c.code == "AMEND")
        .where(_DECISIONS.c.seq < put)
        .order_by(_DECISIONS.c.seq.desc())
        .limit(1)
    )
    return connection.execute(asked).mappings().first()
