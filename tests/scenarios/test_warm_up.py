"""A bot that begins, or begins again, in the middle of a day has the earlier bars."""

import asyncio
from datetime import date, datetime
from pathlib import Path

from bot.config.settings.load import load_settings
from bot.domain.entry import Decision, Note
from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.quote import WentEx
from bot.runtime.history.warming.kept import KeptExDates
from tests.story import Story, tell, write_project

SMA = {
    "name": "sma",
    "use": "sma",
    "symbols": ["HPG"],
    "params": {"bars": 20},
    "wake": {"bar": "5m"},
    "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask"},
    "limits": {"max_order_value": 500_000_000},
}
PLUGIN = """
from bot import Strategy


class Sma(Strategy):
    bars: int

    def on_bar(self, bar):
        self.skip(f"{bar.close} over {bar.sma(self.bars):.0f}")
"""
SCENARIO = {
    "day": "2026-11-19",
    "start": "10:02:00",
    "quota": "PRO",
    "symbols": [{"symbol": "HPG", "exchange": "HOSE", "reference": 27_000, "trade_chance": 1.0}],
}


def _project(folder: Path, **strategy: object) -> Path:
    config = write_project(folder, scenario=SCENARIO, strategies=[{**SMA, **strategy}])
    (folder / "strategies" / "sma.py").write_text(PLUGIN)
    return config


async def test_a_start_is_warm_with_the_brokers_history_and_says_where_it_is_from(
    tmp_path: Path,
) -> None:
    story = await tell(_project(tmp_path), minutes=4)

    [note] = [each for each in story.shown.all(Note) if each.kind == "HISTORY"]
    [decision] = story.shown.all(Decision)
    assert note.text.startswith("HPG 5m: 300 bars since 2026-11-1")
    assert note.text.endswith("from the broker's history")
    assert decision.code == "SKIP"


def _told(story: Story) -> list[str]:
    return [each.text for each in story.shown.all(Note) if each.kind == "HISTORY"]


async def test_bars_that_the_broker_does_not_have_are_kept_over_a_restart(tmp_path: Path) -> None:
    config = _project(tmp_path, wake={"bar": "1m"}, params={"bars": 5})

    first = await tell(config, minutes=7.5)
    second = await tell(config, minutes=10.5)

    codes = [each.code for each in first.shown.all(Decision)]
    assert codes == ["WARMING"] * 4 + ["SKIP"] * 3
    assert _told(first) == []
    assert _told(second) == ["HPG 1m: 7 bars since 2026-11-19 10:02 from what earlier runs kept"]
    assert [each.code for each in second.shown.all(Decision)] == ["WARMING", "SKIP", "SKIP"]
    assert second.shown.all(Decision)[0].why.startswith("this bar was seen from 10:09:30 on only")


VALUES = """
from bot import Strategy


class Sma(Strategy):
    bars: int

    def on_bar(self, bar):
        sma, ema, rsi = bar.sma(self.bars), bar.ema(self.bars), bar.rsi(self.bars)
        side = "above" if bar.close > ema else "below"
        self.skip(f"{bar.close} {side} {sma!r} {ema!r} {rsi!r} {ema.previous!r}")
"""


async def test_a_run_that_begins_again_decides_as_one_that_went_on(tmp_path: Path) -> None:
    stories = {}
    for name, stops in {"on": [40], "again": [21, 29, 40]}.items():
        config = _project(tmp_path / name, wake={"bar": "1m"}, params={"bars": 5})
        (tmp_path / name / "strategies" / "sma.py").write_text(VALUES)
        stories[name] = [await tell(config, minutes=each) for each in stops]

    went_on, again = (
        [(each.at, each.code, each.why) for story in told for each in story.shown.all(Decision)]
        for told in stories.values()
    )
    assert went_on == again
    assert [code for _, code, _ in again].count("SKIP") == 40 - 5


