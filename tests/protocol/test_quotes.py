from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType
from bot.domain.quote import Depth, DepthLevel, Quote
from bot.protocol.errors import MalformedAnswer
from bot.protocol.quotes import (
    decode_depth,
    decode_market_phase,
    decode_quote,
    encode_depth,
    encode_market_phase,
    encode_quote,
)
from bot.protocol.values.border import MarketPhase
from tests.protocol.samples import payload
from tests.rows import every_row

QUOTE = Quote(
    symbol="HPG",
    exchange=Exchange.HOSE,
    last=68_500,
    reference=68_200,
    ceiling=72_900,
    floor=63_500,
    open=68_200,
    high=68_600,
    low=68_100,
    volume=1_000,
    updated_at=datetime(2026, 5, 27, 7, 30, 15, tzinfo=UTC),
)
LEAST = {"symbol": "hpg", "exchange": "hose", "price": 25500}


def test_a_quote_is_written_as_the_document_shows_it():
    assert encode_quote(QUOTE, name="Hoa Phat") == {
        "symbol": "HPG",
        "name": "Hoa Phat",
        "exchange": "HOSE",
        "currency": "VND",
        "price": 68_500,
        "open": 68_200,
        "high": 68_600,
        "low": 68_100,
        "reference": 68_200,
        "ceiling": 72_900,
        "floor": 63_500,
        "change": 300,
        "change_percent": 0.44,
        "volume": 1_000,
        "updated_at": "2026-05-27T14:30:15+07:00",
    }


def test_a_quote_needs_no_more_than_symbol_exchange_and_price():
    quote = decode_quote(payload({**LEAST, "volume": None, "ceiling": 0, "news": {}}))

    assert (quote.symbol, quote.exchange, quote.last) == ("HPG", Exchange.HOSE, 25_500)
    assert (quote.ceiling, quote.reference, quote.volume) == (None, None, None)


@pytest.mark.parametrize("price", ["25500", "25500.0", Decimal("25500.00"), 25500])
def test_a_price_may_be_a_numeric_text_or_a_whole_fraction(price):
    assert decode_quote(payload({**LEAST, "price": price})).last == 25_500


@every_row(
    "price", [Decimal("25500.5"), "25500.5", 0, -1, None, True, "", "25,500", "1e4", "٣", " 1", []]
)
def test_a_price_that_is_no_whole_vnd_is_malformed(price):
    with pytest.raises(MalformedAnswer, match=r"some_call: .*price"):
        decode_quote(payload({**LEAST, "price": price}))


