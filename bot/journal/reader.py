"""The journal as people's commands read it: nothing here can change or make anything.

Every method answers from one moment of the journal, also while a bot writes it. Rows come oldest
first; filters that are None do not filter; `since` is an instant, inclusive.
"""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final, Self, TypeVar

import sqlalchemy as sa

from bot.domain.instrument import EXCHANGE_TZ
from bot.journal import tables
from bot.journal.encoding import instant_of, instant_text
from bot.journal.engines import database_errors, reading_engine
from bot.journal.errors import AmbiguousOrder, UnknownOrder
from bot.journal.positions import flow, total
from bot.journal.schema import require_schema
from bot.journal.values import (
    AccountRow,
    AuthRow,
    DaySummary,
    DecisionRow,
    FillRow,
    NoteRow,
    OrderRow,
    PositionRow,
    ProfitRow,
    RunRow,
    StateRow,
    TimelineRow,
    made,
)
from bot.journal.views import v_decisions, v_orders, v_pnl, v_timeline

CANDIDATES_MAX: Final = 20
LAST: Final = "last"
WANTED: Final = "PASSED"
"""The verdict of a decision that became an order; every other is a why-not."""
MISSED: Final = ("BLOCKED", "TWO_FACTOR")
"""Verdict and code of a signal that was missed for want of a 2FA token."""

R = TypeVar("R")
Filters = Sequence[sa.ColumnElement[bool]]


