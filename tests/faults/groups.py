"""The calls by the shape of their answer, each with a good body and the way a bot asks for it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.broker.client import BrokerClient
from bot.domain.instrument import Exchange
from bot.protocol import calls
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.envelope import seal
from bot.protocol.secret import Secret
from bot.protocol.shaped import Codec
from tests.broker.loopback import START
from tests.broker.played_broker import ACCOUNT
from tests.protocol.test_garbage import GOOD

Ask = Callable[[BrokerClient], Awaitable[object]]
DAYS = (("fromDate", "2026-11-01"), ("toDate", "2026-11-19"))
SPAN = (("resolution", "1D"), ("from", "1793000000"), ("to", "1795000000"))
FPT = {"symbol": "FPT"}


@dataclass(frozen=True)
class Group:
    """One call of a kind. `name` is the endpoint's, which an error must name."""

    name: str
    ask: Ask

    @property
    def good(self) -> bytes:
        """The body of a good answer."""
        return seal(ENDPOINTS[self.name], GOOD[self.name])


def _row(
    codec: Codec[Any],
    path: Mapping[str, str] | None = None,
    query: tuple[tuple[str, str], ...] = (),
) -> Group:
    return Group(codec.endpoint.name, lambda client: client.read(codec, path or {}, query))


GROUPS = [
    Group("todays_orders", lambda client: client.todays_orders(ACCOUNT, START)),
    Group("order_detail", lambda client: client.order(ACCOUNT, "ORD700001", START)),
    Group("stock_quote", lambda client: client.quote("HPG")),
    Group("stock_depth", lambda client: client.depth("HPG")),
    Group("market_phase", lambda client: client.market_phase(Exchange.HOSE)),
    Group("user", lambda client: client.user()),
    Group("sub_accounts", lambda client: client.sub_accounts(7)),
    Group("portfolio", lambda client: client.portfolio(ACCOUNT)),
    Group("summary", lambda client: client.summary(ACCOUNT)),
    _row(
        calls.CODECS["available_trade"],
        {"sub_account_id": ACCOUNT.id},
        (("orderSide", "BUY"), ("symbol", "HPG"), ("quotePrice", "25500")),
    ),
    Group("request_otp", lambda client: client.request_otp()),
    Group("verify_otp", lambda client: client.verify_otp("T-1", Secret("123456"))),
    _row(calls.CODECS["stock_catalogue"]),
    _row(calls.CODECS["stock_history"], FPT, SPAN),
    _row(calls.ORDER_HISTORY_CODEC, {"sub_account_id": ACCOUNT.id}, DAYS),
    _row(calls.CODECS["index_realtime"], query=(("index", "VNINDEX"),)),
    _row(calls.CODECS["market_news"]),
]
