"""What the broker knows, asked for in the words of trading. Every read raises `broker.errors`.

A call is an endpoint, its path and query, and the decoder of its payload; what comes back is a
value of the domain or of `protocol/`. `read` makes every read of the API by its row in
`protocol/calls.py`; the methods with names are those that trading needs, in trading's own values.
Nothing here changes an order.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from bot.broker.channel import Channel, Reader, is_limit
from bot.broker.checks import check_echo, check_query, check_scale, target_of
from bot.broker.drift_watch import Drifted, DriftWatch, drifted_in
from bot.broker.errors import BrokerError, Malformed, RateLimited, Refused
from bot.domain.account import AccountSnapshot, ShareholderRight, SubAccount
from bot.domain.instrument import Exchange
from bot.domain.order import OrderReport, Side, TodaysOrders
from bot.domain.quote import Depth, Quote
from bot.protocol import calls, decode, encode
from bot.protocol.answer import Answer
from bot.protocol.endpoints import trading
from bot.protocol.endpoints.endpoint import Endpoint, build_target
from bot.protocol.envelope import Payload, open_envelope
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.secret import Secret
from bot.protocol.shaped import Codec
from bot.protocol.sizes import is_for_a_moment
from bot.protocol.values.border import (
    AccountSummary,
    AvailableTrade,
    MarketPhase,
    OtpTicket,
    Portfolio,
    TwoFactorToken,
    User,
)
from bot.protocol.values.series import PriceHistory

UNCACHED: Final = (("cache-control", "NOCACHE"),)
"""The broker may answer these from a cache unless told not to (open API, account data)."""
_USER_HOLE: Final = "user_id"
_CODES_USED_UP: Final = "OTP_RATE_LIMIT_EXCEEDED"

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

Value = TypeVar("Value")
Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ReadAnswer(Generic[Value]):
    """A value with the payload that it was read from, and what in it differs from the document."""

    value: Value
    payload: Payload
    drift: tuple[Drifted, ...] = ()


class BrokerClient:
    """Typed reads and the 2FA exchange, for one API key."""

    def __init__(self, channel: Channel, reader: Reader, watch: DriftWatch) -> None:
        self._channel = channel
        self._reader = reader
        self._watch = watch

    # ------------------------------------------------------------------------------- every read

    async def read(
        self, codec: Codec[Value], path: Mapping[str, str] = _NOTHING, query: Query = ()
    ) -> Value:
        """Make any read of the API: `codec` is a row of `calls.py`, `path` fills its holes.

        Names and values of `query` are the wire's. Raises WrongQuery before anything is sent when
        the broker would answer 400, and Malformed when the answer is about another symbol.
        """
        return (await self.hear(codec, path, query)).value

    async def hear(
        self, codec: Codec[Value], path: Mapping[str, str] = _NOTHING, query: Query = ()
    ) -> ReadAnswer[Value]:
        """Read as `read` does, and keep the payload beside the value."""
        check_query(codec.endpoint, path, query)
        return await self._hear(codec.endpoint, path, query, codec.decode)

    # -------------------------------------------------------------------------------- bootstrap

    async def user(self) -> User:
        """Read who owns the key."""
        return await self._read(trading.USER, {}, (), decode.decode_user)

    async def sub_accounts(self, user_id: int) -> tuple[SubAccount, ...]:
        """Read the sub-accounts of the key's user."""
        path = {"user_id": str(user_id)}
        return await self._read(trading.SUB_ACCOUNTS, path, (), decode.decode_sub_accounts)

    # ----------------------------------------------------------------------------------- market

    async def quote(self, symbol: str) -> Quote:
        """Read the quote of a stock."""
        return await self._read(trading.STOCK_QUOTE, {"symbol": symbol}, (), decode.decode_quote)

    async def depth(self, symbol: str) -> Depth:
        """Read the depth of a stock."""
        return await self._read(trading.STOCK_DEPTH, {"symbol": symbol}, (), decode.decode_depth)

    async def stock_history(
        self, symbol: str, start: datetime, end: datetime, resolution: str = "1D"
    ) -> PriceHistory:
        """Read the bars of a stock, two calls: their last close must be of the live quote's scale.

        Raises Malformed when it is not (the document does not state the scale of a history).
        """
        seconds = (str(int(instant.timestamp())) for instant in (start, end))
        query = [*zip(("from", "to"), seconds, strict=True), ("resolution", resolution)]
        history: PriceHistory = await self.read(
            calls.CODECS["stock_history"], {"symbol": symbol}, query
        )
        check_scale("stock_history", history.bars, (await self.quote(symbol)).last)
        return history

    async def market_phase(self, exchange: Exchange) -> MarketPhase:
        """Read the phase of an exchange and the order types listed for it."""
        query = (("exchange", exchange.value),)
        return await self._read(trading.MARKET_PHASE, {}, query, decode.decode_market_phase)

    # ---------------------------------------------------------------------------------- account

    async def available_trade(
        self, account: SubAccount, side: Side, symbol: str, price: int
    ) -> AvailableTrade:
        """Read buying power and sellable shares at `price` (VND; 0 means at the market)."""
        query = (("orderSide", side.value), ("symbol", symbol), ("quotePrice", str(price)))
        return await self._read(
            trading.AVAILABLE_TRADE, _path(account), query, decode.decode_available_trade
        )

    async def todays_orders(self, account: SubAccount, asked_at: datetime) -> TodaysOrders:
        """Read the day order book; rows that cannot be read are set aside.

        `asked_at` is market time, and stamped on every row.
        """

        def rows(payload: Payload) -> TodaysOrders:
            return decode.decode_todays_orders(payload, account=account, requested_at=asked_at)

        return await self._read(trading.TODAYS_ORDERS, _path(account), UNCACHED, rows)

    async def order(
        self, account: SubAccount, order_id: str, asked_at: datetime
    ) -> OrderReport | None:
        """Read one order's row, None when the broker does not know the id (yet)."""

        def row(payload: Payload) -> OrderReport:
            return decode.decode_order_row(payload, account=account, requested_at=asked_at)

        path = {**_path(account), "order_id": order_id}
        try:
            return await self._read(trading.ORDER_DETAIL, path, UNCACHED, row)
        except Refused as refusal:
            if refusal.http_status == 404:
                return None
            raise

    async def portfolio(self, account: SubAccount) -> Portfolio:
        """Read the shares."""
        return await self._read(
            trading.PORTFOLIO, _path(account), UNCACHED, decode.decode_portfolio
        )

    async def summary(self, account: SubAccount) -> AccountSummary:
        """Read the money."""
        return await self._read(trading.SUMMARY, _path(account), (), decode.decode_summary)

    async def account_snapshot(self, account: SubAccount, at: datetime) -> AccountSnapshot:
        """Read shares and money, two calls, as one picture stamped `at`."""
        portfolio = await self.portfolio(account)
        summary = await self.summary(account)
        if summary.cash is None:
            raise Malformed(trading.SUMMARY.name, "neither ci_balance nor balance is there")
        net_assets = summary.net_asset_value
        if net_assets is None:
            net_assets = summary.cash + summary.securities - summary.debt
        return AccountSnapshot(
            at=at,
            account=account.extended_id,
            cash=summary.cash,
            net_asset_value=net_assets,
            holdings=portfolio.holdings,
            is_snapshot=portfolio.is_snapshot,
        )

    async def rights(self, account: SubAccount) -> tuple[ShareholderRight, ...]:
        """Read what corporate actions have promised or brought, newest first."""
        found = await self.read(calls.USER_RIGHTS_CODEC, _path(account))
        return tuple(
            ShareholderRight(
                number=each.master_id,
                symbol=each.symbol,
                kind=each.type,
                ratio=each.ratio,
                owned=each.owned,
                dividend=each.amount,
                shares=each.waiting_stock,
                paid_on=each.finish_date,
            )
            for each in found
        )

    # --------------------------------------------------------------------------------------- 2FA

    async def request_otp(self) -> OtpTicket:
        """Have a one-time code sent: one of five a day, so exactly one attempt."""
        body = encode.encode_otp_request()
        return await self._ask_once(trading.REQUEST_OTP, body, decode.decode_otp_ticket)

    async def verify_otp(self, ticket_id: str, code: Secret) -> TwoFactorToken:
        """Trade a code for a token: one of three tries, so exactly one attempt."""
        body = encode.encode_otp_verification(ticket_id, code)
        return await self._ask_once(trading.VERIFY_OTP, body, decode.decode_two_factor_token)

    async def revoke(self, token: Secret) -> None:
        """Give a token up."""
        body = encode.encode_revocation(token)
        await self._ask_once(trading.REVOKE_TOKEN, body, lambda _: None)

    async def close(self) -> None:
        """Wait for what is under way and close the connections."""
        await self._channel.close()

    async def _read(
        self,
        endpoint: Endpoint,
        path: Mapping[str, str],
        query: Query,
        decoder: Callable[[Payload], Value],
    ) -> Value:
        return (await self._hear(endpoint, path, query, decoder)).value

    async def _hear(
        self,
        endpoint: Endpoint,
        path: Mapping[str, str],
        query: Query,
        decoder: Callable[[Payload], Value],
    ) -> ReadAnswer[Value]:
        """Read; a 401 for a user's own path has the user read again, once, and asks for that one's.

        Source: broker open API 0.2.0-preview.3, recovery.
        """
        try:
            return await self._hear_once(endpoint, path, query, decoder)
        except Refused as refusal:
            if refusal.http_status != 401 or _USER_HOLE not in path:
                raise
        own = {**path, _USER_HOLE: str((await self.user()).user_id)}
        return await self._hear_once(endpoint, own, query, decoder)

    async def _hear_once(
        self,
        endpoint: Endpoint,
        path: Mapping[str, str],
        query: Query,
        decoder: Callable[[Payload], Value],
    ) -> ReadAnswer[Value]:
        answer = await self._reader.read(endpoint, target_of(endpoint, path, query))
        payload, value, drift = await _understood(endpoint, answer, decoder)
        check_echo(payload, {**dict(query), **path})
        self._watch.note(drift)
        return ReadAnswer(value, payload, drift)

    async def _ask_once(
        self, endpoint: Endpoint, body: bytes, decoder: Callable[[Payload], Value]
    ) -> Value:
        answer = await self._reader.ask_once(endpoint, build_target(endpoint), body)
        try:
            return _decoded(endpoint, answer, decoder)[1]
        except Refused as refusal:
            if not is_limit(answer) or refusal.error_code == _CODES_USED_UP:
                raise
            until = self._channel.note_limit(answer, endpoint.name, tries=1)
            raise RateLimited(endpoint.name, "HTTP 429", until) from refusal


