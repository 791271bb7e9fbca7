"""What a mailed one-time code is sent with: how often and how long, and what may have become of it.

A request whose answer was lost may have been done all the same: a ticket may be used up, or a later
code be in the mail. So what the broker then refuses may be the right code, and is not called wrong.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bot.broker.errors import BrokerError, Refused, is_unsent

TICKET_LIFE: Final = timedelta(minutes=5)
TRIES_PER_TICKET: Final = 3
"""Both: broker open API 0.2.0-preview.3, OTP exchange."""
_SERVERS_OWN: Final = 500
_WRONG: Final = frozenset({"OTP_INVALID", "OTP_LOCKED"})
_MAYBE_USED: Final = "code not taken: the try that had no answer may have used it up"
_MAYBE_LATER: Final = "code not taken: one whose request had no answer can't be used"


@dataclass(slots=True)
class Ticket:
    """`asked_at` is wire time. `doubt`: why even the right code may be refused, if it may be."""

    ticket_id: str
    sent_to: str
    asked_at: datetime
    tries_left: int = TRIES_PER_TICKET
    doubt: str = ""

    def is_good(self, now: datetime) -> bool:
        """Return whether the broker still accepts a code for it."""
        return self.tries_left > 0 and now - self.asked_at <= TICKET_LIFE

    def refuse(self, error: BrokerError) -> str:
        """Count a failed try; return what to say of it. One without an answer may count at the
        broker, so it counts here, unless it was never sent.
        """
        code = error.error_code if isinstance(error, Refused) else ""
        self.tries_left -= 0 if is_unsent(error) else 1
        if code == "OTP_LOCKED":
            self.tries_left = 0
        what = self.doubt or "wrong code" if code in _WRONG else f"code not taken: {error}"
        if may_have_worked(error):
            self.doubt = _MAYBE_USED
        return what

    def ask_for_later(self) -> None:
        """A later code was asked for, and may be in the mail; its own ticket is not known."""
        self.doubt = _MAYBE_LATER

    @property
    def is_of_before(self) -> bool:
        """Whether a later code may be in the mail."""
        return self.doubt == _MAYBE_LATER


def may_have_worked(error: BrokerError) -> bool:
    """Return whether the broker may have done what was asked of it, as it gave no good answer."""
    is_answer = isinstance(error, Refused) and error.http_status < _SERVERS_OWN
    return not is_answer and not is_unsent(error)
