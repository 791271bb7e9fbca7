"""A bot that begins, or begins again, in the middle of a day has the bars of before."""

from pathlib import Path

from bot.domain.entry import Decision, Note
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
