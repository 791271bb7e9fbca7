"""S17: one node of the broker lags, so every tenth read is 1 to 30 s old, all day.

python -m tests.faults.test_s17_lagging_node [minutes] [days]      345, 30
"""

import asyncio
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bot.domain.entry import Note
from bot.drill.oracle import faults_in, outcome_of
from tests.proofs import undone
from tests.simulation.simulate import MEMORY, WORKERS
from tests.story import Story, tell, write_project

ROWS = {"verb": "GET", "path": "/trading/*/order-book*", "prob": 0.02, "times": 0}
HALTS_MAX = 1
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


@pytest.mark.scripted
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_old_rows_all_day_halt_nothing_and_falsify_nothing(tmp_path: Path, seed: int) -> None:
    story = await _lived(tmp_path, seed, minutes=12)

    assert set(_codes(story)) == {"STALE_ROW"}
    assert faults_in(outcome_of(story.loaded.state_dir)) == []


def _day(seed: int, minutes: float) -> tuple[int, Counter[str], list[str], list[str]]:
    """Live through a day; return its orders, its alerts, what it halted, and what is wrong."""
    shelf = MEMORY if Path(MEMORY).is_dir() else None
    with TemporaryDirectory(dir=shelf) as folder:
        story = asyncio.run(_lived(Path(folder), seed, minutes))
        notes = [note for note in story.shown.all(Note) if note.kind == "ALERT"]
        halted = {
            str(note.symbol or note.numbers.get("symbol"))
            for note in notes
            if note.numbers["alert"] in {"SYMBOL_HALTED", "ROW_CONTRADICTS", "ROW_CORRECTED"}
        }
        wrong = faults_in(outcome_of(story.loaded.state_dir))
        return len(story.broker_orders()), Counter(_codes(story)), sorted(halted), list(wrong)


def main(minutes: float = 345, days: float = 30) -> int:
    """Live through quiet days but for that node; fail if they halt more than one symbol."""
    halts, faults, counts = 0, 0, Counter[str]()
    with ProcessPoolExecutor(WORKERS) as pool:
        told = pool.map(partial(_day, minutes=minutes), range(int(days)))
        for seed, (orders, codes, halted, wrong) in enumerate(told):
            halts, faults = halts + len(halted), faults + len(wrong)
            counts += Counter(orders=orders, stale_rows=codes["STALE_ROW"])
            alerts = ", ".join(f"{count} {code}" for code, count in sorted(codes.items()))
            sys.stdout.write(f"day {seed}: {orders} orders; {alerts}; halted {halted}, {wrong}\n")
            sys.stdout.flush()
    verdict = f"{halts} symbols halted, {faults} lost, doubled or miscounted"
    nothing = undone(orders=counts["orders"], stale_rows=counts["stale_rows"])
    sys.stdout.write(f"{int(days)} days of {minutes:g} minutes: {'; '.join([verdict, *nothing])}\n")
    return 1 if halts > HALTS_MAX or faults or nothing else 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
