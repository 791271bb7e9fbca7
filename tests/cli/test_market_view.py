"""The market of a symbol as a picture, the day as a strip, and looking again and again."""

from datetime import UTC, datetime

import click
import pytest
from click.testing import CliRunner

from bot.cli.command import Invocation
from bot.cli.commands.quote import headline, picture
from bot.cli.commands.session import day_strip
from bot.cli.options import EVERY, WATCH_EVERY_S_MIN
from bot.cli.show import watch
from bot.config.rulebook import load_rulebook
from bot.domain.instrument import Exchange

LISTED = (Exchange.HOSE, Exchange.HNX, Exchange.UPCOM)


def reply(*, volume: int = 26_900, last: int = 27_100) -> dict[str, object]:
    """What a bot answers of a symbol in which it has two orders."""
    quote = {"symbol": "HPG", "exchange": "HOSE", "last": last, "reference": 27_000}
    quote |= {"floor": 25_150, "ceiling": 28_850, "volume": volume}
    quote |= {"updated_at": "2026-11-19T02:19:20+00:00"}
    near = {"side": "BUY", "price": 27_050, "quantity": 500, "executed": 200, "order_id": "ORD3"}
    far = {"side": "SELL", "price": 28_000, "quantity": 100, "executed": 0, "order_id": "ORD4"}
    return {
        "at": "2026-11-19T02:19:21+00:00",
        "phase": "PROGRESS",
        "quote": quote,
        "depth": {"bids": [[27_100, 1_200], [27_050, 2_400]], "asks": [[27_150, 600]]},
        "open_orders": [near, far],
    }


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


def test_a_side_that_nobody_quotes_is_said() -> None:
    locked = {**reply(), "depth": {"bids": [[28_850, 90_000]], "asks": []}, "open_orders": []}

    lines = picture(locked)

    assert lines[1] == "  asks nobody"
    assert lines[-1].startswith("  no spread: one side only")


STRIP = """\
         9           10          11          12          13          14          15
HOSE     OOO===========================..................==================CCC---
HNX      ==============================..................==================CCCPPP
UPCOM    ==============================..................========================
                                                                           ^ now
O opening auction  = continuous  . lunch break  C closing auction  P post-close"""


def test_a_day_is_a_strip_with_a_mark_at_now() -> None:
    at = datetime(2026, 11, 19, 7, 31, tzinfo=UTC)

    lines = day_strip(load_rulebook(on=at.date()), LISTED, at)

    assert "\n".join(lines) == f"{STRIP}  - negotiated only"


def test_a_day_without_trading_is_said() -> None:
    at = datetime(2026, 11, 22, 3, tzinfo=UTC)

    assert day_strip(load_rulebook(on=at.date()), LISTED, at) == ["Sun 2026-11-22, closed: weekend"]


def test_in_a_pipe_only_changes_are_written() -> None:
    looks = iter([["a"], ["a"], ["b"]])
    with CliRunner().isolation() as streams:
        watch(Invocation(), lambda: next(looks), every_s=0, looks=3)
        written = streams[0].getvalue().decode()

    assert written == "a\nb\n"


@pytest.mark.parametrize(("said", "seconds"), [("2", 2.0), ("5s", 5.0), ("0.5", WATCH_EVERY_S_MIN)])
def test_seconds_may_have_their_unit(said: str, seconds: float) -> None:
    assert EVERY.convert(said, None, None) == seconds


@pytest.mark.parametrize("said", ["0", "-1", "0.4s", "nan", "inf"])
def test_to_watch_every_zero_seconds_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter, match=r"wanted at least 0\.5 seconds"):
        EVERY.convert(said, None, None)


def test_what_is_no_number_of_seconds_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="wanted how often to look"):
        EVERY.convert("FPT", None, None)
