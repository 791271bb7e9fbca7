"""Our own running account: cash and lots by settlement, from the known fills.

The broker's figures in a quiet moment are the base; the journal stores it, so that a restart
continues from there. Fills move it, including those of external orders: a buy takes cash at once;
bought shares and sale proceeds arrive on T+2 at 13:00 (VSDC settlement rules). Every further read
is compared with it: to the share and the VND where nothing of ours is under way, else as far as
that can't have moved it (`engine/risk/under_way.py`). Also explained are

  what settles later on the same day (delivery is around midday, sooner than the rule promises, and
  the money of several sales may come piece by piece),
  buys of the day that the broker holds back and has not yet taken out of its cash,
  shares of before the base, whose date is not known, becoming sellable.

One read proves nothing: it may be old, or empty by mistake. A difference is certain if a second
read, requested at least `LOOK_AGAIN` later and after another day order book, shows the same number,
or is off by as much while our own fills have moved it.
While something trades, that book is requested `book_lag` after the first read: a manual trade is in
the account before a lagging node's order book shows its order. The broker's rights call may name
the corporate actions behind it (`engine/risk/rights.py`). An unexplained difference is a break
(`engine/risk/breaks.py`); the broker's number is the base from then on. Of cash only that is
unexplained which comes beside money that is held back or was delivered early.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Final

from bot.domain.account import AccountSnapshot, base_words
from bot.domain.entry import RunState, StateChanged
from bot.domain.instrument import Exchange, Phase
from bot.domain.local_time import local_date
from bot.engine.control_state import BY_ENGINE
from bot.engine.flows import AccountLedger, Doubt, Flow, Lack
from bot.engine.risk import lags, rights, unshown
from bot.engine.risk.expected import NONE, Expected, expected_at
from bot.engine.risk.under_way import room_of_cash, room_of_shares
from bot.engine.state import State

IN_ALL: Final = "in all"
LOOK_AGAIN: Final = timedelta(seconds=5)
"""The interval between two reads that confirm a difference."""
_QUIET: Final = frozenset({Phase.CLOSED, Phase.BREAK})
BASE: Final = "base:"
"""Prefix of the scope under which the journal stores which figures of an account count."""
FEE_OF_MOST: Final = 200
"""No broker takes more than a two-hundredth of the traded amount."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number that differs from our fills' result. `symbol` None: cash. While something is under
    way, `expected` is the `limit` of what that explains, at least or at most so much, and `beyond`
    by how much it is above our own figure. `corrected`: by how much our shares are, once the
    broker's number is certain.
    """

    symbol: str | None
    what: str
    expected: int
    found: int
    limit: str = ""
    beyond: int = 0
    corrected: Mapping[str, int] = field(default_factory=dict)

    @property
    def amount(self) -> int:
        """By how much the broker's number is higher."""
        return self.found - self.expected

    @property
    def text(self) -> str:
        """Describe the difference."""
        unit = "VND" if self.symbol is None else "shares"
        what = self.what if self.symbol is None else f"{self.symbol} {self.what}"
        expected = f"expected {self.limit}{self.expected:,}"
        found = f"found {self.found:,}"
        return f"{what}: {expected}, {found}: {self.amount:+,} {unit} that no order explains"


