"""A bot that begins, or begins again, in the middle of a day has the bars of before."""

from pathlib import Path

from bot.domain.entry import Decision, Note
from tests.story import tell, write_project

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