@every_row(
    ("field", "value"),
    [
        ("exchange", "NASDAQ"),
        ("exchange", None),
        ("symbol", ""),
        ("symbol", 5),
        ("volume", -1),
        ("floor", -1),
        ("updated_at", "2026-05-27T14:30:15"),
        ("updated_at", "yesterday"),
        ("updated_at", "0001-01-01T00:00:00+14:00"),
        ("updated_at", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_field_that_cannot_be_used_is_malformed(field, value):
    with pytest.raises(MalformedAnswer, match=field):
        decode_quote(payload({**LEAST, field: value}))


def test_what_was_found_is_not_in_the_error():
    with pytest.raises(MalformedAnswer) as caught:
        decode_quote(payload({**LEAST, "price": "canary"}))

    assert "canary" not in str(caught.value)


def test_depth_is_best_first_whatever_the_order_sent():
    found = decode_depth(
        payload(
            {
                "symbol": "HPG",
                "bids": [{"price": 100, "volume": 1}, {"price": "300", "volume": "3"}],
                "asks": [{"price": 500, "volume": 5}, {"price": 400, "volume": 4}],
            }
        )
    )

    assert (found.bid, found.ask) == (300, 400)
    assert found.bids == (DepthLevel(300, 3), DepthLevel(100, 1))


def test_levels_without_a_price_are_left_out():
    auction = [{"price": 0, "volume": 9}, {"price": None, "volume": 9}, {"volume": 9}]

    found = decode_depth(payload({"symbol": "HPG", "bids": auction, "asks": []}))

    assert found == Depth("HPG", (), (), None)


@pytest.mark.parametrize("bids", [None, {}, "x", [1], [[]], [{"price": -1}], [{"price": "x"}]])
def test_a_depth_that_cannot_be_read_is_malformed(bids):
    with pytest.raises(MalformedAnswer, match="bids"):
        decode_depth(payload({"symbol": "HPG", "bids": bids, "asks": []}))


@every_row("lacking", ["bids", "asks"])
def test_a_side_of_the_depth_that_a_success_gives_as_null_is_empty(lacking):
    sides = {"bids": [{"price": 300, "volume": 3}], "asks": [{"price": 300, "volume": 3}]}
    sent = {"symbol": "HPG", **sides, lacking: None, "updated_at": "2026-05-27T14:30:15+07:00"}
    whole = decode_depth(payload({**sent, lacking: []}))

    assert decode_depth(replace(payload(sent), error_code="0")) == whole
    assert (whole.bid, whole.ask) == ((None, 300) if lacking == "bids" else (300, None))
    del sent[lacking]
    with pytest.raises(MalformedAnswer, match=lacking):
        decode_depth(replace(payload(sent), error_code="0"))


def test_a_depth_of_a_time_that_no_local_clock_shows_is_malformed():
    with pytest.raises(MalformedAnswer, match="updated_at"):
        decode_depth(
            payload({"symbol": "HPG", "bids": [], "asks": [], "updated_at": "9999-12-31T23:59:59Z"})
        )


def test_the_last_second_that_a_local_clock_shows_is_read():
    stamp = "9999-12-31T23:59:59+07:00"

    assert decode_quote(payload({**LEAST, "updated_at": stamp})).updated_at is not None


def test_a_depth_is_written_best_first():
    depth = Depth("HPG", (DepthLevel(300, 3),), (DepthLevel(400, 4),), None)

    assert encode_depth(depth) == {
        "symbol": "HPG",
        "currency": "VND",
        "bids": [{"price": 300, "volume": 3}],
        "asks": [{"price": 400, "volume": 4}],
        "updated_at": None,
    }


PROGRESS = {
    "exchange": "HOSE",
    "exchange_session": "PROGRESS",
    "available_order_types": ["LO", "MP"],
}
READ = MarketPhase(
    Exchange.HOSE, Phase.PROGRESS, frozenset({OrderType.LO, OrderType.MP}), "PROGRESS"
)


def test_phase_and_order_types_are_read_and_written():
    assert decode_market_phase(payload(PROGRESS)) == READ
    assert encode_market_phase(READ) == PROGRESS


def test_an_unknown_phase_counts_as_closed_and_keeps_its_name():
    found = decode_market_phase(payload({**PROGRESS, "exchange_session": "Siesta"}))

    assert (found.phase, found.stated) == (Phase.CLOSED, "SIESTA")


def test_unknown_order_types_are_left_out():
    listed: list[object] = ["lo", "XYZ", None, 5, {}]

    found = decode_market_phase(payload({**PROGRESS, "available_order_types": listed}))

    assert found.available == frozenset({OrderType.LO})


def test_no_list_is_not_an_empty_list():
    absent = decode_market_phase(payload({**PROGRESS, "available_order_types": None}))
    empty = decode_market_phase(payload({**PROGRESS, "available_order_types": []}))

    assert (absent.available, empty.available) == (None, frozenset())


@pytest.mark.parametrize("field", ["exchange", "exchange_session"])
@pytest.mark.parametrize("value", [None, 5, []])
def test_exchange_and_phase_must_be_there(field, value):
    with pytest.raises(MalformedAnswer, match=field):
        decode_market_phase(payload({**PROGRESS, field: value}))


def test_another_exchange_is_malformed():
    with pytest.raises(MalformedAnswer, match="exchange"):
        decode_market_phase(payload({**PROGRESS, "exchange": "NYSE"}))
