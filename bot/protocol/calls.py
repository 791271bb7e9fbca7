"""The decoder and encoder of every call, by name, built from the type named in its `endpoints/`
row.

The first six are hand-written for trading; a call without a documented shape returns the checked
payload. Order writes, the 2FA exchange and the rows of the day order book are not here: they need
more than a payload and have separate decoders beside their encoders.

A codec is built, and the module of its type imported, on first use: a trading bot uses a dozen of
the hundred calls.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import GenericAlias
from typing import Any, Final

from bot.protocol import accounts
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.endpoint import Endpoint
from bot.protocol.endpoints.trading import ORDER_HISTORY, USER_RIGHTS
from bot.protocol.envelope import Payload
from bot.protocol.quotes import decode_market_phase, encode_market_phase
from bot.protocol.shaped import Codec, shaped
from bot.protocol.values import account
from bot.protocol.values.border import Unshaped

_BY_HAND: Final[Mapping[str, tuple[Callable[[Payload], Any], Callable[[Any], object]]]] = {
    "user": (accounts.decode_user, accounts.encode_user),
    "sub_accounts": (accounts.decode_sub_accounts, accounts.encode_sub_accounts),
    "portfolio": (accounts.decode_portfolio, accounts.encode_portfolio),
    "summary": (accounts.decode_summary, accounts.encode_summary),
    "available_trade": (accounts.decode_available_trade, accounts.encode_available_trade),
    "market_phase": (decode_market_phase, encode_market_phase),
}
_NO_CODEC: Final = {"todays_orders", "order_detail"}


@cache
def _codec_of(endpoint: Endpoint) -> Codec[Any]:
    if endpoint.name in _BY_HAND:
        return Codec(endpoint, *_BY_HAND[endpoint.name])
    if not endpoint.answers:
        return Codec(endpoint, lambda found: Unshaped(found.value), lambda value: value.payload)
    is_list = endpoint.answers.startswith("*")
    family, _, name = endpoint.answers.removeprefix("*").partition(".")
    kind = getattr(import_module(f"bot.protocol.values.{family}"), name)
    listed: Any = GenericAlias(tuple, (kind, ...))
    return shaped(endpoint, listed if is_list else kind)


ORDER_HISTORY_CODEC: Final = shaped(ORDER_HISTORY, account.OrderHistory)
USER_RIGHTS_CODEC: Final = shaped(USER_RIGHTS, tuple[account.UserRight, ...])


class _Codecs(Mapping[str, Codec[Any]]):
    def __init__(self) -> None:
        reads = (one for one in ENDPOINTS.values() if one.method == "GET")
        self._of = {one.name: one for one in reads if one.name not in _NO_CODEC}

    def __getitem__(self, name: str) -> Codec[Any]:
        return _codec_of(self._of[name])

    def __contains__(self, name: object) -> bool:
        return name in self._of

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


CODECS: Final[Mapping[str, Codec[Any]]] = _Codecs()
"""Every codec by the name of its call."""
