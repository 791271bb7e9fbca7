from datetime import UTC, datetime

import pytest

from bot.protocol.endpoints.trading import (
    MARKET_PHASE,
    REVOKE_TOKEN,
    SUB_ACCOUNTS,
    TODAYS_ORDERS,
    USER,
    VERIFY_OTP,
)
from bot.protocol.envelope import Answer, open_envelope, rate_limit_reset, seal, seal_error
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from tests.protocol.samples import refused, sealed
from tests.rows import every_row


def ok(body: bytes) -> Answer:
    return Answer(200, {}, body)


def test_a_sealed_payload_is_what_an_opened_envelope_holds():
    for endpoint, value in [(USER, {"user_id": 1}), (TODAYS_ORDERS, []), (VERIFY_OTP, {"a": 1})]:
        assert open_envelope(endpoint, sealed(endpoint, value)).value == value


def test_the_server_sends_exactly_the_key_of_the_call():
    assert seal(USER, {"user_id": 1}) == (
        b'{"error_code":"0","message":"success","data":{"user_id":1}}'
    )
    assert seal(SUB_ACCOUNTS, []) == b'{"error_code":"0","message":"success","result":[]}'
    assert seal(REVOKE_TOKEN, {"a": 1}) == b'{"a":1}'
    assert seal_error("400", "Invalid parameter") == (
        b'{"error_code":"400","message":"Invalid parameter"}'
    )


@pytest.mark.parametrize("key", ["data", "result"])
@pytest.mark.parametrize("endpoint", [USER, MARKET_PHASE])
def test_the_client_takes_data_for_result_and_result_for_data(endpoint, key):
    assert open_envelope(endpoint, ok(b'{"%s":{"a":1}}' % key.encode())).value == {"a": 1}


@pytest.mark.parametrize(
    "head", [b"", b'"error_code":"0",', b'"error_code":null,', b'"status":200,']
)
def test_no_field_of_the_envelope_is_required_on_a_200(head):
    assert open_envelope(USER, ok(b'{%s"data":{}}' % head)).value == {}


def test_the_fields_of_the_second_factor_may_lie_deeper():
    for body in (b'{"a":1}', b'{"data":{"a":1}}', b'{"result":{"a":1},"error_code":"0"}'):
        assert open_envelope(VERIFY_OTP, ok(body)).value["a"] == 1


def test_any_success_ends_a_revocation():
    assert open_envelope(REVOKE_TOKEN, Answer(204, {}, b"")).value == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "not JSON"),
        (b"[]", "not an object"),
        (b'"text"', "not an object"),
        (b"{}", "no data"),
        (b'{"data":null}', "no data"),
        (b'{"data":[]}', "not an object"),
        (b'{"data":{},"data":{}}', "twice"),
    ],
)
def test_what_is_no_envelope_is_malformed_and_names_the_call(body, reason):
    with pytest.raises(MalformedAnswer, match=f"user: .*{reason}") as caught:
        open_envelope(USER, ok(body))

    assert caught.value.raw == body.decode()


def test_an_object_is_not_taken_for_an_array():
    with pytest.raises(MalformedAnswer, match="not an array"):
        open_envelope(TODAYS_ORDERS, ok(b'{"result":{}}'))


def test_a_200_with_an_error_code_is_a_failure():
    with pytest.raises(BrokerRefusal) as caught:
        open_envelope(USER, ok(b'{"error_code":"X","message":"no","data":{}}'))

    assert (caught.value.http_status, caught.value.error_code) == (200, "X")


def test_a_429_says_when_to_come_back():
    answer = refused(429, "RATE_LIMIT_EXCEEDED", x_ratelimit_reset="1787278260")

    with pytest.raises(BrokerRefusal) as caught:
        open_envelope(USER, answer)

    assert caught.value.retry_at == datetime(2026, 8, 21, 2, 11, tzinfo=UTC)
    assert caught.value.has_error_body


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e9", "٣", "9" * 400, "1787278260.5"])
def test_a_nonsensical_reset_is_none(text):
    assert rate_limit_reset(Answer(429, {"x-ratelimit-reset": text}, b"")) is None


@every_row("status", [100, 201, 204, 301, 400, 401, 404, 500, 502, 599])
def test_any_other_status_is_a_refusal_whatever_its_body(status):
    with pytest.raises(BrokerRefusal) as caught:
        open_envelope(USER, Answer(status, {}, b"<html>gateway</html>"))

    assert caught.value.http_status == status
    assert not caught.value.has_error_body


def test_neither_answer_nor_payload_nor_error_shows_a_token():
    answer = ok(b'{"session_token":"eyJhbGciOi.canary.x","expires_at":"x"}')

    shown = repr(answer) + repr(open_envelope(VERIFY_OTP, answer))
    error = MalformedAnswer("verify_otp", "x", answer.body)

    assert "canary" not in shown + str(error) + error.raw + repr(error.args)