def _path(account: SubAccount) -> dict[str, str]:
    return {"sub_account_id": account.id}


async def _understood(
    endpoint: Endpoint, answer: Answer, decoder: Callable[[Payload], Value]
) -> tuple[Payload, Value, tuple[Drifted, ...]]:
    """Read an answer; a large one in a thread, so that nothing else waits for it meanwhile."""

    def understand() -> tuple[Payload, Value, tuple[Drifted, ...]]:
        payload, value = _decoded(endpoint, answer, decoder)
        return payload, value, drifted_in(payload)

    return understand() if is_for_a_moment(answer.body) else await asyncio.to_thread(understand)


def _decoded(
    endpoint: Endpoint, answer: Answer, decoder: Callable[[Payload], Value]
) -> tuple[Payload, Value]:
    try:
        payload = open_envelope(endpoint, answer)
        return payload, decoder(payload)
    except BrokerRefusal as refusal:
        raise _refused(refusal) from refusal
    except MalformedAnswer as error:
        raise Malformed(endpoint.name, error.reason, error.raw) from error


def _refused(refusal: BrokerRefusal) -> BrokerError:
    """Only the API's own error body is a refusal; a proxy's page, say, is no answer to us."""
    status = f"HTTP {refusal.http_status}"
    if not refusal.has_error_body:
        return Malformed(refusal.call, f"{status} without the API's error body")
    code = refusal.error_code
    word = "" if code == str(refusal.http_status) else f" {code}"
    reason = f"{status}{word}: {refusal.message}"
    return Refused(
        refusal.call, reason, http_status=refusal.http_status, error_code=refusal.error_code
    )
