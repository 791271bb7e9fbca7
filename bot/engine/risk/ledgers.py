"""Our own running account: cash and lots by their settlement, from the fills that we know.

The broker's numbers of a quiet moment are the base; the journal keeps it, so that a restart goes on
from there. Fills move it, those of orders made elsewhere too: a buy takes cash at once, what was
bought and what a sale brings comes on T+2 at 13:00 (VSDC settlement rules). Every further read is
compared with it: a symbol unless an order of ours works in it or its fill is newer than the read,
cash when nothing of ours is under way at all. Also explained are

  what settles later on the same day (delivery is around midday, sooner than the rule promises),
  buys of the day that the broker holds back and has not yet taken out of its cash,
  shares of before the base, whose date is not known, becoming sellable.

One read proves nothing: it may be old, or empty by mistake. A difference is certain when a second
read, asked for at least `LOOK_AGAIN` later and after another day order book, shows the same number.
While something trades that book is asked for `book_lag` after the first read: a trade by hand is in
the account before the order book of a node that lags shows its order.
The broker's rights call may name the corporate action behind it, one difference per right: a
dividend in cash arrives less the tax that is withheld, new shares count from the ex-date on. What
nothing names is a break (`engine/risk/breaks.py`); the broker's number is the base from then on.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.account import AccountSnapshot, Holding, base_words
from bot.domain.entry import RunState, StateChanged
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.engine.control_state import BY_ENGINE
from bot.engine.flows import AccountLedger, Flow, Lack
from bot.engine.risk import lags
from bot.engine.state import State

IN_ALL: Final = "in all"
LOOK_AGAIN: Final = timedelta(seconds=5)
"""How far apart two reads are that agree on a difference."""
_QUIET: Final = frozenset({Phase.CLOSED, Phase.BREAK})
BASE: Final = "base:"
"""How the scope begins under which the journal keeps which numbers of an account count."""
AROUND_PAYMENT: Final = timedelta(days=7)
"""How far from its stated day a dividend may arrive."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number that is not as our fills make it. `symbol` None: cash."""

    symbol: str | None
    what: str
    expected: int
    found: int

    @property
    def amount(self) -> int:
        """By how much the broker's number is higher."""
        return self.found - self.expected

    @property
    def text(self) -> str:
        """The difference in words."""
        unit = "VND" if self.symbol is None else "shares"
        what = self.what if self.symbol is None else f"{self.symbol} {self.what}"
        expected, found = f"expected {self.expected:,}", f"found {self.found:,}"
        return f"{what}: {expected}, {found}: {self.amount:+,} {unit} that no order explains"


