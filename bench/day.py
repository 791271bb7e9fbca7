"""A day of the order flow on each exchange, as a table and a chart, compared with real days.

.venv/bin/python -m bench.day [--scenario market] [--days 1]

Simulated and real days are reduced to minute bars first and then measured by the same code; so are
closes, for how much a day moves a symbol, and all of them together. Real ones are shown when
VNBOT_MARKET_DATA names a directory with `symbols.csv` and `bars_1m/<SYMBOL>.csv.gz`, for the moves
`daily/daily_2023_2025.csv.gz`, and for the spread `ticks/board_3level_2025-06-03.csv`.
"""

import csv
import gzip
import itertools
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import click

from bot.config.rulebook import load_rulebook
from bot.config.scenario_file import load_scenario
from bot.domain.instrument import EXCHANGE_TZ, Exchange, Phase
from bot.sandbox.house.house import House

DATA = "VNBOT_MARKET_DATA"
DAILY = "daily/daily_2023_2025.csv.gz"
SINCE = "2024-07"
BOARD = "ticks/board_3level_2025-06-03.csv"
EXCHANGES = (Exchange.HOSE, Exchange.HNX, Exchange.UPCOM)
LOOK = timedelta(minutes=1)
DAY = timedelta(hours=6, minutes=6)
WIDTH = 40
PHASES = ("opening", "continuous", "closing", "after hours")
AUCTION_MINUTES = {
    (Exchange.HOSE, "09:15"): "opening",
    (Exchange.HOSE, "14:45"): "closing",
    (Exchange.HNX, "14:45"): "closing",
}
Bar = tuple[int, int, int, int, int]
"""Open, high, low, close, volume."""
Bars = Mapping[str, Bar]
"""The minutes of one symbol on one day, by `HH:MM` of their start."""


# ------------------------------------------------------------------------------- measuring


class Moves:
    """How far closes are from the references: by exchange, and all symbols of a day combined."""

    def __init__(self) -> None:
        self.percents: dict[Exchange, list[float]] = defaultdict(list)
        self.locked: dict[Exchange, int] = defaultdict(int)
        self.by_day: dict[str, list[float]] = defaultdict(list)

    def add(
        self, exchange: Exchange, day: str, close: int, reference: int, *, is_locked: bool
    ) -> None:
        """Count one day of one symbol; it is locked if it ends at its ceiling or floor."""
        percent = 100 * (close / reference - 1)
        self.percents[exchange].append(percent)
        self.by_day[day].append(percent)
        self.locked[exchange] += is_locked

    def lines(self, name: str) -> Iterator[str]:
        """Show them."""
        together = [statistics.fmean(percents) for percents in self.by_day.values()]
        yield (
            f"{name}: {len(together)} days; the mean of all symbols moves by a deviation of "
            f"{statistics.pstdev(together):.2f} %"
        )
        for exchange in EXCHANGES:
            if percents := self.percents[exchange]:
                yield (
                    f"  {exchange:6} a symbol's day: deviation {statistics.pstdev(percents):.2f} %,"
                    f" kurtosis {tailedness(percents):.0f},"
                    f" locked at the close {100 * self.locked[exchange] / len(percents):.2f} %"
                )


@dataclass
class Figures:
    """The figures of one exchange's days."""

    days: int = 0
    volume: int = 0
    by_phase: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    by_half_hour: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ranges: list[float] = field(default_factory=list)
    minutes: list[int] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)

    def add(self, exchange: Exchange, bars: Bars) -> None:
        """Count one day of one symbol."""
        self.days += 1
        self.minutes.append(len(bars))
        listed = list(bars.values())
        self.ranges.append(_range(listed))
        closes = [bar[3] for bar in listed]
        self.returns += [b / a - 1 for a, b in itertools.pairwise(closes)]
        for minute, bar in bars.items():
            self._count(exchange, minute, bar[4])

    def _count(self, exchange: Exchange, minute: str, volume: int) -> None:
        self.volume += volume
        late = exchange is Exchange.HNX and minute > "14:45"
        phase = "after hours" if late else AUCTION_MINUTES.get((exchange, minute), "continuous")
        self.by_phase[phase] += volume
        if phase in ("opening", "continuous"):
            self.by_half_hour[_half_hour(minute)] += volume

    def share(self, volume: int) -> float:
        """Return the percentage of everything traded."""
        return 100 * volume / max(1, self.volume)


def _range(bars: list[Bar]) -> float:
    return 100 * (max(bar[1] for bar in bars) - min(bar[2] for bar in bars)) / bars[0][0]


def _half_hour(minute: str) -> str:
    return minute[:3] + ("00" if minute[3:] < "30" else "30")


