"""How fast bars are read from files, compared with plain polars and numpy, and the memory of 10
million.

    .venv/bin/python -m bench.bars [--bars 1000000] [--rounds 3]

Three readers take turns at one compressed CSV of minute bars: ours, with every check of order and
form; `polars.read_csv` with its times made Unix seconds; `numpy.loadtxt` of the five figures alone.
Then a separate process goes through 50 symbols side by side, ten million bars in all, bar by bar in
time order as a backtest does, and reports its peak memory.
"""

import gzip
import heapq
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

import click
import numpy as np
import polars as pl

from bot.runtime.history.bars import BarColumns
from bot.runtime.history.store.bar_files import FIGURES, OFFSET_S
from bot.runtime.history.store.bar_writing import write_bars
from bot.runtime.history.store.parquet_files import PART_BARS, write_parquet
from bot.runtime.history.store.store import open_bars

ALWAYS: Final = (date(1990, 1, 1), date(2200, 1, 1))
SYMBOLS: Final = 50
TOTAL: Final = 10_000_000
START: Final = 946_688_400
"""2000-01-01 08:00 local."""
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def made(symbol: str, count: int, seed: int = 7) -> list[BarColumns]:
    """Make minute bars of a walk on a tick of 50, in parts."""
    random = np.random.default_rng(seed)
    steps = random.integers(-1, 2, count).cumsum() * 50
    close = 500_000 + steps
    opened = np.concatenate([close[:1], close[:-1]])
    start = START + np.arange(count, dtype=np.int64) * 60
    volume = random.integers(1, 500, count) * 100
    high, low = np.maximum(opened, close) + 50, np.minimum(opened, close) - 50
    columns = (start, opened, high, low, close, volume)
    return [
        BarColumns(symbol, 60, *(each[at : at + PART_BARS].astype(np.int64) for each in columns))
        for at in range(0, count, PART_BARS)
    ]


def quickly_written(path: Path, parts: list[BarColumns]) -> None:
    """Write like `write_bars`, with less compression."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        for number, columns in enumerate(parts):
            figures = {name: getattr(columns, name) for name in FIGURES}
            time_of = pl.from_epoch(pl.Series("time", columns.start + OFFSET_S), time_unit="s")
            frame = pl.DataFrame({"time": time_of, **figures})
            text = frame.write_csv(include_header=not number, datetime_format="%Y-%m-%d %H:%M")
            file.write(text.encode())


def ours(path: Path) -> int:
    """Read as a backtest does."""
    return sum(len(columns) for columns in open_bars(path).chunks("AAA", *ALWAYS))


def bare_polars(path: Path) -> int:
    """Read the whole file at once, times as Unix seconds, without checks."""
    found = pl.read_csv(path).with_columns(
        pl.col("time").str.to_datetime("%Y-%m-%d %H:%M").dt.epoch("s")
    )
    return len(found)


def bare_numpy(path: Path) -> int:
    """Read only the five figures."""
    with gzip.open(path) as file:
        return len(np.loadtxt(file, np.int64, delimiter=",", skiprows=1, usecols=range(1, 6)))


def seconds_of(read: Callable[[Path], int], path: Path) -> float:
    """Time one reading."""
    began = time.perf_counter()
    read(path)
    return time.perf_counter() - began


def hold(folder: Path) -> None:
    """Go through all symbols side by side and print the number of bars and the peak
    memory, in MB.
    """
    source = open_bars(folder)
    streams = [
        (
            bar
            for columns in source.chunks(symbol, *ALWAYS)
            for bar in zip(columns.start.tolist(), columns.close.tolist(), strict=True)
        )
        for symbol in source.symbols()
    ]
    count = sum(1 for _ in heapq.merge(*streams))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    click.echo(f"{count:,} bars of {len(streams)} symbols: {most >> 10} MB")


@click.command()
@click.option("--bars", default=1_000_000)
@click.option("--rounds", default=3)
@click.option("--hold", "held", type=click.Path(path_type=Path), hidden=True)
def main(bars: int, rounds: int, held: Path | None) -> None:
    """Measure, and print a table."""
    if held is not None:
        hold(held)
        return
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "AAA.csv.gz"
        write_bars(path, made("AAA", bars))
        readers = {"ours": ours, "polars alone": bare_polars, "numpy alone": bare_numpy}
        times: dict[str, list[float]] = {each: [] for each in readers}
        for _ in range(rounds):
            for each, read in readers.items():
                times[each].append(seconds_of(read, path))
        best = {each: statistics.median(found) for each, found in times.items()}
        for each, seconds in best.items():
            ratio = best["ours"] / seconds
            click.echo(f"{each:<14} {bars / seconds:>12,.0f} bars/s   ours / it: {ratio:.2f}")
        parquet = Path(name) / "parquet" / "AAA.parquet"
        write_parquet(parquet, made("AAA", bars))
        seconds = statistics.median(seconds_of(ours, parquet) for _ in range(rounds))
        click.echo(f"{'ours, Parquet':<14} {bars / seconds:>12,.0f} bars/s")
    for ending in (".csv.gz", ".parquet"):
        with tempfile.TemporaryDirectory() as name:
            write = write_parquet if ending == ".parquet" else quickly_written
            for number in range(SYMBOLS):
                symbol = f"A{LETTERS[number // 26]}{LETTERS[number % 26]}"
                write(Path(name) / f"{symbol}{ending}", made(symbol, TOTAL // SYMBOLS, number))
            arguments = [sys.executable, "-m", "bench.bars", "--hold", name]
            click.echo(f"{ending:<9} ", nl=False)
            subprocess.run(arguments, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
