"""The journal as the command line reads it: nothing here can change or make anything.

Every method answers from one snapshot of the journal, even while a bot writes it. Rows come oldest
first; filters that are None do not apply; `since` is an instant, inclusive. Decisions, which a run
writes by the thousand, come as a `Page`: its rows are read while they are used, not held in memory.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from typing import Final, Self, TypeVar

import sqlalchemy as sa

from bot.domain.account import AccountSnapshot
from bot.domain.entry import CLOSE_NOTE, DAY_NOTE, HOLDS_NOTE, LAST_PRICE, PULSE_NOTE
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import SendState
from bot.journal.database import tables
from bot.journal.database.encoding import instant_of, instant_text, made, snapshot_of
from bot.journal.database.engines import reading
from bot.journal.database.schema import require_schema
from bot.journal.database.tables import orders_told, v_decisions, v_pnl, v_timeline
from bot.journal.errors import AmbiguousOrder, UnknownOrder
from bot.journal.reading.events import stops
from bot.journal.reading.folding import times_of
from bot.journal.reading.reused_ids import its_days
from bot.journal.reading.values import (
    AuthRow,
    DaySummary,
    DecisionGroup,
    FillRow,
    OrderRow,
    Page,
    PositionRow,
    PriceRow,
    ProfitRow,
    RunRow,
    TimelineRow,
)

CANDIDATES_MAX: Final = 20
ROWS_AT_ONCE: Final = 500
LAST: Final = "last"
WANTED: Final = "PASSED"
"""The verdict of a decision that became an order; all others are why-nots."""
MISSED: Final = (
    ("BLOCKED", "TWO_FACTOR"),
    *(
        ("EXPIRED", code)
        for code in ("TWO_FACTOR", "HELD_TOO_LONG", "PRICE_MOVED", "PHASE_CHANGED", "SIGNAL_GONE")
    ),
)
"""Verdict and code of a signal missed for lack of a 2FA token, or too late."""

_SAW_LAST: Final = '"last":'
_PRICE_NOTES: Final = ("QUOTE", CLOSE_NOTE)
_HELD_NOTES: Final = (PULSE_NOTE, HOLDS_NOTE, DAY_NOTE)
"""Kinds of notes with the prices of everything held."""

R = TypeVar("R")


class JournalReader:
    """Reads a journal. Raises Unreachable (a missing file too), NeedsMigration or Corrupt."""

    def __init__(self, url: str) -> None:
        self.url = url
        with reading(self.url) as connection:
            require_schema(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass  # each question has a connection of its own

    # --------------------------------------------------------------------------------- orders

    def orders(
        self,
        *,
        since: datetime | None = None,
        status: str | None = None,
        symbol: str | None = None,
        strategy: str | None = None,
        open_only: bool = False,
    ) -> list[OrderRow]:
        """Return orders, including blocked requests; unanswered ones come first.

        `status` is a word of the column, of our states or of `OrderRow.outcome`, in any case.
        `open_only`: those that may still trade, and those that wait for 2FA (HELD) and may go out.
        """
        view = orders_told
        query = _filtered(view, since=since, symbol=symbol, strategy=strategy)
        if open_only:
            is_held = view.c.order_id.is_(None) & (view.c.send_state == SendState.HELD)
            query = query.where((view.c.is_open == 1) | is_held)
        rows = self._made(OrderRow, query)
        if status is not None:
            word = status.upper()
            rows = [
                row for row in rows if word in {row.status.upper(), row.state, row.outcome.upper()}
            ]
        return sorted(rows, key=lambda row: row.status != "UNKNOWN")

    def strategies(self) -> list[str]:
        """Return the names of all strategies that ever made a decision."""
        query = sa.select(tables.decisions.c.strategy).distinct()
        with reading(self.url) as connection:
            return sorted(connection.execute(query).scalars())

    def order(self, reference: str) -> OrderRow:
        """Find one order by `ORD…`, `L-…`, a unique part of either, a later `ORD…`, or `last`.

        Raises UnknownOrder, or AmbiguousOrder with the candidates.
        """
        found = self._named(reference)
        if not found:
            # An order is stored under its first id; a later one, from an amendment, is only in the
            # broker's own rows.
            results, later = tables.order_results, f'"orderid":{json.dumps(reference)}'
            is_shown = results.c.raw.contains(later, autoescape=True)
            owner = sa.func.coalesce(results.c.intent_id, results.c.order_id)
            query = sa.select(owner).order_by(results.c.seq.desc()).limit(1)
            with reading(self.url) as connection:
                first = connection.execute(
                    query.where((results.c.order_id == reference) | is_shown)
                ).scalar()
            found = self._named(first) if first is not None else []
        if not found:
            raise UnknownOrder(reference)
        if len({row.id for row in found}) > 1:
            raise AmbiguousOrder(reference, tuple(dict.fromkeys(row.id for row in found)))
        return found[0]

    def timeline(self, reference: str) -> list[TimelineRow]:
        """Return what happened to an order, and alerts naming it. Raises as `order`."""
        return self.timeline_of(self.order(reference))

    def timeline_of(self, order: OrderRow) -> list[TimelineRow]:
        """The same for an order that was found. A broker may use an id again on another day."""
        view = v_timeline
        wanted = view.c.local_id == order.local_id
        if order.local_id is None:
            wanted = view.c.order_id == order.order_id
        elif order.order_id is not None:
            wanted |= (view.c.order_id == order.order_id) & view.c.local_id.is_(None)
        names = (f'"{name}"' for name in (order.local_id, order.order_id) if name)
        named = sa.or_(*(view.c.detail.contains(name, autoescape=True) for name in names))
        told = (view.c.kind == "note") & (view.c.word == "ALERT") & named
        both = sa.union_all(sa.select(view).where(wanted), sa.select(view).where(told)).subquery()
        query = sa.select(both).order_by(both.c.seq, both.c.part)
        with reading(self.url) as connection:
            query = query.where(*its_days(connection, order, both.c.at))
            found = connection.execute(query).mappings().all()
        times = [instant_of(row["at"]) for row in found]
        return [
            made(TimelineRow, {**row, "offset_s": (at - times[0]).total_seconds()})
            for row, at in zip(found, times, strict=True)
        ]

    # -------------------------------------------------------------------- fills and positions

    def fills(
        self,
        *,
        since: datetime | None = None,
        symbol: str | None = None,
        strategy: str | None = None,
    ) -> list[FillRow]:
        query = _filtered(tables.fills, since=since, symbol=symbol, strategy=strategy)
        return self._made(FillRow, query)

    def positions(self) -> list[PositionRow]:
        """Return positions from fills, by strategy and symbol, without closed ones."""
        fills = tables.fills
        owner = (fills.c.strategy, fills.c.symbol)
        sums = [tables.total(fills.c[name]).label(name) for name in ("realised", "fee", "tax")]
        query = sa.select(*owner, tables.SHARES.label("quantity"), tables.COST.label("cost"), *sums)
        with reading(self.url) as connection:
            found = connection.execute(query.group_by(*owner).order_by(*owner)).mappings().all()
        return [
            made(PositionRow, {**row, "average_price": row["cost"] // held if held > 0 else None})
            for row in found
            if (held := row["quantity"]) != 0
        ]

    def profits(self, *, day: date | None = None) -> list[ProfitRow]:
        """Return results by day, strategy and symbol."""
        query = sa.select(v_pnl)
        if day is not None:
            query = query.where(v_pnl.c.trading_date == day.isoformat())
        order = (v_pnl.c.trading_date, v_pnl.c.strategy, v_pnl.c.symbol)
        return self._made(ProfitRow, query.order_by(*order))

    def prices(self, symbols: Iterable[str]) -> dict[str, PriceRow]:
        """Return the last trusted price of each symbol (the newest of those that a decision saw, a
        start read, or a close stored). Symbols without one are omitted.
        """
        decisions, notes, found = tables.decisions, tables.notes, dict[str, PriceRow]()
        with reading(self.url) as connection:
            for symbol in symbols:
                held = f'"{LAST_PRICE}{symbol}":'
                sources = (
                    (decisions, decisions.c.saw, _SAW_LAST, decisions.c.symbol == symbol),
                    (
                        notes,
                        notes.c.numbers,
                        held,
                        notes.c.kind.in_(_HELD_NOTES),
                    ),
                    (notes, notes.c.numbers, "", notes.c.symbol == symbol),
                )
                prices = []
                for table, numbers, key, wanted in sources:
                    query = sa.select(numbers, table.c.at).where(wanted, numbers.contains(key))
                    if not key:
                        query = query.where(notes.c.kind.in_(_PRICE_NOTES))
                    newest = query.order_by(table.c.seq.desc()).limit(1)
                    prices += [_price(symbol, *row) for row in connection.execute(newest)]
                if prices:
                    found[symbol] = max(prices, key=lambda price: price.at)
        return found

    def accounts(self) -> list[AccountSnapshot]:
        """Return the broker's figures for each account as last read."""
        table = tables.account_snapshots
        newest = sa.select(sa.func.max(table.c.seq)).group_by(table.c.account)
        query = sa.select(table).where(table.c.seq.in_(newest)).order_by(table.c.account)
        with reading(self.url) as connection:
            return [snapshot_of(row) for row in connection.execute(query).mappings()]

    # ------------------------------------------------------------------------------- the rest

    @contextmanager
    def decisions(
        self,
        kind: type[R],
        *,
        why_not: bool = False,
        missed: bool = False,
        symbol: str | None = None,
        strategy: str | None = None,
        since: datetime | None = None,
        newest: int | None = None,
    ) -> Iterator[Page[R]]:
        """Yield decisions as rows of a `kind`, only the `newest` if given.

        `why_not`: those that led to no order; `missed`: missed signals.
        """
        view = v_decisions
        asked = _conditions(view, since=since, symbol=symbol, strategy=strategy)
        if why_not:
            asked.append(view.c.verdict != WANTED)
        if missed:
            asked.append(sa.tuple_(view.c.verdict, view.c.code).in_(MISSED))
        with self._page(kind, view, asked, newest) as page:
            yield page

    def stops(
        self, symbol: str, *, strategy: str | None = None, since: datetime | None = None
    ) -> list[DecisionGroup]:
        """Return the times in which nothing could be requested for a symbol, and why."""
        with reading(self.url) as connection:
            return stops(connection, symbol, strategy=strategy, since=since)

    def last_decision_at(self) -> datetime | None:
        """Return when the last decision was made."""
        with reading(self.url) as connection:
            found = connection.execute(sa.select(sa.func.max(tables.decisions.c.at))).scalar()
        return instant_of(found) if found is not None else None

    def auth_events(self, *, since: datetime | None = None) -> list[AuthRow]:
        """Return what happened to 2FA."""
        return self._made(AuthRow, _filtered(tables.auth_events, since=since))

    def fidelity(self) -> str | None:
        """Return how the newest order result came about; None if from a real broker.

        A paper broker adds a field of its own, `fidelity`, to its results.
        """
        table = tables.order_results
        query = sa.select(table.c.raw).order_by(table.c.seq.desc()).limit(1)
        with reading(self.url) as connection:
            raw = connection.execute(query).scalar_one_or_none()
        return stamp_in(raw or "")

    def runs(self) -> list[RunRow]:
        return self._made(RunRow, sa.select(tables.runs).order_by(tables.runs.c.run_id))

    def summary(self, day: date) -> DaySummary:
        """Return the figures of a trading day."""
        view, decisions = orders_told, tables.decisions
        of_day = sa.select(view).where(view.c.trading_date == day.isoformat())
        orders = self._made(OrderRow, of_day.order_by(view.c.seq))
        start = datetime.combine(day, time(), EXCHANGE_TZ)
        with reading(self.url) as connection:
            query = (
                sa.select(
                    decisions.c.verdict,
                    tables.total(times_of(connection)).label("times"),
                    sa.func.count().label("written"),
                )
                .where(decisions.c.at >= instant_text(start))
                .where(decisions.c.at < instant_text(start + timedelta(days=1)))
                .group_by(decisions.c.verdict)
            )
            verdicts = connection.execute(query).all()
        profits = self.profits(day=day)
        return DaySummary(
            trading_date=day,
            orders=len(orders),
            outcomes=Counter(row.outcome for row in orders),
            decisions={row.verdict: row.times for row in verdicts},
            folded=sum(row.times - row.written for row in verdicts),
            fills=sum(row.fills for row in profits),
            realised=sum(row.realised for row in profits),
            fee=sum(row.fee for row in profits),
            tax=sum(row.tax for row in profits),
        )

    # -------------------------------------------------------------------------------- queries

    def _named(self, reference: str) -> list[OrderRow]:
        """Return candidates, newest first: an exact id takes precedence over a part."""
        view = orders_told
        newest = sa.select(view).order_by(view.c.seq.desc())
        if reference == LAST:
            return self._made(OrderRow, newest.limit(1))
        if not reference:
            return []
        exact = (view.c.order_id == reference) | (view.c.local_id == reference)
        if found := self._made(OrderRow, newest.where(exact).limit(1)):
            return found
        ids = (sa.func.lower(column) for column in (view.c.order_id, view.c.local_id))
        part = sa.or_(*(column.contains(reference.lower(), autoescape=True) for column in ids))
        return self._made(OrderRow, newest.where(part).limit(CANDIDATES_MAX))

    @contextmanager
    def _page(
        self,
        kind: type[R],
        view: sa.FromClause,
        asked: Sequence[sa.ColumnElement[bool]],
        newest: int | None,
    ) -> Iterator[Page[R]]:
        """Yield the rows as requested, from one snapshot. Omitted ones are counted."""
        columns = [view.c[field.name] for field in fields(kind)]  # type: ignore[arg-type]
        query = sa.select(*columns).where(*asked).order_by(view.c.seq)
        counting = sa.select(sa.func.count()).select_from(view).where(*asked)
        with reading(self.url) as connection:
            count = connection.execute(counting).scalar_one()
            earlier = max(0, count - newest) if newest is not None else 0
            if earlier:
                seqs = sa.select(view.c.seq).where(*asked).order_by(view.c.seq.desc())
                first = seqs.offset(count - earlier - 1).limit(1)
                query = query.where(view.c.seq >= connection.execute(first).scalar_one())
            found = connection.execute(query, execution_options={"yield_per": ROWS_AT_ONCE})
            yield Page(count - earlier, earlier, (made(kind, row) for row in found.mappings()))

    def _made(self, kind: type[R], query: sa.Select[tuple[object, ...]]) -> list[R]:
        with reading(self.url) as connection:
            return [made(kind, row) for row in connection.execute(query).mappings()]


def _price(symbol: str, numbers: str, at: str) -> PriceRow:
    known = json.loads(numbers)
    names = (f"{LAST_PRICE}{symbol}", "last", "close")
    last = next(known[name] for name in names if name in known)
    return PriceRow(symbol, last, instant_of(known.get("quote_at") or at))


def stamp_in(raw: str) -> str | None:
    """Return the paper broker's field in a raw order result, None without one."""
    try:
        result = json.loads(raw)
    except ValueError:
        return None
    stamp = result.get("fidelity") if isinstance(result, dict) else None
    return stamp if isinstance(stamp, str) else None


def _filtered(
    source: sa.FromClause, *, since: datetime | None, **wanted: str | None
) -> sa.Select[tuple[object, ...]]:
    asked = _conditions(source, since=since, **wanted)
    return sa.select(source).where(*asked).order_by(source.c.seq)


def _conditions(
    source: sa.FromClause, *, since: datetime | None, **wanted: str | None
) -> list[sa.ColumnElement[bool]]:
    asked = [source.c[name] == it for name, it in wanted.items() if it is not None]
    return asked if since is None else [*asked, source.c.at >= instant_text(since)]
