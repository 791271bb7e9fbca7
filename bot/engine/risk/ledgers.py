"""Our own running account: cash and lots by their settlement, from our own fills alone.

The first quiet read of the broker's numbers is the base. From there fills move it: a buy takes cash
at once, what was bought and what a sale brings comes on T+2 at 13:00 (VSDC settlement rules). Every
further quiet read is compared with it; a read is quiet while no own order works, no place is open,
and no fill is newer than its question. Also explained are

  what settles later on the same day (delivery is around midday, sooner than the rule promises),
  buys of the day that the broker holds back and has not yet taken out of its cash,
  shares of before the base, whose date is not known, becoming sellable.

A difference that two reads show alike is noted once, and the broker's numbers become the base. The
broker's rights call may name the corporate action behind it, one difference per right: a dividend
in cash arrives less the tax that is withheld, new shares count from the ex-date on.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from bot.domain.account import AccountSnapshot, Holding
from bot.domain.entry import RunState
from bot.domain.instrument import EXCHANGE_TZ
from bot.engine import gate
from bot.engine.state import State
from bot.engine.tracked import AccountLedger, Flow

_IN_ALL: Final = "in all"
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
        return f"{what}: {expected}, {found}: {self.amount:+,} {unit} that no order here explains"


@dataclass(frozen=True, slots=True)
class Expected:
    """What our fills make of the base at an instant; the sets are the explained values of cash."""

    cash: int
    explained_cash: frozenset[int]
    holdings: dict[str, "Shares"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shares:
    """`sellable` at least, `sellable_max` with what may have come sooner."""

    total: int
    sellable: int
    sellable_max: int
    receiving: int


def reconcile(state: State, snapshot: AccountSnapshot) -> None:
    """Compare a quiet read with our own numbers, or begin them with it."""
    account, ledger = snapshot.account, state.ledgers.get(snapshot.account)
    open_orders = state.open_orders()
    is_busy = any(order.is_own and order.row.account == account for order in open_orders)
    is_busy = is_busy or any(one.intent.account == account for one in state.pending_intents())
    flows = ledger.flows[-1:] if ledger else state.early_flows  # the last one is the newest
    if is_busy or any(flow.account == account and flow.at > snapshot.at for flow in flows):
        return
    if ledger is None:
        ledger = state.ledgers[account] = AccountLedger(snapshot)
        ledger.coming = [flow for flow in state.early_flows if flow.account == account]
        _rebase(ledger, snapshot)
        return
    expected = expected_at(ledger, snapshot.at)
    # Anybody's orders hold shares back where they work.
    held_back = {order.row.symbol for order in open_orders}
    found = tuple(_differences(expected, snapshot, held_back))
    if found and found == ledger.doubt:
        _note(state, account, found)
        _rebase(ledger, snapshot)
        return
    ledger.doubt = found
    is_ours = snapshot.cash == expected.cash and all(
        snapshot.holdings[symbol].sellable == ours.sellable
        for symbol, ours in expected.holdings.items()
        if symbol in snapshot.holdings
    )
    if is_ours and not found:  # exactly ours: begin again from it, so that the fills stay few
        _rebase(ledger, snapshot)


def _rebase(ledger: AccountLedger, snapshot: AccountSnapshot) -> None:
    """The broker's numbers count from here; what is still on its way comes later."""
    moves = [*ledger.coming, *ledger.flows]
    ledger.base, ledger.flows, ledger.doubt = snapshot, [], ()
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
    return Expected(cash, frozenset(explained), shares)


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


def _day(at: datetime) -> object:
    return at.astimezone(EXCHANGE_TZ).date()


# ------------------------------------------------------------------------------------ differences


def _differences(
    expected: Expected, snapshot: AccountSnapshot, held_back: set[str]
) -> Iterator[Difference]:
    if snapshot.cash not in expected.explained_cash:
        yield Difference(None, "cash", expected.cash, snapshot.cash)
    for symbol in sorted({*expected.holdings, *snapshot.holdings} - held_back):
        ours = expected.holdings.get(symbol, Shares(0, 0, 0, 0))
        theirs = snapshot.holdings.get(symbol, Holding(symbol, 0, 0, 0, 0))
        if theirs.total != ours.total:
            yield Difference(symbol, _IN_ALL, ours.total, theirs.total)
            continue
        if not ours.sellable <= theirs.sellable <= ours.sellable_max:
            yield Difference(symbol, "sellable", ours.sellable, theirs.sellable)
        receiving = ours.receiving - (theirs.sellable - ours.sellable)
        if theirs.receiving != receiving:
            yield Difference(symbol, "receiving", receiving, theirs.receiving)


def _note(state: State, account: str, found: Iterable[Difference]) -> None:
    """Note cash and settlement; a total that differs is noted and judged by `accounts`."""
    for difference in found:
        if difference.what == _IN_ALL:
            continue
        is_cash = difference.symbol is None
        named = explanation(state, account, None, difference.amount) if is_cash else ""
        numbers = {
            "expected": difference.expected,
            "found": difference.found,
            "difference": difference.amount,
        }
        state.note("RECONCILE", named or difference.text, numbers, symbol=difference.symbol)
        limit = state.settings.pause_on_cash_difference
        if is_cash and not named and limit is not None and abs(difference.amount) > limit:
            gate.close(state, RunState.PAUSED, difference.text, "engine")


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
