"""Typed reads of the broker. Every read raises the errors of `broker.errors`.

A call is an endpoint, its path and query, and the decoder of its payload; the result is a value of
the domain or of `protocol/`. `read` makes any read of the API by its row in `protocol/calls.py`;
the named methods are those that trading needs and return domain values. Nothing here changes an
order.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from bot.broker.calls import READ_WAIT_MAX, CallSender, is_limit
from bot.broker.drift import Drifted, DriftWatch
from bot.broker.errors import BrokerError, Malformed, RateLimited, Refused, WrongQuery
from bot.domain.account import AccountSnapshot, ShareholderRight, SubAccount
from bot.domain.instrument import Exchange
from bot.domain.order import OrderReport, TodaysOrders
from bot.domain.quote import Depth, Quote
from bot.protocol import calls
from bot.protocol.accounts import decode_portfolio, decode_sub_accounts, decode_summary, decode_user
from bot.protocol.day_order_book import decode_order_row, decode_todays_orders
from bot.protocol.endpoints import trading
from bot.protocol.endpoints.endpoint import (
    Endpoint,
    Lane,
    build_target,
    path_parameters,
    query_faults,
    unknown_parameters,
)
from bot.protocol.envelope import (
    Answer,
    Payload,
    is_for_a_moment,
    is_from_cache,
    open_envelope,
)
from bot.protocol.errors import BrokerRefusal, MalformedAnswer, UnusableTarget
from bot.protocol.quotes import decode_depth, decode_market_phase, decode_quote
from bot.protocol.secret import Secret, redact
from bot.protocol.shaped import Codec
from bot.protocol.strict_json import INTEGER_MAX
from bot.protocol.two_factor import (
    ABOUT_CODES,
    decode_otp_ticket,
    decode_two_factor_token,
    encode_otp_request,
    encode_otp_verification,
    encode_revocation,
)
from bot.protocol.values.border import (
    AccountSummary,
    MarketPhase,
    OtpTicket,
    Portfolio,
    TwoFactorToken,
    User,
)

UNCACHED: Final = (("cache-control", "NOCACHE"),)
"""The broker may answer these from a cache unless told not to (open API, account data)."""
FROM_CACHE: Final = "a cache answered for the broker: ask who runs the proxy to let it through"
ECHOED: Final = ("symbol", "code", "indicator", "exchange")
"""Fields in which an answer repeats the parameter that names its subject."""
_ORDER_TO_CANCEL: Final = replace(trading.ORDER_DETAIL, lane=Lane.BOOK)
_CANCEL_WAITS: Final = timedelta(seconds=2)
"""How long a cancel waits for that row (ruling 49)."""
_USER_HOLE: Final = "user_id"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

Value = TypeVar("Value")
Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ReadAnswer(Generic[Value]):
    """A value with the payload it was read from, and how that differs from the document."""

    value: Value
    payload: Payload
    drift: tuple[Drifted, ...] = ()


class BrokerClient:
    """Typed reads and the 2FA exchange, for one API key."""

    def __init__(self, sender: CallSender, watch: DriftWatch) -> None:
        self._sender = sender
        self._watch = watch

    # ------------------------------------------------------------------------------- every read

    async def read(
        self, codec: Codec[Value], path: Mapping[str, str] = _NOTHING, query: Query = ()
    ) -> Value:
        """Make any read of the API: `codec` is a row of `calls.py`, `path` fills its holes.

        Names and values of `query` are the wire's. Raises WrongQuery before anything is sent if the
        broker would answer 400, and Malformed if the answer is about another symbol.
        """
        return (await self.ask(codec, path, query)).value

    async def ask(
        self, codec: Codec[Value], path: Mapping[str, str] = _NOTHING, query: Query = ()
    ) -> ReadAnswer[Value]:
        """Read as `read` does, and return the payload beside the value."""
        check_query(codec.endpoint, path, query)
        return await self._ask(codec.endpoint, codec.decode, path, query)

    async def _ask(
        self,
        endpoint: Endpoint,
        decoder: Callable[[Payload], Value],
        path: Mapping[str, str] = _NOTHING,
        query: Query = (),
        *,
        wait_max: timedelta = READ_WAIT_MAX,
    ) -> ReadAnswer[Value]:
        """Read; after a 401 for a user's own path, read the user again, once, and retry with that
        id.

        A large answer is decoded in a thread, so that it does not block the event loop. Raises
        Malformed if a cache answers what is read of the account: what it shows may be long past.
        Source: broker open API 0.2.0-preview.3, recovery.
        """
        asked = path
        while True:
            try:
                target = build_target(endpoint, asked, query)
            except UnusableTarget as error:
                fault = (error.name, "empty, or a dot segment")
                raise WrongQuery(endpoint.name, (fault,)) from error
            answer = await self._sender.read(endpoint, target, wait_max=wait_max)
            is_of_now = query == UNCACHED or endpoint is trading.SUMMARY
            if is_of_now and is_from_cache(answer.headers):
                raise Malformed(endpoint.name, FROM_CACHE)
            decode = partial(self._decoded, endpoint, answer, decoder)
            try:
                found = decode() if is_for_a_moment(answer.body) else await _in_a_thread(decode)
            except Refused as refusal:
                is_first = asked is path
                if refusal.http_status != 401 or _USER_HOLE not in path or not is_first:
                    raise
                asked = {**path, _USER_HOLE: str((await self.user()).user_id)}
                continue
            check_echo(found.payload, {**dict(query), **asked})
            if found.drift:
                self._watch.note(found.drift)
            return found

    # -------------------------------------------------------------------------------- bootstrap

    async def user(self) -> User:
        """Read who owns the key."""
        return (await self._ask(trading.USER, decode_user)).value

    async def sub_accounts(self, user_id: int) -> tuple[SubAccount, ...]:
        """Read the sub-accounts of the key's user."""
        path = {_USER_HOLE: str(user_id)}
        return (await self._ask(trading.SUB_ACCOUNTS, decode_sub_accounts, path)).value

    # ----------------------------------------------------------------------------------- market

    async def quote(self, symbol: str) -> Quote:
        """Read the quote of a stock."""
        path = {"symbol": symbol}
        return (await self._ask(trading.STOCK_QUOTE, decode_quote, path)).value

    async def depth(self, symbol: str) -> Depth:
        """Read the depth of a stock."""
        path = {"symbol": symbol}
        return (await self._ask(trading.STOCK_DEPTH, decode_depth, path)).value

    async def market_phase(self, exchange: Exchange) -> MarketPhase:
        """Read the phase of an exchange and the order types listed for it."""
        query = (("exchange", exchange.value),)
        found = await self._ask(trading.MARKET_PHASE, decode_market_phase, query=query)
        return found.value

    # ---------------------------------------------------------------------------------- account

    async def todays_orders(self, account: SubAccount, asked_at: datetime) -> TodaysOrders:
        """Read the day order book; unreadable rows are set aside.

        `asked_at` is market time, and stamped on every row.
        """
        decoder = partial(decode_todays_orders, account=account, requested_at=asked_at)
        return (await self._ask(trading.TODAYS_ORDERS, decoder, _path(account), UNCACHED)).value

    async def order(
        self, account: SubAccount, order_id: str, asked_at: datetime
    ) -> OrderReport | None:
        """Read one order's row, None if the broker does not know the id (yet)."""
        return await self._order(trading.ORDER_DETAIL, account, order_id, asked_at)

    async def order_to_cancel(
        self, account: SubAccount, order_id: str, asked_at: datetime
    ) -> OrderReport | None:
        """Read it ahead of the polls: its DELETE is waiting, but only for a moment. Where the quota
        has no room until then, the day order book needs it more.
        """
        return await self._order(
            _ORDER_TO_CANCEL, account, order_id, asked_at, wait_max=_CANCEL_WAITS
        )

    async def _order(
        self,
        endpoint: Endpoint,
        account: SubAccount,
        order_id: str,
        asked_at: datetime,
        *,
        wait_max: timedelta = READ_WAIT_MAX,
    ) -> OrderReport | None:
        decoder = partial(decode_order_row, account=account, requested_at=asked_at)
        path = {**_path(account), "order_id": order_id}
        try:
            found = await self._ask(endpoint, decoder, path, UNCACHED, wait_max=wait_max)
            return found.value
        except Refused as refusal:
            if refusal.http_status == 404:
                return None
            raise

    async def portfolio(self, account: SubAccount) -> Portfolio:
        """Read the shares."""
        path = _path(account)
        return (await self._ask(trading.PORTFOLIO, decode_portfolio, path, UNCACHED)).value

    async def summary(self, account: SubAccount) -> AccountSummary:
        """Read the money."""
        return (await self._ask(trading.SUMMARY, decode_summary, _path(account))).value

    async def account_snapshot(self, account: SubAccount, at: datetime) -> AccountSnapshot:
        """Read shares and cash, two calls, into one snapshot stamped `at`. Its net assets contain
        sale money due.
        """
        portfolio = await self.portfolio(account)
        summary = await self.summary(account)
        if summary.cash is None:
            raise Malformed(trading.SUMMARY.name, "neither ci_balance nor balance is there")
        net_assets = _net_assets(summary, summary.cash)
        if abs(net_assets) > INTEGER_MAX:  # no database holds it
            raise Malformed(trading.SUMMARY.name, "its net assets are beyond 64 bits")
        return AccountSnapshot(
            at=at,
            account=account.extended_id,
            cash=summary.cash,
            net_asset_value=net_assets,
            holdings=portfolio.holdings,
            is_snapshot=portfolio.is_snapshot,
            secured=summary.secured,
        )

    async def rights(self, account: SubAccount) -> tuple[ShareholderRight, ...]:
        """Read the rights from corporate actions, pending and done, newest first."""
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
        """Request a one-time code: there are five a day, so exactly one attempt."""
        body = encode_otp_request()
        return await self._ask_once(trading.REQUEST_OTP, body, decode_otp_ticket)

    async def verify_otp(self, ticket_id: str, code: Secret) -> TwoFactorToken:
        """Exchange a code for a token: there are three tries, so exactly one attempt."""
        body = encode_otp_verification(ticket_id, code)
        return await self._ask_once(trading.VERIFY_OTP, body, decode_two_factor_token)

    async def revoke_token(self, token: Secret) -> None:
        """End a token's session at the broker, on all machines. One attempt."""
        await self._ask_once(trading.REVOKE_TOKEN, encode_revocation(token), lambda _: None)

    async def _ask_once(
        self, endpoint: Endpoint, body: bytes, decoder: Callable[[Payload], Value]
    ) -> Value:
        answer = await self._sender.ask_once(endpoint, build_target(endpoint), body)
        try:
            return self._decoded(endpoint, answer, decoder).value
        except Refused as refusal:
            if not is_limit(answer) or refusal.error_code.startswith(ABOUT_CODES):
                raise
            until = self._sender.note_limit(answer, endpoint.name, tries=1)
            raise RateLimited(endpoint.name, "HTTP 429", until) from refusal

    def _decoded(
        self, endpoint: Endpoint, answer: Answer, decoder: Callable[[Payload], Value]
    ) -> ReadAnswer[Value]:
        try:
            payload = open_envelope(endpoint, answer)
            return ReadAnswer(decoder(payload), payload, self._watch.found_in(payload))
        except BrokerRefusal as refusal:
            raise _refused(refusal) from refusal
        except MalformedAnswer as error:
            raise Malformed(endpoint.name, error.reason, error.raw) from error

    async def close(self) -> None:
        """Wait for the requests under way and close the connections."""
        await self._sender.close()


