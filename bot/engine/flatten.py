"""Sells what the strategies hold after a halt, if a person has requested that too.

    halted, own orders cancelled ─► one sale at a time of each symbol ─► filled ─► the rest
                                        └─ cancelled after 30 s: again, at the bid of then

It is the only exception to a halt: these sales, identified by their intents, pass the gate, the
brake and the journal's own check, and nothing else does. All other checks apply. A sale is priced
at the best bid, or in an auction and after the close uses the order type of then; whole lots first,
an odd lot separately, which always has a price. What cannot be sold now is named, with reason and
time, and retried. A resume, a pause, or a halt without this request ends it; a restart continues
it.

A sale that a person cancels, here or in the broker's own app, is the last one of its strategy and
symbol: the rest is named, and kept until a person requests a flatten again.

It sells what the bot has bought and may sell: the positions of strategies that trade in this run.
Shares of a watching strategy, of one that does not run, and of no strategy are named and left
alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from bot.domain.entry import FLATTEN_NOTE, Numbers, RunState
from bot.domain.instrument import (
    BOARD_LOT,
    EXCHANGE_TZ,
    PHASE_WORDS,
    Exchange,
    Instrument,
    Lot,
    Phase,
)
from bot.domain.local_time import clock_of
from bot.domain.order import Intent, OrderType, SendState, Side
from bot.domain.plan import StrategyMode
from bot.domain.recovery import StoredFlatten
from bot.engine import gate, requests
from bot.engine.control_state import Flattening, Standing
from bot.engine.orders.unattended import shares_left
from bot.engine.risk import sizing
from bot.engine.risk.accounts import Means, means_of
from bot.engine.risk.checks import other_orders
from bot.engine.risk.sizing import OrderRequest, request_of
from bot.engine.state import State, StrategyState
from bot.strategy import Request, RequestKind

WORKS: Final = timedelta(seconds=30)
"""How long a sale works at its price."""
AGAIN: Final = timedelta(seconds=10)
"""How long until the next check whether something can be sold."""
AFTER_A_CAUSE: Final = timedelta(seconds=1)
"""The same while something besides the halt closes the gate: a start, a missing token."""
AFTER_A_REFUSAL: Final = timedelta(seconds=60)
"""The same after a check has refused it."""
SALES_MAX: Final = 50
"""Consecutive sales without a fill, per strategy and symbol; after that a person has to sell."""
WITHOUT_PRICE: Final = {
    Phase.OPEN: OrderType.ATO,
    Phase.PRE_CLOSED: OrderType.ATC,
    Phase.POST_SESSION: OrderType.PLO,
}
"""What it sells by outside continuous trading, where the exchange takes that: of an odd lot nothing
but a price.
"""
PHASES_MAX: Final = 20
"""How many phases ahead the next sale is looked for."""
_ON_ITS_WAY: Final = frozenset({SendState.READY, SendState.SENDING})
_AGAIN: Final = "bot halt --flatten"
_LEFT_OUT: Final = f"left out, as its sale was cancelled by hand. To sell it: {_AGAIN}"
_GIVEN_UP: Final = f"{SALES_MAX} sales in a row sold nothing: sell in the broker's own app"
_ENDED: Final = frozenset({_LEFT_OUT, _GIVEN_UP})
"""Why it is not tried any more; what a person can do is in the words."""


def begin(state: State, reason: str, by: str) -> None:
    """Start selling."""
    state.gate.flattening = flattening = Flattening(reason, by, state.now)
    text = f"sells what the strategies hold, asked for by {by}{f': {reason}' if reason else ''}"
    _note(state, text, _wanted(flattening))


def end(state: State, why: str) -> None:
    """Stop selling; what is still held is kept."""
    if state.gate.flattening is not None:
        state.gate.flattening = None
        _note(state, f"ended by {why}: {_kept(state)}", {"is_over": True})


def take_up(state: State, stored: StoredFlatten) -> None:
    """Continue after a restart, unless somebody has made a plain halt since; what is left is
    reported then, and also if that cannot be determined.
    """
    if not stored.is_allowed:
        why = "a halt came since, or another machine took over"
        text = f"not continued, because {why}: {_kept(state)}. To sell it: {_AGAIN}"
        _note(state, text, {"is_over": True})
        state.alert("FLATTEN_ENDED", f"flatten {text}", {"left": _kept(state)})
        return
    flattening = Flattening(stored.reason, stored.by, stored.since, left_out=set(stored.left_out))
    state.gate.flattening = flattening
    text = f"goes on after the restart, asked for by {stored.by}: {_kept(state)}"
    _note(state, f"{text}. To end it: bot halt", _wanted(flattening))


def leave_out(state: State, sale: Intent, by: str) -> None:
    """A person cancels an order: if it is one of these sales, its symbol is not sold any more."""
    flattening, key = state.gate.flattening, (sale.strategy, sale.symbol)
    if flattening is None or sale.side is not Side.SELL or key in flattening.left_out:
        return
    if sale.created_at >= flattening.since:  # only these sales have passed the halt since then
        flattening.left_out.add(key)
        flattening.due.pop(key, None)
        flattening.left[key] = _LEFT_OUT
        text = f"sells no more {sale.symbol} of {sale.strategy}: {by} has cancelled its sale"
        _note(state, text, _wanted(flattening))


def advance(state: State) -> None:
    """Sell what can be sold, as far as it is due."""
    flattening = state.gate.flattening
    if flattening is None:
        return
    while flattening.taken_back:
        tracked = state.intents.get(flattening.taken_back.pop())
        if tracked is None:
            continue  # the order history has shown the end of an earlier day's: that is forgotten
        sale = tracked.intent
        # An auction's own orders end as cancelled by its rules; resting orders with a price do not.
        is_resting = state.phase_of(sale.exchange).phase is Phase.PROGRESS
        if is_resting and sale.order_type is OrderType.LO:
            leave_out(state, sale, "somebody in the broker's own app")
    held = [(one, symbol) for one in _trading(state) for symbol in _held(one)]
    for strategy, symbol in held:
        key = strategy.plan.name, symbol
        if key in flattening.left_out:
            flattening.left[key] = _LEFT_OUT
        elif flattening.due.get(key, state.now) <= state.now:
            flattening.due[key] = state.now + AGAIN
            flattening.left[key] = _sell(state, flattening, strategy, symbol)
    for key in flattening.left.keys() - {(one.plan.name, symbol) for one, symbol in held}:
        flattening.due.pop(key, None)
        del flattening.left[key]
    if not held and state.is_reconciled and not state.cancels and not state.pending_intents():
        state.gate.flattening = None
        text = "the strategies hold nothing any more; the bot stays HALTED"
        others = "; ".join(_not_ours(state))
        numbers: Numbers = {"is_over": True, "not_sold": others}
        _note(state, f"{text}. Not sold: {others}" if others else text, numbers)


def alerts(state: State) -> Iterator[Standing]:
    """Yield what is still held, and why, and what is left alone."""
    flattening = state.gate.flattening
    if flattening is None:
        return
    for (name, symbol), why in flattening.left.items():
        shares = state.strategies[name].position(symbol).shares
        sale, now_is = _sale_at_work(state, name, symbol), "ENDED"
        text = f"flatten: {name} still holds {shares:,} {symbol}: {why}"
        if sale:
            now_is = "WORKS"
            text += f". {sale} may sell at any moment: before you sell in the broker's own app, "
            text += f"end it, or the shares are sold twice: bot cancel {sale}"
        elif why not in _ENDED:
            now_is = "TRIED"
            text += ". The bot goes on trying; if it must go now, sell it in the broker's own app"
        facts: Numbers = {"strategy": name, "symbol": symbol, "shares": shares, "why": why}
        yield Standing("FLATTEN", text, {**facts, "now_is": now_is, "sale": sale})
    if others := "; ".join(_not_ours(state)):
        text = f"flatten does not sell {others}: sell it in the broker's own app"
        yield Standing("FLATTEN_LEAVES", text, {"left": others})


def _sale_at_work(state: State, name: str, symbol: str) -> str:
    """Return the name of a sale of a strategy that is open, or may be; empty if there is none."""
    for order in state.working_orders(name, symbol):
        if order.row.side is Side.SELL:
            return order.name
    for tracked in state.index.pending_in.of(symbol):
        if tracked.intent.strategy == name and tracked.intent.side is Side.SELL:
            return tracked.intent.intent_id
    return ""


def _note(state: State, text: str, numbers: Numbers) -> None:
    """Journal the progress: a start continues from the newest note."""
    state.note(FLATTEN_NOTE, text, numbers)


def _wanted(flattening: Flattening) -> Numbers:
    """The state from which a restart continues."""
    left_out = ";".join(sorted(f"{symbol} {name}" for name, symbol in flattening.left_out))
    facts: Numbers = {"by": flattening.by, "reason": flattening.reason, "is_over": False}
    return {**facts, "since": flattening.since.isoformat(), "left_out": left_out}


def _kept(state: State) -> str:
    """`the strategies hold 300 HPG, 100 FPT`."""
    held = [(one, symbol) for one in _trading(state) for symbol in _held(one)]
    shares = ", ".join(f"{one.position(symbol).shares:,} {symbol}" for one, symbol in held)
    return f"the strategies hold {shares or 'nothing'}"


def _not_ours(state: State) -> Iterator[str]:
    """Yield what the accounts hold that is not sold, and whose it is."""
    owned: dict[tuple[str, str], int] = {}
    for one in state.strategies.values():
        for symbol, position in one.positions.items():
            key = one.plan.account, symbol
            owned[key] = owned.get(key, 0) + position.shares
            if one.plan.mode is StrategyMode.WATCH and position.shares > 0:
                yield f"{position.shares:,} {symbol} of {one.plan.name}, which only watches"
    unloaded: dict[str, int] = {}
    for (name, symbol), position in sorted(state.unloaded.items()):
        if position.shares > 0:
            unloaded[symbol] = unloaded.get(symbol, 0) + position.shares
            yield f"{position.shares:,} {symbol} of {name}, which does not run"
    for account in sorted({one.plan.account for one in state.strategies.values()}):
        for symbol, shares in sorted(state.exposure.of(account).held.items()):
            others = shares - owned.get((account, symbol), 0) - unloaded.get(symbol, 0)
            if others > 0:
                yield f"{others:,} {symbol} that no strategy of this run has bought"


def _trading(state: State) -> list[StrategyState]:
    return [one for one in state.strategies.values() if one.plan.mode is StrategyMode.TRADE]


def _held(strategy: StrategyState) -> list[str]:
    return [symbol for symbol, position in strategy.positions.items() if position.shares > 0]


def _sell(state: State, flattening: Flattening, strategy: StrategyState, symbol: str) -> str:
    """Sell what may be sold of a symbol now; return why something is still held."""
    key = strategy.plan.name, symbol
    if (why := _held_back(state, flattening, strategy, key)) is not None:
        return why
    instrument = state.instruments.get(symbol)
    if instrument is None:
        return "no strategy trades it any more: sell it in the broker's own app"
    means = means_of(state, strategy, symbol)
    left = shares_left(state, strategy, symbol)  # others' are not sold as this one's
    means = replace(means, sellable=min(means.sellable, left))
    ending = (state.orders[each] for each in state.cancels)
    is_held = any(each.row.symbol == symbol and each.holds_sales(state.now) for each in ending)
    if means.is_working or is_held:
        return "an order of it works, or a cancel is not through"
    if _is_given_up(flattening, key, strategy.position(symbol).shares):
        return _GIVEN_UP
    # Nothing has settled, so it is not the time of day that prevents a sale.
    request = _request(state, instrument, means) if means.sellable else Request(RequestKind.CLOSE)
    if isinstance(request, str):
        return request
    if (skipped := requests.reason_to_skip(state, strategy, symbol, request, means)) is not None:
        return skipped[1]
    why = f"flatten by {flattening.by}{f': {flattening.reason}' if flattening.reason else ''}"
    order = request_of(state, strategy, symbol, request, means, why)
    if not isinstance(order, OrderRequest):
        return f"{order.code} {order.numbers.get('reason', '')}".strip()
    if (buyer := _meets_on_its_way(state, strategy, order, means)) is not None:
        return f"a buy of {buyer} is on its way"  # the halt stops it, or cancels it once it arrives
    if (opens := sizing.sales_open_at(state, order.account)) is not None:
        flattening.due[key] = opens
        return f"sales go out again at {clock_of(opens)}"
    order = sizing.piece_of(state, strategy, order)
    expire_after = WORKS if order.limit_price is not None else None
    order = replace(order, is_flattening=True, expire_after=expire_after)
    if (twin := requests.twin_of(state, order)) is not None:
        window = state.settings.duplicate_window
        again = state.intents[twin].intent.created_at + window
        # until then only a new price makes a sale possible, which is checked too
        if again > state.now:
            flattening.due[key] = min(again, flattening.due[key])
        equal = f"{twin} was equal, less than {window.total_seconds():.0f} s ago"
        return f"{equal}; again from {clock_of(again)}, or at a new bid"
    intent_id = requests.next_id(state)
    flattening.intents.add(intent_id)
    if requests.submit(state, strategy, order, means) is None:
        flattening.intents.discard(intent_id)
        flattening.due[key] = state.now + AFTER_A_REFUSAL
        return f"{intent_id} was refused by a check: bot decisions --why-not {symbol}"
    flattening.sales[key] = flattening.sales.get(key, 0) + 1
    return f"{intent_id} sells {order.quantity:,}"


def _held_back(
    state: State, flattening: Flattening, strategy: StrategyState, key: tuple[str, str]
) -> str | None:
    """Return what holds back every sale; None if nothing does. The bot's figures are no basis for
    selling once it has contradicted itself; a person who requests it after that knows of the fault.
    """
    others = [each for each in state.gate.causes if each is not RunState.HALTED]
    if others:
        flattening.due[key] = state.now + AFTER_A_CAUSE
        return f"the bot is {others[0]} too ({state.gate.causes[others[0]].reason})"
    broken = (one for one in state.faults.values() if one.fault.invariant)
    if any(one.at >= flattening.since for one in broken):
        return f"what the bot believes contradicts itself: bot status. To sell anyway: {_AGAIN}"
    if (halted := gate.scope_objection(state, strategy.plan.account, Side.SELL)) is not None:
        return f"no order of its account is sent: {halted[1]}"
    return None


def _is_given_up(flattening: Flattening, key: tuple[str, str], shares: int) -> bool:
    """Return whether so many sales in a row have sold nothing; one that sells something resets the
    count.
    """
    if shares < flattening.last_held.setdefault(key, shares):
        flattening.sales[key], flattening.last_held[key] = 0, shares
    return flattening.sales.get(key, 0) >= SALES_MAX


def _meets_on_its_way(
    state: State, strategy: StrategyState, order: OrderRequest, means: Means
) -> str | None:
    """Return whose buy is leaving that a sale could trade with; None if there is none."""
    leaving = (one.intent for one in means.pending if one.state in _ON_ITS_WAY)
    buyers = {one.intent_id: one.strategy for one in leaving if one.side is Side.BUY}
    if not buyers:
        return None
    view = requests.view_of(state, strategy, order, means)
    found = (each for each in other_orders(order, view, strategy.limits) if not each.passed)
    return next((buyers[name] for each in found if (name := each.numbers["other"]) in buyers), None)


def _request(state: State, instrument: Instrument, means: Means) -> Request | str:
    """Return how a symbol can be sold now, else why not, and when."""
    exchange, symbol = instrument.exchange, instrument.symbol
    announced = state.phase_of(exchange)
    phase = announced.phase
    lot = Lot.EVEN if means.sellable >= BOARD_LOT else Lot.ODD
    accepted = announced.taken(state.rulebook, exchange, lot)
    market = WITHOUT_PRICE.get(phase)
    if market in accepted:
        return Request(RequestKind.CLOSE, market=market)
    # As an auction begins the broker may not take its type yet.
    if not (phase is Phase.PROGRESS or market) or OrderType.LO not in accepted:
        opens = _sold_from(state, exchange, lot).astimezone(EXCHANGE_TZ)
        what = "an odd lot" if lot is Lot.ODD else "it"
        is_today = opens.date() == state.now.astimezone(EXCHANGE_TZ).date()
        when = f"{opens:%H:%M}" if is_today else f"{opens:%m-%d %H:%M}"
        return f"{exchange} takes no sale of {what} now ({PHASE_WORDS[phase]}); from {when}"
    quote, seen = state.quotes.get(symbol), state.depths.get(symbol)
    if quote is None or state.now - quote.at > state.settings.max_quote_age:
        return "no fresh quote to price it by"
    lower = state.rulebook.ticks_of(instrument).down(quote.quote.last)
    limit = max(lower, quote.quote.floor or 0)
    if seen is not None and state.now - seen.at <= state.settings.max_depth_age:
        if seen.depth.bid is None:
            return "nobody bids for it: at its floor it can only wait"
        # In an auction bids may stand far above the price that comes out.
        limit = min(seen.depth.bid, limit) if market else seen.depth.bid
    return Request(RequestKind.CLOSE, limit=limit)


def _sold_from(state: State, exchange: Exchange, lot: Lot) -> datetime:
    """Return when, by the timetable, the next phase begins in which such a lot can be sold."""
    rulebook = state.rulebook
    boundary = rulebook.next_phase_change(exchange, state.now)
    for _ in range(PHASES_MAX):
        is_used = boundary.phase is Phase.PROGRESS or boundary.phase in WITHOUT_PRICE
        if is_used and rulebook.accepted_types(exchange, boundary.phase, lot):
            break
        boundary = rulebook.next_phase_change(exchange, boundary.at)
    return boundary.at
