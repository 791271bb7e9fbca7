"""The account beyond its day order book: assets, the day's profit, older orders, rights.

All of it is reckoned from the ledger's own state: cash, money due, shares, orders.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Final

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.order import Side
from bot.protocol.values import account as values
from bot.protocol.words import ALL
from bot.sandbox.api.gatekeeper import Gatekeeper, not_found
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.entitlement import Entitlement, EntitlementKind
from bot.sandbox.house.house import House
from bot.sandbox.house.order_record import OrderRecord
from bot.sandbox.library.asked import Answer, Asked
from bot.sandbox.library.corporate import DIVIDEND, MEETING, CompanyEvent, CompanyEvents
from bot.sandbox.library.days import local_day
from bot.sandbox.library.figures import percent
from bot.sandbox.library.stocks import Stocks
from bot.sandbox.scenario import AccountScript

PAGE_SIZE: Final = 50
"""Of the order history; the document shows no size."""
_STANDING: Final[Mapping[tuple[EntitlementKind, bool], tuple[str, str]]] = {
    (EntitlementKind.CASH_DIVIDEND, False): ("WAIT_EXECUTED", "WAIT_RECEIVE"),
    (EntitlementKind.CASH_DIVIDEND, True): ("MONEY_ALLOTTED", "RECEIVED"),
    (EntitlementKind.STOCK_DIVIDEND, False): ("WAIT_EXECUTED", "WAIT_STOCK"),
    (EntitlementKind.STOCK_DIVIDEND, True): ("STOCK_ALLOTTED", "RECEIVED"),
    (EntitlementKind.BONUS_SHARES, False): ("WAIT_EXECUTED", "WAIT_STOCK"),
    (EntitlementKind.BONUS_SHARES, True): ("STOCK_ALLOTTED", "RECEIVED"),
    (EntitlementKind.STOCK_RIGHT, False): ("WAIT_EXECUTED", "UNREGISTER"),
    (EntitlementKind.STOCK_RIGHT, True): ("COMPLETED", "EXPIRED"),
}
"""Status and register status before and after the payment or the last day."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What an account has, in VND; `due` from sales, `cost` is what its shares cost."""

    cash: int = 0
    due: int = 0
    secured: int = 0
    shares: int = 0
    cost: int = 0
    dividends: int = 0

    def __add__(self, other: "Worth") -> "Worth":
        return Worth(
            self.cash + other.cash,
            self.due + other.due,
            self.secured + other.secured,
            self.shares + other.shares,
            self.cost + other.cost,
            self.dividends + other.dividends,
        )

    @property
    def net(self) -> int:
        """All of it."""
        return self.cash + self.due + self.dividends + self.shares


