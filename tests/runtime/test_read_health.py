"""One kind of read that fails is named by itself; when all of them fail, the broker is."""

from bot.broker.errors import BrokerError, RateLimited
from bot.clock import SimulatedClock
from bot.domain.message import BrokerHealthChanged, Event, ReadHealthChanged
from bot.runtime.read_health import ACCOUNT, BOOK, Health
from tests.engine.stage import START

FAILED = BrokerError("quote", "HTTP 500")


def health() -> tuple[Health, list[Event]]:
    posted: list[Event] = []
    return Health(SimulatedClock(START), posted.append), posted


def named(is_healthy: bool, kind: str, about: str = "") -> ReadHealthChanged:
    return ReadHealthChanged(
        START, is_healthy, "it works again" if is_healthy else "HTTP 500", kind, about
    )


def test_a_quote_that_fails_twice_while_others_work_is_named_until_it_comes() -> None:
    judge, posted = health()

    for _ in range(20):
        judge.failed(FAILED, "the quote", "VNM")
        judge.succeeded("the quote", "HPG")
    judge.succeeded("the quote", "VNM")
    judge.succeeded("the quote", "VNM")

    assert posted == [named(False, "the quote", "VNM"), named(True, "the quote", "VNM")]


def test_order_book_and_account_are_named_at_the_first_failure() -> None:
    judge, posted = health()

    judge.failed(FAILED, BOOK)
    judge.failed(FAILED, ACCOUNT)
    judge.succeeded(BOOK)

    assert posted == [named(False, BOOK), named(False, ACCOUNT), named(True, BOOK)]


def test_one_dead_route_does_not_make_the_broker_look_ill_again_and_again() -> None:
    judge, posted = health()

    for _ in range(20):
        for _ in range(4):
            judge.failed(FAILED, BOOK)
        judge.succeeded("the quote", "HPG")

    news = [type(one) for one in posted]
    assert news == [
        *(ReadHealthChanged, BrokerHealthChanged, BrokerHealthChanged),
        ReadHealthChanged,  # now by itself
    ]


def test_what_still_fails_when_others_work_again_is_named_once_more_and_nothing_else() -> None:
    judge, posted = health()
    judge.failed(FAILED, ACCOUNT)
    for _ in range(2):
        judge.failed(FAILED, "the quote", "VNM")
        judge.failed(FAILED, "the quote", "HPG")
    judge.succeeded("the quote", "HPG")
    posted.clear()

    for _ in range(20):
        judge.failed(FAILED, "the quote", "VNM")
        judge.succeeded("the quote", "HPG")
    judge.succeeded(ACCOUNT)

    assert posted == [named(False, "the quote", "VNM"), named(True, ACCOUNT)]


def test_what_failed_in_the_last_poll_of_a_session_fails_no_more() -> None:
    judge, posted = health()
    for about in ("VNM", "VNM", "HPG"):
        judge.failed(FAILED, "the quote", about)
        judge.succeeded(BOOK)

    for about in ("VNM", "HPG", "SHS"):
        judge.rest("the quote", about)

    assert judge.dead() == []
    detail = "it is not polled"
    ended = ReadHealthChanged(START, True, detail, "the quote", "VNM", is_resting=True)
    assert posted == [named(False, "the quote", "VNM"), ended]


def test_the_wait_for_the_quota_names_no_read() -> None:
    judge, posted = health()
    waits = RateLimited("quote", "the request quota is used up", START)

    for _ in range(3):
        judge.failed(waits, "the quote", "VNM")

    assert [type(one) for one in posted] == [BrokerHealthChanged]


def test_each_kind_has_an_age_and_what_fails_is_named_with_how_long() -> None:
    now_s = [100.0]
    judge = Health(SimulatedClock(START), list[Event]().append, lambda: now_s[0])
    judge.succeeded("the quote", "HPG")
    judge.succeeded(BOOK)
    now_s[0] = 130.0
    judge.failed(FAILED, "the quote", "VNM")
    judge.failed(FAILED, "the quote", "SHS")  # once is no news
    now_s[0] = 140.0
    judge.failed(BrokerError("quote", "no answer"), "the quote", "VNM")
    judge.failed(FAILED, BOOK)
    now_s[0] = 155.0
    judge.succeeded("the quote", "HPG")

    assert judge.ages_s() == {"the quote": 0.0, BOOK: 55.0}
    assert [(it.words, it.reason, for_s) for it, for_s in judge.dead()] == [
        ("the quote of VNM", "no answer", 25.0),
        (BOOK, "HTTP 500", 15.0),
    ]
    judge.succeeded("the quote", "VNM")
    judge.succeeded(BOOK)
    assert judge.dead() == []