def tailedness(returns: list[float]) -> float:
    """Return the kurtosis: 3 for a normal distribution, more for fat tails; 0 for too few."""
    mean, spread = statistics.fmean(returns or [0.0]), statistics.pvariance(returns or [0.0])
    fourth = statistics.fmean([(each - mean) ** 4 for each in returns] or [0.0])
    return fourth / spread**2 if spread else 0.0


# ------------------------------------------------------------------------------- simulated


@dataclass
class Touches:
    """Spreads in ticks and volumes at the three best levels, over a symbol's samples."""

    spreads: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    locked: str = ""


class Simulated:
    """Plays a scenario and samples it once a minute."""

    def __init__(self, name: str) -> None:
        scenario = load_scenario(name, Path())
        self.house = House(scenario, load_rulebook())
        self.touches = {script.symbol: Touches() for script in scenario.symbols}
        self.figures = {exchange: Figures() for exchange in EXCHANGES}
        self.moves = Moves()
        self.taken_s = 0.0

    def play(self, number: int) -> None:
        """Play one day from its start to its end."""
        start = self.house.scenario.starts_at + timedelta(days=number)
        for looked in range(1, DAY // LOOK):
            begun = time.process_time()
            self.house.advance(start + looked * LOOK)
            self.taken_s += time.process_time() - begun
            self._look()
        for script in self.house.scenario.symbols:
            bars = self._bars(script.symbol, start.astimezone(EXCHANGE_TZ).date())
            if bars:
                self.figures[script.exchange].add(script.exchange, bars)
                board = self.house.venue.board(script.symbol)
                close = board.close or board.reference
                is_locked = close in (board.ceiling, board.floor)
                self.moves.add(
                    script.exchange, f"{start:%F}", close, board.reference, is_locked=is_locked
                )

    def _look(self) -> None:
        venue, rulebook = self.house.venue, self.house.rulebook
        for script in self.house.scenario.symbols:
            if venue.phase_of(script.symbol) is not Phase.PROGRESS:
                continue
            seen, depth = self.touches[script.symbol], venue.depth(script.symbol)
            seen.locked = "" if depth.bids and depth.asks else "ceiling" if depth.bids else "floor"
            seen.levels += [level.volume for level in (*depth.bids, *depth.asks)]
            if depth.bids and depth.asks:
                wide = depth.asks[0].price - depth.bids[0].price
                seen.spreads.append(
                    wide // rulebook.ticks_of(script.instrument).tick_at(depth.bids[0].price)
                )

    def _bars(self, symbol: str, day: date) -> Bars:
        return {
            f"{at.astimezone(EXCHANGE_TZ):%H:%M}": (
                each.open,
                each.high,
                each.low,
                each.close,
                each.volume,
            )
            for at, each in sorted(self.house.recorder.minutes(symbol, day).items())
        }


# ------------------------------------------------------------------------------------ real


def real_figures(root: Path) -> dict[Exchange, Figures]:
    """Measure every recorded day of the symbols that stayed on one exchange."""
    figures = {exchange: Figures() for exchange in EXCHANGES}
    rows = list(csv.DictReader((root / "symbols.csv").read_text().splitlines()))
    listed = [row["symbol"] for row in rows]
    for row in rows:
        path = root / "bars_1m" / f"{row['symbol']}.csv.gz"
        if path.exists() and listed.count(row["symbol"]) == 1:
            exchange = Exchange(row["exchange"])
            for bars in _real_days(path):
                figures[exchange].add(exchange, bars)
    return figures


def real_moves(root: Path) -> Moves:
    """Measure the closes of the same symbols over the same days."""
    moves = Moves()
    rows = list(csv.DictReader((root / "symbols.csv").read_text().splitlines()))
    listed = [row["symbol"] for row in rows]
    with gzip.open(root / DAILY, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            symbol = row["symbol"]
            has_bars = (root / "bars_1m" / f"{symbol}.csv.gz").exists()
            if not (has_bars and listed.count(symbol) == 1 and row["date"] >= SINCE):
                continue
            if row["reference"]:
                is_locked = row["close"] in (row["ceiling"], row["floor"])
                close, reference = int(row["close"]), int(row["reference"])
                exchange = Exchange(row["exchange"])
                moves.add(exchange, row["date"], close, reference, is_locked=is_locked)
    return moves


def _real_days(path: Path) -> Iterator[Bars]:
    days: dict[str, dict[str, Bar]] = defaultdict(dict)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            day, minute = row["time"].split()
            o, h, low, c = (int(row[name]) for name in ("open", "high", "low", "close"))
            days[day][minute] = (o, h, low, c, int(row["volume"]))
    yield from days.values()


def real_touches(path: Path) -> Iterator[str]:
    """Describe the few recorded samples of three-level depth."""
    for row in csv.DictReader(path.read_text().splitlines()):
        wide = int(row["ask1_price"]) - int(row["bid1_price"])
        names = [f"{side}{level}_volume" for side in ("bid", "ask") for level in (1, 2, 3)]
        levels = statistics.median(int(row[name]) for name in names)
        share = 100 * levels / int(row["total_volume"])
        yield (
            f"  {row['symbol']} {row['time'][11:16]}: spread {wide} VND, "
            f"median level {levels:,.0f} ({share:.1f} % of the volume so far)"
        )


# --------------------------------------------------------------------------------- showing


def exchange_lines(name: str, exchange: Exchange, figures: Figures) -> Iterator[str]:
    """Show an exchange: a line of figures, then volume by phase and by half hour."""
    yield (
        f"{exchange} {name}: {figures.days} symbol-days; "
        f"range median {statistics.median(figures.ranges):.2f} %, "
        f"p90 {sorted(figures.ranges)[int(0.9 * len(figures.ranges))]:.2f} %; "
        f"minutes with a trade {statistics.median(figures.minutes):.0f}; "
        f"minute returns: deviation {100 * statistics.pstdev(figures.returns):.2f} %, "
        f"kurtosis {tailedness(figures.returns):.0f}"
    )
    for phase in PHASES:
        if figures.by_phase.get(phase):
            yield _bar(phase, figures.share(figures.by_phase[phase]), full=100)
    for half_hour, volume in sorted(figures.by_half_hour.items()):
        if (share := figures.share(volume)) >= 0.05:
            yield _bar(f"  {half_hour}", share, full=25)


def _bar(label: str, share: float, *, full: float) -> str:
    return f"  {label:12} {share:5.1f} %  {'█' * round(WIDTH * share / full)}"


def symbol_lines(played: Simulated) -> Iterator[str]:
    """Show the last day of each symbol, exchange by exchange."""
    yield "symbol exch   reference     close   change    range       volume  spread   level  ends"
    for script in sorted(
        played.house.scenario.symbols, key=lambda each: EXCHANGES.index(each.exchange)
    ):
        board, seen = played.house.venue.board(script.symbol), played.touches[script.symbol]
        close = board.close or board.reference
        spread = statistics.median(seen.spreads) if seen.spreads else 0
        level = statistics.median(seen.levels) if seen.levels else 0
        change = 100 * (close / board.reference - 1)
        width = 100 * ((board.high or close) - (board.low or close)) / board.reference
        yield (
            f"{script.symbol:6} {script.exchange:6} {board.reference:9,} {close:9,} {change:+7.2f}%"
            f" {width:7.2f}% {board.volume:12,} {spread:7.0f} {level:7,.0f}  {seen.locked}"
        )


def spread_line(exchange: Exchange, played: Simulated) -> str:
    """Show the spread in ticks on one exchange: how many of the samples had one, two, more."""
    scripts = [each for each in played.house.scenario.symbols if each.exchange is exchange]
    spreads = [wide for each in scripts for wide in played.touches[each.symbol].spreads]
    one, two = (100 * spreads.count(ticks) / max(1, len(spreads)) for ticks in (1, 2))
    return (
        f"  spread in ticks: median {statistics.median(spreads):.0f}; "
        f"1 in {one:.0f} %, 2 in {two:.0f} % of {len(spreads)} looks"
    )


@click.command()
@click.option("--scenario", default="market", show_default=True, help="shipped name or file")
@click.option("--days", default=1, show_default=True, help="trading days to play")
def main(scenario: str, days: int) -> None:
    """Print simulated days, compared with real ones."""
    played = Simulated(scenario)
    calendar = played.house.rulebook.calendar
    start = played.house.scenario.trading_day
    day = start
    for _ in range(days):
        played.play((day - start).days)
        day = calendar.next_trading_day(day)
    root = os.environ.get(DATA)
    real = real_figures(Path(root)) if root else {}
    _show(symbol_lines(played))
    for exchange in EXCHANGES:
        if played.figures[exchange].days:
            click.echo("")
            _show(exchange_lines("simulated", exchange, played.figures[exchange]))
            click.echo(spread_line(exchange, played))
        if exchange in real:
            _show(exchange_lines("recorded", exchange, real[exchange]))
    click.echo("")
    _show(played.moves.lines("simulated"))
    if root and (Path(root) / DAILY).exists():
        _show(real_moves(Path(root)).lines("recorded"))
    if root and (Path(root) / BOARD).exists():
        click.echo("\nrecorded depth, HOSE, 2025-06-03")
        _show(real_touches(Path(root) / BOARD))
    click.echo(f"\n{days} day(s) of {len(played.touches)} symbols in {played.taken_s:.2f} s of CPU")


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


if __name__ == "__main__":
    main()