def reconcile(state: State, snapshot: AccountSnapshot) -> Sequence[Difference]:
    """Compare a read with our own figures, or begin them with it; return what is certain now."""
    account, ledger = snapshot.account, state.ledgers.get(snapshot.account)
    busy = _busy(state, snapshot)
    if ledger is None:
        if busy:
            return ()
        ledger = state.ledgers[account] = AccountLedger(_lifted(state, snapshot), is_new=True)
        ledger.coming = [flow for flow in state.early_flows if flow.account == account]
    expected = expected_at(ledger, snapshot.at)
    lack = lack_at(ledger, snapshot)
    if lack is not None and lack.cash:
        # A cash of before our fills is told of as old, and our own counts on. Taking it for the
        # new base would spend the same money again: only the last read of a day makes a break of
        # it, and a start, which waits for a person.
        explained = {expected.cash}
        is_last = is_closed(state, account, snapshot.at) or RunState.STARTING in state.gate.causes
        expected = replace(
            expected,
            explained_cash=frozenset(explained if is_last else {*explained, snapshot.cash}),
        )
    else:
        note_agreed(ledger, expected, snapshot)
        if ledger.early_on != local_date(snapshot.at):
            expected = expected.with_a_piece(snapshot.cash)
    beside = cash_beside(state, ledger, expected, snapshot)
    # Anybody's working orders hold shares back.
    held_back = {order.row.symbol for order in state.open_orders()}
    found = [
        beyond
        for each in _differences(expected, snapshot, held_back, beside)
        if (beyond := _beyond(state, ledger, snapshot, expected, lack, each, busy)) is not None
    ]
    certain, doubts = [], dict[tuple[str | None, str], Doubt]()
    read = state.set_aside.get(account)
    for each in found:
        doubt = _doubt(state, ledger, snapshot, lack, each)
        at = doubt.since
        is_seen_again = snapshot.at - at >= LOOK_AGAIN
        if is_seen_again and read is not None and read.requested_at >= at + _book_lag(state, at):
            certain.append(_corrected(ledger, each, snapshot))
        else:
            doubts[each.symbol, each.what] = doubt
    ledger.doubts = doubts
    unshown.follow(state, ledger, snapshot, expected, lack)
    ours, listed = expected.holdings, snapshot.holdings.keys()
    more = {each: snapshot.held(each).sellable - ours[each].sellable for each in ours}
    undated = {each: 0 if each in held_back else ours[each].undated for each in ours}
    as_ours = {each for each in ours if 0 <= more[each] <= undated[each]}
    is_sellable_ours = not (ours.keys() & listed) - as_ours - {each.symbol for each in certain}
    cash_as_ours = {None} if snapshot.cash == expected.cash else set[None]()
    # Neither contains what settles later today; where something moves, numbers may agree by chance.
    ledger.undelivered = frozenset((as_ours - busy - held_back) | cash_as_ours)
    # What is explained only as old, held or come sooner is no base: the fills behind it still
    # count. What is certain is ours by now.
    is_cash_ours = expected.cash in {snapshot.cash, *(e.expected for e in certain if not e.symbol)}
    if not busy and not doubts and is_cash_ours and is_sellable_ours:
        rebase(state, ledger, snapshot)  # start over from it, so that the fills stay few
    return certain


def _doubt(
    state: State,
    ledger: AccountLedger,
    snapshot: AccountSnapshot,
    lack: Lack | None,
    each: Difference,
) -> Doubt:
    """Return a difference with how long reads have shown it.

    A read that is off by as much as the one before, but by another number, shows the same if our
    own fills have moved both figures, not if it may only be of before the newest of them: the read
    before may have been, too. Nor if another person's orders have traded meanwhile, which an
    account shows sooner than the day order book.
    """
    at, before = snapshot.at, ledger.doubts.get((each.symbol, each.what))
    rows = (order.row for order in state.index.external.of(snapshot.account))
    elsewhere = sum(row.executed_quantity for row in rows)
    off = each.found - (each.expected - each.beyond)
    new = Doubt(each.found, off, elsewhere, since=at, begun_at=at, seen_at=at)
    if before is None:
        return new
    is_same = (before.off, before.elsewhere) == (off, elsewhere)
    begun_at = before.begun_at
    if lack is not None and at - lack.since < state.settings.book_lag:
        lacks = lack.cash if each.symbol is None else lack.shares.get(each.symbol)
        is_same = is_same and not lacks
        begun_at = at if lacks else begun_at
    is_same = is_same or before.found == each.found
    return replace(new, since=before.since if is_same else at, begun_at=begun_at)


def _book_lag(state: State, at: datetime) -> timedelta:
    """Return how far the day order book may lag behind figures of an instant: zero if nothing could
    trade shortly before.
    """
    lag, phase_at = state.settings.book_lag, state.rulebook.phase_at
    phases = {phase_at(exchange, when) for exchange in Exchange for when in (at - lag, at)}
    return lag if phases - _QUIET else timedelta()


