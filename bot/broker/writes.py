"""Order writes: signed first, committed by the caller, then sent once, byte for byte.

`send` makes exactly one attempt and never raises. It returns either a complete answer or whether
any byte may have left; nothing is ever sent again here, not even after a 429. Writes have separate
connections, so that no slow read delays one.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bot.broker.calls import CallSender, is_limit
from bot.broker.clock_offset import ClockOffset
from bot.broker.errors import RateLimited
from bot.broker.link import (
    BURN_BOUNDS,
    ORDER_BOUNDS,
    Bounds,
    HttpRequest,
    Objection,
    nothing_against,
)
from bot.broker.signer import SignedRequest, Signer
from bot.broker.two_factor import TwoFactor
from bot.domain.account import SubAccount
from bot.domain.errors import require
from bot.domain.operations import clock_words
from bot.domain.order import Intent
from bot.domain.outcome import LACKS_2FA
from bot.protocol.endpoints.endpoint import Endpoint, Lane, build_target
from bot.protocol.endpoints.trading import AMEND_ORDER, CANCEL_ORDER, PLACE_ORDER, USER
from bot.protocol.envelope import Answer, NoAnswer
from bot.protocol.orders import encode_amend, encode_cancel, encode_place
from bot.protocol.signing import HEADER_TWO_FACTOR, body_sha256

__all__ = ["DryWriter", "Objection", "OrderWriter", "SignedRequest", "nothing_against"]

WRITE_WAIT_MAX: Final = timedelta(seconds=10)
"""A signature is good for 30 s: this, the deadline of 10 s and an inexact clock fit into that."""
_BURN: Final = replace(USER, name="burn", lane=Lane.BOOK)


class OrderWriter:
    """Prepares and sends the order writes of one API key."""

    def __init__(
        self,
        sender: CallSender,
        *,
        signer: Signer,
        two_factor: TwoFactor,
        offset: ClockOffset,
        bounds: Bounds = ORDER_BOUNDS,
        burn_bounds: Bounds = BURN_BOUNDS,
    ) -> None:
        self._sender = sender
        self._signer = signer
        self._two_factor = two_factor
        self._offset = offset
        self._bounds = bounds
        self._burn_bounds = burn_bounds

    def prepare_place(self, account: SubAccount, intent: Intent) -> SignedRequest:
        """Sign the one POST of an intent."""
        return self._prepare(PLACE_ORDER, account, encode_place(intent, account))

    def prepare_cancel(self, account: SubAccount, order_id: str) -> SignedRequest:
        """Sign a DELETE of the unmatched part; its body names the account."""
        return self._prepare(CANCEL_ORDER, account, encode_cancel(account), order_id)

    def prepare_amend(
        self, account: SubAccount, order_id: str, *, limit_price: int | None, quantity: int | None
    ) -> SignedRequest:
        """Sign a PUT of what is not None: a new limit price, a new total quantity."""
        body = encode_amend(limit_price=limit_price, quantity=quantity)
        return self._prepare(AMEND_ORDER, account, body, order_id)

    def _prepare(
        self, endpoint: Endpoint, account: SubAccount, body: bytes, order_id: str = ""
    ) -> SignedRequest:
        target = build_target(endpoint, {"sub_account_id": account.id, "order_id": order_id})
        return self._signer.sign_write(endpoint, target, body, self._two_factor.token())

    async def send(
        self, signed: SignedRequest, objection: Objection = nothing_against
    ) -> Answer | NoAnswer:
        """Send a prepared write once; continues to the end if the caller is cancelled.

        Definitely not sent if our clock is too far off the broker's, if the request budget has no
        room within 10 s, or if (checked after that wait and again once connected) `objection`
        returns one or the 2FA token it was signed with is not the valid one held by then. A cancel
        is sent whatever our clock says: its signature has the broker's time. A 429 is noted for the
        budget and returned.
        """
        if self._offset.blocks_writes and signed.endpoint.lane is not Lane.CANCEL:
            return NoAnswer(clock_words(self._offset.value), is_sent=False)
        is_whole = body_sha256(signed.body) == signed.body_sha256
        require(is_whole, "I18", f"the body of a {signed.method} is not the one signed")

        def against() -> str | None:
            """Object if the token has ended or was revoked or replaced since signing."""
            if reason := objection():
                return reason
            held = self._two_factor.token()
            if held is None:
                return f"{LACKS_2FA}: there is no token that has not ended"
            is_held = signed.headers.get(HEADER_TWO_FACTOR) == held.reveal()
            return None if is_held else f"{LACKS_2FA}: it was signed with another token"

        asking = replace(signed, objection=against)
        answer = await self._send(signed.endpoint, lambda: asking, self._bounds, against)
        held = self._two_factor.token()
        if held is None or signed.headers.get(HEADER_TWO_FACTOR) == held.reveal():
            return answer
        return replace(answer, is_of_old_token=True) if isinstance(answer, Answer) else answer

    @property
    def lack(self) -> str:
        """The broker's word for what is wrong with our 2FA token; empty if a write may use it."""
        return self._two_factor.lack

    async def burn(self, nonce: str) -> Answer | NoAnswer:
        """Use up the nonce of an unknown POST by a harmless read signed with it, once.

        Source: broker open API, signing (a nonce is remembered 300 s per key, whatever the path).
        """
        target = build_target(USER)

        def sign() -> HttpRequest:
            request = self._signer.sign_read(USER, target, nonce=nonce)
            is_harmless = (request.method, request.target, request.body) == ("GET", target, b"")
            require(is_harmless, "I16", f"it is a {request.method} of {request.target}")
            return request

        return await self._send(_BURN, sign, self._burn_bounds, nothing_against)

    async def _send(
        self,
        endpoint: Endpoint,
        sign: Callable[[], HttpRequest],
        bounds: Bounds,
        objection: Objection,
    ) -> Answer | NoAnswer:
        try:
            answer = await self._sender.send(
                endpoint, sign, bounds=bounds, wait_max=WRITE_WAIT_MAX, objection=objection
            )
        except RateLimited as no_room:
            return NoAnswer(no_room.reason, is_sent=False)
        if is_limit(answer):
            self._sender.note_limit(answer, endpoint.name, tries=1)
        return answer


class DryWriter(OrderWriter):
    """Signs like the real writer but never sends an order. A burn is a read and is still sent."""

    async def send(
        self, signed: SignedRequest, objection: Objection = nothing_against
    ) -> Answer | NoAnswer:
        """Send nothing."""
        would = f"dry run: would {signed.method} {len(signed.body)} bytes"
        return NoAnswer(objection() or would, is_sent=False)
