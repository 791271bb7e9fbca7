"""Who may do what: keys, signatures, nonces, device ids, tokens, quota, order of the checks."""

from typing import Any

import httpx
import pytest

from bot.clock import wire_ms
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.signing import sign
from tests.sandbox.client import (
    ACCOUNT,
    EXTENDED,
    Bench,
    bench,
    order_body,
    orders_path,
    ready,
    scenario,
)

ME = "/users/v1/users/me"
QUOTE = "/market/quotes/stocks/HPG"
SIGNED = (
    "user",
    "sub_accounts",
    "place_order",
    "amend_order",
    "cancel_order",
    "todays_orders",
    "order_detail",
    "portfolio",
    "summary",
    "available_trade",
    "request_otp",
    "verify_otp",
    "revoke_token",
)
UNSIGNED = dict.fromkeys(
    ["X-FH-TIMESTAMP", "X-FH-NONCE", "X-FH-SIGNATURE", "X-FH-BODYHASH", "device-id"]
)


def said(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error_code"]


async def test_market_data_needs_the_key_alone() -> None:
    b = bench()

    assert (await b.call("GET", QUOTE, headers=UNSIGNED)).status_code == 200
    assert said(await b.call("GET", QUOTE, headers={"X-FH-APIKEY": None})) == (401, "401")
    assert said(await b.call("GET", QUOTE, headers={"X-FH-APIKEY": "ak_test_x"})) == (401, "401")
    assert said(await b.call("GET", ME, headers=UNSIGNED)) == (401, "401")


@pytest.mark.parametrize(
    ("method", "path", "unsigned"),
    [
        ("GET", "/market/nothing", 404),
        ("GET", "/fund-trading/public/nothing", 404),
        ("GET", "/trading/securities/HPG", 404),
        ("POST", "/market/stocks", 401),
        ("PUT", "/trading/market/session", 401),
        ("GET", "/nothing", 401),
        ("GET", "/marketing", 401),
        ("POST", ME, 401),
    ],
)
async def test_a_call_that_is_none_has_the_tier_of_its_method_and_path(
    method: str, path: str, unsigned: int
) -> None:
    b = bench()

    assert (await b.call(method, path, headers=UNSIGNED)).status_code == unsigned
    assert (await b.call(method, path)).status_code == 404


@pytest.mark.parametrize(
    "slip",
    [
        {"X-FH-SIGNATURE": None},
        {"X-FH-SIGNATURE": "0" * 64},
        {"X-FH-TIMESTAMP": None},
        {"X-FH-TIMESTAMP": "soon"},
        {"X-FH-TIMESTAMP": "-1"},
        {"X-FH-TIMESTAMP": "9" * 40},
        {"X-FH-NONCE": None},
        {"X-FH-NONCE": ""},
    ],
)
async def test_a_request_that_is_not_signed_right_is_401(slip: dict[str, str | None]) -> None:
    assert said(await bench().call("GET", ME, headers=slip)) == (401, "401")


@pytest.mark.parametrize(("off_ms", "status"), [(-30_000, 200), (30_000, 200), (30_001, 401)])
async def test_a_timestamp_may_be_thirty_seconds_off(off_ms: int, status: int) -> None:
    b = bench()
    stamp, secret = wire_ms(b.wire.now()) + off_ms, b.sandbox.credentials.api_secret
    signature = sign(secret, timestamp_ms=stamp, method="GET", target=ME, body_sha256="")
    late = {"X-FH-TIMESTAMP": str(stamp), "X-FH-SIGNATURE": signature}

    assert (await b.call("GET", ME, headers=late)).status_code == status


async def test_a_nonce_is_good_once_and_again_after_five_minutes() -> None:
    b = bench()
    again = {"X-FH-NONCE": "the-same"}

    first, second = await b.call("GET", ME, headers=again), await b.call("GET", ME, headers=again)
    b.pass_time(300)
    third = await b.call("GET", ME, headers=again)

    assert first.status_code == third.status_code == 200
    assert said(second) == (401, "AUTH_NONCE_REUSED")


async def test_a_nonce_is_used_up_by_a_400_or_403_but_not_by_a_bad_signature() -> None:
    b = bench()
    used, unused = {"X-FH-NONCE": "used"}, {"X-FH-NONCE": "unused"}

    await b.call("POST", orders_path(), order_body(), headers=used)
    await b.call("GET", ME, headers=unused | {"X-FH-SIGNATURE": "0" * 64})

    assert said(await b.call("GET", ME, headers=used)) == (401, "AUTH_NONCE_REUSED")
    assert (await b.call("GET", ME, headers=unused)).status_code == 200


async def test_a_body_needs_its_hash_in_the_signature() -> None:
    b = await ready()
    absent = await b.call("POST", orders_path(), order_body(), headers={"X-FH-BODYHASH": None})

    assert said(absent) == (401, "401")


async def test_the_body_is_checked_against_its_hash_only_by_a_switch() -> None:
    lenient, strict = await ready(), await ready(scenario(switches={"verify_body_hash": True}))

    async def swapped(b: Bench) -> httpx.Response:
        headers = b.signed("POST", orders_path(), b"other")
        return await b.call("POST", orders_path(), order_body(), headers=headers)

    assert (await swapped(lenient)).status_code == 200
    assert said(await swapped(strict)) == (401, "401")


@pytest.mark.parametrize("device", [None, "", "x" * 65])
async def test_an_order_write_needs_a_device_id_of_1_to_64_characters(device: str | None) -> None:
    b = await ready()

    assert said(
        await b.call("POST", orders_path(), order_body(), headers={"device-id": device})
    ) == (400, "400")


async def test_the_checks_come_in_their_order() -> None:
    b = bench()
    worst: dict[str, Any] = {
        "X-FH-APIKEY": "ak_test_wrong",
        "X-FH-SIGNATURE": "0" * 64,
        "device-id": None,
    }

    async def next_refusal() -> tuple[int, str]:
        return said(await b.call("POST", orders_path(), b"{", headers=worst))

    answers = [await next_refusal()]
    for cure in ("X-FH-APIKEY", "X-FH-SIGNATURE", "device-id"):
        del worst[cure]
        answers.append(await next_refusal())
    await b.log_in()
    answers.append(await next_refusal())

    assert answers == [
        (401, "401"),
        (401, "401"),
        (400, "400"),
        (403, "OTP_SESSION_REQUIRED"),
        (400, "400"),
    ]


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("/users/v1/users/900002/sub-accounts", (401, "401")),
        ("/trading/v1/accounts/0000000000/order-book", (404, "404")),
        ("/trading/accounts/0000000000/summary", (404, "404")),
        (f"/trading/v1/accounts/{ACCOUNT}/order-book/ORD1", (404, "404")),
        ("/market/quotes/stocks/NOPE", (404, "404")),
        ("/market/quotes/stocks/NOPE/order-book", (404, "404")),
        ("/trading/market/session?exchange=NYSE", (400, "400")),
        ("/trading/market/session", (400, "400")),
        ("/no/such/path", (404, "404")),
        (f"{ME}/", (404, "404")),
    ],
)
async def test_what_is_not_there_is_refused_with_an_error_body(
    target: str, refusal: tuple[int, str]
) -> None:
    assert said(await bench().call("GET", target)) == refusal