def _beyond(
    state: State,
    ledger: AccountLedger,
    snapshot: AccountSnapshot,
    expected: Expected,
    lack: Lack | None,
    each: Difference,
    busy: set[str],
) -> Difference | None:
    """Return what of a difference can't come from what is under way; None if nothing, or if it is
    of before our fills, which is told as that.
    """
    symbol, allowed = each.symbol, {each.expected}
    if not busy or (symbol is not None and symbol not in busy):
        return each
    if lack is not None and (lack.cash if symbol is None else symbol in lack.shares):
        return None
    if symbol is None:
        room, allowed = room_of_cash(state, ledger, snapshot), allowed | expected.explained_cash
    else:
        is_known = each.what == IN_ALL
        room = room_of_shares(state, ledger, snapshot, symbol) if is_known else None
    if room is None:
        return None
    least, most = min(allowed) - room.less, max(allowed) + room.more
    if least <= each.found <= most:
        return None
    limit, bound = ("at least ", least) if each.found < least else ("at most ", most)
    return replace(each, expected=bound, limit=limit, beyond=bound - each.expected)


def _busy(state: State, snapshot: AccountSnapshot) -> set[str]:
    """Return the symbols in which something of ours is under way, so that their numbers may move.

    Once the exchanges have closed nothing trades, even if an order is still shown as open.
    """
    account = snapshot.account
    busy = {one.intent.symbol for one in state.pending_intents() if one.intent.account == account}
    busy |= state.flows.symbols_since(snapshot.at)
    if not is_closed(state, account, snapshot.at):
        own = (order.row for order in state.open_orders() if order.is_own)
        busy.update(row.symbol for row in own if row.account == account)
    return busy


def is_closed(state: State, account: str, at: datetime) -> bool:
    """Return whether figures of `at` are from after today's close, and the day order book, too.

    After midnight the broker's day order book is another day's.
    """
    since, read = state.reconciling.closing_since, state.set_aside.get(account)
    if since is None or read is None or min(at, read.requested_at) < since:
        return False
    return local_date(max(at, read.requested_at)) == state.trading_date


def _lifted(state: State, snapshot: AccountSnapshot) -> AccountSnapshot:
    """Return a first read with at least our strategies' holdings: less is a difference (I19)."""
    own = own_shares(state, snapshot.account)
    holdings = dict(snapshot.holdings)
    for symbol, shares in own.items():
        held = snapshot.held(symbol)
        if held.total < shares:
            holdings[symbol] = replace(held, total=shares, sellable=held.sellable)
    return snapshot if holdings == snapshot.holdings else replace(snapshot, holdings=holdings)


def own_shares(state: State, account: str) -> dict[str, int]:
    """Return the total holdings of an account's strategies, by symbol."""
    own = defaultdict[str, int](int)
    for strategy in state.strategies.values():
        if strategy.plan.account == account:
            for symbol, position in strategy.positions.items():
                own[symbol] += position.shares
    return own


def _corrected(ledger: AccountLedger, certain: Difference, snapshot: AccountSnapshot) -> Difference:
    """Accept the broker's number for ours, as a difference is certain; return it with what that has
    corrected. A start corrects what the journal has as the base by the same.
    """
    base, symbol = ledger.base, certain.symbol
    ledger.is_new = True
    if symbol is None:
        ledger.base = replace(base, cash=base.cash + certain.amount)
        return certain
    # Computed anew: another difference in the symbol may have corrected it in this very read.
    ours = expected_at(ledger, snapshot.at).holdings.get(symbol, NONE)
    theirs = snapshot.held(symbol)
    total = theirs.total - ours.total
    sellable, receiving = theirs.sellable - ours.sellable, theirs.receiving - ours.receiving
    if certain.limit:  # which of them may be sold is compared once nothing is under way
        total, sellable, receiving = certain.amount, 0, 0
    ledger.base = base.corrected(symbol, total=total, sellable=sellable, receiving=receiving)
    return replace(
        certain, corrected={"total": total, "sellable": sellable, "receiving": receiving}
    )


