"""A channel's thread: bounded, never in the way, and it tells what it dropped."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

import pytest

from bot.domain.notice import Severity, Volume
from bot.runtime.notices.channels import Message, Sent
from bot.runtime.notices.sender import QUEUE_MAX, Result, Sender

pytestmark = pytest.mark.wire
TAKEN = Sent(is_taken=True, words="taken")
DEADLINE_S = 60.0


def message(severity: Severity, title: str = "") -> Message:
    return Message(severity, Volume.ON, title or severity.name, "body")


class Played:
    """A channel whose service answers when the test lets it, and what was reported about it."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = threading.Event()
        self.results: list[Result] = []
        self.reported = threading.Condition()

    def send(self, _: Message) -> Sent:
        self.asked.set()
        self.may_answer.wait(DEADLINE_S)
        return TAKEN

    def report(self, result: Result) -> None:
        with self.reported:
            self.results.append(result)
            self.reported.notify()

    def wait_for(self, count: int) -> None:
        with self.reported:
            assert self.reported.wait_for(lambda: len(self.results) >= count, DEADLINE_S)


@contextmanager
def sender(played: Played, send: Callable[[Message], Sent] | None = None) -> Iterator[Sender]:
    def words(*, count: int) -> str:
        return f"{count} dropped"

    tested = Sender("phone", send or played.send, played.report, dropped_words=words)
    tested.start()
    try:
        yield tested
    finally:
        played.may_answer.set()
        tested.stop()
        tested.join(DEADLINE_S)


def test_a_hundred_thousand_messages_for_a_service_that_hangs_leave_a_short_queue() -> None:
    played = Played()

    with sender(played) as tested:
        tested.put(message(Severity.INFO))
        played.asked.wait(DEADLINE_S)
        began = monotonic()
        for _ in range(100_000):
            tested.put(message(Severity.INFO))
        took_s, waiting = monotonic() - began, tested.waiting
        played.may_answer.set()
        played.wait_for(1 + QUEUE_MAX)

    assert waiting == QUEUE_MAX
    assert took_s < DEADLINE_S, "it never waits for the service"
    assert sum(each.dropped for each in played.results) == 100_000 - QUEUE_MAX
    assert f"{100_000 - QUEUE_MAX} dropped" in played.results[1].message.body


def test_the_least_urgent_makes_room_and_the_most_urgent_goes_first() -> None:
    played = Played()

    with sender(played) as tested:
        tested.put(message(Severity.INFO, "first"))
        played.asked.wait(DEADLINE_S)
        for number in range(QUEUE_MAX):
            tested.put(message(Severity.INFO, f"info {number}"))
        tested.put(message(Severity.CRITICAL, "halted"))
        played.may_answer.set()
        played.wait_for(1 + QUEUE_MAX)

    titles = [each.message.title for each in played.results]
    assert titles[:3] == ["first", "halted", "info 1"]
    assert "info 0" not in titles


def test_a_less_urgent_message_does_not_push_a_critical_one_out() -> None:
    played = Played()

    with sender(played) as tested:
        tested.put(message(Severity.INFO, "first"))
        played.asked.wait(DEADLINE_S)
        for _ in range(QUEUE_MAX):
            tested.put(message(Severity.CRITICAL))
        tested.put(message(Severity.INFO, "late"))
        played.may_answer.set()
        played.wait_for(1 + QUEUE_MAX)

    assert "late" not in [each.message.title for each in played.results]


def test_the_end_does_not_wait_for_a_service_that_hangs() -> None:
    played = Played()

    with sender(played) as tested:
        tested.put(message(Severity.CRITICAL))
        played.asked.wait(DEADLINE_S)
        began = monotonic()
        tested.stop()
        tested.join(0.05)
        took_s = monotonic() - began

    assert took_s < DEADLINE_S / 2


