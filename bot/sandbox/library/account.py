"""The account calls beyond the day order book: assets, the day's profit, older orders, rights.

All are computed from the house's state: cash, money due, shares, orders.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from bot.domain.local_time import local_date
from bot.domain.order import Side
from bot.protocol.values import account as values
from bot.protocol.words import ALL
from bot.sandbox.api.gatekeeper import Gatekeeper, not_found
from bot.sandbox.exchange.accounts import Account
from bot.sandbox.exchange.obligations import EntitlementKind
from bot.sandbox.house.house import House
from bot.sandbox.library.answer import Asked, percent
from bot.sandbox.library.stocks import DIVIDEND, MEETING, CompanyEvents, Stocks
from bot.sandbox.scenario import AccountScript

PAGE_SIZE: Final = 50
"""Page size of the order history; the document gives none."""
_STATUS_OF_RIGHT: Final = {
    EntitlementKind.CASH_DIVIDEND: ("WAIT_RECEIVE", "MONEY_ALLOTTED", "RECEIVED"),
    EntitlementKind.STOCK_DIVIDEND: ("WAIT_STOCK", "STOCK_ALLOTTED", "RECEIVED"),
    EntitlementKind.BONUS_SHARES: ("WAIT_STOCK", "STOCK_ALLOTTED", "RECEIVED"),
    EntitlementKind.STOCK_RIGHT: ("UNREGISTER", "COMPLETED", "EXPIRED"),
}
"""Register status before the payment or the last day (the status is WAIT_EXECUTED then); status and
register status after it.
"""


@dataclass(frozen=True, slots=True)
class Worth:
    """The worth of an account in VND; `due` is from sales, `cost` what its shares cost."""

    cash: int
    due: int
    secured: int
    shares: int
    cost: int
    dividends: int

    @property
    def net(self) -> int:
        return self.cash + self.due + self.dividends + self.shares


@dataclass(frozen=True, slots=True)
class AccountAnswers:
    house: House
    gate: Gatekeeper
    stocks: Stocks
    events: CompanyEvents

    def _script(self, account_id: str) -> AccountScript:
        for script in self.house.scenario.accounts:
            if script.id == account_id:
                return script
        raise not_found()

    def worth(self, accounts: Iterable[Account], day: date) -> Worth:
        """Return the total worth of accounts, their shares at the latest price."""
        every = [(each.figures(day), each.holdings(day)) for each in accounts]
        held = [view for _, views in every for view in views]
        return Worth(
            cash=sum(figures.cash for figures, _ in every),
            due=sum(sum(figures.receiving) for figures, _ in every),
            secured=sum(figures.secured for figures, _ in every),
            shares=sum(view.total * self.stocks.price(view.symbol) for view in held),
            cost=sum(view.cost for view in held),
            dividends=sum(figures.dividends_due for figures, _ in every),
        )

    def assets_summary(self, asked: Asked) -> object:
        """Answer everything over all sub-accounts."""
        self.gate.check_user(asked.path["user_id"])
        worth = self.worth(self.house.accounts.values(), asked.today)
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

    def pnl_today(self, asked: Asked) -> object:
        """Answer today's result: net assets now less those at today's references."""
        self.gate.check_user(asked.path["user_id"])
        wanted = asked.query["sub-account-id"]
        chosen = [wanted] if wanted != ALL else [each.id for each in self.house.scenario.accounts]
        amount = sum(self._profit(self._script(each).id, asked.today) for each in chosen)
        now = self.worth((self.house.accounts[each] for each in chosen), asked.today).net
        return values.PnlToday(amount, wanted, percent(amount, now - amount) or Decimal(0))

    def _profit(self, account_id: str, day: date) -> int:
        """Return the gain on the shares held this morning and on the day's orders after costs."""
        held = {view.symbol: view.total for view in self.house.accounts[account_id].holdings(day)}
        profit = 0
        for order in self.house.day_order_book.every():
            is_of_day = order.account.id == account_id and local_date(order.placed_at) == day
            if not (is_of_day and order.executed_quantity):
                continue
            sign = 1 if order.side is Side.BUY else -1
            held[order.symbol] = held.get(order.symbol, 0) - sign * order.executed_quantity
            value = order.executed_quantity * self.stocks.price(order.symbol)
            profit += sign * (value - order.executed_amount) - order.fee - order.tax
        moves = (quantity * self.stocks.now(symbol).change for symbol, quantity in held.items())
        return profit + sum(moves)

    def order_history(self, asked: Asked) -> object:
        """Answer a page of orders, newest first; pages after the last are empty."""
        script = self._script(asked.path["sub_account_id"])
        first, last = asked.day("fromDate"), asked.day("toDate")
        assert first is not None, "the table of parameters requires it"
        assert last is not None, "the table of parameters requires it"
        if last < first:
            raise asked.bad("toDate: before fromDate")
        if first > asked.today:
            raise asked.bad("fromDate: in the future")
        status, symbol = asked.query["orderStatus"], asked.query["symbol"].upper()
        switches = self.house.scenario.switches
        found = [
            order
            for order in reversed(self.house.day_order_book.rows())
            if order.account.id == script.id
            and first <= local_date(order.placed_at) <= last
            and not order.is_hidden(asked.at)
            and status in {ALL, order.status(switches)}
            and symbol in {ALL, order.symbol}
        ]
        start = (asked.whole("page") - 1) * PAGE_SIZE
        page = [
            order.row(
                values.PastOrder,
                order_id=order.shown_id,
                account_id=order.account.extended_id,
                transaction_date=local_date(order.placed_at),
                status=order.status(switches),
            )
            for order in found[start : start + PAGE_SIZE]
        ]
        return values.OrderHistory(tuple(page))

    def user_rights(self, asked: Asked) -> object:
        """Answer the rights from the scenario's corporate actions and from older ones, newest
        first.

        The older ones, for the shares held at the start, are finished: what was paid and allotted
        is already in cash and holdings, so the ledger does not contain them.
        """
        script = self._script(asked.path["sub_account_id"])
        older = (
            values.UserRight(
                type=event.kind,
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
                **self._holding(script, event.symbol, owned),
            )
            for symbol, owned in script.holdings.items()
            for event in self.events.past(symbol)
            if event.kind != MEETING and event.paid_on < self.stocks.first_day
        )
        promised = []
        for each in self.house.accounts[script.id].entitlements():
            paid = local_date(each.at)
            before, *after = _STATUS_OF_RIGHT[each.kind]
            status, register_status = after if each.is_over else ("WAIT_EXECUTED", before)
            right = values.UserRight(
                type=each.kind.value,
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
                **self._holding(script, each.symbol, each.owned),
            )
            promised.append(right)
        found = [right for right in (*older, *promised) if _is_wanted(right, asked)]
        return tuple(sorted(found, key=_report_date, reverse=True))

    def _holding(self, script: AccountScript, symbol: str, owned: int) -> dict[str, Any]:
        """The fields of a right that give the holder, the holding and the prices."""
        board, now = self.stocks.board(symbol), self.stocks.now(symbol)
        return {
            "account_id": script.id,
            "depository_number": script.depository_number,
            "full_name": script.name,
            "symbol": symbol,
            "stock_name": self.stocks.name(symbol),
            "owned": owned,
            "total_volume": owned,
            "total_value": owned * now.price,
            "reference_price": board.reference,
            "close_price": now.price,
            "ceiling_price": board.ceiling,
            "floor_price": board.floor,
            "predicted_price": board.reference,
            "change_price": now.change,
        }


def _report_date(right: values.UserRight) -> date:
    assert right.report_date is not None, "every right here has one"
    return right.report_date


def _is_wanted(right: values.UserRight, asked: Asked) -> bool:
    reported, first, last = _report_date(right), asked.day("fromDate"), asked.day("toDate")
    kinds, statuses = asked.items("catType"), asked.items("status")
    return (
        (first is None or first <= reported)
        and (last is None or reported <= last)
        and not {ALL, right.type}.isdisjoint(kinds)
        and not {ALL, right.status, right.register_status}.isdisjoint(statuses)
        and asked.query["symbol"].upper() in {ALL, right.symbol}
    )
