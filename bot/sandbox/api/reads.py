"""The reads answered from exchanges and accounts.

Quote, depth and phase need only the API key; foreign shares, which nobody trades here, use the same
quote path. User, sub-accounts, day order book, portfolio and cash are the account side.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from bot.domain.account import SubAccount
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.domain.order import OrderType, Side
from bot.domain.quote import Quote
from bot.protocol.accounts import (
    encode_available_trade,
    encode_portfolio,
    encode_sub_accounts,
    encode_summary,
    encode_user,
)
from bot.protocol.day_order_book import RowDetail, encode_order_row, encode_todays_orders
from bot.protocol.quotes import encode_depth, encode_market_phase, encode_quote
from bot.protocol.values.border import (
    AccountSummary,
    AvailableTrade,
    MarketPhase,
    Portfolio,
    PortfolioRow,
    User,
)
from bot.sandbox.api.call import Call
from bot.sandbox.api.gatekeeper import Gatekeeper, no_depth, not_found
from bot.sandbox.api.variants import with_auction_levels
from bot.sandbox.errors import OrderUnknown
from bot.sandbox.exchange.obligations import Buckets, age_of, delivery_of
from bot.sandbox.house.house import House
from bot.sandbox.house.order_record import OrderRecord
from bot.sandbox.scenario import AccountScript, Scenario, SymbolScript

_OF_AUCTIONS: Final = frozenset({OrderType.ATO, OrderType.ATC})
_OF_MATCHING: Final = frozenset({OrderType.MP, OrderType.MTL, OrderType.MOK, OrderType.MAK})
_NOT_NOW: Final[Mapping[Phase, frozenset[OrderType]]] = {
    Phase.OPEN: _OF_MATCHING | {OrderType.ATC},
    Phase.PROGRESS: _OF_AUCTIONS,
    Phase.BREAK: _OF_AUCTIONS | _OF_MATCHING,
}
"""What the narrow reading of the broker's table does not list in a phase."""


class MarketReads:
    """Answers from the exchange core.

    `foreign` answers the quote of a share of another exchange, None for anything else.
    """

    def __init__(
        self, house: House, gate: Gatekeeper, *, foreign: Callable[[Call], object | None]
    ) -> None:
        self._foreign = foreign
        self._switches = house.scenario.switches
        self._symbols = {script.symbol: script for script in house.scenario.symbols}
        self._rulebook = house.rulebook
        self._venue = house.venue
        self._gate = gate

    def stock_quote(self, call: Call) -> object:
        """Answer the quote; before the first trade its price is the reference."""
        if (elsewhere := self._elsewhere(call)) is not None:
            return elsewhere
        script = self._script(call)
        board = self._venue.board(script.symbol)
        quote = Quote(
            symbol=script.symbol,
            exchange=script.exchange,
            last=board.last or board.reference,
            reference=board.reference,
            ceiling=board.ceiling,
            floor=board.floor,
            open=board.open,
            high=board.high,
            low=board.low,
            volume=board.volume,
            updated_at=self._venue.now,
        )
        return encode_quote(quote, name=script.name)

    def stock_depth(self, call: Call) -> object:
        """Answer the best levels of each side; a foreign share has none."""
        if self._elsewhere(call) is not None:
            raise no_depth()
        symbol = self._script(call).symbol
        depth = encode_depth(self._venue.depth(symbol, self._switches.depth_levels))
        if self._switches.auction_levels == "absent":
            return depth
        return with_auction_levels(depth, self._venue.unpriced(symbol))

    def market_phase(self, call: Call) -> object:
        """Answer the phase and what the broker's table lists for it (more than the
        exchange takes).
        """
        name = call.query.get("exchange", "").upper()
        if name not in Exchange.__members__:
            raise self._gate.bad_parameter()
        exchange = Exchange(name)
        phase = self._rulebook.phase_at(exchange, call.market_at)
        listed = frozenset(self._rulebook.broker_listed_types(exchange, phase))
        if self._switches.listed_types == "narrow":
            listed -= _NOT_NOW.get(phase, frozenset())
        return encode_market_phase(MarketPhase(exchange, phase, listed, phase.value))

    def _elsewhere(self, call: Call) -> object | None:
        is_ours = call.path_values["symbol"].upper() in self._symbols
        return None if is_ours else self._foreign(call)

    def _script(self, call: Call) -> SymbolScript:
        return listed_symbol(self._symbols, call.path_values["symbol"])


def listed_symbol(symbols: Mapping[str, SymbolScript], name: str) -> SymbolScript:
    """Return a symbol whatever its case; raises HttpRefusal 404 for one that is not listed."""
    script = symbols.get(name.upper())
    if script is None:
        raise not_found()
    return script


