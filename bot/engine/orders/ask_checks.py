"""The checks of an ask to amend or cancel an order: those of its own, then those of a new order.

An amendment changes exactly one field (the exchanges' rule; VNX Decision 17, HOSE Decision 352), a
quantity is the new total. Size and price are judged as if they were new; the limits of position and
money see the order's open part at its new value in the place of the old one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.domain.entry import CheckResult, OrderUpdated
from bot.domain.message import AmendAsked, CancelAsked
from bot.domain.order import OrderType, Side
from bot.engine import gate
from bot.engine.requests import view_of
from bot.engine.risk import checks
from bot.engine.risk.accounts import worst_price
from bot.engine.risk.codes import judged
from bot.engine.risk.sizing import OrderRequest
from bot.engine.state import State
from bot.engine.tracked import AmendStage, StrategyState, TrackedAmend, TrackedOrder


@dataclass(frozen=True, slots=True)
class Case:
    """An ask with its order; `begun` is the amendment itself when it is judged a second time."""

    state: State
    ask: AmendAsked
    order: TrackedOrder
    strategy: StrategyState
    begun: TrackedAmend | None

    @property
    def row(self) -> OrderUpdated:
        """The order as it is known now."""
        return self.order.row

    @property
    def quantity(self) -> int:
        """The total quantity after the amendment."""
        return self.ask.quantity or self.row.quantity

    @property
    def price(self) -> int:
        """The limit after the amendment; LIMIT_ORDER has made sure that there is one."""
        price = self.ask.limit_price or self.row.price
        assert price is not None, "LIMIT_ORDER is checked before"
        return price


# ------------------------------------------------------------------------------------ the order


def find_order(state: State, name: str) -> TrackedOrder | None:
    """Find an order by the broker's id or by ours."""
    tracked = state.intents.get(name)
    return state.orders.get((tracked.order_id or "") if tracked else name)


def open_order(state: State, name: str) -> CheckResult:
    """It is an own order of today that has not ended."""
    order, tracked = find_order(state, name), state.intents.get(name)
    if order is None:
        now_is = f"{tracked.state}, no order at the broker" if tracked else "no order of today"
        return judged("OPEN_ORDER", False, order_id=name, state=now_is)
    row = order.row
    if not order.is_own:
        return judged("OPEN_ORDER", False, order_id=row.order_id, state="not an order of this bot")
    is_todays = row.trading_date == state.trading_date
    now_is = row.state if is_todays else f"of {row.trading_date.isoformat()}"
    return judged(
        "OPEN_ORDER", order.is_open and is_todays, order_id=row.order_id, state=str(now_is)
    )


def judge_cancel(state: State, ask: CancelAsked) -> CheckResult | None:
    """Return why an order cannot be cancelled, None when it can. All that are open always can."""
    if ask.order_id is None:
        return None
    check = open_order(state, ask.order_id)
    return None if check.passed else check


# --------------------------------------------------------------------------------------- amendments


def judge_amend(
    state: State, ask: AmendAsked, begun: TrackedAmend | None = None
) -> tuple[CheckResult, ...]:
    """Try the checks in order; the last result is the refusal when there is one."""
    results = [_enabled(state), _one_field(ask), open_order(state, ask.order_id)]
    refused = next((i for i, one in enumerate(results) if not one.passed), None)
    if refused is not None:
        return tuple(results[: refused + 1])
    case = _case(state, ask, begun)
    if case is None:
        owner = "of a strategy that does not run"
        return (*results[:-1], judged("OPEN_ORDER", False, order_id=ask.order_id, state=owner))
    return (*results, *_judge_case(case))


def _case(state: State, ask: AmendAsked, begun: TrackedAmend | None) -> Case | None:
    order = find_order(state, ask.order_id)
    assert order is not None, "OPEN_ORDER is checked before"
    strategy = state.strategies.get(order.row.strategy or "")
    return Case(state, ask, order, strategy, begun) if strategy is not None else None


def _judge_case(case: Case) -> tuple[CheckResult, ...]:
    results = []
    for check in CHECKS:
        result = check(case)
        if result is not None:
            results.append(result)
            if not result.passed:
                return tuple(results)
    return (*results, *_judge_risk(case))


def _enabled(state: State) -> CheckResult:
    is_on = state.settings.amend_enabled
    return judged("AMEND_ENABLED", is_on, allow_amend="true" if is_on else "false")


def _one_field(ask: AmendAsked) -> CheckResult:
    price, quantity = ask.limit_price, ask.quantity
    is_one = (price is None) is not (quantity is None) and (price or quantity or 0) > 0
    return judged("ONE_FIELD", is_one, price=price, quantity=quantity)


