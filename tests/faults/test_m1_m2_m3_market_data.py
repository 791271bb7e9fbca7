"""M1, M2, M3: market data that lies, told as whole stories: no order goes out on it.

The strategy buys whenever it can: at the quote's ceiling, at the depth's ask.
"""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from pathlib import Path

import pytest

from bot.domain.entry import Decision, IntentRecorded, Note
from bot.domain.instrument import EXCHANGE_TZ
from tests.staging import QUIET
from tests.story import Story, once, tell, write_project

EAGER = """
from bot import Strategy


class Eager(Strategy):
    def on_quote(self, quote):
        self.buy(100, limit=quote.ceiling, why="as much as today's band allows")

    def on_depth(self, depth):
        self.buy(100, why="by the file: the ask")
"""
QUOTES = "*/market/quotes/stocks/HPG"
DEPTHS = "*/market/quotes/stocks/HPG/order-book"
BOUNDS = (("ceiling",), ("floor",), ("reference", "ceiling", "floor"))
BOTH = "*/market/quotes/stocks/HPG*"


def prices(factor: int) -> Mapping[str, object]:
    """Quote, band and depth of a share at 27,000, all times a factor; -10 is a tenth."""

    def scaled(price: int) -> int:
        return price * factor if factor > 0 else price // -factor

    names = {"price": 27_000, "reference": 27_000, "ceiling": 28_850, "floor": 25_150}
    return {
        **{name: scaled(price) for name, price in names.items()},
        "bids": [{"price": scaled(26_950), "volume": 5_000}],
        "asks": [{"price": scaled(27_000), "volume": 5_000}],
    }


EXCHANGED = {
    "bids": [{"price": 27_100, "volume": 5_000}],
    "asks": [{"price": 26_900, "volume": 5_000}],
}
INSANE: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "of yesterday": (BOTH, {"updated_at": "2026-11-18T09:00:00+07:00"}),
    "of the year 2099": (BOTH, {"updated_at": "2099-01-01T09:00:00+07:00"}),
    "bids and asks exchanged": (DEPTHS, EXCHANGED),
    "times 10": (BOTH, prices(10)),
    "times 100": (BOTH, prices(100)),
    "times 1000": (BOTH, prices(1_000)),
    "a tenth": (BOTH, prices(-10)),
    "a hundredth": (BOTH, prices(-100)),
    "a thousandth": (BOTH, prices(-1_000)),
    "a band without bounds": (QUOTES, {"floor": 1, "ceiling": 10**9}),
    "the price alone times 10": (QUOTES, {"price": 270_000}),
    "the band alone times 10": (QUOTES, {"floor": 251_500, "ceiling": 288_500}),
    "the depth alone times 10": (DEPTHS, {n: prices(10)[n] for n in ("bids", "asks")}),
    "off tick": (QUOTES, {"price": 27_010}),
    "a reference that has moved by 20 %": (
        QUOTES,
        {"price": 32_400, "reference": 32_400, "ceiling": 34_650, "floor": 30_150},
    ),
    "a volume without bounds": (QUOTES, {"volume": 10**15}),
    "the open alone times 10": (QUOTES, {"open": 270_000}),
    "the high alone times 10": (QUOTES, {"high": 271_000}),
    "the low alone a tenth": (QUOTES, {"low": 2_690}),
    "a low above the high": (QUOTES, {"low": 27_050, "high": 26_950}),
}
INSANE_LATER = {**INSANE, "of another exchange": (QUOTES, {"exchange": "HNX"})}
"""A start asks the first quote where the symbol is listed, so that is not judged by it."""


async def _told(
    folder: Path, where: str, fields: Mapping[str, object], *, minutes: float, **match: object
) -> Story:
    action = {"do": "set_fields", "fields": dict(fields)}
    faults = [{"match": {"path": where, "times": 0, **match}, "action": action}]
    symbols = [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "swing_ticks": 0}]
    account = {"id": "0009000011", "suffix": ".1", "type": "Normal", "cash": 1_000_000_000}
    config = write_project(
        folder,
        scenario={**QUIET, "symbols": symbols, "accounts": [account], "faults": faults},
        strategies=[once("eager", use="eager", params={}, wake={"quote": "2s", "depth": "2s"})],
        risk={"duplicate_window_s": 0},
    )
    (folder / "strategies" / "eager.py").write_text(EAGER)
    return await tell(config, minutes=minutes)


def _placed(story: Story, since: str, until: str = "23:59:59") -> list[IntentRecorded]:
    """The orders that were decided on at these times of the day."""
    first, last = time.fromisoformat(since), time.fromisoformat(until)
    return [
        entry
        for entry in story.shown.all(IntentRecorded)
        if first <= entry.at.astimezone(EXCHANGE_TZ).time() < last
    ]


def _held(story: Story) -> list[Note]:
    alerts = (note for note in story.shown.all(Note) if note.kind == "ALERT")
    return [note for note in alerts if note.numbers.get("alert") == "HELD_DATA"]


async def test_on_good_data_the_strategy_does_buy(tmp_path: Path) -> None:
    story = await _told(tmp_path, BOTH, {"name": "Hoa Phat"}, minutes=0.5)

    assert len(story.posts()) > 5
    assert _held(story) == []


@pytest.mark.scripted
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", INSANE)
async def test_no_order_on_insane_data_from_the_first_poll_on(tmp_path: Path, name: str) -> None:
    where, fields = INSANE[name]

    story = await _told(tmp_path, where, fields, minutes=0.5)

    assert story.posts() == []
    assert _held(story)[0].symbol == "HPG"


@pytest.mark.scripted
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", INSANE_LATER)
async def test_no_order_in_ten_insane_seconds_and_good_data_is_believed_again(
    tmp_path: Path, name: str
) -> None:
    where, fields = INSANE_LATER[name]
    turns = datetime.combine(QUIET["day"], time(9, 20, 13 + len(name) % 7))  # type: ignore[arg-type]

    def after(seconds: int) -> str:
        return (turns + timedelta(seconds=seconds)).time().isoformat()

    story = await _told(tmp_path, where, fields, minutes=1, at=after(0), until=after(10))

    assert _placed(story, "09:20:00", after(0)) != []
    assert _placed(story, after(3), after(13)) == []
    assert _placed(story, after(20)) != []
    assert [note.kind for note in story.shown.all(Note)].count("RESUME") >= 1


async def test_with_the_history_dead_nothing_confirms_a_price(tmp_path: Path) -> None:
    story = await _told(tmp_path, "*/market/quotes/stocks/HPG/history", {"series": []}, minutes=0.5)

    assert story.posts() == []
    assert _held(story)[0].numbers["kind"] == "UNCONFIRMED"


@pytest.mark.scripted
@pytest.mark.parametrize("lacking", BOUNDS)
async def test_no_order_on_a_quote_that_lacks_a_bound_of_today(
    tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    story = await _told(tmp_path, QUOTES, dict.fromkeys(lacking), minutes=0.5)

    assert story.posts() == []
    assert "BAND" in {each.code for each in story.shown.all(Decision)}
