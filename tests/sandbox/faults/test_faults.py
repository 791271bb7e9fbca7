"""Fault rules: when they strike, how often, and what a restart knows."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from bot.sandbox.faults.rules import FaultRules, reset_at
from bot.sandbox.faults.script import POINTS, FaultPoint, FaultScript
from tests.rows import every_row

START = datetime(2026, 11, 19, 2, 15, tzinfo=UTC)
REJECT = {"do": "reject"}
TOO_MANY = {"do": "too_many", "reset_s": 30}


def book(*rules: Mapping[str, object]) -> FaultRules:
    faults = FaultRules(
        seed=7,
        at_time=lambda moment: datetime.combine(START.date(), moment, UTC),
        state_of=lambda path: "SENT" if path.endswith("ORD1") else None,
    )
    for rule in rules:
        faults.add(FaultScript.model_validate(rule))
    return faults


def strikes(
    faults: FaultRules, times: int, verb: str = "POST", path: str = "/x/orders"
) -> list[bool]:
    point = FaultPoint.AFTER_AUTH
    return [faults.strike(point, verb=verb, path=path, at=START) is not None for _ in range(times)]


def test_the_nth_matching_request_is_struck_once() -> None:
    faults = book({"match": {"verb": "POST", "path": "*/orders", "nth": 3}, "action": REJECT})

    strikes(faults, 5, verb="GET")

    assert strikes(faults, 5) == [False, False, True, False, False]


def test_times_repeats_a_strike_and_zero_never_ends() -> None:
    assert strikes(book({"match": {"times": 2}, "action": REJECT}), 4) == [True, True, False, False]
    assert strikes(book({"match": {"times": 0}, "action": REJECT}), 4) == [True] * 4


def test_a_rule_waits_for_its_market_time_and_its_point() -> None:
    rule = {"match": {"at": "02:20", "until": "02:21"}, "action": {"do": "status", "status": 500}}
    faults = book(rule)

    def struck(minutes: float, point: FaultPoint = FaultPoint.BEFORE_AUTH) -> bool:
        at = START + timedelta(minutes=minutes)
        return faults.strike(point, verb="GET", path="/", at=at) is not None

    assert not struck(4.9)
    assert not struck(5, FaultPoint.ACCEPT)
    assert struck(5)
    assert struck(5.9)
    assert not struck(6)


def test_the_state_of_the_named_order_can_be_a_condition() -> None:
    refuse = {"do": "status", "status": 500}
    rule = {"match": {"state": "SENT", "times": 0}, "point": "after_auth", "action": refuse}
    faults = book(rule)

    assert strikes(faults, 1, path="/orders/ORD1") == [True]
    assert strikes(faults, 1, path="/orders/ORD2") == [False]


def test_chance_is_seeded() -> None:
    rule = {"match": {"prob": 0.5}, "action": REJECT}

    first, second = strikes(book(rule), 50), strikes(book(rule), 50)

    assert first == second
    assert 10 < sum(first) < 40


def test_a_429_holds_until_its_reset_and_names_it() -> None:
    faults = book({"match": {"at": "02:15"}, "point": "after_auth", "action": TOO_MANY})

    def strike(seconds: float):
        at = START + timedelta(seconds=seconds)
        return faults.strike(FaultPoint.AFTER_AUTH, verb="GET", path="/", at=at)

    struck = [strike(seconds) for seconds in (0, 10, 29.9, 30, 31)]

    assert [rule is not None for rule in struck] == [True, True, True, False, False]
    assert reset_at(struck[0], struck[0].script.action) == START + timedelta(seconds=30)


def test_a_dropped_token_at_a_time_needs_no_request() -> None:
    faults = book({"match": {"at": "02:20"}, "action": {"do": "drop_2fa"}})

    assert strikes(faults, 1) == [False]
    assert faults.due_at() == datetime.combine(START.date(), time(2, 20), UTC)
    assert len(faults.pop_due(START + timedelta(minutes=5))) == 1
    assert faults.due_at() is None


@pytest.mark.parametrize("lasting", [{"until": "02:40"}, {"times": 0}])
def test_a_drop_at_a_time_happens_once_even_where_a_rule_may_strike_without_end(
    lasting: dict[str, Any],
) -> None:
    faults = book({"match": {"at": "02:20", **lasting}, "action": {"do": "drop_2fa"}})
    later = START + timedelta(minutes=30)

    happened = [len(faults.pop_due(later)), len(faults.pop_due(later))]

    assert happened == [1, 0]
    assert faults.due_at() is None


def test_restored_counts_go_on_where_they_were() -> None:
    faults = book({"match": {"nth": 3}, "action": REJECT})

    faults.restore(0, seen=2, struck=0, first_struck=None)

    assert strikes(faults, 2) == [True, False]


@every_row("do", POINTS)
def test_every_action_strikes_by_default_where_it_may(do: str) -> None:
    assert POINTS[do].usual in POINTS[do].allowed


@pytest.mark.parametrize(
    ("point", "action"),
    [
        ("before_auth", {"do": "hide_row", "seconds": 1}),
        ("after_body", {"do": "reject"}),
        ("after_body", {"do": "status", "status": 500}),
        ("before_auth", {"do": "dup_request"}),
        ("accept", {"do": "truncate", "length": 1}),
        ("headers_sent", {"do": "garbage", "kind": "nan"}),
    ],
)
def test_an_action_that_cannot_strike_there_is_no_rule(point: str, action: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="cannot strike"):
        FaultScript.model_validate({"point": point, "action": action})


@pytest.mark.parametrize(
    "action",
    [
        {"do": "swap_row"},
        {"do": "swap_row", "field": "symbol", "rows": 2},
        {"do": "swap_row", "field": "colour"},
        {"do": "garbage", "kind": "nice"},
        {"do": "set_fields", "fields": {}},
        {"do": "trickle", "bytes_per_s": 0},
        {"do": "date_header"},
    ],
)
def test_an_action_that_says_nothing_clear_is_no_rule(action: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FaultScript.model_validate({"action": action})


@pytest.mark.parametrize(
    ("match", "action", "said"),
    [
        ({"verb": "DELETE"}, REJECT, "reject strikes POST */orders alone, never a DELETE"),
        ({"verb": "PUT"}, REJECT, "never a PUT"),
        ({"verb": "GET"}, {"do": "hide_row", "seconds": 1}, "hide_row strikes POST"),
        ({"verb": "POST"}, {"do": "stale_read", "seconds": 1}, "stale_read strikes GET"),
        ({"state": "SENT"}, REJECT, "have no state yet"),
        ({"at": "09:20", "until": "09:19"}, REJECT, "until 09:19:00 is not after at 09:20:00"),
        ({"at": "09:20", "until": "09:20"}, REJECT, "it never strikes"),
        ({"state": "sent"}, {"do": "rst"}, "no order is ever sent, but WAITING_TO_SEND"),
        ({"path": "/orders"}, REJECT, "perhaps */orders"),
        ({"path": "/order-book/*"}, {"do": "rst"}, "perhaps */order-book/*"),
        ({"path": "orders"}, REJECT, "orders is no whole path"),
        ({"at": "09:20", "prob": 0.5}, {"do": "drop_2fa"}, "nth, prob and state choose none"),
        ({"at": "09:20", "nth": 5}, {"do": "drop_2fa"}, "needs no request"),
    ],
)
def test_a_fault_that_could_never_strike_is_no_rule(
    match: dict[str, Any], action: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        FaultScript.model_validate({"match": match, "action": action})


@pytest.mark.parametrize(
    "match",
    [
        {"path": "/trading/oa/sub-accounts/1/orders", "verb": "POST"},
        {"path": "/market/quotes/stocks/HPG"},
        {"path": "/users/v1/users/me"},
        {"path": "/nowhere"},
        {"at": "09:20", "prob": 0.5, "verb": "POST"},
    ],
)
def test_a_fault_that_may_strike_is_one(match: dict[str, Any]) -> None:
    FaultScript.model_validate({"match": match, "action": {"do": "drop_2fa"}})


@pytest.mark.parametrize(
    "action",
    [
        {"do": "status", "status": 503, "headers": {"X-A": "đ"}},
        {"do": "status", "status": 503, "headers": {"X-A": "a\r\nB: c"}},
        {"do": "status", "status": 503, "headers": {"X-A": "a\n"}},
        {"do": "status", "status": 503, "headers": {"X Ạ": "d"}},
        {"do": "redirect", "to": "http://đ/"},
        {"do": "redirect", "to": "http://x/\r\nA: b"},
        {"do": "date_header", "offset": 1e20},
        {"do": "date_header", "offset": -1e11},
        {"do": "date_header", "offset": float("nan")},
        {"do": "too_many", "reset_s": 10**12},
        {"do": "hide_row", "seconds": 1e300},
        {"do": "stale_read", "seconds": float("inf")},
        {"do": "delay", "seconds": float("nan")},
        {"do": "dup_request", "delay": 1e18},
    ],
)
def test_a_value_that_no_answer_can_carry_is_no_rule(action: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FaultScript.model_validate({"action": action})


@pytest.mark.parametrize(
    "action",
    [
        {"do": "status", "status": 503, "headers": {"Retry-After": "3", "X-A": "\xe9 \t~"}},
        {"do": "redirect", "to": "http://127.0.0.1:9/a?b=c"},
        {"do": "date_header", "offset": -3_600.0},
        {"do": "date_header", "offset": None},
    ],
)
def test_a_value_that_an_answer_can_carry_is_one(action: dict[str, Any]) -> None:
    FaultScript.model_validate({"action": action})


def test_what_strikes_orders_alone_leaves_other_requests_uncounted() -> None:
    faults = book({"match": {"nth": 2}, "action": REJECT})

    assert strikes(faults, 3, verb="GET") == [False] * 3
    assert strikes(faults, 3, verb="DELETE", path="/x/orders/ORD1") == [False] * 3
    assert strikes(faults, 2) == [False, True]


def test_the_points_are_in_the_order_of_a_request() -> None:
    assert [str(point) for point in FaultPoint] == [
        "accept",
        "before_auth",
        "after_auth",
        "after_apply",
        "headers_sent",
        "mid_body",
        "after_body",
    ]
