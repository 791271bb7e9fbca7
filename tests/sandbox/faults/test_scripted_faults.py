"""Faults over the wire: what the client sees, and what has really happened."""

from datetime import timedelta
from typing import Any

import pytest

from bot.clock import SimulatedClock
from bot.sandbox.errors import ConnectionCut
from bot.sandbox.faults.script import FaultScript
from bot.sandbox.sandbox import Sandbox
from tests.sandbox.client import (
    ACCOUNT,
    EXTENDED,
    RULEBOOK,
    WIRE_START,
    Bench,
    bench,
    order_body,
    orders_path,
    ready,
    scenario,
)

BOOK = f"/trading/v1/accounts/{ACCOUNT}/order-book"
QUOTE = "/market/quotes/stocks/HPG"
PLACES = {"verb": "POST", "path": "*/orders"}


async def faulty(**rule: Any) -> Bench:
    b = await ready()
    b.sandbox.add_fault(FaultScript.model_validate(rule))
    return b


async def count(b: Bench) -> int:
    return len(await b.get(BOOK))


async def test_the_nth_order_is_rejected_inside_200() -> None:
    b = await faulty(match=PLACES | {"nth": 2}, action={"do": "reject", "code": "-900017"})

    results = [await b.place(limit_price=26_950) for _ in range(3)]

    assert [result["code"] for result in results] == [None, "-900017", None]
    assert results[1]["order_status"] == "REJECTED"
    assert results[1]["rejected_reason"] == "Giá nằm ngoài biên độ"


@pytest.mark.parametrize(("point", "orders"), [("before_auth", 0), ("after_apply", 1)])
async def test_a_500_before_or_after_the_order_was_taken(point: str, orders: int) -> None:
    b = await faulty(match=PLACES, point=point, action={"do": "status", "status": 500})

    answer = await b.call("POST", orders_path(), order_body())

    assert (answer.status_code, answer.json()["error_code"]) == (500, "500")
    assert await count(b) == orders


@pytest.mark.parametrize(
    ("rule", "orders"),
    [
        ({"point": "accept", "action": {"do": "rst"}}, 0),
        ({"action": {"do": "rst"}}, 1),
        ({"action": {"do": "fin"}}, 1),
        ({"action": {"do": "hang", "seconds": 600}}, 1),
        ({"action": {"do": "truncate", "length": 10}}, 1),
    ],
)
async def test_a_cut_connection_hides_what_became_of_the_order(
    rule: dict[str, Any], orders: int
) -> None:
    b = await faulty(match=PLACES, **rule)

    with pytest.raises(ConnectionCut):
        await b.call("POST", orders_path(), order_body())

    assert await count(b) == orders


async def test_a_delay_waits_and_then_answers() -> None:
    b = await faulty(match=PLACES, action={"do": "delay", "seconds": 3})

    answer = await b.call("POST", orders_path(), order_body())

    assert (answer.status_code, b.naps) == (200, [3.0])


async def test_a_hidden_row_is_out_of_book_and_detail_and_then_shows() -> None:
    b = await faulty(match=PLACES, action={"do": "hide_row", "seconds": 20})
    order_id = (await b.place())["order_id"]

    hidden = (await count(b), (await b.call("GET", f"{BOOK}/{order_id}")).status_code)
    b.pass_time(20)

    assert hidden == (0, 404)
    assert (await b.row(order_id))["status"] == "MATCHED_ALL"


async def test_a_429_of_the_script_lasts_in_market_time_and_names_its_reset_in_wire_time() -> None:
    b = await faulty(match={"at": "09:17:00"}, action={"do": "too_many", "reset_s": 30})
    seen = []
    for _ in range(4):
        answer = await b.call("GET", BOOK)
        seen.append((answer.status_code, answer.headers.get("X-RateLimit-Reset")))
        b.pass_time(30 if len(seen) > 1 else 60)

    assert b.wire.now() != b.clock.now()
    until = str(int(WIRE_START.timestamp()) + 90)
    assert seen == [(200, None), (429, until), (200, None), (200, None)]