async def test_a_history_that_cannot_be_read_is_asked_for_every_minute_and_stays_an_alert(
    tmp_path: Path,
) -> None:
    match = {"verb": "GET", "path": "*/history*", "at": "10:00", "until": "10:08", "times": 0}
    faults = [{"match": match, "action": {"do": "status", "status": 503}}]
    config = write_project(
        tmp_path, scenario={**SCENARIO, "faults": faults}, strategies=[{**SMA, "name": "sma"}]
    )
    (tmp_path / "strategies" / "sma.py").write_text(PLUGIN)

    story = await tell(config, minutes=14)

    told = _told(story)
    assert len(told) == 2
    assert told[0].startswith("HPG 5m: the broker's history can't be read (")
    assert told[0].endswith("): asked again every minute")
    assert told[1].startswith("HPG 5m: 300 bars since")
    assert [each.code for each in story.shown.all(Decision)] == ["SKIP", "SKIP"]


async def test_the_price_of_the_closing_auction_is_in_the_bar_in_which_histories_have_it(
    tmp_path: Path,
) -> None:
    late = {**SCENARIO, "start": "14:27:00"}
    config = write_project(tmp_path, scenario=late, strategies=[{**SMA, "wake": {"bar": "5m"}}])
    (tmp_path / "strategies" / "sma.py").write_text(
        PLUGIN.replace("{bar.close} over", "{bar.start:%H:%M} {bar.close} {bar.volume > 0}")
    )

    story = await tell(config, minutes=24)

    told = [each.why.split()[:3] for each in story.shown.all(Decision)]
    assert [start for start, _, _ in told] == ["07:25", "07:30", "07:35", "07:40", "07:45"]
    assert [has_traded for _, _, has_traded in told[-3:]] == ["False", "False", "True"]
    assert told[-1][1] != told[-2][1]


LEVELS = """
from bot import Strategy


class Sma(Strategy):
    bars: int

    def on_bar(self, bar):
        self.skip(f"{bar.close} {bar.sma(self.bars)!r}")
"""


def _of_the_17th(state: Path) -> None:
    """Twenty bars at 30,000 from two days before, and to what the 18th adjusted that close."""
    begins = int(datetime(2026, 11, 17, 14, 10, tzinfo=EXCHANGE_TZ).timestamp())
    lines = [f"HPG,60,{begins + 60 * n},30000,30000,30000,30000,100\n" for n in range(20)]
    (state / "bars-sandbox.csv").write_text("".join(lines))
    ex_dates = KeptExDates(state / "ex-dates-sandbox.csv")
    asyncio.run(ex_dates.keep(WentEx("HPG", date(2026, 11, 18), 30_000, 27_000)))


def test_an_ex_date_that_the_bot_has_seen_levels_its_bars_whether_the_broker_says_it_or_not(
    tmp_path: Path,
) -> None:
    action = {"do": "cash_dividend", "symbol": "HPG", "vnd_per_share": 3_000}
    days = {"ex_date": "2026-11-18", "pays_on": "2026-12-10"}
    match = {"path": "*/market/news", "at": "10:00", "until": "10:06", "times": 0}
    dead = {"match": match, "action": {"do": "status", "status": 404, "body": "{}"}}
    stories = {}
    for name, faults in {"answers": [], "dead": [dead]}.items():
        scenario = {**SCENARIO, "faults": faults, "corporate_actions": [{**action, **days}]}
        strategy = {**SMA, "wake": {"bar": "1m"}, "params": {"bars": 15}}
        config = write_project(tmp_path / name, scenario=scenario, strategies=[strategy])
        (tmp_path / name / "strategies" / "sma.py").write_text(LEVELS)
        _of_the_17th(load_settings(config).state_dir)
        stories[name] = asyncio.run(tell(config, minutes=12))

    answered, late = (
        {each.at: (each.code, each.why) for each in story.shown.all(Decision)}
        for story in stories.values()
    )
    assert len(answered) > 9
    assert late == answered
    told = [note.numbers.get("read") for note in stories["dead"].shown.all(Note)]
    assert told.count("the ex-dates") == 2
