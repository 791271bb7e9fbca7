"""Bars of the simulated market: what the sandbox's exchanges trade on their own, day after day.

The same scenario and seed give the same bars, whichever other symbols there are. The shipped data
set is made this way; its scenario names the command.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Final

import numpy as np

from bot.domain.instrument import EXCHANGE_TZ
from bot.domain.rulebook import Rulebook
from bot.runtime.history.bars import BarColumns, DayFrame
from bot.runtime.history.store.bar_files import DAY_S, OFFSET_S, HeldBars
from bot.runtime.history.store.bar_writing import write_bars, write_days
from bot.sandbox.house.house import House
from bot.sandbox.markets.flow.day import FlowSpan
from bot.sandbox.markets.recorder import TradedBar
from bot.sandbox.markets.replay.data import place_of
from bot.sandbox.markets.replay.market import day_spans
from bot.sandbox.scenario import Scenario

SAMPLE: Final = "config/sample"
"""The shipped data set: simulated prices of a few real symbols."""
_MINUTE_S: Final = 60
_EVENING: Final = time(15, 30)
"""All exchanges are closed by then."""
_RATIO_DIGITS: Final = 6
_CLOSE: Final = 4


@dataclass(slots=True)
class SimulatedDays:
    """Rows by symbol, oldest first: start, open, high, low, close, volume; and the days' frames."""

    minutes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    days: list[tuple[str, str, date, DayFrame]] = field(default_factory=list)

    def bars(self, symbol: str) -> BarColumns:
        rows = np.array(self.minutes[symbol], np.int64)
        return BarColumns(symbol, _MINUTE_S, *rows.T.copy())

    def write(self, folder: Path) -> None:
        """Write the minutes of each symbol and one file of days, in the form that `open_bars`
        reads.
        """
        for symbol in sorted(self.minutes):
            path = folder / "bars" / "1m" / f"{symbol}.csv.gz"
            held = HeldBars(self.bars(symbol))
            write_bars(path, held.chunks(0, int(held.columns.start[-1]) + 1))
        write_days(folder / "daily.csv.gz", sorted(self.days, key=lambda row: (row[0], row[2])))


def simulate_days(
    scenario: Scenario,
    rulebook: Rulebook,
    last: date,
    *,
    progress: Callable[[date], None] = lambda _: None,
) -> SimulatedDays:
    """Run the scenario's market from its start to the end of a day, and collect its trades."""
    house, found = House(scenario, rulebook), SimulatedDays()
    first = scenario.starts_at.astimezone(EXCHANGE_TZ).date()
    for day in (each for each in rulebook.calendar.trading_days if first <= each <= last):
        house.advance(datetime.combine(day, _EVENING, EXCHANGE_TZ))
        for script in scenario.symbols:
            board, rows = house.venue.board(script.symbol), found.minutes.get(script.symbol, [])
            actions = [
                each
                for each in scenario.corporate_actions
                if (each.symbol, each.ex_date) == (script.symbol, day)
            ]
            ratio = None
            if rows and actions:
                close = rows[-1][_CLOSE]
                value = close + sum(each.value for each in actions)
                exact = value / (1 + sum(each.growth for each in actions))
                ratio = round(float(exact / close), _RATIO_DIGITS)
            frame = DayFrame(board.reference, board.ceiling, board.floor, ratio)
            found.days.append((script.symbol, str(script.exchange), day, frame))
            spans = day_spans(rulebook, script.exchange, day)
            traded = house.recorder.minutes(script.symbol, day).values()
            found.minutes[script.symbol] = [*rows, *_rows(traded, spans)]
        progress(day)
    return found


def _rows(minutes: Iterable[TradedBar], spans: Sequence[FlowSpan]) -> list[tuple[int, ...]]:
    """Return the minutes as rows; trades after the closing auction go into its bar."""
    rows: list[tuple[int, ...]] = []
    for each in minutes:
        start, prices = int(each.start.timestamp()), (each.open, each.high, each.low, each.close)
        if rows and place_of((start + OFFSET_S) % DAY_S, spans) is None:
            *before, volume = rows.pop()
            rows.append((*before, volume + each.volume))
        else:
            rows.append((start, *prices, each.volume))
    return rows