def rebase(state: State, ledger: AccountLedger, snapshot: AccountSnapshot) -> None:
    """Use the broker's figures as the base from here; what is still to settle comes later.

    The journal stores them if they are not just the previous ones.
    """
    moves, before = [*ledger.coming, *ledger.flows], ledger.base
    is_news = ledger.is_new or bool(ledger.flows) or before.cash != snapshot.cash
    is_news = is_news or before.holdings != snapshot.holdings
    today = local_date(snapshot.at)
    ledger.past = [flow for flow in (*ledger.past, *ledger.flows) if local_date(flow.at) == today]
    ledger.base, ledger.flows, ledger.is_new = snapshot, [], False
    if is_news:
        running, scope = RunState.RUNNING, f"{BASE}{snapshot.account}"
        rows = (order.row for order in state.index.external.of(snapshot.account))
        elsewhere = {
            row.order_id: (row.executed_quantity, row.executed_amount)
            for row in rows
            if row.executed_quantity
        }
        agreed = base_words(snapshot.at, elsewhere)
        state.record(StateChanged(snapshot.at, running, running, agreed, BY_ENGINE, scope=scope))
    # Settlements at one instant are merged, so they stay few, however many fills a day has.
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


def lack_at(ledger: AccountLedger, snapshot: AccountSnapshot) -> Lack | None:
    """Return what a read lacks of our own fills; None if nothing can be seen."""
    expected = expected_at(ledger, snapshot.at)
    lags.note_paid(ledger, snapshot, expected.cash)
    totals = {symbol: shares.total for symbol, shares in expected.holdings.items()}
    cash, sooner = expected.cash, expected.sooner
    return lags.lack_of(ledger, snapshot, cash=cash, sooner=sooner, totals=totals)


def held_at(
    state: State, ledger: AccountLedger, snapshot: AccountSnapshot, lack: Lack | None
) -> int:
    """Return how much of a read's cash is spent on buys of the day, and deducted only later: also
    beside money that nothing explains yet.
    """
    expected, is_lacking = expected_at(ledger, snapshot.at), lack is not None and bool(lack.cash)
    is_piece = expected.is_a_piece_beside_held(snapshot.cash) and not is_lacking
    if is_piece and lags.may_be_held(ledger, snapshot, expected.held_back):
        return expected.held_back
    if not is_lacking:
        snapshot = replace(snapshot, cash=cash_beside(state, ledger, expected, snapshot))
    return lags.held_of(ledger, snapshot, cash=expected.cash, sooner=expected.sooner)


def cash_beside(
    state: State, ledger: AccountLedger, expected: Expected, snapshot: AccountSnapshot
) -> int:
    """Return the permitted cash by which a read's is measured; what differs is unexplained.

    Money that is held back or was delivered early is so until a read shows otherwise; another
    permitted cash counts if a right brings the rest, or the rest is no more than a fee.
    """
    found, allowed, today = snapshot.cash, expected.explained_cash, local_date(snapshot.at)
    if found in allowed:
        return found
    early = expected.sooner if ledger.early_on == today else 0
    held = expected.held_back if ledger.held_on == today else 0
    usual = expected.cash + early + held
    if usual not in allowed:
        usual = expected.cash
    for each in (usual, *sorted(allowed)):
        if rights.behind(state, snapshot.account, None, found - each):
            return each
    nearest = min(sorted(allowed), key=lambda each: abs(each - found))
    is_fee = abs(found - nearest) * FEE_OF_MOST <= max(allowed) - min(allowed)
    return nearest if is_fee else usual


def note_agreed(ledger: AccountLedger, expected: Expected, snapshot: AccountSnapshot) -> None:
    """Learn from a read whose cash is explained what of it is held back or was delivered early."""
    rest, sooner, held = snapshot.cash - expected.cash, expected.sooner, expected.held_back
    if snapshot.cash in expected.explained_cash:
        today = local_date(snapshot.at)
        ledger.early_on = today if rest and rest in {sooner, sooner + held} else date.min
        ledger.held_on = today if rest and rest in {held, sooner + held} else date.min


# ------------------------------------------------------------------------------------ differences


def _differences(
    expected: Expected, snapshot: AccountSnapshot, held_back: set[str], beside: int
) -> Iterator[Difference]:
    if snapshot.cash != beside:
        yield Difference(None, "cash", beside, snapshot.cash)
    for symbol in sorted({*expected.holdings, *snapshot.holdings}):
        ours, theirs = expected.holdings.get(symbol, NONE), snapshot.held(symbol)
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
