"""The market of a symbol as a line and as a picture."""

import pytest

from bot.cli.commands.quote import headline, picture
from bot.cli.target import Fields


def reply(*, volume: int | None = 26_900, last: int = 27_100) -> Fields:
    """What a bot answers of a symbol in which it has two orders."""
    quote = {"symbol": "HPG", "exchange": "HOSE", "last": last, "reference": 27_000}
    quote |= {"floor": 25_150, "ceiling": 28_850, "volume": volume}
    quote |= {"updated_at": "2026-11-19T02:19:20+00:00"}
    near = {"side": "BUY", "price": 27_050, "quantity": 500, "executed": 200, "order_id": "ORD3"}
    far = {"side": "SELL", "price": 28_000, "quantity": 100, "executed": 0, "order_id": "ORD4"}
    return Fields(
        at="2026-11-19T02:19:21+00:00",
        phase="PROGRESS",
        quote=quote,
        depth={"bids": [[27_100, 1_200], [27_050, 2_400]], "asks": [[27_150, 600]]},
        open_orders=[near, far],
    )


PICTURE = """\
HPG HOSE  27,100 +0.37%  volume 26,900  floor 25,150 ceiling 28,850  09:19:20
  ask      27,150         600 ██████
  bid      27,100       1,200 ████████████
  bid      27,050       2,400 ████████████████████████ ← 300 of ours, ORD3

  spread 50  bids 3,600 asks 600 shown  continuous  09:19:21
  1 open order of ours elsewhere: bot orders --open"""


def test_the_depth_is_a_picture_with_our_orders_in_it() -> None:
    assert "\n".join(picture(reply())) == PICTURE


def test_without_depth_it_is_one_line() -> None:
    assert headline(reply()) == (
        "HPG HOSE  27,100 +0.37%  bid 27,100 x 1,200 | ask 27,150 x 600  volume 26,900  "
        "floor 25,150 ceiling 28,850  09:19:20"
    )


@pytest.mark.parametrize(
    ("volume", "last", "told"),
    [
        (27_900, 27_150, "  traded 1,000 since the last look, price +50"),
        (27_900, 27_100, "  traded 1,000 since the last look, price unchanged"),
        (26_900, 27_100, "  nothing traded since the last look"),
    ],
)
def test_a_second_look_says_what_traded_meanwhile(volume: int, last: int, told: str) -> None:
    assert picture(reply(volume=volume, last=last), reply())[-1] == told


def test_a_volume_that_the_broker_did_not_say_is_none_and_no_trade() -> None:
    assert "  volume -  floor " in headline(reply(volume=None))
    assert picture(reply(), reply(volume=None))[-1] == "  nothing known of trades, price unchanged"
    assert picture(reply(volume=None), reply())[-1] == "  nothing known of trades, price unchanged"
    moved = picture(reply(volume=None, last=27_150), reply())
    assert moved[-1] == "  nothing known of trades, price +50"


def test_a_side_that_nobody_quotes_is_said() -> None:
    depth = {"bids": [[28_850, 90_000]], "asks": []}
    locked = Fields({**reply(), "depth": depth, "open_orders": []})

    lines = picture(locked)

    assert lines[1] == "  asks none"
    assert lines[-1].startswith("  no spread: one side only")