@dataclass(frozen=True, slots=True)
class Expected:
    """What our fills make of the base at an instant. `explained_cash` are other values that the
    cash may have too, `sooner` is what may have come of it already.
    """

    cash: int
    explained_cash: frozenset[int]
    sooner: int = 0
    holdings: dict[str, "Shares"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shares:
    """`sellable` at least, `sellable_max` with what may have come sooner."""

    total: int
    sellable: int
    sellable_max: int
    receiving: int


def reconcile(state: State, snapshot: AccountSnapshot) -> Sequence[Difference]:
    """Compare a read with our own numbers, or begin them with it; return what is certain now."""
    account, ledger = snapshot.account, state.ledgers.get(snapshot.account)
    busy = _busy(state, snapshot)
    if ledger is None:
        if busy:
            return ()
        ledger = state.ledgers[account] = AccountLedger(_lifted(state, snapshot), is_new=True)
        ledger.coming = [flow for flow in state.early_flows if flow.account == account]
    expected = expected_at(ledger, snapshot.at)
    lack = lack_at(ledger, snapshot)
    if lack is not None and lack.cash and is_closed(state, account, snapshot.at):
        # Nothing is held for a buy that the broker does not show: the last look of a day says so.
        expected = replace(expected, explained_cash=frozenset({expected.cash}))
    # Anybody's orders hold shares back where they work.
    held_back = {order.row.symbol for order in state.open_orders()}
    found = [
        each
        for each in _differences(expected, snapshot, held_back)
        if (not busy if each.symbol is None else each.symbol not in busy)
    ]
    certain, doubts = [], dict[tuple[str | None, str], tuple[int, datetime]]()
    read = state.set_aside.get(account)
    for each in found:
        since = ledger.doubts.get((each.symbol, each.what), (None, snapshot.at))
        at = since[1] if since[0] == each.found else snapshot.at
        is_seen_again = snapshot.at - at >= LOOK_AGAIN
        if is_seen_again and read is not None and read.requested_at >= at + _book_lag(state, at):
            certain.append(each)
            _correct(ledger, each, expected, snapshot)
        else:
            doubts[each.symbol, each.what] = (each.found, at)
    ledger.doubts = doubts
    is_ours = snapshot.cash == expected.cash and all(
        snapshot.holdings[symbol].sellable == ours.sellable
        for symbol, ours in expected.holdings.items()
        if symbol in snapshot.holdings
    )
    if not busy and not doubts and (certain or (is_ours and not found)):
        rebase(state, ledger, snapshot)  # begin again from it, so that the fills stay few
    return certain


def _book_lag(state: State, at: datetime) -> timedelta:
    """How far the day order book may be behind numbers of an instant: not at all where nothing
    could trade shortly before.
    """
    lag, phase_at = state.settings.book_lag, state.rulebook.phase_at
    phases = {phase_at(exchange, when) for exchange in Exchange for when in (at - lag, at)}
    return lag if phases - _QUIET else timedelta()


def _busy(state: State, snapshot: AccountSnapshot) -> set[str]:
    """Return the symbols in which something of ours is under way: their numbers may move.

    Once the exchanges have closed nothing trades: an order that is still shown as open moves none.
    """
    account = snapshot.account
    busy = {one.intent.symbol for one in state.pending_intents() if one.intent.account == account}
    busy |= state.flows.symbols_since(snapshot.at)
    if not is_closed(state, account, snapshot.at):
        own = (order.row for order in state.open_orders() if order.is_own)
        busy.update(row.symbol for row in own if row.account == account)
    return busy


def is_closed(state: State, account: str, at: datetime) -> bool:
    """Whether numbers of `at` are of after today's close, and the day order book is, too.

    After midnight the broker's day order book is another day's.
    """
    since, read = state.reconciling.closing_since, state.set_aside.get(account)
    if since is None or read is None or min(at, read.requested_at) < since:
        return False
    return _day(max(at, read.requested_at)) == state.trading_date


def _lifted(state: State, snapshot: AccountSnapshot) -> AccountSnapshot:
    """Return a first read with at least what our strategies hold: less is a difference (I19)."""
    own = own_shares(state, snapshot.account)
    holdings = dict(snapshot.holdings)
    for symbol, shares in own.items():
        held = holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
        if held.total < shares:
            holdings[symbol] = replace(held, total=shares, sellable=held.sellable)
    return snapshot if holdings == snapshot.holdings else replace(snapshot, holdings=holdings)


def own_shares(state: State, account: str) -> dict[str, int]:
    """Return what the strategies of an account hold together, by symbol."""
    own = defaultdict[str, int](int)
    for strategy in state.strategies.values():
        if strategy.plan.account == account:
            for symbol, position in strategy.positions.items():
                own[symbol] += position.shares
    return own


def _correct(
    ledger: AccountLedger, certain: Difference, expected: "Expected", snapshot: AccountSnapshot
) -> None:
    """Take the broker's number for ours, where a difference is certain."""
    base, symbol = ledger.base, certain.symbol
    ledger.is_new = True
    if symbol is None:
        ledger.base = replace(base, cash=base.cash + certain.amount)
        return
    ours = expected.holdings.get(symbol, Shares(0, 0, 0, 0))
    theirs = snapshot.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
    was = base.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
    now = replace(
        was,
        total=was.total + theirs.total - ours.total,
        sellable=was.sellable + theirs.sellable - ours.sellable,
        receiving=was.receiving + theirs.receiving - ours.receiving,
    )
    ledger.base = replace(base, holdings={**base.holdings, symbol: now})


def rebase(state: State, ledger: AccountLedger, snapshot: AccountSnapshot) -> None:
    """The broker's numbers count from here; what is still on its way comes later.

    The journal keeps which they are, where they are not just those of before.
    """
    moves, before = [*ledger.coming, *ledger.flows], ledger.base
    is_news = ledger.is_new or bool(ledger.flows) or before.cash != snapshot.cash
    is_news = is_news or before.holdings != snapshot.holdings
    ledger.base, ledger.flows, ledger.is_new = snapshot, [], False
    if is_news:
        running, scope = RunState.RUNNING, f"{BASE}{snapshot.account}"
        rows = (order.row for order in state.orders.values() if not order.is_own)
        elsewhere = {
            row.order_id: (row.executed_quantity, row.executed_amount)
            for row in rows
            if row.executed_quantity and row.account == snapshot.account
        }
        agreed = base_words(snapshot.at, elsewhere)
        state.record(StateChanged(snapshot.at, running, running, agreed, BY_ENGINE, scope=scope))
    # What comes at one instant comes as one: so they stay few, however many fills a day has.
    merged: dict[tuple[str, datetime], Flow] = {}
    for flow in moves:
        if flow.settles_at > snapshot.at:
            one = merged.get((flow.symbol, flow.settles_at))
            merged[flow.symbol, flow.settles_at] = (
                flow
                if one is None
                else replace(
                    one,
                    cash_in=one.cash_in + flow.cash_in,
                    shares_in=one.shares_in + flow.shares_in,
                )
            )
    ledger.coming = list(merged.values())


# ---------------------------------------------------------------------------------- our own numbers


def expected_at(ledger: AccountLedger, at: datetime) -> Expected:
    """Return what our fills make of the base at an instant."""
    base, moves = ledger.base, [*ledger.coming, *ledger.flows]
    spent = sum(flow.cash_out for flow in ledger.flows)
    come = sum(flow.cash_in for flow in moves if flow.settles_at <= at)
    sooner = sum(flow.cash_in for flow in moves if _is_later_today(flow.settles_at, at))
    held_back = sum(flow.cash_out for flow in ledger.flows if _day(flow.at) == _day(at))
    cash = base.cash - spent + come
    explained = {cash, cash + sooner, cash + held_back, cash + sooner + held_back}
    coming: defaultdict[str, list[Flow]] = defaultdict(list)
    flows: defaultdict[str, list[Flow]] = defaultdict(list)
    for flow in ledger.coming:
        coming[flow.symbol].append(flow)
    for flow in ledger.flows:
        flows[flow.symbol].append(flow)
    symbols = sorted({*base.holdings, *coming, *flows})
    shares = {each: _shares(base, each, coming[each], flows[each], at) for each in symbols}
    return Expected(cash, frozenset(explained), sooner, shares)


def lack_at(ledger: AccountLedger, snapshot: AccountSnapshot) -> Lack | None:
    """Return what a read lacks of our own fills; None: nothing that can be seen."""
    expected = expected_at(ledger, snapshot.at)
    lags.note_paid(ledger, snapshot, expected.cash)
    totals = {symbol: shares.total for symbol, shares in expected.holdings.items()}
    cash, sooner = expected.cash, expected.sooner
    return lags.lack_of(ledger, snapshot, cash=cash, sooner=sooner, totals=totals)


def _shares(
    snapshot: AccountSnapshot, symbol: str, coming: list[Flow], flows: list[Flow], at: datetime
) -> Shares:
    base = snapshot.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
    sold, bought = sum(f.shares_out for f in flows), sum(f.shares_in for f in flows)
    moves = [*coming, *flows]
    come = sum(flow.shares_in for flow in moves if flow.settles_at <= at)
    sooner = sum(flow.shares_in for flow in moves if _is_later_today(flow.settles_at, at))
    undated = max(0, base.receiving - sum(flow.shares_in for flow in coming))
    sellable = base.sellable - sold + come
    return Shares(
        total=base.total - sold + bought,
        sellable=sellable,
        sellable_max=sellable + sooner + undated,
        receiving=base.receiving + bought - come,
    )


def _is_later_today(settles_at: datetime, at: datetime) -> bool:
    return settles_at > at and _day(settles_at) == _day(at)


def _day(at: datetime) -> date:
    return at.astimezone(EXCHANGE_TZ).date()


# ------------------------------------------------------------------------------------ differences


def _differences(
    expected: Expected, snapshot: AccountSnapshot, held_back: set[str]
) -> Iterator[Difference]:
    if snapshot.cash not in expected.explained_cash:
        yield Difference(None, "cash", expected.cash, snapshot.cash)
    for symbol in sorted({*expected.holdings, *snapshot.holdings}):
        ours = expected.holdings.get(symbol, Shares(0, 0, 0, 0))
        theirs = snapshot.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
        if theirs.total != ours.total:
            yield Difference(symbol, IN_ALL, ours.total, theirs.total)
            continue
        if symbol in held_back:
            continue
        if not ours.sellable <= theirs.sellable <= ours.sellable_max:
            yield Difference(symbol, "sellable", ours.sellable, theirs.sellable)
        receiving = ours.receiving - (theirs.sellable - ours.sellable)
        if theirs.receiving != receiving:
            yield Difference(symbol, "receiving", receiving, theirs.receiving)


# ------------------------------------------------------------------------------ corporate actions


def explanation(state: State, account: str, symbol: str | None, difference: int) -> str:
    """Return what a difference in cash (symbol None) or shares comes from; empty: not known.

    A dividend may have come net of the tax or gross; an old one of the same amount explains nothing
    of today.
    """
    for right in state.rights.get(account, ()):
        worth: tuple[int, ...] = ()
        is_recent = (
            right.paid_on is None or abs(right.paid_on - state.trading_date) <= AROUND_PAYMENT
        )
        if symbol is None and right.dividend and is_recent:
            tax = state.rulebook.dividend_tax(right.dividend)
            worth = (right.dividend - tax, right.dividend)
        elif symbol == right.symbol and right.shares:
            worth = (right.shares,)
        key = (right.number, symbol is None)
        if difference not in worth or key in state.explained_rights:
            continue
        state.explained_rights.add(key)
        kind = right.kind.lower().replace("_", " ")
        if symbol is not None:
            return f"{kind} {right.symbol} {right.ratio}: {difference:+,} shares"
        per_share = right.dividend // right.owned if right.owned else 0
        taxed = "after tax" if difference < right.dividend else "before tax"
        return f"{kind} {right.symbol} {per_share:,} VND/share: {difference:+,} {taxed}"
    return ""