@pytest.mark.parametrize(("speed", "wire_s"), [(0.5, 60), (60, 1)])
async def test_a_429_of_the_script_ends_when_it_says_whatever_the_speed_of_the_market(
    speed: float, wire_s: int
) -> None:
    b = bench(speed=speed)
    await b.log_in()
    b.sandbox.add_fault(FaultScript.model_validate({"action": {"do": "too_many", "reset_s": 30}}))

    first = await b.call("GET", BOOK)
    b.clock.advance_to(b.clock.now() + timedelta(seconds=15))
    b.wire.advance_to(b.wire.now() + timedelta(seconds=wire_s / 2))
    second = await b.call("GET", BOOK)

    until = str(int(WIRE_START.timestamp()) + wire_s)
    assert [each.headers.get("X-RateLimit-Reset") for each in (first, second)] == [until, until]


async def test_the_second_factor_is_dropped_at_a_market_time() -> None:
    played = scenario(faults=[{"match": {"at": "09:17:00"}, "action": {"do": "drop_2fa"}}])
    b = await ready(played)
    before = await b.place()

    b.pass_time(60)

    refused = await b.call("DELETE", orders_path(before["order_id"]), {"sub_account": EXTENDED})
    assert (refused.status_code, refused.json()["error_code"]) == (403, "OTP_SESSION_EXPIRED")
    await b.log_in()
    assert (await b.place())["order_status"] == "SENT"


async def test_the_second_factor_can_be_dropped_by_a_request() -> None:
    b = await faulty(match=PLACES | {"nth": 2}, action={"do": "drop_2fa"})
    await b.place()

    refused = await b.call("POST", orders_path(), order_body())

    assert refused.json()["error_code"] == "OTP_SESSION_EXPIRED"
    assert await count(b) == 1


async def test_the_control_path_tells_the_clocks_and_takes_faults() -> None:
    b = await ready()
    fault = {"match": PLACES, "action": {"do": "reject", "code": "-300025"}}

    clocks = (await b.call("GET", "/_sandbox/control")).json()
    added = await b.call("POST", "/_sandbox/control", fault)
    nonsense = await b.call("POST", "/_sandbox/control", {"action": {"do": "explode"}})
    stranger = await b.call("POST", "/_sandbox/control", fault, headers={"X-FH-APIKEY": "other"})
    nobody = await b.call("GET", "/_sandbox/control", headers={"X-Forwarded-For": "zz"})

    assert clocks["market"] == "2026-11-19T02:16:00+00:00"
    assert clocks["wire"] == "2026-11-19T02:15:00+00:00"
    said = [answer.status_code for answer in (added, nonsense, stranger, nobody)]
    assert said == [200, 400, 401, 403]
    assert (await b.place())["code"] == "-300025"


# ------------------------------------------------------------------------------ around the answer


@pytest.mark.parametrize(
    "body",
    [
        b'{"action": {"do": "set_fields", "fields": {"last": NaN}}}',
        b'{"action": {"do": "swap_row", "field": "price", "value": Infinity}}',
        b'{"match": {"at": "09:00Z", "until": "09:30"}, "action": {"do": "rst"}}',
    ],
)
async def test_a_fault_that_no_answer_can_hold_is_refused_and_leaves_the_others_alone(
    body: bytes,
) -> None:
    b = await ready()

    answer = await b.call("POST", "/_sandbox/control", body)

    assert answer.status_code == 400
    assert (await b.call("GET", QUOTE)).status_code == 200


