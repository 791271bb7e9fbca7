"""A broker that costs next to nothing: it parses only as much of a request as it needs.

    python -m bench.mock

prints its address when it listens and serves until its standard input closes. Every depth and quote
is the same except for its symbol; every order is accepted, and echoed as a checking client
requires.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from functools import cache

DAY = "2026-11-19"
AT = f"{DAY}T09:20:00+07:00"
"""A Thursday, HOSE continuous."""
ACCOUNT = "0001000001"
EXTENDED = f"{ACCOUNT}.1"
CASH = 10**13
QUOTES = "/market/quotes/stocks/"
LEVELS = 10


def answered(key: str, value: object) -> bytes:
    """Return the body of a success."""
    facts = {"error_code": "0", "message": "success", key: value}
    return json.dumps(facts, separators=(",", ":")).encode()


@cache
def depth_of(symbol: str) -> bytes:
    """Return ten levels a side, with far more bids than asks."""
    levels = range(LEVELS)
    bids = [{"price": 25_000 - 50 * each, "volume": 9_000 + 100 * each} for each in levels]
    asks = [{"price": 25_050 + 50 * each, "volume": 1_200 + 100 * each} for each in levels]
    data = {"symbol": symbol, "currency": "VND", "bids": bids, "asks": asks, "updated_at": AT}
    return answered("data", data)


@cache
def quote_of(symbol: str) -> bytes:
    """Return a quote at its reference."""
    prices = {"price": 25_000, "open": 25_000, "high": 25_050, "low": 24_950}
    band = {"reference": 25_000, "ceiling": 26_750, "floor": 23_250}
    rest = {"change": 0, "change_percent": 0.0, "volume": 1_000, "updated_at": AT}
    names = {"symbol": symbol, "name": symbol, "exchange": "HOSE", "currency": "VND"}
    return answered("data", {**names, **prices, **band, **rest})


SUMMARY_ZEROS = (
    "td_balance ca_receiving receiving_t1 receiving_t2 receiving_t3 receiving_amt securities_amt "
    "total_debt_amt secure_amt hold_balance interest_balance debt_amt trf_buy_amt margin_amt "
    "t0_debt_amt advanced_amt advance_max_amt_fee df_debt_amt td_debt_amt cidepo_fee "
    "cidepo_fee_acr sms_fee_amt ibroker_fee_amt mrcr_limit mrcr_limit_max margin_rate mri_rate"
)
SUMMARY = {
    **dict.fromkeys(SUMMARY_ZEROS.split(), 0),
    **dict.fromkeys(("balance", "ci_balance", "net_asset_value"), CASH),
    "baldefovd": str(CASH),
}
SESSION = {
    "exchange": "HOSE",
    "exchange_session": "PROGRESS",
    "available_order_types": ["LO", "MP", "ATC"],
}
SUB_ACCOUNT = {
    "id": ACCOUNT,
    "cust_id": "0000900001",
    "name": "NGUYEN VAN DEMO",
    "depository_number": ACCOUNT,
    "product_type_name": ".1",
    "sub_account_ext": EXTENDED,
    "type": "Normal",
}
BY_PART: Mapping[str, bytes] = {
    "/users/v1/users/me": answered("data", {"user_id": 900001}),
    "/trading/market/session": answered("result", SESSION),
    "/portfolio": answered("data", {"is_snapshot": False, "portfolio": []}),
    "/summary": answered("result", SUMMARY),
    "/user-rights": answered("result", []),
    "/trading/v1/accounts": answered("result", []),
    "/sub-accounts": answered("result", [SUB_ACCOUNT]),
}
UNKNOWN = b'{"error_code":"404","message":"?"}'


def accepted(body: bytes, number: int) -> bytes:
    """Return the result of an order with every field echoed."""
    order = json.loads(body)
    zeros = "execute_quantity execute_price fee_amount tax_amount execute_amount"
    result = {
        **dict.fromkeys(zeros.split(), 0),
        "order_id": f"ORD{number:09d}",
        "account_id": EXTENDED,
        "transaction_date": DAY,
        "symbol": order["symbol"],
        "order_side": order["side"],
        "order_quantity": order["quantity"],
        "limit_price": order["limit_price"],
        "market_price": None,
        "order_status": "SENT",
        "order_type": "LO",
        "code": None,
        "rejected_reason": None,
        "lot": "EVEN",
    }
    return answered("result", [result])


class Mock(asyncio.Protocol):
    """One connection. Bodies need a Content-Length."""

    orders = 0

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._buffer += data
        while (head_end := self._buffer.find(b"\r\n\r\n") + 4) > 3:
            head = self._buffer[:head_end].decode("latin-1")
            _, found, rest = head.lower().partition("\r\ncontent-length:")
            end = head_end + (int(rest.partition("\r\n")[0]) if found else 0)
            if len(self._buffer) < end:
                return
            method, path, _ = head.split(" ", 2)
            body = self._answer(method, path, self._buffer[head_end:end])
            self._buffer = self._buffer[end:]
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
                b"%d\r\n\r\n%b" % (len(body), body)
            )

    def _answer(self, method: str, target: str, body: bytes) -> bytes:
        if method == "POST":
            Mock.orders += 1
            return accepted(body, Mock.orders)
        path = target.partition("?")[0]
        if path.startswith(QUOTES):
            symbol, _, kind = path.removeprefix(QUOTES).partition("/")
            return depth_of(symbol) if kind else quote_of(symbol)
        return next((found for part, found in BY_PART.items() if part in path), UNKNOWN)


async def main() -> None:
    """Serve until standard input closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Mock, "127.0.0.1", 0, backlog=256)
    host, port = server.sockets[0].getsockname()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
