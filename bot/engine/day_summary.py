"""The day in one entry, when it is over: orders, money, what is open and what needs a person."""

from collections.abc import Iterator

from bot.domain.entry import DAY_NOTE, LAST_PRICE, Number, RunState
from bot.domain.instrument import EXCHANGE_TZ
from bot.engine.balances import balances_of
from bot.engine.state import State
from bot.engine.status import BotStatus, status_of


def note_summary(state: State) -> None:
    """Note what has become of the day's orders and money, and what is left for tomorrow."""
    if not state.settings.sums_up_days:
        return
    status, balances = status_of(state), balances_of(state)
    orders = dict(status.orders_today)
    listed = ", ".join(f"{count:,} {name}" for name, count in orders.items())
    realised = sum(each.realised_today for each in status.strategies)
    costs = sum(each.fees_today for each in status.strategies)
    unrealised = sum(each.unrealised or 0 for each in status.positions)
    cash = sum(each.cash for each in balances)
    due = [one for each in balances for one in each.due if one.cash]
    held = [f"{each.symbol} {each.shares:,}" for each in status.positions]
    wanted = list(needs_a_person(state, status))
    count = sum(orders.values())
    parts = [
        f"{count:,} order{'s' * (count != 1)}{f': {listed}' if listed else ''}",
        f"realised {realised - costs:+,} VND after fees and tax {costs:,}",
        f"still open {', '.join(held)}, unrealised {unrealised:+,}" if held else "nothing open",
        f"cash {cash:,}",
        *(f"due {one.cash:,} on {one.at.astimezone(EXCHANGE_TZ):%m-%d %H:%M}" for one in due),
        f"needs you: {'; '.join(wanted)}" if wanted else "nothing waits for you",
    ]
    values = [each.shares * each.last for each in status.positions if each.last is not None]
    numbers: dict[str, Number] = {
        "day": state.trading_date.isoformat(),
        **{f"orders {name}": number for name, number in orders.items()},
        "realised": realised,
        "fees_and_tax": costs,
        "net": realised - costs,
        "unrealised": unrealised,
        "open_positions": len(held),
        "open_value": sum(values),
        "cash": cash,
        "due": sum(one.cash for one in due),
        "needs": "; ".join(wanted),
        **{f"{LAST_PRICE}{one.symbol}": one.last for one in status.positions if one.last},
    }
    state.note(DAY_NOTE, " · ".join(parts), numbers)


def needs_a_person(state: State, status: BotStatus) -> Iterator[str]:
    """Say what does not mend itself until tomorrow, each with what to do."""
    if status.state is RunState.HALTED:
        yield f"HALTED, {status.reason} (bot resume --reason …)"
    for name in state.reconciling.breaks:
        yield f"{name} is not accepted (bot reconcile)"
    for tracked in state.pending_intents():
        name = tracked.intent.intent_id
        yield f"{name} is {tracked.state} (bot order {name})"
    for order in state.open_orders():
        if order.is_own:
            yield f"{order.row.order_id} is shown as open (bot order {order.row.order_id})"
    for symbol in status.halted_symbols:
        yield f"{symbol} is halted (bot resume {symbol})"
    for each in status.strategies:
        if each.state in {"disabled", "paused"}:
            yield f"{each.name} is {each.state} (bot resume --strategy {each.name})"
