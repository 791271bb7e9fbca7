"""The errors of the sandbox.

SandboxError
├── HttpRefusal        the answer is an HTTP error with an error body (status, code, message)
├── ConnectionCut      a fault drops the connection, in process where there is none to drop
├── PortInUse          another program listens on the wanted host and port
├── LedgerBroken       a line of the ledger cannot be read, or another sandbox wrote it
├── NotRelayed         a call that is not a read of market data was to be passed on
├── OrderUnknown       no order of that id today
└── ExchangeError      a mistake of the program that uses the exchange core
    ├── UnknownSymbol         the symbol is not listed here
    ├── TimeWentBack          an operation is older than the one before it
    ├── DuplicateOrder        an order id that is live already
    ├── TradingDayRuns        a day cannot start while another one runs
    ├── OrdersWork            a symbol cannot be relisted while its orders live
    └── UnknownReservation    money or shares were to be released that were never reserved

An investor's mistake is a refusal, never an exception.
"""

from collections.abc import Mapping


class SandboxError(Exception):
    """Any failure of the sandbox itself or of a request to it."""


class HttpRefusal(SandboxError):
    """A request that is answered with an HTTP error. `code` is the body's `error_code`."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


class ConnectionCut(SandboxError, ConnectionResetError):
    """The connection ended before the answer was complete; raised only without a socket."""


class PortInUse(SandboxError):
    def __init__(self, host: str, port: int, cause: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {cause}; choose another port")
        self.host = host
        self.port = port


class LedgerBroken(SandboxError):
    """A ledger that cannot be continued."""


class NotRelayed(SandboxError):
    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{method} {path} is not a read of market data: it is not passed on")
        self.method = method
        self.path = path


class OrderUnknown(SandboxError):
    """No order of that id is in the day order book of that account."""


class ExchangeError(SandboxError):
    """A mistake of the program that uses the exchange core."""


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
