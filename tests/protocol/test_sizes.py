"""Answers larger than any that a broker has a reason to send are refused before they are read."""

import pytest

from bot.protocol.day_order_book import decode_todays_orders
from bot.protocol.endpoints import ENDPOINTS
from bot.protocol.endpoints.trading import STOCK_DEPTH, TODAYS_ORDERS
from bot.protocol.envelope import (
    FOR_A_MOMENT,
    LARGE,
    LEVELS_MAX,
    ROWS_MAX,
    SMALL,
    Answer,
    check_size,
    is_for_a_moment,
    open_envelope,
    read_error_body,
    size_of,
)
from bot.protocol.errors import MalformedAnswer
from bot.protocol.quotes import decode_depth
from bot.protocol.strict_json import compact
from tests.protocol.samples import ACCOUNT, NOW, ROW_JSON, payload

ORDERS_A_DAY = 1_000
SYMBOLS = 300


def sealed(result: object, **more: object) -> bytes:
    return compact({"error_code": "0", **more, "result": result, "data": result}).encode()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("stock_quote", SMALL), ("stock_depth", SMALL), ("order_detail", SMALL),
        ("place_order", SMALL), ("todays_orders", LARGE), ("stock_history", LARGE),
    ],
)  # fmt: skip
def test_each_kind_of_read_has_its_size(name: str, size: object) -> None:
    assert size_of(ENDPOINTS[name]) == size


def test_every_call_has_a_size() -> None:
    assert all(size_of(each).bytes_max <= LARGE.bytes_max for each in ENDPOINTS.values())


def test_a_depth_of_megabytes_is_refused_with_what_was_wanted_and_found() -> None:
    body = sealed({"symbol": "HPG", "x": "x" * SMALL.bytes_max})

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
    body = sealed([{**ROW_JSON, "feedbackmsg": "x" * 200}] * ORDERS_A_DAY)

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
    quote = sealed({"symbol": "HPG", "price": 27_000})
    a_few_orders = sealed([ROW_JSON] * 8)

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
