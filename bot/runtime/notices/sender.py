"""One thread for each channel, with a short queue: a service that hangs delays no other.

Nothing waits for these threads: not trading, not the other channels, and the end of the process
only briefly. A message is tried three times. A critical one that was not taken is kept, and tried
again before any other: after 30 s and ever longer pauses, and at once when the service takes one.
Those kept take turns, so that one which is always refused delays no other. Others are dropped and
counted, as is the oldest of the least urgent when the queue is full.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bot.clock import monotonic_s
from bot.domain.notice import Severity
from bot.runtime.notices.channels import Message, Sent

QUEUE_MAX: Final = 100
TRIES: Final = 3
PAUSES_S: Final = (2.0, 10.0)
"""Between one try and the next; a channel that failed before gets one try per message."""
RETRY_S: Final = 30.0
"""After this long a critical message that was not taken is tried again; after each further failure
twice as long, as of several recipients some may get it each time.
"""
RETRY_S_MAX: Final = 1_800.0


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one message on one channel; one that is tried again later has the next when it
    is taken. `dropped` ones before it reached nobody; `kept` critical ones are still to be tried
    again.
    """

    channel: str
    message: Message
    sent: Sent
    tries: int
    dropped: int
    kept: int


class Sender:
    """The thread of one channel. It calls `report` with the result of each message."""

    def __init__(
        self,
        name: str,
        send: Callable[[Message], Sent],
        report: Callable[[Result], None],
        *,
        dropped_words: Callable[..., str],
        pauses_s: tuple[float, float] = PAUSES_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self.name = name
        self._send = send
        self._report = report
        self._dropped_words = dropped_words
        self._pauses_s = pauses_s
        self._retry_s = self._next_retry_s = retry_s
        self._queue = list[Message]()
        self._kept = list[Message]()
        """The next one first."""
        self._retry_at = 0.0
        self._dropped = 0
        self._refused = 0
        """Messages not taken at the end, when nobody hears of a result any more."""
        self._is_failing = False
        self._changed = threading.Condition()
        self._stopping = False
        self._is_patient = False
        self._busy_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"notices {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._queue) + len(self._kept)

    @property
    def untold(self) -> int:
        """Messages given to it that have reached nobody."""
        with self._changed:
            under_way = self._busy_since is not None
            return self.waiting + self._dropped + self._refused + under_way

    def busy_s(self) -> float:
        """How long the service has been busy with the current message."""
        since = self._busy_since
        return 0.0 if since is None else monotonic_s() - since

    def put(self, message: Message) -> None:
        """Queue a message; called on the loop, and never waits for the network."""
        with self._changed:
            if len(self._queue) >= QUEUE_MAX:
                least = min(range(len(self._queue)), key=lambda at: self._queue[at].severity)
                if self._queue[least].severity > message.severity:
                    self._dropped += 1
                    return
                del self._queue[least]
                self._dropped += 1
            self._queue.append(message)
            self._changed.notify()

    def stop(self, *, is_patient: bool = False) -> None:
        """Send what waits, and end: each message once, or with all its tries if `is_patient`."""
        with self._changed:
            self._stopping, self._is_patient = True, is_patient
            self._changed.notify()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            message, dropped, is_again = taken
            told = message
            if dropped:
                words = f"{message.body}\n{self._dropped_words(count=dropped)}"
                told = Message(message.severity, message.volume, message.title, words)
            tries, sent = 0, Sent(is_taken=False, words="")
            while not sent.is_taken and tries < (1 if is_again or self._is_failing else TRIES):
                if tries and self._waits(self._pauses_s[tries - 1]):
                    break
                tries += 1
                self._busy_since = monotonic_s()
                sent = self._send(told)
                self._busy_since = None
            is_known = sent.is_taken or not is_again  # one refused again may be at fault itself
            if is_known:
                self._is_failing = not sent.is_taken
            if sent.is_taken:
                self._retry_at = 0.0
            elif self._keep(message, dropped, is_again=is_again):
                dropped = 0
            if is_known:
                self._report(Result(self.name, told, sent, tries, dropped, len(self._kept)))

    def _keep(self, message: Message, dropped: int, *, is_again: bool) -> bool:
        """Keep a critical message that was not taken, and count any other; False at the end, when
        nothing is told later.
        """
        with self._changed:
            if self._stopping:
                self._refused += 1 + dropped
                return False
            self._dropped += dropped
            if message.severity is not Severity.CRITICAL:
                self._dropped += 1
                return True
            if not is_again:
                self._next_retry_s = self._retry_s
            self._kept.append(message)
            if len(self._kept) > QUEUE_MAX:
                del self._kept[0]
                self._dropped += 1
            self._retry_at = monotonic_s() + self._next_retry_s
            if is_again:
                self._next_retry_s = min(2 * self._next_retry_s, RETRY_S_MAX)
            return True

    def _take(self) -> tuple[Message, int, bool] | None:
        """Wait for the next message, and return whether it is tried again; None at the end. Those
        kept are first when they are due, then the most urgent; at the end those kept are last.
        """
        with self._changed:
            while not self._stopping and not self._queue and not self._is_due():
                wait_s = max(0.0, self._retry_at - monotonic_s()) if self._kept else None
                self._changed.wait(wait_s)
            is_due = self._is_patient or not self._queue if self._stopping else self._is_due()
            is_again = bool(self._kept) and is_due
            if not is_again and not self._queue:
                return None
            dropped, self._dropped = self._dropped, 0
            if is_again:
                return self._kept.pop(0), dropped, True
            first = max(range(len(self._queue)), key=lambda at: self._queue[at].severity)
            return self._queue.pop(first), dropped, False

    def _is_due(self) -> bool:
        """Return whether a kept message is tried again now."""
        return bool(self._kept) and monotonic_s() >= self._retry_at

    def _waits(self, pause_s: float) -> bool:
        """Pause before the next try; True if the end has come and has no time for it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping and not self._is_patient, pause_s)
