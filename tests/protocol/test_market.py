import pytest

from bot.domain.instrument import Exchange, Phase
from bot.domain.order import OrderType
from bot.protocol.errors import MalformedAnswer
from bot.protocol.market import decode_market_phase, encode_market_phase
from bot.protocol.values.border import MarketPhase
from tests.protocol.samples import payload

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
