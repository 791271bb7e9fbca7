"""What the exchange core raises: a mistake of the program that uses it.

What an investor does wrong is a refusal, never an exception.

ExchangeError
├── UnknownSymbol         the symbol is not listed here
├── TimeWentBack          an operation is older than the one before it
├── DuplicateOrder        an order id that is live already
├── TradingDayRuns        a day cannot start while another one runs
├── OrdersWork            a symbol cannot be relisted while its orders live
└── UnknownReservation    money or shares were to be released that were never reserved
"""


class ExchangeError(Exception):
    """Root of the tree."""


class UnknownSymbol(ExchangeError):
    pass


class TimeWentBack(ExchangeError):
    pass


class DuplicateOrder(ExchangeError):
    pass


class TradingDayRuns(ExchangeError):
    pass


class OrdersWork(ExchangeError):
    pass


class UnknownReservation(ExchangeError):
    pass
