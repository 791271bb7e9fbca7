"""S17: one node of the broker lags, so every tenth read is 1 to 30 s old, all day.

python -m tests.faults.test_s17_lagging_node [minutes] [seeds]
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.domain.entry import Note
from bot.drill.oracle import faults_in, outcome_of
from tests.story import Story, tell, write_project

ROWS = {"verb": "GET", "path": "/trading/*/order-book*", "prob": 0.02, "times": 0}
DICE = """
from random import Random

from bot import Strategy


class Dice(Strategy):
    seed: int

    def on_quote(self, quote):
        dice = Random(f"{self.seed}|{self.now}|{quote.symbol}")
        roll = dice.random()
        if roll < 0.3:
            limit = quote.last + 50 * dice.randint(-2, 2)
            self.buy(100 * dice.randint(1, 4), limit=limit, why="dice")
        elif roll < 0.5:
            self.close(why="dice")
        elif roll < 0.65:
            self.cancel(why="dice")
"""


async def _lived(folder: Path, seed: int, minutes: float) -> Story:
    scenario = {
        "day": "2026-11-19",
        "start": "09:15:30",
        "symbols": [
            {"symbol": symbol, "exchange": "HOSE", "reference": reference, "flow": {}}
            for symbol, reference in (("HPG", 27_000), ("FPT", 45_000), ("VNM", 36_000))
        ],
        "quota": "PRO",
        "seed": seed,
        "faults": [
            {"match": ROWS, "action": {"do": "stale_read", "seconds": seconds}}
            for seconds in (1, 3, 7, 15, 30)
        ],
        "accounts": [{"id": "0009000011", "cash": 900_000_000, "holdings": {"HPG": 5_000}}],
    }
    strategy = {
        "name": "dice",
        "use": "dice",
        "symbols": ["HPG", "FPT", "VNM"],
        "params": {"seed": seed},
        "wake": {"quote": "5s"},
        "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "ask", "expire": "40s"},
        "limits": {"max_order_value": 500_000_000},
    }
    config = write_project(folder, scenario=scenario, strategies=[strategy])
    (folder / "strategies" / "dice.py").write_text(DICE)
    return await tell(config, minutes=minutes)


def _codes(story: Story) -> list[str]:
    notes = [note for note in story.shown.all(Note) if note.kind == "ALERT"]
    return [str(note.numbers.get("alert") or note.text) for note in notes]


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_old_rows_all_day_halt_nothing_and_falsify_nothing(tmp_path: Path, seed: int) -> None:
    story = await _lived(tmp_path, seed, minutes=12)

    assert set(_codes(story)) == {"STALE_ROW"}
    assert faults_in(outcome_of(story.loaded.state_dir)) == []


def main(minutes: float = 120, seeds: float = 5) -> None:
    """Tell long stories and print their alerts."""
    for seed in range(int(seeds)):
        with TemporaryDirectory() as folder:
            story = asyncio.run(_lived(Path(folder), seed, minutes))
            codes, orders = _codes(story), len(story.broker_orders())
            found = faults_in(outcome_of(story.loaded.state_dir))
            told = {code: codes.count(code) for code in sorted(set(codes))}
            sys.stdout.write(f"seed {seed}: {orders} orders, alerts {told}, unexplained {found}\n")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
