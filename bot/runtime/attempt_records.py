"""How one attempt at an order command ended, as the journal keeps it: outcome, code, raw answer.

Whatever came back is kept as it was, without secrets and account numbers.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from bot.domain.entry import AttemptFinished, AttemptStarted
from bot.domain.outcome import Accepted, NotSent, Outcome, Refused, Unknown
from bot.protocol.envelope import Answer, NoAnswer
from bot.protocol.secret import redact

_OUTCOME_WORDS: Final[Mapping[type, str]] = {
    Accepted: "ACCEPTED",
    Refused: "REFUSED",
    NotSent: "NOT_SENT",
    Unknown: "UNKNOWN",
}


def finished(
    started: AttemptStarted, outcome: Outcome, answer: Answer | NoAnswer, at: datetime
) -> AttemptFinished:
    """Return the record of an attempt's end."""
    if isinstance(outcome, Accepted):
        code, reason = outcome.result.code, outcome.result.reason or ""
    else:
        code = outcome.code if isinstance(outcome, Refused) else None
        reason = outcome.reason
    if isinstance(answer, Answer):
        http_status = answer.http_status
        raw = answer.body.decode("utf-8", errors="backslashreplace")
    else:
        http_status, raw = None, answer.reason
    return AttemptFinished(
        at=at,
        attempt_id=started.attempt_id,
        intent_id=started.intent_id,
        outcome=_OUTCOME_WORDS[type(outcome)],
        http_status=http_status,
        code=code,
        reason=reason,
        raw=redact(raw),
        latency_ms=round(answer.latency_ms),
    )
