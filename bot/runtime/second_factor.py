"""Where a fresh 2FA token comes in: by prompt, by `bot otp`, by the watched file, or by a demo.

The first valid code or token wins; a later one is refused with that reason and not used. A code is
never requested unattended (the broker allows five a day), and no code is tried unless one was
mailed. Code and token go straight to the broker's client and into its memory; no event, row or line
contains them. What happens to them is in the journal, a token only by its last four characters.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from bot.broker.broker import Broker
from bot.broker.errors import BrokerError, Refused
from bot.clock import Clock
from bot.domain.entry import AUTH_DROPPED, AUTH_TAKEN, AUTH_TYPED, AuthEvent, Note
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import Noted, TwoFactorMissing, TwoFactorReady
from bot.domain.operations import CodesCounted
from bot.journal.reading.reader import JournalReader
from bot.protocol.secret import Secret
from bot.runtime.activity import Post
from bot.runtime.control.socket import Reply, refused
from bot.runtime.otp_ticket import Ticket, may_have_worked
from bot.runtime.state_dir import TokenDisk, forget_token, keep_token

_CODE: Final = re.compile("[0-9]{6}")
_TOKEN: Final = re.compile("[!-~]{10,4096}")
"""What can be sent as a header, and is too long for a code or a word typed by mistake."""
CODES_PER_DAY: Final = 5
"""Broker open API 0.2.0-preview.3, OTP exchange."""
CODE_REQUESTED: Final = "CODE_REQUESTED"
ANOTHER: Final = "send"
"""Typed at a prompt to have another code mailed."""
_FOR_ANOTHER: Final = f"For another: bot otp request (where the bot runs: {ANOTHER})"
_PLAYED_CODE: Final = ". The sandbox mails nothing, its code is {}"
NONE_MAILED: Final = "E-2FA-001"
WRONG: Final = "E-2FA-003"
USED_UP: Final = "E-2FA-005"
_NO_CODE: Final = "E-2FA-006"
NOT_REVOKED: Final = "E-2FA-008"
_UNUSABLE: Final = "E-2FA-007"
_OF_BEFORE: Final = "a code of before the start, or one not confirmed, can't be used any more"
NO_MORE_MAILS: Final[Mapping[str, str]] = {
    "OTP_RATE_LIMIT_EXCEEDED": f"all {CODES_PER_DAY} codes of today are used",
    "OTP_CONTACT_UNAVAILABLE": "the broker has no e-mail address to send a code to",
}

TERMINAL: Final = "the terminal"
BOT_OTP: Final = "bot otp"
BY_ITSELF: Final = "the demo"
"""The sources of a token, as people read them; the watched file goes by its own name."""
AT_ONCE: Final = timedelta(seconds=5)
"""Two sources that give a token within this time have raced: the second has nothing to replace."""
BAD_ANSWERS_MAX: Final = 2
_WAITS_S: Final = (5, 15, 60)
"""How long a prompt waits after each bad answer in a row; the last value repeats."""

_LACKS: Final[Mapping[str, str]] = {
    "OTP_SESSION_REQUIRED": "no 2FA token yet today",
    "OTP_SESSION_EXPIRED": "the 2FA token has ended",
}


@dataclass(frozen=True, slots=True)
class _Taken:
    """The winning token: when it was taken (wire time, and market time), and its source."""

    at: datetime
    market_at: datetime
    way: str


class SecondFactor:
    """Takes codes and tokens, and tells the engine when a token is there or missing."""

    def __init__(
        self,
        broker: Broker,
        clocks: tuple[Clock, Clock],
        post: Post,
        state_dir: Path,
        codes_asked: Sequence[datetime] = (),
        *,
        played_code: Secret | None = None,
        speed: float = 1.0,
    ) -> None:
        """`clocks` are market and wire: events have the first, tickets age by the second.

        `codes_asked`: when codes were requested before this run, market time. `played_code`: the
        code of a simulated broker; it mails nothing, so the answer to a request contains it.
        `speed` is market seconds per wire second.
        """
        self._state_dir = state_dir
        self._client, self._two_factor = broker.client, broker.two_factor
        self._market, self._wire = clocks
        self._post, self._speed = post, speed
        self._ticket: Ticket | None = None
        self._codes_asked = list(codes_asked)
        self._played_code = _PLAYED_CODE.format(played_code.reveal()) if played_code else ""
        self._exchange, self._asking = asyncio.Lock(), asyncio.Lock()
        self._answered: Reply = {}
        self._taken: _Taken | None = None
        self._bad_answers = 0
        self._disk = TokenDisk()

    def report(self) -> None:
        """Tell the engine whether a token is there, at the start of a run or day."""
        self._count_codes()
        if self._two_factor.is_ready:
            self._post_ready("kept from before", "kept from before")
        else:
            lack = self._two_factor.lack
            self._post(TwoFactorMissing(self._market.now(), lack, _LACKS[lack]))

    @property
    def is_ready(self) -> bool:
        """Whether we have a token that has not ended."""
        return self._two_factor.is_ready

    def state(self) -> Reply:
        """Describe the state, for `bot otp` and the prompt of a run."""
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
            "wait_s": self._wait_s(),
        }

    def _wait_s(self) -> int:
        """How long a prompt waits before it asks again: two bad answers in a row slow it down."""
        more = self._bad_answers - BAD_ANSWERS_MAX
        return 0 if more < 0 else _WAITS_S[min(more, len(_WAITS_S) - 1)]

    def _bad(self, reply: Reply) -> Reply:
        self._bad_answers += 1
        return {**reply, "wait_s": self._wait_s()}

    async def request(self) -> Reply:
        """Have the broker mail a code. One of five a day.

        Whoever asks while another does shares the answer: a second code would end the first.
        """
        before = self._answered
        async with self._asking:
            if self._answered is before:
                self._answered = await self._request()
            return self._answered

    async def _request(self) -> Reply:
        try:
            ticket = await self._client.request_otp()
        except BrokerError as error:
            code = error.error_code if isinstance(error, Refused) else ""
            what = "no code was mailed"
            if may_have_worked(error):
                what = "a code may have been mailed, but can't be used"
                self._codes_asked.append(self._market.now())
                self._note(CODE_REQUESTED, "no good answer: one may have been mailed, and counts")
                if self._ticket is not None:
                    self._ticket.ask_for_later()
            if code == "OTP_RATE_LIMIT_EXCEEDED":
                missing = CODES_PER_DAY - self._codes_used()
                self._codes_asked += [self._market.now()] * missing
            self._count_codes()
            reason = NO_MORE_MAILS.get(code, str(error))
            return refused(WRONG, f"{what}: {reason}. A token works too: bot otp token")
        self._ticket = Ticket(ticket.ticket_id, ticket.masked_destination, self._wire.now())
        self._codes_asked.append(self._market.now())
        left = f"{self._codes_left()} of the day's {CODES_PER_DAY} left"
        self._note(CODE_REQUESTED, f"sent to {ticket.masked_destination}, {left}")
        self._count_codes()
        message = f"a code was mailed to {ticket.masked_destination} ({left}){self._played_code}"
        return {**self.state(), "message": message}

    async def submit(self, code: Secret, way: str = BOT_OTP) -> Reply:
        """Exchange a code for a token. None is tried without a mailed code that is still valid, nor
        while another is being checked.
        """
        if not _CODE.fullmatch(code.reveal()):
            return self._bad(refused(_NO_CODE, "a code has six digits; this was not tried"))
        before = self._taken
        async with self._exchange:
            if self._is_beaten(before, way):
                return self._too_late(way)
            ticket = self._good_ticket()
            if ticket is None and self._ticket is None:
                none = _OF_BEFORE if self._codes_used() else "no code was mailed yet"
                return self._bad(refused(NONE_MAILED, f"{none}, so this was not tried"))
            if ticket is None:
                reply = refused(USED_UP, "the previous code has expired or was already used")
                return self._bad(reply)
            self._note(AUTH_TYPED, f"a code, by {way}")
            try:
                token = await self._client.verify_otp(ticket.ticket_id, code)
            except BrokerError as error:
                reply = self._refused(ticket, error)
                return self._too_late(way) if self._is_beaten(before, way) else self._bad(reply)
            ticket.tries_left = 0
            if self._is_beaten(before, way):
                return self._too_late(way)
            return self._take(token.token, token.expires_at, "code", way)

    def _is_beaten(self, before: _Taken | None, way: str) -> bool:
        """Return whether a token has arrived while this one was on its way, or just before it."""
        taken = self._taken
        if taken is None or not self.is_ready:
            return False
        return taken is not before or (taken.way != way and self._wire.now() - taken.at <= AT_ONCE)

    def _too_late(self, way: str) -> Reply:
        """Refuse the loser; what they gave is not used."""
        assert self._taken is not None, "a token has come first"
        text = f"what {way} gave is not used: a token came first, by {self._taken.way}"
        self._note("TOO_LATE", text)
        return {**self.state(), "warning": text}

    def _refused(self, ticket: Ticket, error: BrokerError) -> Reply:
        """Report a failed try."""
        what = ticket.refuse(error)
        left = ticket.tries_left
        tries = "1 try" if left == 1 else f"{left or 'no'} tries"
        self._note("CODE_REFUSED", f"{what} ({tries} left)")
        if left == 0:
            codes = f"{self._codes_left()} of the day's {CODES_PER_DAY} codes left"
            text = f"{what}; no try is left for the code that was mailed ({codes})"
            return refused(USED_UP, text)
        if what == ticket.doubt:
            return refused(WRONG, f"{what} ({tries} left). {_FOR_ANOTHER}")
        return refused(WRONG, f"{what}; type the code just mailed ({tries} left)")

    def _good_ticket(self) -> Ticket | None:
        """Return the ticket if the broker still accepts a code for it."""
        ticket = self._ticket
        return ticket if ticket is not None and ticket.is_good(self._wire.now()) else None

    def _codes_used(self) -> int:
        """How many codes were requested today, as far as this bot knows."""
        today = self._market.now().astimezone(EXCHANGE_TZ).date()
        return sum(at.astimezone(EXCHANGE_TZ).date() == today for at in self._codes_asked)

    def _codes_left(self) -> int:
        return max(0, CODES_PER_DAY - self._codes_used())

    async def take(self, text: Secret, way: str = TERMINAL) -> Reply:
        """Process what was typed at a prompt: nothing, `send`, a code, or a whole token.

        An empty input requests a code by mail, unless one is out already.
        """
        typed, ticket = text.reveal(), self._good_ticket()
        if typed.lower() == ANOTHER or not (typed or ticket):
            return await self.request()
        if not typed:
            assert ticket is not None, "nothing was typed while a code is out"
            which = "the code before the last" if ticket.is_of_before else "a code"
            out = f"{which} is out, mailed to {ticket.sent_to}{self._played_code}"
            return {**self.state(), "message": f"{out}. For another: {ANOTHER}"}
        return await self.give(text, way)

    async def give(self, text: Secret, way: str) -> Reply:
        """Take a code or a token, whichever it is."""
        if text.reveal().isdecimal():
            return await self.submit(text, way)
        return self.submit_token(text, way)

    def submit_token(self, token: Secret, way: str = BOT_OTP) -> Reply:
        """Use a token that was made elsewhere; the broker judges it at the next write."""
        if not _TOKEN.fullmatch(token.reveal()):
            text = "a token is one long word of letters, digits and signs; this was not used"
            return self._bad(refused(_UNUSABLE, text))
        if self._is_beaten(self._taken, way):
            return self._too_late(way)
        return self._take(token, None, "token", way)

    def _take(self, token: Secret, expires_at: datetime | None, by: str, way: str) -> Reply:
        if self._two_factor.has_ended(token, expires_at):
            text = "this token has already ended; it was not used"
            return self._bad(refused("E-2FA-002", text))
        self._two_factor.set_token(token, expires_at)
        self._taken, self._bad_answers = _Taken(self._wire.now(), self._market.now(), way), 0
        until = self._post_ready(by, f"by a {by}, {way}")
        try:
            self._disk.do(partial(keep_token, self._state_dir, token, until))
        except OSError as error:
            text = (
                f"the token is good, but cannot be kept in {self._state_dir} ({_cause(error)}): "
                "after a restart the bot asks for another"
            )
            self._note("TOKEN_NOT_KEPT", text)
            return {**self.state(), "warning": text}
        return self.state()

    def forget(self, code: str, refused_at: datetime) -> None:
        """Drop the token, which the broker refused with this code.

        The engine may hear of the refusal late: a token that was taken after it (market time) is
        another one, and there are only a few codes a day.
        """
        if self._taken is not None and self._taken.market_at > refused_at:
            return
        self._note_gone(f"the broker has refused it: {code}")
        self._unkeep()
        self._two_factor.drop()

    def lose(self) -> Reply:
        """Drop the token at the operator's request; writes stop until there is a new one."""
        failure = self._unkeep()
        self._note_gone("dropped by the operator")
        self._two_factor.drop()
        self.report()
        return {**self.state(), "warning": failure} if failure else self.state()

    async def revoke(self) -> Reply:
        """Have the broker end the token's session, and drop the token in any case."""
        token = self._two_factor.token()
        if token is None:
            return refused(NOT_REVOKED, "there is no token that has not ended; nothing was revoked")
        reply = self.lose()
        try:
            await self._client.revoke_token(token)
        except BrokerError as error:
            text = f"the token is dropped here, but the broker has not confirmed its end ({error})"
            return {**reply, "warning": f"{text}: it ends by itself at midnight"}
        self._note("REVOKED", "the broker has ended the session of the token")
        return reply

    def _unkeep(self) -> str:
        """Remove the stored token; if that fails, return and note what it means."""
        try:
            self._disk.do(partial(forget_token, self._state_dir))
        except OSError as error:
            text = (
                f"the kept token cannot be removed from {self._state_dir} ({_cause(error)}): "
                "a restart would take it again"
            )
            self._note("TOKEN_NOT_REMOVED", text)
            return text
        return ""

    def _post_ready(self, by: str, how: str) -> datetime:
        """Tell the engine that a token is there; return its end."""
        until, at = self._two_factor.until, self._market.now()
        assert until is not None, "a token that is ready has an end"
        ends_at = at + self._two_factor.left * self._speed
        self._note(AUTH_TAKEN, f"token {self._two_factor.masked}, {how}")
        self._post(TwoFactorReady(at, until, by, ends_at))
        return until

    def _note_gone(self, why: str) -> None:
        if masked := self._two_factor.masked:
            self._note(AUTH_DROPPED, f"token {masked}: {why}")

    def _count_codes(self) -> None:
        self._post(CodesCounted(self._market.now(), self._codes_left(), CODES_PER_DAY))

    def tell_of_file(self, cause: str, why: str, path: str) -> None:
        """Report that what was put into the watched file is not used."""
        at = self._market.now()
        text = f"what was put into {path} is not used: {why}. It was for the 2FA token: bot otp"
        facts = {"alert": "TOKEN_FILE_REFUSED", "file": path, "cause": cause, "detail": why}
        self._post(Noted(at, Note(at, "ALERT", text, facts)))

    def _note(self, kind: str, detail: str) -> None:
        at = self._market.now()
        self._post(Noted(at, AuthEvent(at, kind, "", detail)))


def codes_asked(journal_url: str, day: date) -> list[datetime]:
    """When codes were requested on a day, by the journal; those of other programs are not known."""
    start = datetime.combine(day, time(), EXCHANGE_TZ)
    with JournalReader(journal_url) as reader:
        return [row.at for row in reader.auth_events(since=start) if row.kind == CODE_REQUESTED]


def _cause(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
