"""Order writes: signed first, committed by the caller, then sent once, as the very bytes.

`send` makes exactly one attempt and never raises. What it returns is either a whole answer or the
word whether any byte may have left; nothing is ever sent again here, not after a 429 either. Writes
have connections of their own, so that no slow read holds one up.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from bot.broker.budget import RequestBudget
from bot.broker.channel import Channel, is_limit
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import RateLimited
from bot.broker.http import BURN_BOUNDS, ORDER_BOUNDS, Bounds
from bot.broker.signer import SignedRequest, Signer
from bot.broker.two_factor import TwoFactor
from bot.domain.account import SubAccount
from bot.domain.order import Intent
from bot.protocol.answer import Answer, NoAnswer
from bot.protocol.encode import encode_amend, encode_cancel, encode_place
from bot.protocol.endpoints.endpoint import Endpoint, Lane, build_target
from bot.protocol.endpoints.trading import AMEND_ORDER, CANCEL_ORDER, PLACE_ORDER, USER

__all__ = ["Objection", "OrderWriter", "SignedRequest", "nothing_against"]

WRITE_WAIT_MAX: Final = timedelta(seconds=10)
"""A signature is good for 30 s: this, the deadline of 10 s and an inexact clock fit into that."""


Objection = Callable[[], str | None]
"""Asked just before the first byte: why not to send after all, None to send."""


def nothing_against() -> None:
    """Object to nothing."""


class OrderWriter:
    """Prepares and sends the order writes of one API key."""

    def __init__(
        self,
        channel: Channel,
        *,
        signer: Signer,
        two_factor: TwoFactor,
        budget: RequestBudget,
        offset: ClockOffset,
        bounds: Bounds = ORDER_BOUNDS,
        burn_bounds: Bounds = BURN_BOUNDS,
    ) -> None:
        self._channel = channel
        self._signer = signer
        self._two_factor = two_factor
        self._budget = budget
        self._offset = offset
        self._bounds = bounds
        self._burn_bounds = burn_bounds

    def prepare_place(self, account: SubAccount, intent: Intent) -> SignedRequest:
        """Sign the one POST of an intent."""
        target = build_target(PLACE_ORDER, {"sub_account_id": account.id})
        return self._prepare(PLACE_ORDER, target, encode_place(intent, account))

    def prepare_cancel(self, account: SubAccount, order_id: str) -> SignedRequest:
        """Sign a DELETE of the unmatched part; its body names the account."""
        target = _order_target(CANCEL_ORDER, account, order_id)
        return self._prepare(CANCEL_ORDER, target, encode_cancel(account))

    def prepare_amend(
        self, account: SubAccount, order_id: str, *, limit_price: int | None, quantity: int | None
    ) -> SignedRequest:
        """Sign a PUT of what is not None: a new limit price, a new total quantity."""
        target = _order_target(AMEND_ORDER, account, order_id)
        body = encode_amend(limit_price=limit_price, quantity=quantity)
        return self._prepare(AMEND_ORDER, target, body)

    def _prepare(self, endpoint: Endpoint, target: str, body: bytes) -> SignedRequest:
        return self._signer.sign_write(endpoint, target, body, self._two_factor.token())

    async def send(
        self, signed: SignedRequest, objection: Objection = nothing_against
    ) -> Answer | NoAnswer:
        """Send a prepared write once; goes on to its end when the caller is cancelled.

        Not sent for certain: when our clock is 20 s off the broker's, when the request budget has
        no room within 10 s, and when `objection`, asked after that wait, returns one. A 429 is
        noted for the budget and returned.
        """
        if self._offset.blocks_writes:
            seconds = self._offset.value.total_seconds()
            return NoAnswer(f"our clock is {seconds:+.0f} s off the broker's", is_sent=False)
        if (barred := self._channel.bar(is_signed=True)) is not None:
            return barred
        try:
            call = signed.endpoint.name
            await self._budget.take(signed.endpoint.lane, call, wait_max=WRITE_WAIT_MAX)
        except RateLimited as no_room:
            return NoAnswer(no_room.reason, is_sent=False)
        if (reason := objection()) is not None:
            return NoAnswer(reason, is_sent=False)
        answer = await self._channel.send(signed.http, self._bounds)
        if is_limit(answer):
            self._channel.note_limit(answer, call, tries=1)
        return answer

    async def burn(self, nonce: str) -> Answer | NoAnswer:
        """Use up the nonce of an unknown POST by a harmless read signed with it, once.

        Source: broker open API, signing (a nonce is remembered 300 s per key, whatever the path).
        """
        if (barred := self._channel.bar(is_signed=True)) is not None:
            return barred
        try:
            await self._budget.take(Lane.BOOK, "burn", wait_max=WRITE_WAIT_MAX)
        except RateLimited as no_room:
            return NoAnswer(no_room.reason, is_sent=False)
        request = self._signer.sign_read(USER, build_target(USER), nonce=nonce)
        answer = await self._channel.send(request, self._burn_bounds)
        if is_limit(answer):
            self._channel.note_limit(answer, "burn", tries=1)
        return answer

    async def close(self) -> None:
        """Wait for what is under way and close the connections."""
        await self._channel.close()


def _order_target(endpoint: Endpoint, account: SubAccount, order_id: str) -> str:
    return build_target(endpoint, {"sub_account_id": account.id, "order_id": order_id})