class AccountReads:
    def __init__(self, house: House, gate: Gatekeeper) -> None:
        self._scenario = scenario = house.scenario
        self._rulebook = house.rulebook
        self._venue = house.venue
        self._accounts = house.accounts
        self._day_order_book = house.day_order_book
        self._gate = gate
        self._scripts = {script.id: script for script in scenario.accounts}
        self._symbols = {script.symbol: script for script in scenario.symbols}

    def script(self, call: Call) -> AccountScript:
        """Return the sub-account named in a path; raises HttpRefusal 404."""
        script = self._scripts.get(call.path_values["sub_account_id"])
        if script is None:
            raise not_found()
        return script

    def order(self, call: Call) -> OrderRecord:
        """Return the order named in a path, even if its row is hidden; raises HttpRefusal 404."""
        return self._found(call, self._day_order_book.order)

    def _found(
        self, call: Call, look: Callable[[AccountScript, str, datetime], OrderRecord]
    ) -> OrderRecord:
        try:
            return look(self.script(call), call.path_values["order_id"], call.market_at)
        except OrderUnknown:
            raise not_found() from None

    def user(self, _: Call) -> object:
        return encode_user(User(self._scenario.user_id))

    def sub_accounts(self, call: Call) -> object:
        """Answer the sub-accounts of the key's own user; another user's id is 401."""
        self._gate.check_user(call.path_values["user_id"])
        return encode_sub_accounts(sub_accounts(self._scenario), customer_id=self._customer_id)

    @property
    def _customer_id(self) -> str:
        return f"{self._scenario.user_id:010d}"

    def todays_orders(self, call: Call) -> object:
        """Answer the day order book, oldest first."""
        orders = self._day_order_book.todays(self.script(call), call.market_at)
        switches, at = self._scenario.switches, call.market_at
        rows = [(order.report(switches, at), self._detail(order)) for order in orders]
        return encode_todays_orders(rows)

    def order_detail(self, call: Call) -> object:
        order = self._found(call, self._day_order_book.visible_order)
        report = order.report(self._scenario.switches, call.market_at)
        return encode_order_row(report, self._detail(order))

    def _detail(self, order: OrderRecord) -> RowDetail:
        return RowDetail(
            sub_account_id=order.account.id,
            customer_id=self._customer_id,
            core_number=f"{order.number % 10_000:04d}",
            phase=order.phase,
            adjusted_quantity=order.adjusted_quantity,
        )

    def portfolio(self, call: Call) -> object:
        """Answer the holdings; prices are live except while every exchange is closed."""
        script, today = self.script(call), call.market_at.astimezone(EXCHANGE_TZ).date()
        rows = []
        for view in self._accounts[script.id].holdings(today):
            board, sending = self._venue.board(view.symbol), self._sending(script, view.symbol)
            rows.append(
                PortfolioRow(
                    symbol=view.symbol,
                    total=view.total,
                    available=view.sellable,
                    sub_account_id=script.id,
                    depository_number=script.depository_number,
                    receiving_t0=view.receiving[0],
                    receiving_t1=view.receiving[1],
                    receiving_t2=view.receiving[2],
                    receiving_right=view.promised,
                    sending_t0=sending[0],
                    sending_t1=sending[1],
                    sending_t2=sending[2],
                    in_sell_orders=view.selling,
                    cost_price=view.cost_price,
                    reference_price=board.reference,
                    close_price=board.last or board.reference,
                    is_sellable=view.sellable > 0,
                )
            )
        phases = {self._rulebook.phase_at(exchange, call.market_at) for exchange in Exchange}
        return encode_portfolio(Portfolio(tuple(rows), is_snapshot=phases == {Phase.CLOSED}))

    def _sending(self, script: AccountScript, symbol: str) -> Buckets:
        """Return the shares sold and not settled, by the age of their trade."""
        found, now = [0, 0, 0], self._venue.now
        instrument, today = self._symbols[symbol].instrument, now.astimezone(EXCHANGE_TZ).date()
        for order in self._day_order_book.every():
            is_sale = order.side is Side.SELL and order.account.id == script.id
            if not is_sale or order.symbol != symbol:
                continue
            traded_on = order.placed_at.astimezone(EXCHANGE_TZ).date()
            delivered_at = delivery_of(self._rulebook, instrument, traded_on)
            if delivered_at is None or delivered_at > now:
                age = age_of(traded_on, today, self._rulebook.calendar)
                found[age] += order.executed_quantity
        return found[0], found[1], found[2]

    def summary(self, call: Call) -> object:
        """Answer the cash; of the receivables only dividends count towards the net assets here."""
        script, today = self.script(call), call.market_at.astimezone(EXCHANGE_TZ).date()
        account = self._accounts[script.id]
        figures, held = account.figures(today), account.holdings(today)
        boards = [self._venue.board(view.symbol) for view in held]
        shares = sum(
            view.total * (board.last or board.reference)
            for view, board in zip(held, boards, strict=True)
        )
        traded_today, traded_before, traded_earlier = figures.receiving
        return encode_summary(
            AccountSummary(
                cash=figures.cash,
                balance=figures.cash,
                net_asset_value=figures.cash + shares + figures.dividends_due,
                withdrawable=figures.cash - figures.secured,
                securities=shares,
                secured=figures.secured,
                receiving_t1=traded_before + traded_earlier,
                receiving_t2=traded_today,
                receiving=sum(figures.receiving),
                dividends_due=figures.dividends_due,
            )
        )

    def available_trade(self, call: Call) -> object:
        """Answer what may be bought and sold; buying power leaves room for the fee."""
        account = self._accounts[self.script(call).id]
        side, price = call.query.get("orderSide"), call.query.get("quotePrice", "")
        if side not in Side.__members__ or not (price.isascii() and price.isdigit()):
            raise self._gate.bad_parameter()
        symbol = listed_symbol(self._symbols, call.query.get("symbol", "")).symbol
        power, sellable = account.buying_power(), account.sellable(symbol)
        at_price = int(price) or self._venue.board(symbol).ceiling
        return encode_available_trade(
            AvailableTrade(
                buying_power=power,
                sellable=sellable,
                leveraged_power=power,
                quantity_max=power // at_price if side == Side.BUY else sellable,
                balance=account.cash,
            )
        )


def sub_accounts(scenario: Scenario) -> tuple[SubAccount, ...]:
    return tuple(
        SubAccount(script.id, script.extended_id, script.type, script.name)
        for script in scenario.accounts
    )
