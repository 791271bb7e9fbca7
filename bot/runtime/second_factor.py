"""Where a fresh 2FA token comes in: a code or token by prompt, by `bot otp`, or by a demo.

A code is never asked for unattended (the broker allows five a day), and nothing is tried against a
code that was not mailed. Code and token go straight to the broker's client and into its memory; no
event, row or line carries them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from bot.broker.broker import Broker
from bot.broker.errors import BrokerError, Refused
from bot.clock import Clock
from bot.domain.entry import AuthEvent
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import Noted, TwoFactorMissing, TwoFactorReady
from bot.journal.reader import JournalReader
from bot.protocol.secret import Secret
from bot.runtime.activity import Post
from bot.runtime.control.socket import Reply, refused
from bot.runtime.state_dir import forget_token, keep_token

_CODE: Final = re.compile("[0-9]{6}")
_TOKEN: Final = re.compile("[!-~]{10,4096}")
"""What can be sent as a header, and is too long for a code or word typed by mistake."""
TICKET_LIFE: Final = timedelta(minutes=5)
TRIES_PER_TICKET: Final = 3
CODES_PER_DAY: Final = 5
"""All three: broker open API 0.2.0-preview.3, OTP exchange."""
CODE_REQUESTED: Final = "CODE_REQUESTED"
ANOTHER: Final = "send"
"""Typed at a prompt to have another code mailed."""
_PLAYED_CODE: Final = ". The sandbox mails nothing, its code is {}"
NONE_MAILED: Final = "E-2FA-001"
WRONG: Final = "E-2FA-003"
USED_UP: Final = "E-2FA-005"
_NO_CODE: Final = "E-2FA-006"
_UNUSABLE: Final = "E-2FA-007"
NO_MORE_MAILS: Final[Mapping[str, str]] = {
    "OTP_RATE_LIMIT_EXCEEDED": f"all {CODES_PER_DAY} codes of today are used",
    "OTP_CONTACT_UNAVAILABLE": "the broker has no e-mail address to send a code to",
}


@dataclass(slots=True)
class _Ticket:
    """What a code has to come with. `asked_at` is wire time."""

    ticket_id: str
    sent_to: str
    asked_at: datetime
    tries_left: int = TRIES_PER_TICKET


class SecondFactor:
    """Takes codes and tokens, and lets the engine know when a token is there or missing."""

    def __init__(
        self,
        broker: Broker,
        clocks: tuple[Clock, Clock],
        post: Post,
        state_dir: Path,
        codes_asked: Sequence[datetime] = (),
        *,
        played_code: Secret | None = None,
    ) -> None:
        """`clocks` are market and wire: events have the first, tickets age by the second.

        `codes_asked`: when codes were asked for before this run, market time. `played_code`: the
        code of a broker that we play; it mails nothing, so the answer to a request has it.
        """
        self._state_dir = state_dir
        self._client, self._two_factor = broker.client, broker.two_factor
        self._market, self._wire = clocks
        self._post = post
        self._ticket: _Ticket | None = None
        self._codes_asked = list(codes_asked)
        self._played_code = _PLAYED_CODE.format(played_code.reveal()) if played_code else ""

    def report(self) -> None:
        """Let the engine know whether a token is there, at the start of a run or day."""
        if self._two_factor.is_ready:
            self._post_ready("kept from before")
        else:
            now = self._market.now()
            self._post(TwoFactorMissing(now, "OTP_SESSION_REQUIRED", "no 2FA token yet today"))

    @property
    def is_ready(self) -> bool:
        """Whether we have a token that has not ended."""
        return self._two_factor.is_ready

    def state(self) -> Reply:
        """Say what we have, for `bot otp` and the prompt of a run."""
        until, ticket = self._two_factor.until, self._good_ticket()
        return {
            "ok": True,
            "is_ready": self._two_factor.is_ready,
            "until": until.isoformat() if until and self._two_factor.is_ready else None,
            "has_ticket": ticket is not None,
            "sent_to": ticket.sent_to if ticket else None,
            "tries_left": ticket.tries_left if ticket else 0,
            "codes_used": self._codes_used(),
            "codes_per_day": CODES_PER_DAY,
        }

    async def request(self) -> Reply:
        """Have the broker mail a code. One of five a day."""
        try:
            ticket = await self._client.request_otp()
        except BrokerError as error:
            code = error.error_code if isinstance(error, Refused) else ""
            if code == "OTP_RATE_LIMIT_EXCEEDED":
                missing = CODES_PER_DAY - self._codes_used()
                self._codes_asked += [self._market.now()] * missing
            reason = NO_MORE_MAILS.get(code, str(error))
            return refused(WRONG, f"no code was mailed: {reason}. A token works too: bot otp token")
        self._ticket = _Ticket(ticket.ticket_id, ticket.masked_destination, self._wire.now())
        self._codes_asked.append(self._market.now())
        self._note(CODE_REQUESTED, f"sent to {ticket.masked_destination}")
        used = f"{self._codes_used()} of the day's {CODES_PER_DAY} used"
        message = f"a code was mailed to {ticket.masked_destination} ({used}){self._played_code}"
        return {**self.state(), "message": message}

    async def submit(self, code: Secret) -> Reply:
        """Trade a code for a token. Without a mailed code that is still good none is tried."""
        if not _CODE.fullmatch(code.reveal()):
            return refused(_NO_CODE, "a code has six digits; this was not tried")
        ticket = self._good_ticket()
        if ticket is None and self._ticket is None:
            return refused(NONE_MAILED, "no code was mailed yet, so this was not tried")
        if ticket is None:
            return refused(USED_UP, "the previous code has expired or was already used")
        try:
            token = await self._client.verify_otp(ticket.ticket_id, code)
        except BrokerError as error:
            return self._refused(ticket, error)
        ticket.tries_left = 0
        return self._take(token.token, token.expires_at, "code")

    def _refused(self, ticket: _Ticket, error: BrokerError) -> Reply:
        """Say what came of a try. One without an answer may count at the broker: it does here."""
        code = error.error_code if isinstance(error, Refused) else ""
        ticket.tries_left = 0 if code == "OTP_LOCKED" else ticket.tries_left - 1
        what = "wrong code" if code in {"OTP_INVALID", "OTP_LOCKED"} else f"code not taken: {error}"
        left = ticket.tries_left
        tries = "1 try" if left == 1 else f"{left or 'no'} tries"
        self._note("CODE_REFUSED", f"{what} ({tries} left)")
        if left == 0:
            return refused(USED_UP, f"{what}; no try is left for the code that was mailed")
        return refused(WRONG, f"{what}; type the code just mailed ({tries} left)")

    def _good_ticket(self) -> _Ticket | None:
        """The ticket, where the broker still takes a code for it."""
        ticket = self._ticket
        if ticket is None or ticket.tries_left <= 0:
            return None
        return ticket if self._wire.now() - ticket.asked_at <= TICKET_LIFE else None

    def _codes_used(self) -> int:
        """How many codes were asked for today, as far as this bot knows."""
        today = self._market.now().astimezone(EXCHANGE_TZ).date()
        return sum(at.astimezone(EXCHANGE_TZ).date() == today for at in self._codes_asked)

    async def take(self, text: Secret) -> Reply:
        """Take what was typed at a prompt: nothing, `send`, a code, or a whole token.

        Nothing at all has a code mailed, unless one is out already.
        """
        typed, ticket = text.reveal(), self._good_ticket()
        if typed.lower() == ANOTHER or not (typed or ticket):
            return await self.request()
        if not typed:
            assert ticket is not None, "nothing was typed while a code is out"
            out = f"a code is out, mailed to {ticket.sent_to}{self._played_code}"
            return {**self.state(), "message": f"{out}. For another: {ANOTHER}"}
        return await self.submit(text) if typed.isdecimal() else self.submit_token(text)

    def submit_token(self, token: Secret) -> Reply:
        """Use a token that was made elsewhere; the broker judges it at the next write."""
        if not _TOKEN.fullmatch(token.reveal()):
            text = "a token is one long word of letters, digits and signs; this was not used"
            return refused(_UNUSABLE, text)
        return self._take(token, None, "token")

    def _take(self, token: Secret, expires_at: datetime | None, by: str) -> Reply:
        if self._two_factor.has_ended(token, expires_at):
            return refused("E-2FA-002", "this token has already ended; it was not used")
        self._two_factor.set_token(token, expires_at)
        until = self._post_ready(by)
        try:
            keep_token(self._state_dir, token, until)
        except OSError as error:
            text = (
                f"the token is good, but cannot be kept in {self._state_dir} ({_cause(error)}): "
                "after a restart the bot asks for another"
            )
            self._note("TOKEN_NOT_KEPT", text)
            return {**self.state(), "warning": text}
        return self.state()

    def forget(self) -> None:
        """Drop the token: the broker has refused it."""
        self._unkeep()
        self._two_factor.drop()

    def lose(self) -> Reply:
        """Drop the token on the operator's word; writes stop until there is a new one."""
        failure = self._unkeep()
        self._two_factor.drop()
        self.report()
        return {**self.state(), "warning": failure} if failure else self.state()

    def _unkeep(self) -> str:
        """Remove the kept token; where that fails, return and note what it means."""
        try:
            forget_token(self._state_dir)
        except OSError as error:
            text = (
                f"the kept token cannot be removed from {self._state_dir} ({_cause(error)}): "
                "a restart would take it again"
            )
            self._note("TOKEN_NOT_REMOVED", text)
            return text
        return ""

    def _post_ready(self, by: str) -> datetime:
        """Let the engine know that a token is there; return its end."""
        until = self._two_factor.until
        assert until is not None, "a token that is ready has an end"
        self._post(TwoFactorReady(self._market.now(), until, by))
        return until

    def _note(self, kind: str, detail: str) -> None:
        at = self._market.now()
        self._post(Noted(at, AuthEvent(at, kind, "", detail)))


def codes_asked(journal_url: str, day: date) -> list[datetime]:
    """When codes were asked for on a day, by the journal; another program's are not known."""
    start = datetime.combine(day, time(), EXCHANGE_TZ)
    with JournalReader(journal_url) as reader:
        return [row.at for row in reader.auth_events(since=start) if row.kind == CODE_REQUESTED]


def _cause(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