class AccountAnswers:
    """Answers about one user's money."""

    def __init__(
        self, house: House, gate: Gatekeeper, stocks: Stocks, events: CompanyEvents
    ) -> None:
        self._house = house
        self._gate = gate
        self._stocks = stocks
        self._events = events
        self._scripts = {script.id: script for script in house.scenario.accounts}

    def answers(self) -> Mapping[str, Answer]:
        """Return what answers each call, by its name."""
        return {
            "assets_summary": self.assets,
            "pnl_today": self.pnl_today,
            "order_history": self.order_history,
            "user_rights": self.user_rights,
        }

    def _check_user(self, asked: Asked) -> None:
        self._gate.check_user(asked.path["user_id"])

    def _script(self, account_id: str) -> AccountScript:
        found = self._scripts.get(account_id)
        if found is None:
            raise not_found()
        return found

    # ------------------------------------------------------------------------------- assets

    def worth(self, account: Account, day: date) -> Worth:
        """Return what an account has now, its shares at the latest price."""
        figures, held = account.figures(day), account.holdings(day)
        shares = sum(view.total * self._stocks.price(view.symbol) for view in held)
        return Worth(
            figures.cash,
            sum(figures.receiving),
            figures.secured,
            shares,
            sum(view.cost for view in held),
            figures.dividends_due,
        )

    def _all(self, accounts: Iterable[Account], day: date) -> Worth:
        return sum((self.worth(account, day) for account in accounts), Worth())

    def assets(self, asked: Asked) -> object:
        """Answer everything over all sub-accounts."""
        self._check_user(asked)
        worth = self._all(self._house.accounts.values(), asked.today)
        profit = worth.shares - worth.cost
        return values.AssetsSummary(
            net_asset_value=worth.net,
            products=values.ProductAssets(total=worth.shares, stock=worth.shares),
            money=values.MoneyAssets(
                total=worth.cash + worth.due + worth.dividends,
                ci_balance=worth.cash,
                ca_receiving=worth.dividends,
                receiving_amt=worth.due,
                withdrawable=worth.cash - worth.secured,
            ),
            debt=values.Debts(secure_amount=worth.secured),
            pnl=values.Profits(
                values.Profit(profit, percent(profit, worth.cost) or Decimal(0)),
                values.Profit(0, Decimal(0)),
            ),
        )

    # ------------------------------------------------------------------------ the day's profit

    def pnl_today(self, asked: Asked) -> object:
        """Answer what today has brought: net assets now less those at today's references."""
        self._check_user(asked)
        wanted = asked.query["sub-account-id"]
        chosen = self._scripts if wanted == ALL else {wanted: self._script(wanted)}
        amount = sum(self._profit(account_id, asked.today) for account_id in chosen)
        now = self._all((self._house.accounts[each] for each in chosen), asked.today).net
        return values.PnlToday(amount, wanted, percent(amount, now - amount) or Decimal(0))

    def _profit(self, account_id: str, day: date) -> int:
        held = {view.symbol: view.total for view in self._house.accounts[account_id].holdings(day)}
        profit = 0
        for order in self._traded(account_id, day):
            price, is_buy = self._stocks.price(order.symbol), order.side is Side.BUY
            sign = 1 if is_buy else -1
            held[order.symbol] = held.get(order.symbol, 0) - sign * order.executed_quantity
            gain = sign * (order.executed_quantity * price - order.executed_amount)
            profit += gain - order.fee - order.tax
        return profit + sum(quantity * self._change(symbol) for symbol, quantity in held.items())

    def _change(self, symbol: str) -> int:
        return self._stocks.price(symbol) - self._stocks.board(symbol).reference

    def _traded(self, account_id: str, day: date) -> list[OrderRecord]:
        """Return the orders of a day that have traded."""
        return [
            order
            for order in self._house.day_order_book.every()
            if order.account.id == account_id
            and local_day(order.placed_at) == day
            and order.executed_quantity
        ]

    # ------------------------------------------------------------------------- order history

    def order_history(self, asked: Asked) -> object:
        """Answer a page of orders, newest first; behind the last page it is empty."""
        script = self._script(asked.path["sub_account_id"])
        first, last = asked.day("fromDate"), asked.day("toDate")
        assert first is not None, "the table of parameters requires it"
        assert last is not None, "the table of parameters requires it"
        if last < first:
            raise asked.bad("toDate: before fromDate")
        if first > asked.today:
            raise asked.bad("fromDate: in the future")
        found = [
            order
            for order in reversed(self._house.day_order_book.every())
            if order.account.id == script.id
            and first <= local_day(order.placed_at) <= last
            and self._is_wanted(order, asked)
        ]
        start = (asked.whole("page") - 1) * PAGE_SIZE
        page = found[start : start + PAGE_SIZE]
        return values.OrderHistory(tuple(map(self._past_order, page)))

    def _is_wanted(self, order: OrderRecord, asked: Asked) -> bool:
        status, symbol = asked.query["orderStatus"], asked.query["symbol"].upper()
        is_shown = not order.is_hidden(asked.at)
        is_of_status = status in {ALL, order.status(self._house.scenario.switches)}
        return is_shown and is_of_status and symbol in {ALL, order.symbol}

    def _past_order(self, order: OrderRecord) -> values.PastOrder:
        return values.PastOrder(
            order_id=order.order_id,
            symbol=order.symbol,
            account_id=order.account.extended_id,
            transaction_date=order.placed_at.astimezone(EXCHANGE_TZ).date(),
            side=order.side,
            quantity=order.quantity,
            limit_price=order.limit_price,
            market_price=order.market_price,
            executed_quantity=order.executed_quantity,
            average_price=order.average_price,
            status=order.status(self._house.scenario.switches),
            fee=order.fee,
            tax=order.tax,
            executed_amount=order.executed_amount,
            order_type=order.order_type,
        )

    # -------------------------------------------------------------------------------- rights

    def user_rights(self, asked: Asked) -> object:
        """Answer the rights of the scenario's corporate actions, and of older ones, newest first.

        The older ones, those of the shares held at the start, are over: what was paid and allotted
        then is in cash and holdings, so the ledger has nothing to do with them.
        """
        script = self._script(asked.path["sub_account_id"])
        account = self._house.accounts[script.id]
        older = (
            self._right(script, event)
            for symbol in script.holdings
            for event in self._events.past(symbol)
            if event.kind != MEETING and event.paid_on < self._stocks.first_day
        )
        promised = (self._promised(script, each) for each in account.entitlements())
        found = [right for right in (*older, *promised) if _is_right_wanted(right, asked)]
        return tuple(sorted(found, key=_report_date, reverse=True))

    def _promised(self, script: AccountScript, each: Entitlement) -> values.UserRight:
        paid = local_day(each.at)
        status, register_status = _STANDING[each.kind, each.is_over]
        right = values.UserRight(
            symbol=each.symbol,
            type=each.kind.value,
            owned=each.owned,
            ratio=each.ratio,
            status=status,
            register_status=register_status,
            master_id=each.number,
            amount=each.dividend,
            waiting_stock=0 if each.is_over else each.shares,
            waiting_amount=0 if each.is_over else each.net,
            buy_price=each.price,
            may_register=False,
            stocks_to_buy=each.offered,
            pay_amount=each.offered * each.price,
            start_date=each.ex_date,
            finish_date=paid,
            action_date=each.ex_date,
            report_date=paid if each.is_over else each.ex_date,
            is_read=each.is_over,
        )
        return self._priced(right, script)

    def _right(self, script: AccountScript, event: CompanyEvent) -> values.UserRight:
        owned = script.holdings[event.symbol]
        right = values.UserRight(
            symbol=event.symbol,
            type=event.kind,
            owned=owned,
            ratio=event.ratio,
            status="COMPLETED",
            register_status="RECEIVED",
            master_id=f"{event.ex_date:%y%m%d}",
            amount=owned * DIVIDEND if event.kind == "CASH_DIVIDEND" else 0,
            start_date=event.ex_date,
            finish_date=event.paid_on,
            action_date=event.ex_date,
            report_date=event.paid_on,
            is_read=True,
        )
        return self._priced(right, script)

    def _priced(self, right: values.UserRight, script: AccountScript) -> values.UserRight:
        board, price = self._stocks.board(right.symbol), self._stocks.price(right.symbol)
        return replace(
            right,
            account_id=script.id,
            depository_number=script.depository_number,
            full_name=script.name,
            stock_name=self._stocks.name(right.symbol),
            total_volume=right.owned,
            total_value=right.owned * price,
            reference_price=board.reference,
            close_price=price,
            ceiling_price=board.ceiling,
            floor_price=board.floor,
            predicted_price=board.reference,
            change_price=price - board.reference,
        )


def _report_date(right: values.UserRight) -> date:
    assert right.report_date is not None, "every right here has one"
    return right.report_date


def _is_right_wanted(right: values.UserRight, asked: Asked) -> bool:
    reported, first, last = _report_date(right), asked.day("fromDate"), asked.day("toDate")
    is_in = (first is None or first <= reported) and (last is None or reported <= last)
    kinds, statuses = asked.items("catType"), asked.items("status")
    return (
        is_in
        and _has(kinds, right.type)
        and (_has(statuses, right.status) or _has(statuses, right.register_status))
        and asked.query["symbol"].upper() in {ALL, right.symbol}
    )


def _has(words: Sequence[str], word: str) -> bool:
    return ALL in words or word in words
