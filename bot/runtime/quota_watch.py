"""Reports that requests wait for the broker's quota, and since when the broker limits us.

A 429 ends at its reset. One that lasts or keeps returning makes a bot blind and slow, although what
it reads is correct: quotes arrive late, and so do the ends of orders. It stays in the alerts of
`bot status` while it lasts.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from bot.broker.budget import RequestBudget
from bot.domain.entry import Note, Number
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.message import Noted
from bot.engine.control_state import Standing
from bot.runtime.activity import Post
from bot.runtime.worlds.environment import Environment

TOLD_FROM: Final = timedelta(seconds=45)
"""Shorter limits are a line on the screen; longer ones are an alert."""
SHOWN_FROM: Final = timedelta(seconds=5)
"""A wait as short as this is not worth a line of the status."""
_LONG_TERM: Final = "the broker still limits us after its own reset: a long-term limit"


class QuotaWatch:
    """The budget's clock need not be the market's, nor run at its pace; messages use
    market time.
    """

    def __init__(self, environment: Environment, post: Post) -> None:
        self._environment = environment
        self._post = post
        self._told: datetime | None = None
        """The beginning of the limit that the last alert reported."""

    def note_wait(self, budget: RequestBudget, until: datetime, waiting: int, call: str) -> None:
        """Journal and show that requests wait for the broker's quota; raise an alert if the wait is
        long.
        """
        now, since = self._environment.market.now(), budget.limited_since
        opens_at = _in_market(self._environment, until)
        numbers: dict[str, Number] = {
            "until": opens_at.isoformat(),
            "waiting": waiting,
            "call": call,
        }
        text = _LONG_TERM if budget.is_degraded else "the broker's request quota is used up"
        self._post(Noted(now, Note(now, "LIMIT", text, numbers)))
        if since is not None and since != self._told and budget.closed_until - since >= TOLD_FROM:
            self._told = since
            for each in limited(self._environment, budget):
                facts: dict[str, Number] = {"alert": each.code, **each.facts}
                self._post(Noted(now, Note(now, "ALERT", each.text, facts)))


def limited(environment: Environment, budget: RequestBudget) -> Iterator[Standing]:
    """Yield the alert that holds while the broker limits us."""
    since, until = budget.limited_since, budget.closed_until
    if since is None or until - since < SHOWN_FROM:
        return
    since, until = _in_market(environment, since), _in_market(environment, until)
    since_words, until_words = (f"{at.astimezone(EXCHANGE_TZ):%H:%M:%S}" for at in (since, until))
    text = (
        f"since {since_words} the broker has answered 429: the request quota is used up. Nothing "
        f"leaves before its reset, the last one at {until_words}, not even a cancel; then cancels "
        "go first, and reads one after another: quotes, fills and ends of orders are seen late. If "
        "it goes on, find out who else uses this key, and compare broker.requests_per_minute with "
        "what your key may ask"
    )
    yield Standing("RATE_LIMITED", text, {"since": since.isoformat(), "until": until.isoformat()})


def _in_market(environment: Environment, at: datetime) -> datetime:
    wait = (at - environment.waiter.now()) * environment.quota_speed
    return environment.market.now() + wait