async def _in_a_thread(work: Callable[[], Value]) -> Value:
    """Run work in a thread; on the event loop if no thread can be started."""
    try:
        doing = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        return work()
    return await doing


def _path(account: SubAccount) -> dict[str, str]:
    return {"sub_account_id": account.id}


def _net_assets(summary: AccountSummary, cash: int) -> int:
    """Return the net assets of a sub-account, sale money due included.

    The broker's own figure for one leaves out what sales bring in two days (the assets summary has
    it, of all sub-accounts together): by it a sale would be a loss, and limits that are a share of
    it would shrink. One that contains it already, as its parts show, stays as it is.
    """
    by_day = summary.receiving_t1 + summary.receiving_t2 + summary.receiving_t3
    due, shown = max(0, summary.receiving, by_day), summary.net_asset_value
    if shown is None:
        return cash + summary.securities - summary.debt + due
    money = cash + summary.term_deposit if summary.balance is None else summary.balance
    parts = money - summary.held + summary.securities - summary.debt + summary.dividends_due
    is_left_out = abs(shown - parts) <= abs(shown - parts - due)
    return shown + due if is_left_out else shown


def check_query(endpoint: Endpoint, path: Mapping[str, str], query: Query) -> None:
    """Raise WrongQuery for everything that the broker would answer with 400, or misunderstand."""
    given, holes = dict(query), path_parameters(endpoint)
    counts, unknown = Counter(name for name, _ in query), "no such parameter"
    faults = [
        *((name, "given twice") for name, count in counts.items() if count > 1),
        *((hole, "required") for hole in holes if hole not in path),
        *((name, unknown) for name in path if name not in holes),
        *((name, unknown) for name in unknown_parameters(endpoint, given)),
        *((each.name, each.reason) for each in query_faults(endpoint, given)),
    ]
    if faults:
        raise WrongQuery(endpoint.name, tuple(faults))


def check_echo(payload: Payload, asked: Mapping[str, str]) -> None:
    """Raise Malformed if the answer names a subject other than the one asked for."""
    if not isinstance(payload.value, dict):
        return
    for name in ECHOED:
        wanted, found = asked.get(name), payload.value.get(name)
        if wanted in {None, "ALL"} or not isinstance(found, str):
            continue
        if found.strip().upper() != str(wanted).strip().upper():
            reason = f"asked for {name} {wanted}, the answer is about {redact(found)[:40]}"
            raise Malformed(payload.call, reason)


def _refused(refusal: BrokerRefusal) -> BrokerError:
    """Make a Refused only of the API's own error body; a proxy's page, say, is not an answer."""
    status, code = f"HTTP {refusal.http_status}", refusal.error_code
    if not refusal.has_error_body:
        return Malformed(refusal.call, f"{status} without the API's error body")
    word = "" if code == str(refusal.http_status) else f" {code}"
    reason = f"{status}{word}: {refusal.message}"
    return Refused(refusal.call, reason, http_status=refusal.http_status, error_code=code)