def _limit_order(case: Case) -> CheckResult:
    row = case.row
    is_limit = row.order_type == OrderType.LO and row.price is not None
    return judged("LIMIT_ORDER", is_limit, order_type=row.order_type)


def _change(case: Case) -> CheckResult:
    row, ask = case.row, case.ask
    field, old = ("quantity", row.quantity) if ask.quantity else ("price", row.price)
    new = ask.quantity or ask.limit_price
    return judged("CHANGE", new != old, field=field, old=old, new=new)


def _one_command(case: Case) -> CheckResult:
    order_id = case.row.order_id
    amend = case.state.amends.get(order_id)
    is_amended = amend is not None and amend is not case.begun
    if order_id in case.state.cancels:
        return judged("ONE_COMMAND", False, command="cancel")
    is_busy = is_amended and amend is not None and amend.stage is not AmendStage.OVER
    return judged("ONE_COMMAND", not is_busy, command="amend" if is_busy else None)


def _gate(case: Case) -> CheckResult:
    return judged("GATE", case.state.gate.is_open, state=case.state.gate.state)


def _phase(case: Case) -> CheckResult:
    exchange = case.row.exchange
    assert exchange is not None, "an own order has its intent's exchange"
    phase = case.state.phase_of(exchange).phase
    is_ok = case.state.rulebook.may_amend(exchange, phase)
    return judged("AMEND_PHASE", is_ok, exchange=exchange, phase=phase)


def _above_executed(case: Case) -> CheckResult | None:
    if case.ask.quantity is None:
        return None
    quantity, executed = case.ask.quantity, case.row.executed_quantity
    return judged("ABOVE_EXECUTED", quantity > executed, quantity=quantity, executed=executed)


def _same_lot(case: Case) -> CheckResult | None:
    """Even and odd lots never turn into each other; a quantity of no lot is refused by LOT."""
    exchange, rulebook = case.row.exchange, case.state.rulebook
    assert exchange is not None, "an own order has its intent's exchange"
    old, new = (rulebook.lot_of(exchange, each) for each in (case.row.quantity, case.quantity))
    if case.ask.quantity is None or new is None:
        return None
    return judged("SAME_LOT", old is new, old=old, new=new)


CHECKS: Final[tuple[Callable[[Case], CheckResult | None], ...]] = (
    _limit_order,
    _change,
    _one_command,
    _gate,
    _phase,
    _above_executed,
    _same_lot,
)


# ------------------------------------------------------------------- the checks of a new order

_OF_THE_WHOLE: Final = (
    checks.symbol,
    checks.symbol_halted,
    checks.lot,
    checks.odd_lot,
    checks.max_quantity,
    checks.tick,
    checks.band,
    checks.quote_age,
    checks.price_gap,
    checks.max_order_value,
    checks.max_loss,
    checks.self_cross,
    checks.unknown_orders,
)
_OF_THE_OPEN_PART: Final = (checks.max_position, checks.cash)
_OF_WHAT_IS_MORE: Final = (checks.sellable,)


def _judge_risk(case: Case) -> tuple[CheckResult, ...]:
    """Judge the whole order, then its open part without the old one, then what a sale has more."""
    whole = _request(case)
    view = view_of(case.state, case.strategy, whole)
    open_after = case.quantity - case.row.executed_quantity
    parts = (
        (whole, view, _OF_THE_WHOLE),
        (replace(whole, quantity=open_after), _without(case, view), _OF_THE_OPEN_PART),
        (replace(whole, quantity=open_after - case.order.open_quantity), view, _OF_WHAT_IS_MORE),
    )
    results: list[CheckResult] = []
    for request, seen, tried in parts:
        results += checks.judge(request, seen, case.strategy.limits, tried)
        if results and not results[-1].passed:
            break
    return tuple(results)


def _request(case: Case) -> OrderRequest:
    row = case.row
    return OrderRequest(
        strategy=case.strategy.plan.name,
        account=row.account,
        symbol=row.symbol,
        side=row.side,
        quantity=case.quantity,
        order_type=OrderType.LO,
        limit_price=case.price,
        why=case.ask.reason,
    )


def _without(case: Case, view: checks.View) -> checks.View:
    """Take the order's own reservation out of the view: of cash, fee included, and of position."""
    if case.row.side is Side.SELL or view.cash_free is None:
        return view
    open_now = case.order.open_quantity
    amount = open_now * worst_price(case.state, case.row.symbol, case.row.price)
    reserved = amount + case.state.rulebook.fee(amount)
    return replace(view, position=view.position - open_now, cash_free=view.cash_free + reserved)


def refusal_code(state: State, check: CheckResult) -> str:
    """Return what an ask is refused with: the check, or why the gate is closed."""
    return gate.refusal(state)[0] if check.code == "GATE" else check.code
