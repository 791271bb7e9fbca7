"""Where a fresh 2FA token comes in: an operator's code or token, by prompt, by `bot otp`, or by
a demo.

A code is never asked for unattended (the broker allows five a day). Code and token go straight
to the broker's client and into its memory; no event, row or line carries them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from bot.broker.client import BrokerClient
from bot.broker.errors import BrokerError, Refused
from bot.broker.two_factor import TwoFactor
from bot.clock import Clock
from bot.domain.entry import AuthEvent
from bot.domain.message import Noted, TwoFactorMissing, TwoFactorReady
from bot.protocol.secret import Secret
from bot.runtime.inbox import Post
from bot.runtime.token_file import forget_token, keep_token

Reply = Mapping[str, object]
_CODE: Final = re.compile("[0-9]{6}")
TICKET_LIFE: Final = timedelta(minutes=5)
TRIES_PER_TICKET: Final = 3
"""Both: broker open API 0.2.0-preview.3, OTP exchange."""
_NO_TICKET: Final[Reply] = {
    "ok": False,
    "code": "E-2FA-001",
    "message": "no code that is still good has been asked for: bot otp request",
}


@dataclass(slots=True)
class _Ticket:
    """What a code has to come with. `asked_at` is wire time."""

    ticket_id: str
    asked_at: datetime
    wrong: int = 0
    is_locked: bool = False

    def is_good(self, now: datetime) -> bool:
        """Tell whether the broker still takes a code for it."""
        is_used_up = self.is_locked or self.wrong >= TRIES_PER_TICKET
        return not is_used_up and now - self.asked_at <= TICKET_LIFE


class TwoFactorDesk:
    """Takes codes and tokens, and tells the engine when there is a token or none."""

    def __init__(
        self,
        client: BrokerClient,
        two_factor: TwoFactor,
        clocks: tuple[Clock, Clock],
        post: Post,
        state_dir: Path,
    ) -> None:
        """`clocks` are market and wire: events have the first, tickets age by the second."""
        self._state_dir = state_dir
        self._client = client
        self._two_factor = two_factor
        self._market, self._wire = clocks
        self._post = post
        self._ticket: _Ticket | None = None

    def report(self) -> None:
        """Tell the engine how it stands, at the start of a run."""
        if self._two_factor.is_ready:
            self._tell_ready("kept from before")
        else:
            self._post(
                TwoFactorMissing(
                    self._market.now(), "OTP_SESSION_REQUIRED", "no 2FA token yet today"
                )
            )

    @property
    def is_ready(self) -> bool:
        """Whether there is a token that has not ended."""
        return self._two_factor.is_ready

    def state(self) -> Reply:
        """How it stands, for `bot otp`."""
        until = self._two_factor.until
        return {
            "ok": True,
            "is_ready": self._two_factor.is_ready,
            "until": until.isoformat() if until and self._two_factor.is_ready else None,
            "has_ticket": self._has_ticket(),
        }

    async def request(self) -> Reply:
        """Have the broker send a code. One of five a day."""
        try:
            ticket = await self._client.request_otp()
        except BrokerError as error:
            return _refused(error)
        self._ticket = _Ticket(ticket.ticket_id, self._wire.now())
        self._note("CODE_REQUESTED", f"sent to {ticket.masked_destination}")
        return {"ok": True, "sent_to": ticket.masked_destination}

    async def submit(self, code: Secret) -> Reply:
        """Trade a code for a token; a code without a ticket asks for the code to be sent first."""
        ticket = self._ticket
        if ticket is None or not ticket.is_good(self._wire.now()):
            return _NO_TICKET
        try:
            token = await self._client.verify_otp(ticket.ticket_id, code)
        except BrokerError as error:
            ticket.wrong += 1
            ticket.is_locked = isinstance(error, Refused) and error.error_code == "OTP_LOCKED"
            self._note("CODE_REFUSED", str(error))
            return _refused(error)
        self._ticket = None
        return self._take(token.token, token.expires_at, "code")

    def _has_ticket(self) -> bool:
        return self._ticket is not None and self._ticket.is_good(self._wire.now())

    async def take(self, text: Secret) -> Reply:
        """Take what a person typed at a prompt: a code of six digits, or a whole token.

        The first code has a ticket asked for before it. One whose ticket is too old or used up is
        not tried: a new code is asked for, and that has to be typed.
        """
        if not _CODE.fullmatch(text.reveal()):
            return self.submit_token(text)
        if self._has_ticket():
            return await self.submit(text)
        is_first = self._ticket is None
        asked = await self.request()
        return await self.submit(text) if asked["ok"] and is_first else _asked_anew(asked)

    def submit_token(self, token: Secret) -> Reply:
        """Use a token that was made elsewhere; the broker will say what it thinks of it."""
        return self._take(token, None, "token")

    def _take(self, token: Secret, expires_at: datetime | None, by: str) -> Reply:
        self._two_factor.set_token(token, expires_at)
        if not self._two_factor.is_ready:
            return {"ok": False, "code": "E-2FA-002", "message": "this token has already ended"}
        assert self._two_factor.until is not None, "a token that is ready ends some day"
        keep_token(self._state_dir, token, self._two_factor.until)
        self._tell_ready(by)
        return self.state()

    def forget(self, code: str) -> None:
        """Drop the token: the broker has refused it with `code`."""
        forget_token(self._state_dir)
        self._two_factor.drop(code)

    def lose(self) -> Reply:
        """Drop the token on the operator's word; writes stop until there is a new one."""
        forget_token(self._state_dir)
        self._two_factor.drop("FORGOTTEN")
        self.report()
        return self.state()

    def _tell_ready(self, by: str) -> None:
        until = self._two_factor.until
        assert until is not None, "a token that is ready ends some day"
        self._post(TwoFactorReady(self._market.now(), until, by))

    def _note(self, kind: str, detail: str) -> None:
        at = self._market.now()
        self._post(Noted(at, AuthEvent(at, kind, "", detail)))


def _refused(error: BrokerError) -> Reply:
    return {"ok": False, "code": "E-2FA-003", "message": f"{error}. A new one: bot otp request"}


def _asked_anew(asked: Reply) -> Reply:
    if not asked["ok"]:
        return asked
    text = f"the code before is too old or used up; a new one was sent to {asked['sent_to']}"
    return {"ok": False, "code": "E-2FA-005", "message": f"{text}: type that one"}