async def test_the_date_is_off_or_missing() -> None:
    b = await faulty(match={"nth": 1}, action={"do": "date_header", "offset": 3600})
    gone = {"match": {"nth": 2}, "action": {"do": "date_header", "offset": None}}
    b.sandbox.add_fault(FaultScript.model_validate(gone))

    dates = [(await b.call("GET", QUOTE)).headers.get("date") for _ in range(3)]

    assert dates == ["Thu, 19 Nov 2026 03:15:00 GMT", None, "Thu, 19 Nov 2026 02:15:00 GMT"]


async def test_a_redirect_names_where_to() -> None:
    b = await faulty(
        match=PLACES, action={"do": "redirect", "to": "http://127.0.0.1:1/x", "status": 308}
    )

    answer = await b.call("POST", orders_path(), order_body())

    assert (answer.status_code, answer.headers["location"]) == (308, "http://127.0.0.1:1/x")
    assert await count(b) == 0


@pytest.mark.parametrize(("wanted", "status"), [("first", 200), ("second", 401)])
async def test_a_doubled_order_is_taken_once_and_either_answer_may_come(
    wanted: str, status: int
) -> None:
    b = await faulty(match=PLACES, action={"do": "dup_request", "delay": 30, "answer": wanted})

    answer = await b.call("POST", orders_path(), order_body())

    assert answer.status_code == status
    assert status == 200 or answer.json()["error_code"] == "AUTH_NONCE_REUSED"
    assert (await count(b), b.naps) == (1, [30.0])


async def test_a_doubled_read_without_a_nonce_to_check_is_answered_twice() -> None:
    b = await faulty(match={"path": QUOTE}, action={"do": "dup_request", "answer": "second"})

    assert (await b.call("GET", QUOTE)).status_code == 200


@pytest.mark.parametrize("point", ["headers_sent", "mid_body", "after_body"])
@pytest.mark.parametrize("do", ["rst", "fin", "hang"])
async def test_a_connection_may_be_cut_at_any_point_of_the_answer(point: str, do: str) -> None:
    wait = {"seconds": 9} if do == "hang" else {}
    b = await faulty(match=PLACES, point=point, action={"do": do, **wait})

    with pytest.raises(ConnectionCut):
        await b.call("POST", orders_path(), order_body())

    assert await count(b) == 1


async def test_an_order_held_before_it_is_read_is_judged_by_when_it_comes() -> None:
    clock, wire = SimulatedClock(scenario().starts_at), SimulatedClock(WIRE_START)

    async def nap(seconds: float) -> None:
        wire.advance_to(wire.now() + timedelta(seconds=seconds))

    b = Bench(Sandbox(scenario(), RULEBOOK, clock=clock, wire=wire, sleep=nap), clock, wire)
    await b.log_in()
    held = {"match": PLACES, "point": "accept", "action": {"do": "delay", "seconds": 60}}
    b.sandbox.add_fault(FaultScript.model_validate(held))

    answer = await b.call("POST", orders_path(), order_body())

    assert (answer.status_code, answer.json()["message"]) == (401, "Invalid timestamp")
    assert await count(b) == 0


async def test_all_faults_end_at_the_control_path_and_stay_ended() -> None:
    fault = {"match": {"times": 0}, "action": {"do": "status", "status": 500}}
    b = await faulty(**fault)

    struck = (await b.call("GET", QUOTE)).status_code
    ended = await b.call("DELETE", "/_sandbox/control")
    stranger = await b.call("DELETE", "/_sandbox/control", headers={"X-FH-APIKEY": "other"})

    assert (struck, ended.status_code, stranger.status_code) == (500, 200, 401)
    assert (await b.call("GET", QUOTE)).status_code == 200
    b.sandbox.add_fault(FaultScript.model_validate(fault))
    assert (await b.call("GET", QUOTE)).status_code == 500


async def test_a_path_that_is_none_of_the_api_is_404_and_can_be_struck() -> None:
    b = await faulty(match={"path": "/nowhere", "nth": 2}, action={"do": "status", "status": 503})

    answers = [(await b.call("GET", "/nowhere")).status_code for _ in range(2)]

    assert answers == [404, 503]
