"""Which kinds of read fail: each is counted, and reported when it stops and when it starts working.

Three failures in a row of any reads make the broker unhealthy, the next success makes it healthy
again. A single kind of read that keeps failing is reported separately, and once more if it still
fails after such a time: till then it could not be told from the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from bot.broker.errors import BrokerError, RateLimited, Refused, is_unknown
from bot.clock import Clock, boottime_s
from bot.domain.message import BrokerHealthChanged, ReadHealthChanged
from bot.engine.health import DETAIL
from bot.runtime.activity import Post
from bot.runtime.worlds.environment import Elapsed

FAILURES_MAX: Final = 3
BOOK: Final = "the day order book"
ACCOUNT: Final = "the account"
PHASE: Final = "the phase"
NAMED_FROM: Final = 2
"""A read that fails this often in a row is reported."""
NAMED_AT_ONCE: Final = frozenset({BOOK, ACCOUNT})
"""These are read at least three times a minute: waiting for a second failure would be too late."""
LISTED_FOR_S: Final = 10.0
"""An id that the day order book has shown for so long should be known to the detail as well; a node
that lags may not know a younger one.
"""
LISTED_AGO_MAX_S: Final = 60.0
"""A day order book older than this says nothing of what the detail should know now."""


@dataclass(slots=True)
class Failing:
    """A kind of read that fails: its subject, since when, why the last time; `is_due`: its next
    failure is reported again.
    """

    kind: str
    about: str
    since_s: float
    count: int = 0
    reason: str = ""
    is_due: bool = False
    is_ignorant: bool = False
    """Its last failure was an answer: what should be known is not known."""

    @property
    def words(self) -> str:
        """`the quote of VNM`."""
        return f"{self.kind} of {self.about}" if self.about else self.kind


class Health:
    """Counts failures in a row and posts when reads stop or start working."""

    def __init__(self, clock: Clock, post: Post, elapsed_s: Elapsed = boottime_s) -> None:
        self._clock = clock
        self._post = post
        self._elapsed_s = elapsed_s
        self._failures = 0
        self._is_healthy = True
        self._failing: dict[tuple[str, str], Failing] = {}
        self._good_s: dict[str, float] = {}
        self._listed_s: dict[str, float] = {}
        self._list_s = 0.0

    def ages_s(self) -> dict[str, float]:
        """How long ago each kind of read was last answered."""
        now_s = self._elapsed_s()
        return {kind: now_s - good_s for kind, good_s in self._good_s.items()}

    def dead(self) -> list[tuple[Failing, float]]:
        """What fails often enough to be reported, and for how many seconds; the longest first."""
        now_s = self._elapsed_s()
        named = [it for it in self._failing.values() if it.count >= _named_from(it.kind)]
        return [(it, now_s - it.since_s) for it in sorted(named, key=lambda it: it.since_s)]

    def succeeded(self, kind: str = "", about: str = "") -> None:
        """A read worked. `kind` is in words, like `the quote`; `about` is like VNM."""
        self._failures = 0
        if kind:
            self._good_s[kind] = self._elapsed_s()
        failing = self._failing.pop((kind, about), None)
        if failing is not None and failing.count >= _named_from(kind):
            news = ReadHealthChanged(self._clock.now(), True, "it works again", kind, about)
            self._post(news)
        if not self._is_healthy:
            self._is_healthy = True
            for other in self._failing.values():
                other.is_due = True
            self._post(BrokerHealthChanged(self._clock.now(), True, "reads work again"))

    def rest(self, kind: str, about: str) -> None:
        """It is not asked for in this phase: what failed in the last poll does not fail now."""
        failing = self._failing.pop((kind, about), None)
        if failing is not None and failing.count >= _named_from(kind):
            at, detail = self._clock.now(), "it is not polled"
            self._post(ReadHealthChanged(at, True, detail, kind, about, is_resting=True))

    def failed_alone(self, error: BrokerError, kind: str, about: str = "") -> int:
        """A read failed, which is counted for itself alone; return how often it has in a row."""
        if isinstance(error, RateLimited):
            return 0
        fresh = Failing(kind, about, self._elapsed_s())
        failing = self._failing.setdefault((kind, about), fresh)
        failing.count, failing.reason = failing.count + 1, error.reason
        failing.is_ignorant = is_unknown(error)
        if failing.count == _named_from(kind) or failing.is_due:
            at, failing.is_due = self._clock.now(), False
            self._post(ReadHealthChanged(at, False, error.reason, kind, about))
        return failing.count

    def failed(self, error: BrokerError, kind: str, about: str = "") -> None:
        """A read failed; one already reported says nothing about the others."""
        if self.failed_alone(error, kind, about) > FAILURES_MAX:
            return
        self._failures += 1
        if self._is_healthy and self._failures >= FAILURES_MAX:
            self._is_healthy = False
            self._post(BrokerHealthChanged(self._clock.now(), False, str(error)))

    def listed(self, ids: Iterable[str], asked_s: float) -> None:
        """A day order book asked for then shows these orders of today; each counts from the first
        of them in a row that does.
        """
        self._listed_s = {each: self._listed_s.get(each, asked_s) for each in ids}
        self._list_s = asked_s

    def not_known(self, order_id: str, asked_s: float) -> None:
        """The detail asked for then does not know an order, which is an answer, unless the order
        has been listed for a while: one that knows none of them is no better than one that fails.
        """
        listed_s = self._listed_s.get(order_id, asked_s)
        if asked_s - listed_s >= LISTED_FOR_S and asked_s - self._list_s <= LISTED_AGO_MAX_S:
            why = f"it does not know {order_id}, which the day order book shows"
            self.failed_alone(_unknown(why), DETAIL)
            return
        failing = self._failing.get((DETAIL, ""))
        if failing is None or not failing.is_ignorant:
            self.succeeded(DETAIL)


def _unknown(why: str) -> BrokerError:
    return Refused("order", why, http_status=HTTPStatus.NOT_FOUND, error_code="")


def _named_from(kind: str) -> int:
    return 1 if kind == PHASE or kind in NAMED_AT_ONCE else NAMED_FROM
