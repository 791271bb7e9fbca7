"""What an account's loss of today stops, and strategies that keep filling on one side.

    loss at the limit ─► no entries until tomorrow, open buys are cancelled, exits go out
    at twice the limit ─► the bot is halted, all open orders are cancelled, a person resumes it

The loss includes strategies' trades of today, the move of their shares from the day's reference,
and fees and taxes. It is checked with each fill, each account read, and each requested order.
"""

from collections.abc import Iterator
from datetime import date

from bot.domain.entry import ENTRIES_SCOPE, Fill, Numbers, RunState, StateChanged
from bot.domain.instrument import Instrument, Phase
from bot.domain.order import Intent, Side
from bot.domain.quote import Quote
from bot.domain.rulebook import PPM
from bot.engine import belief, gate
from bot.engine.account_state import DayTrade, Mark
from bot.engine.control_state import Standing
from bot.engine.findings import AVERAGED, frame_around
from bot.engine.flows import is_near
from bot.engine.state import State, StrategyState


def limit_of(state: State, account: str) -> int | None:
    """Return the loss of a day at which entries stop, the tighter of VND and share of NAV. While a
    read differs and no second one has confirmed it, the NAV of the last agreed figures counts; of
    NAVs alone see `NetAssets`.
    """
    limits, ledger = state.settings.account_limits, state.ledgers.get(account)
    found, assets = [limits.max_loss_per_day], state.reconciling.net_assets.get(account)
    if limits.max_loss_nav_ppm is not None and assets is not None:
        counted = assets.counted
        base = ledger.base.net_asset_value if ledger is not None and ledger.doubts else counted
        counted = base if is_near(counted, base) else counted
        found.append(counted * limits.max_loss_nav_ppm // PPM)
    return min((limit for limit in found if limit is not None), default=None)


def nav_of(state: State, account: str) -> int | None:
    """Return the NAV that limits given as a share of it are of: the smaller of the newest read and
    the one that counts, as one that is too large by itself would open them. None before a read.
    """
    snapshot, assets = state.accounts.get(account), state.reconciling.net_assets.get(account)
    if snapshot is None:
        return None
    read = max(0, snapshot.net_asset_value)
    return read if assets is None else min(read, assets.counted)


def is_limited(state: State) -> bool:
    """Whether an account's loss of a day has a limit at all."""
    limits = state.settings.account_limits
    return limits.max_loss_per_day is not None or limits.max_loss_nav_ppm is not None


def objection(state: State, account: str, side: Side) -> str | None:
    """Return why an account's loss holds an order back; None if it does not. Sales are sent."""
    reason = state.usage.of(account).reduced_by if side is Side.BUY else ""
    return f"no entries until tomorrow: {reason}" if reason else None


def mark(state: State, quote: Quote) -> None:
    """Set today's value of a share. Before the day's first phase a quote may still be yesterday's,
    and before the first trade its last price is. One without a reference has the day's.
    """
    reference, known = quote.reference, state.exposure.mark_of(quote.symbol)
    if reference is not None:
        reference = _believed(state, quote, reference)
    elif known is not None:
        reference = known.reference
    if reference is not None and _trades(state, quote.symbol):
        price = quote.last if _has_traded(state, quote, reference) else reference
        state.exposure.mark(quote.symbol, Mark(price, reference))


def _believed(state: State, quote: Quote, reference: int) -> int:
    """Return the reference from which a loss counts. A node that has not rolled its day yet shows
    yesterday's, and what the price moved then would be a loss of today. So one above our last close
    does not count where that is the reference by the rules: nothing that goes ex raises it.
    Elsewhere one above what counts so far does from the second equal quote in a row on.
    """
    known, marked = belief.of(state, quote.symbol), state.exposure.mark_of(quote.symbol)
    counted = marked.reference if marked is not None else known.close
    before, known.shown_reference = known.shown_reference, reference
    if known.is_close_read and known.close is not None and reference > known.close:
        listed = state.instruments.get(quote.symbol)
        instrument = listed or Instrument(quote.symbol, quote.exchange)
        frame = frame_around(state.rules, known, instrument, reference, state.now)
        if frame is not None and frame.of_close is not None:
            return known.close
    if counted is None or reference == before:
        return reference
    return min(counted, reference)


def _has_traded(state: State, quote: Quote, reference: int) -> bool:
    """Return whether the last price is of today, also of a quote that denies it after the first
    trade. One without a volume does not say it: then a price of today in it does, one that has
    moved, or an own fill. Where the reference is the last close, what is not that is of today.
    """
    known = belief.of(state, quote.symbol)
    if known.first_last is None:
        known.first_last = quote.last
    says = bool(quote.volume or quote.open or quote.high) or quote.last != known.first_last
    says |= _is_the_last_close(state, quote, reference)
    known.is_priced |= says or state.exposure.is_traded(quote.symbol)
    has_volume = quote.volume != 0 if quote.volume is not None else known.is_priced
    return has_volume or known.has_traded


def _is_the_last_close(state: State, quote: Quote, reference: int) -> bool:
    """Return whether a reference is the price with which the last day ended: no average, and not
    of a share that goes ex, or may, as nobody could read whether it does.
    """
    known = belief.of(state, quote.symbol)
    may_go_ex = known.are_ex_dates_unread and reference != known.close
    may_go_ex |= state.trading_date in known.ex_dates
    return quote.exchange not in AVERAGED and not may_go_ex


def begin_day(state: State) -> None:
    """A new day begins without the last one's loss."""
    for account, usage in state.usage.all():
        if usage.reduced_by:
            running, scope = RunState.RUNNING, f"{ENTRIES_SCOPE}{account}"
            state.record(
                StateChanged(
                    state.now, RunState.HALTED, running, "a new day", gate.BY_LIMIT, scope=scope
                )
            )
    state.usage.begin_day()
    state.exposure.begin_day()
    for strategy in state.strategies.values():
        for day in strategy.days.values():
            day.begin_day()


def alerts(state: State) -> Iterator[Standing]:
    """Yield which accounts take no entries today, and for which symbols the day's loss is not
    known.
    """
    for _, usage in state.usage.all():
        if usage.reduced_by:
            text = f"REDUCING: nothing is bought until tomorrow ({usage.reduced_by}); sales go on"
            yield Standing("REDUCING", f"{text}. Look at: bot limits", {"why": usage.reduced_by})
    unmarked = sorted(set(state.exposure.unmarked()))
    trading = [each for each in unmarked if each in state.instances and _trades(state, each)]
    unread = [each for each in unmarked if each not in state.instances]
    comes = "Nothing to do: it comes with a quote"
    is_unread = (
        "No strategy of this run trades it, so its quotes are not read any more, and no loss limit "
        "counts it. To have it counted, put it back into a strategy's file, then restart"
    )
    for found, advice in ((trading, comes), (unread, is_unread)):
        if found:
            symbols = ", ".join(found)
            text = f"today's reference is not known for {symbols}: the day's result leaves it out"
            facts: Numbers = {"symbols": symbols, "is_quoted": found is trading}
            yield Standing("DAY_RESULT", f"{text}. {advice}", facts)


def _trades(state: State, symbol: str) -> bool:
    """Return whether a symbol's exchange is not closed, so that quotes are from today."""
    listed = state.instruments.get(symbol)
    return listed is not None and state.phase_of(listed.exchange).phase is not Phase.CLOSED


def count_trade(
    state: State, fill: Fill, strategy: StrategyState | None, trading_date: date
) -> None:
    """Count a fill's effect on the day's result; a fill of an earlier day's order changes what was
    there at the start.
    """
    day = DayTrade() if strategy is None else strategy.days.setdefault(fill.symbol, DayTrade())
    if trading_date != state.trading_date:
        shares = fill.quantity if fill.side is Side.BUY else -fill.quantity
        state.exposure.carry(fill.account, fill.symbol, shares)
        day.begun += shares
        return
    state.exposure.trade(fill)
    day.take(fill)
    if strategy is not None:
        strategy.realised_today += fill.realised
        strategy.fees_today += fill.fee + fill.tax


def is_repeat(fill: Fill, intent: Intent | None) -> bool:
    """Return whether a fill counts as a repeat: the first one of its order, and not of a close,
    whose pieces are one request.
    """
    is_first = fill.order_executed == fill.quantity
    return is_first and not (intent is not None and intent.closes_position)


def count_fill(state: State, strategy: StrategyState, fill: Fill, intent: Intent | None) -> None:
    """Count the first fill of a strategy's order; one order too many on one side of a symbol
    disables it.
    """
    if not is_repeat(fill, intent):
        return
    place = fill.symbol, fill.side
    count = strategy.repeats[place] = strategy.repeats.get(place, 0) + 1
    most, name = strategy.limits.max_repeats, strategy.plan.name
    if most is None or count < most or strategy.state == gate.DISABLED:
        return
    why = f"{count:,} orders filled {fill.side} {fill.symbol} today, at most {most:,}"
    text = (
        f"{name} is disabled: {why} before a person has looked. Its open orders stay, other "
        f"strategies go on. Look at bot fills and bot orders, then: bot strategy enable {name}"
    )
    facts: Numbers = {"strategy": name, "side": fill.side, "symbol": fill.symbol}
    state.alert("STRATEGY_REPEATS", text, {**facts, "count": count, "limit": most})
    gate.switch(state, strategy, gate.DISABLED, why, gate.BY_LIMIT)
