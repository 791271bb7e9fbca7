"""The one-time code over the wire: fields at top level, one wrong code, revocation."""

from tests.sandbox.client import bench, order_body, orders_path, ready

REQUEST = "/auth/v1/openapi/2fa/request"
VERIFY = "/auth/v1/openapi/2fa/verify"
REVOKE = "/auth/v1/openapi/2fa/revoke"


async def test_the_exchange_puts_its_fields_at_top_level() -> None:
    b = bench()

    ticket = (await b.call("POST", REQUEST, {"channel": "EMAIL"})).json()
    wanted = {"ticket_id": ticket["ticket_id"], "otp_code": "424242"}
    token = (await b.call("POST", VERIFY, wanted)).json()

    assert ticket == {"ticket_id": "T-1", "masked_destination": "d***@example.com"}
    assert set(token) == {"session_token", "expires_at", "expires_at_epoch"}
    assert token["expires_at"].startswith("2026-11-19T23:59:59")
    assert token["expires_at"].endswith("+07:00")


async def test_a_wrong_code_says_how_many_tries_are_left() -> None:
    b = bench()
    await b.call("POST", REQUEST, {"channel": "EMAIL"})

    answer = await b.call("POST", VERIFY, {"ticket_id": "T-1", "otp_code": "000000"})

    assert (answer.status_code, answer.json()["error_code"]) == (400, "OTP_INVALID")
    assert "tries left: 2" in answer.json()["message"]


async def test_only_mail_brings_codes() -> None:
    assert (await bench().call("POST", REQUEST, {"channel": "SMS"})).status_code == 400


async def test_a_revoked_token_writes_no_more_but_reads_go_on() -> None:
    b = await ready()

    revoked = await b.call("POST", REVOKE, {"session_token": b.token})
    refused = await b.call("POST", orders_path(), order_body())
    read = await b.call("GET", "/users/v1/users/me")

    assert revoked.status_code == 200
    assert (refused.status_code, refused.json()["error_code"]) == (403, "OTP_SESSION_REVOKED")
    assert read.status_code == 200


async def test_a_token_ends_with_its_wire_day_whatever_the_market_says() -> None:
    b = await ready()
    b.wire.advance_to(b.wire.now().replace(hour=17, minute=0, second=0))

    refused = await b.call("POST", orders_path(), order_body())

    assert refused.json()["error_code"] == "OTP_SESSION_EXPIRED"