class Service:
    """A service that is away until the test says otherwise, and what has reached it. It never
    takes a message with the title `refused`.
    """

    def __init__(self) -> None:
        self.is_away = True
        self.refused = ""
        self.tried: list[str] = []
        self.taken: list[Message] = []
        self.changed = threading.Condition()

    def send(self, each: Message) -> Sent:
        with self.changed:
            self.tried.append(each.title)
            self.changed.notify_all()
            if self.is_away:
                return Sent(is_taken=False, words="no answer in time")
            if each.title == self.refused:
                return Sent(is_taken=False, words="it answered HTTP 400")
            self.taken.append(each)
            return TAKEN

    def come_back(self) -> None:
        with self.changed:
            self.is_away = False

    def wait_for_tries(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.tried) >= count, DEADLINE_S)

    def titles(self, count: int) -> list[str]:
        """Wait for so many messages, and return their titles."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, DEADLINE_S)
            return [each.title for each in self.taken]


@contextmanager
def unheard(retry_s: float) -> Iterator[tuple[Sender, Service, Played]]:
    """A sender whose service has not taken a message, told of once each: two critical ones
    and one other.
    """
    service, played = Service(), Played()
    tested = Sender(
        "phone",
        service.send,
        played.report,
        dropped_words=lambda *, count: f"{count} dropped",
        pauses_s=(0.0, 0.0),
        retry_s=retry_s,
    )
    for number, severity in enumerate((Severity.CRITICAL, Severity.CRITICAL, Severity.INFO)):
        tested.put(message(severity, f"{severity.name} {number}"))
    tested.start()
    try:
        played.wait_for(3)
        yield tested, service, played
    finally:
        tested.stop()
        tested.join(DEADLINE_S)


def test_a_critical_message_that_was_not_taken_is_told_when_the_service_takes_another() -> None:
    with unheard(retry_s=3_600) as (tested, service, played):
        untold = tested.waiting, tested.untold
        service.come_back()
        tested.put(message(Severity.INFO, "a fill"))
        titles = service.titles(3)
        played.wait_for(6)

    assert untold == (2, 3)
    assert titles == ["a fill", "CRITICAL 0", "CRITICAL 1"]
    assert service.taken[0].body == "body\n1 dropped"
    assert [each.body for each in service.taken[1:]] == ["body", "body"]
    assert [each.sent.is_taken for each in played.results] == [False] * 3 + [True] * 3
    assert sum(each.dropped for each in played.results) == 1
    assert tested.untold == 0


def test_a_critical_message_that_was_not_taken_is_tried_again_until_it_is() -> None:
    with unheard(retry_s=0.001) as (_, service, played):
        service.wait_for_tries(5 + 10)
        told, tried = len(played.results), service.tried[5:]
        service.come_back()
        titles = service.titles(2)

    assert sorted(titles) == ["CRITICAL 0", "CRITICAL 1"]
    assert tried[:10] == ["CRITICAL 0", "CRITICAL 1"] * 5, "they take turns"
    assert told == 3, "a try that is made again is told once it succeeds"


def test_a_critical_message_that_is_always_refused_delays_no_other() -> None:
    with unheard(retry_s=0.01) as (tested, service, played):
        service.refused = "CRITICAL 0"
        service.come_back()
        titles = service.titles(1)
        played.wait_for(4)
        tested._pauses_s = (3_600.0, 3_600.0)  # a second try in a turn would hold up the rest
        before = len(service.tried)
        service.wait_for_tries(before + 2)
        tested.put(message(Severity.INFO, "a fill"))
        played.wait_for(5)
        waiting, is_failing = tested.waiting, tested._is_failing

    assert titles == ["CRITICAL 1"]
    assert waiting == 1, "it is tried again and again"
    assert not is_failing, "the next message gets all of its tries"
    assert [each.kept for each in played.results] == [1, 2, 2, 1, 1]


def test_a_new_critical_message_waits_for_no_pause_that_another_has_earned() -> None:
    with unheard(retry_s=0.01) as (tested, service, played):
        service.refused = "CRITICAL 0"
        service.come_back()
        service.titles(1)
        tested._next_retry_s = 3_600.0
        service.is_away = True
        tested.put(message(Severity.CRITICAL, "halted"))
        played.wait_for(5)
        service.come_back()
        titles = service.titles(2)

    assert titles == ["CRITICAL 1", "halted"]


def test_a_message_that_is_never_taken_is_tried_ever_more_seldom() -> None:
    """One of several recipients may be gone, and the others get it each time."""
    with unheard(retry_s=0.05) as (_, service, _):
        before = len(service.tried)
        sleep(0.6)
        tried = len(service.tried) - before

    assert tried <= 4, "after 0.05, 0.1, 0.2 s and so on: at the most"


def test_at_the_end_what_was_kept_is_tried_once_more_and_counted() -> None:
    with unheard(retry_s=3_600) as (tested, service, _):
        before = len(service.tried)

    assert len(service.tried) == before + 2
    assert tested.untold == 3


def test_a_patient_end_tells_what_was_kept_before_what_came_since() -> None:
    with unheard(retry_s=3_600) as (tested, service, _):
        service.come_back()
        tested.put(message(Severity.INFO, "it is over"))
        tested.stop(is_patient=True)
        titles = service.titles(3)

    assert titles == ["CRITICAL 0", "CRITICAL 1", "it is over"]


def test_of_many_critical_messages_that_were_not_taken_the_newest_are_kept() -> None:
    with unheard(retry_s=3_600) as (tested, service, played):
        for number in range(QUEUE_MAX):
            tested.put(message(Severity.CRITICAL, f"{number}"))
        played.wait_for(3 + QUEUE_MAX)
        waiting = tested.waiting
        service.come_back()
        tested.put(message(Severity.INFO, "a fill"))
        titles = service.titles(1 + QUEUE_MAX)
        played.wait_for(4 + 2 * QUEUE_MAX)

    assert waiting == QUEUE_MAX
    assert titles == ["a fill", *map(str, range(QUEUE_MAX))]
    assert service.taken[0].body.endswith("3 dropped")
    assert sum(each.dropped for each in played.results) == 3


def test_a_message_that_is_not_taken_is_tried_again_but_once_only_when_the_end_comes() -> None:
    played = Played()
    tries = list[str]()

    def refuse(each: Message) -> Sent:
        tries.append(each.title)
        played.asked.set()
        return Sent(is_taken=False, words="it answered HTTP 500")

    with sender(played, refuse) as tested:
        tested.put(message(Severity.INFO, "one"))
        played.asked.wait(DEADLINE_S)
        tested.stop()
        played.wait_for(1)

    assert tries == ["one"]
    assert played.results[0].sent.words == "it answered HTTP 500"
