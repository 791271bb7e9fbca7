"""What surrounds a payload: which envelopes are opened, which are refusals, which are neither."""

from datetime import UTC, datetime

import pytest

from bot.protocol.day_order_book import decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.trading import (
    MARKET_PHASE,
    REVOKE_TOKEN,
    STOCK_DEPTH,
    SUB_ACCOUNTS,
    TODAYS_ORDERS,
    USER,
    VERIFY_OTP,
)
from bot.protocol.envelope import (
    FOR_A_MOMENT,
    LARGE,
    LEVELS_MAX,
    ROWS_MAX,
    SIZES,
    SMALL,
    Answer,
    check_size,
    is_for_a_moment,
    open_envelope,
    rate_limit_reset,
    read_error_body,
    seal,
    seal_error,
)
from bot.protocol.errors import BrokerRefusal, MalformedAnswer
from bot.protocol.quotes import decode_depth
from bot.protocol.strict_json import compact
from tests.protocol.samples import ACCOUNT, NOW, ROW_JSON, payload, refused, sealed
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


@every_row(
    ("endpoint", "body", "reason"),
    [
        (
            TODAYS_ORDERS,
            b'{"error_code":"0","result":null}',
            "there is no result: null does not say that the list is empty",
        ),
        (TODAYS_ORDERS, b'{"error_code":"0"}', "there is no result"),
        (USER, b'{"error_code":"0","data":null}', "there is no data"),
    ],
)
def test_a_list_that_is_null_is_told_from_one_that_is_not_there(endpoint, body, reason):
    with pytest.raises(MalformedAnswer) as caught:
        open_envelope(endpoint, ok(body))

    assert caught.value.reason == reason


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


ORDERS_A_DAY = 1_000
SYMBOLS = 300


def body_of(result: object, **more: object) -> bytes:
    return compact({"error_code": "0", **more, "result": result, "data": result}).encode()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("stock_quote", SMALL), ("stock_depth", SMALL), ("order_detail", SMALL),
        ("place_order", SMALL), ("todays_orders", LARGE), ("stock_history", LARGE),
    ],
)  # fmt: skip
def test_each_kind_of_read_has_its_size(name: str, size: object) -> None:
    assert SIZES[name] == size


def test_every_call_has_a_size() -> None:
    assert SIZES.keys() == ENDPOINTS.keys()
    assert all(each.bytes_max <= LARGE.bytes_max for each in SIZES.values())


def test_a_depth_of_megabytes_is_refused_with_what_was_wanted_and_found() -> None:
    body = body_of({"symbol": "HPG", "x": "x" * SMALL.bytes_max})

    with pytest.raises(MalformedAnswer, match="wanted at most 65,536 bytes, found 13"):
        open_envelope(STOCK_DEPTH, Answer(200, {}, body))


def test_an_unknown_field_of_endless_lists_is_refused_before_it_is_read() -> None:
    body = b'{"x":[' + b"[]," * SMALL.values_max + b"[]]}"

    with pytest.raises(MalformedAnswer, match="wanted at most 5,000 values, found 10,0"):
        open_envelope(STOCK_DEPTH, Answer(200, {}, body))


def test_a_depth_has_so_many_levels_and_no_more() -> None:
    level = {"price": 27_000, "volume": 100}
    good = {"symbol": "HPG", "bids": [level] * LEVELS_MAX, "asks": []}

    assert len(decode_depth(payload(good)).bids) == LEVELS_MAX
    with pytest.raises(MalformedAnswer, match="wanted at most 100 levels a side, found 101"):
        decode_depth(payload({**good, "asks": [level] * (LEVELS_MAX + 1)}))


def test_a_day_book_has_so_many_rows_and_no_more() -> None:
    rows = payload([{}] * (ROWS_MAX + 1))

    with pytest.raises(MalformedAnswer, match="wanted at most 3,000 rows, found 3,001"):
        decode_todays_orders(rows, account=ACCOUNT, requested_at=NOW)


def test_a_day_of_a_thousand_orders_fits() -> None:
    body = body_of([{**ROW_JSON, "feedbackmsg": "x" * 200}] * ORDERS_A_DAY)

    check_size(TODAYS_ORDERS, body)


@pytest.mark.parametrize(
    ("name", "row", "many"),
    [
        ("portfolio", {f"field_of_a_holding_{at}": 1_000_000 for at in range(30)}, SYMBOLS),
        ("stock_catalogue", {"symbol": "HPG", "name": "Công ty cổ phần " * 4}, 10_000),
        ("stock_history", {"t": 1_763_517_600, "o": 1, "h": 1, "l": 1, "c": 1, "v": 1}, 250 * 51),
        ("stock_history", {"t": 1_763_517_600, "o": 1, "h": 1, "l": 1, "c": 1, "v": 1}, 25 * 250),
    ],
    ids=["300 symbols", "a catalogue", "a year of 5 minutes", "25 years of days"],
)
def test_what_a_market_needs_fits(name: str, row: object, many: int) -> None:
    body = compact({"error_code": "0", "data": {"list": [row] * many}}).encode()

    check_size(ENDPOINTS[name], body)


def test_what_takes_a_moment_is_read_at_once_and_nothing_else() -> None:
    quote = body_of({"symbol": "HPG", "price": 27_000})
    a_few_orders = body_of([ROW_JSON] * 8)

    assert is_for_a_moment(quote)
    assert is_for_a_moment(a_few_orders)
    assert not is_for_a_moment(b"x" * (FOR_A_MOMENT.bytes_max + 1))
    assert not is_for_a_moment(b"[]," * FOR_A_MOMENT.values_max)


def test_the_levels_of_a_side_are_counted_before_they_are_read() -> None:
    many = {"symbol": "HPG", "bids": [], "asks": ["no level"] * (LEVELS_MAX + 1)}

    with pytest.raises(MalformedAnswer, match="wanted at most 100 levels a side, found 101"):
        decode_depth(payload(many))


def test_a_very_long_error_is_no_word_of_the_api() -> None:
    body = compact({"error_code": "X", "message": "x" * SMALL.bytes_max}).encode()

    assert read_error_body(body) is None


def test_a_refusal_whose_code_is_its_status_names_it_once() -> None:
    words = [
        str(BrokerRefusal("user", http_status=401, error_code=code, message=""))
        for code in ("401", "-1", "")
    ]

    assert words == ["user: HTTP 401", "user: HTTP 401 -1", "user: HTTP 401 without an error body"]