async def test_a_method_that_a_path_lacks_is_404() -> None:
    assert said(await bench().call("PATCH", ME)) == (404, "404")


async def test_a_full_quota_is_429_with_its_reset_and_uses_no_nonce() -> None:
    b = bench(scenario(quota="FREE"))
    for _ in range(600):
        await b.call("GET", QUOTE, headers=UNSIGNED)

    refused = await b.call("GET", ME, headers={"X-FH-NONCE": "late"})
    reset = int(refused.headers["X-RateLimit-Reset"])
    b.pass_time(60)

    assert said(refused) == (429, "RATE_LIMIT_EXCEEDED")
    assert reset == int(b.wire.now().timestamp())
    assert (await b.call("GET", ME, headers={"X-FH-NONCE": "late"})).status_code == 200


@pytest.mark.parametrize(
    ("form", "codes"),
    [
        ("seed", {"400": "400", "401": "401"}),
        ("named", {"400": "INVALID_PARAMETER", "401": "AUTH_SIGNATURE_INVALID"}),
        ("numeric", {"400": "400", "401": "401"}),
    ],
)
async def test_error_codes_come_in_the_form_of_the_switch(form: str, codes: dict[str, str]) -> None:
    b = bench(scenario(switches={"error_codes": form}))

    assert said(await b.call("GET", "/trading/market/session"))[1] == codes["400"]
    assert said(await b.call("GET", ME, headers=UNSIGNED))[1] == codes["401"]


async def test_every_signed_call_of_trading_is_there_and_asks_for_a_signature() -> None:
    b = bench()
    values = {"user_id": "1", "sub_account_id": "2", "order_id": "3", "symbol": "X"}

    answers = {
        call.name: said(await b.call(call.method, call.path.format(**values), headers=UNSIGNED))
        for call in map(ENDPOINTS.__getitem__, SIGNED)
    }

    assert answers == dict.fromkeys(SIGNED, (401, "401"))


async def test_every_answer_carries_the_wire_date() -> None:
    answer = await bench().call("GET", QUOTE)

    assert answer.headers["date"] == "Thu, 19 Nov 2026 02:15:00 GMT"


async def test_no_secret_is_in_a_repr() -> None:
    b = bench()
    given = b.sandbox.credentials

    shown = f"{given!r} {b.sandbox!r} {b.sandbox.scenario!r}"

    assert EXTENDED in shown
    for secret in (given.api_key, given.api_secret, given.otp_code):
        assert secret not in shown