class JournalReader:
    """Reads a journal. Raises Unreachable (a missing file too), NeedsMigration or Corrupt."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = reading_engine(url)
        with database_errors(url), self._engine.connect() as connection:
            require_schema(connection)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        """Return itself, to be closed at the end of the block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close."""
        self.close()

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
        """Return orders, blocked requests among them; those whose answer never came are first.

        `status` is a word of the column, of our states or of `OrderRow.outcome`, in any case.
        """
        view = v_orders
        filters = [*_since(view, since), *_equal(view, symbol=symbol, strategy=strategy)]
        if open_only:
            filters.append(view.c.is_open == 1)
        found = self._rows(OrderRow, view, filters)
        wanted = [row for row in found if status is None or _answers_to(row, status)]
        return sorted(wanted, key=lambda row: row.status != "UNKNOWN")

    def strategies(self) -> list[str]:
        """Return the names of all strategies that ever decided something."""
        query = sa.select(tables.decisions.c.strategy).distinct()
        with database_errors(self._url), self._engine.connect() as connection:
            return sorted(connection.execute(query).scalars())

    def order(self, reference: str) -> OrderRow:
        """Find one order by `ORD…`, `L-…`, a unique part of either, a later `ORD…`, or `last`.

        Raises UnknownOrder, or AmbiguousOrder with the candidates.
        """
        found = self._named(reference) or self._renamed(reference)
        if not found:
            raise UnknownOrder(reference)
        if len({row.id for row in found}) > 1:
            raise AmbiguousOrder(reference, tuple(dict.fromkeys(row.id for row in found)))
        return found[0]

    def timeline(self, reference: str) -> list[TimelineRow]:
        """Return all that happened to one order, in the order it was written. Raises as `order`."""
        order, view = self.order(reference), v_timeline
        if order.order_id is None:
            return self._events([view.c.local_id == order.local_id])
        told = view.c.order_id == order.order_id
        if order.local_id is None:
            return self._events([told])
        nameless = told & view.c.local_id.is_(None)
        return self._events([(view.c.local_id == order.local_id) | nameless])

    def events(self, *, since: datetime | None = None) -> list[TimelineRow]:
        """Return everything in the journal, as a timeline of the whole."""
        return self._events(_since(v_timeline, since))

    # -------------------------------------------------------------------- fills and positions

    def fills(
        self,
        *,
        since: datetime | None = None,
        symbol: str | None = None,
        strategy: str | None = None,
    ) -> list[FillRow]:
        """Return fills."""
        table = tables.fills
        filters = [*_since(table, since), *_equal(table, symbol=symbol, strategy=strategy)]
        return self._rows(FillRow, table, filters)

    def positions(self) -> list[PositionRow]:
        """Return what is held by fills, by strategy and symbol; closed positions are left out."""
        return [row for row in self._all_positions() if row.quantity != 0]

    def profits(self, *, day: date | None = None) -> list[ProfitRow]:
        """Return results by day, strategy and symbol."""
        filters = _equal(v_pnl, trading_date=None if day is None else day.isoformat())
        order = (v_pnl.c.trading_date, v_pnl.c.strategy, v_pnl.c.symbol)
        query = sa.select(v_pnl).where(*filters).order_by(*order)
        return self._made(ProfitRow, query)

    # ------------------------------------------------------------------------------ decisions

    def decisions(
        self,
        *,
        why_not: bool = False,
        missed: bool = False,
        symbol: str | None = None,
        strategy: str | None = None,
        since: datetime | None = None,
    ) -> list[DecisionRow]:
        """Return decisions; `why_not`: those that became no order; `missed`: signals missed."""
        view = v_decisions
        filters = [*_since(view, since), *_equal(view, symbol=symbol, strategy=strategy)]
        if why_not:
            filters.append(view.c.verdict != WANTED)
        if missed:
            filters.append(sa.tuple_(view.c.verdict, view.c.code) == sa.tuple_(*MISSED))
        return self._rows(DecisionRow, view, filters)

    # ------------------------------------------------------------------------------- the rest

    def notes(self, *, kind: str | None = None, since: datetime | None = None) -> list[NoteRow]:
        """Return notes."""
        filters = [*_since(tables.notes, since), *_equal(tables.notes, kind=kind)]
        return self._rows(NoteRow, tables.notes, filters)

    def auth_events(self, *, since: datetime | None = None) -> list[AuthRow]:
        """Return what happened to the second factor."""
        return self._rows(AuthRow, tables.auth_events, _since(tables.auth_events, since))

    def states(self, *, since: datetime | None = None) -> list[StateRow]:
        """Return changes of state, of the bot and of strategies."""
        return self._rows(StateRow, tables.halts, _since(tables.halts, since))

    def fidelity(self) -> str | None:
        """Return how the newest order result came about; None where a real broker said it.

        A paper broker stamps its results with a field of its own, `fidelity`.
        """
        table = tables.order_results
        query = sa.select(table.c.raw).order_by(table.c.seq.desc()).limit(1)
        with database_errors(self._url), self._engine.connect() as connection:
            raw = connection.execute(query).scalar_one_or_none()
        return stamp_in(raw or "")

    def runs(self) -> list[RunRow]:
        """Return runs."""
        return self._made(RunRow, sa.select(tables.runs).order_by(tables.runs.c.run_id))

    def accounts(self) -> list[AccountRow]:
        """Return the newest numbers of every account."""
        table = tables.account_snapshots
        newest = sa.select(sa.func.max(table.c.seq)).group_by(table.c.account)
        return self._rows(AccountRow, table, [table.c.seq.in_(newest)])

    def summary(self, day: date) -> DaySummary:
        """Return the figures of a trading day."""
        orders = self._rows(OrderRow, v_orders, _equal(v_orders, trading_date=day.isoformat()))
        profits = self.profits(day=day)
        return DaySummary(
            trading_date=day,
            orders=len(orders),
            outcomes=Counter(row.outcome for row in orders),
            decisions=self._verdicts(day),
            fills=sum(row.fills for row in profits),
            realised=sum(row.realised for row in profits),
            fee=sum(row.fee for row in profits),
            tax=sum(row.tax for row in profits),
        )

    # -------------------------------------------------------------------------------- queries

    def _named(self, reference: str) -> list[OrderRow]:
        """Candidates, newest first: an exact id outranks a part."""
        view = v_orders
        if reference == LAST:
            return self._newest([], 1)
        if not reference:
            return []
        exact = (view.c.order_id == reference) | (view.c.local_id == reference)
        if found := self._newest([exact], 1):
            return found
        ids = (sa.func.lower(column) for column in (view.c.order_id, view.c.local_id))
        part = sa.or_(*(column.contains(reference.lower(), autoescape=True) for column in ids))
        return self._newest([part], CANDIDATES_MAX)

    def _renamed(self, reference: str) -> list[OrderRow]:
        """The order to which an amendment gave this id: it is kept under its first one, and only
        the broker's own rows name the later.
        """
        table, named = tables.order_results, f'"orderid":{json.dumps(reference)}'
        query = sa.select(table.c.order_id).where(table.c.raw.contains(named, autoescape=True))
        with database_errors(self._url), self._engine.connect() as connection:
            first = connection.execute(query.order_by(table.c.seq.desc()).limit(1)).scalar()
        return self._named(first) if first else []

    def _newest(self, filters: Filters, limit: int) -> list[OrderRow]:
        query = sa.select(v_orders).where(*filters).order_by(v_orders.c.seq.desc()).limit(limit)
        return self._made(OrderRow, query)

    def _events(self, filters: Filters) -> list[TimelineRow]:
        query = sa.select(v_timeline).where(*filters).order_by(v_timeline.c.seq, v_timeline.c.part)
        with database_errors(self._url), self._engine.connect() as connection:
            found = connection.execute(query).mappings().all()
        start = instant_of(found[0]["at"]) if found else None
        offsets = ((instant_of(row["at"]) - start).total_seconds() if start else 0 for row in found)
        pairs = zip(found, offsets, strict=True)
        return [made(TimelineRow, {**row, "offset_s": offset}) for row, offset in pairs]

    def _all_positions(self) -> list[PositionRow]:
        fills = tables.fills
        quantity = total(flow(fills.c.quantity, fills.c.quantity)).label("quantity")
        cost = total(flow(fills.c.amount, fills.c.amount - fills.c.realised)).label("cost")
        sums = [total(fills.c[name]).label(name) for name in ("realised", "fee", "tax")]
        owner = (fills.c.strategy, fills.c.symbol)
        query = sa.select(*owner, quantity, cost, *sums).group_by(*owner).order_by(*owner)
        with database_errors(self._url), self._engine.connect() as connection:
            found = connection.execute(query).mappings().all()
        return [made(PositionRow, {**row, "average_price": _average(row)}) for row in found]

    def _verdicts(self, day: date) -> dict[str, int]:
        table = tables.decisions
        start = datetime.combine(day, time(), EXCHANGE_TZ)
        end = start + timedelta(days=1)
        during = (table.c.at >= instant_text(start)) & (table.c.at < instant_text(end))
        times = sa.func.count().label("times")
        query = sa.select(table.c.verdict, times).where(during).group_by(table.c.verdict)
        with database_errors(self._url), self._engine.connect() as connection:
            return {row.verdict: row.times for row in connection.execute(query)}

    def _rows(self, kind: type[R], source: sa.FromClause, filters: Filters) -> list[R]:
        return self._made(kind, sa.select(source).where(*filters).order_by(source.c.seq))

    def _made(self, kind: type[R], query: sa.Select[tuple[object, ...]]) -> list[R]:
        with database_errors(self._url), self._engine.connect() as connection:
            return [made(kind, dict(row)) for row in connection.execute(query).mappings()]


def stamp_in(raw: str) -> str | None:
    """Return the paper broker's stamp in a raw order result, None where there is none."""
    try:
        result = json.loads(raw)
    except ValueError:
        return None
    stamp = result.get("fidelity") if isinstance(result, dict) else None
    return stamp if isinstance(stamp, str) else None


def _since(source: sa.FromClause, since: datetime | None) -> list[sa.ColumnElement[bool]]:
    return [] if since is None else [source.c.at >= instant_text(since)]


def _equal(source: sa.FromClause, **wanted: str | None) -> list[sa.ColumnElement[bool]]:
    return [source.c[name] == value for name, value in wanted.items() if value is not None]


def _answers_to(row: OrderRow, status: str) -> bool:
    return status.upper() in {row.status.upper(), row.state, row.outcome.upper()}


def _average(row: sa.RowMapping) -> int | None:
    quantity: int = row["quantity"]
    cost: int = row["cost"]
    return cost // quantity if quantity > 0 else None
