"""What the exchange core raises. What an investor does wrong is a refusal, never an exception.

ExchangeError
├── UnknownSymbol      the symbol is not listed here
├── TimeWentBack       an operation is older than the one before it
├── DuplicateOrder     an order id that is live already
├── TradingDayRuns     a day cannot start while another one runs
├── OrdersWork         a symbol cannot be relisted while its orders live
└── AccountError
    └── UnknownReservation    money or shares were to be released that were never reserved
"""

from datetime import datetime


class ExchangeError(Exception):
    """Root of the tree."""


class UnknownSymbol(ExchangeError):
    def __init__(self, symbol: str) -> None:
        super().__init__(f"symbol {symbol!r} is not listed on this venue")
        self.symbol = symbol


class TimeWentBack(ExchangeError):
    def __init__(self, *, at: datetime, now: datetime) -> None:
        super().__init__(f"the venue has reached {now}; an operation at {at} comes too late")
        self.at = at
        self.now = now


class DuplicateOrder(ExchangeError):
    def __init__(self, order_id: str) -> None:
        super().__init__(f"order {order_id!r} is already working; give each order its own id")
        self.order_id = order_id


class TradingDayRuns(ExchangeError):
    def __init__(self, at: datetime) -> None:
        super().__init__(
            f"a trading day cannot start at {at}: an exchange is open; wait for its close"
        )
        self.at = at


class OrdersWork(ExchangeError):
    def __init__(self, symbol: str) -> None:
        super().__init__(f"orders of {symbol!r} are still working; relist it when they have ended")
        self.symbol = symbol


class AccountError(ExchangeError):
    """Root of what accounts raise."""


class UnknownReservation(AccountError):
    def __init__(self, order_id: str) -> None:
        super().__init__(f"no reservation for order {order_id!r}; reserve before submitting")
        self.order_id = order_id
