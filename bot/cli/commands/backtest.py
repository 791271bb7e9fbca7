"""`bot backtest`: a strategy on past days, with the exchange's rules, and its result."""

import webbrowser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import TYPE_CHECKING, Final, Unpack

import click

from bot.cli.command import Invocation, define_command
from bot.cli.past_days import PastDays, past_days_options, tell_simulated, wanted_of
from bot.cli.show import json_text, print_json, print_lines, progress_bar, say, write_line
from bot.domain.entry import Verdict

if TYPE_CHECKING:
    from bot.runtime.history.backtest.result import BacktestResult

PAGE: Final = "report.html"
SUMMARY: Final = "summary.json"
TRADES: Final = "trades.csv"
_PATH: Final = click.Path(path_type=Path)


@define_command("backtest", example="bot backtest strategies/mine.yaml --from 2026-09-01")
@click.argument("files", nargs=-1, required=True, type=_PATH, metavar="FILE...")
@past_days_options
@click.option("--trades", type=_PATH, metavar="FILE", help="Write the fills, as .csv or .parquet.")
@click.option("-o", "--output", type=_PATH, metavar="DIR", help="Write page, summary and fills.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.pass_obj
def command(
    invocation: Invocation,
    files: tuple[Path, ...],
    trades: Path | None,
    output: Path | None,
    opens: bool,
    **days: Unpack[PastDays],
) -> None:
    """Run strategy files over past bars, as they would have run on those days.

    The bot's own engine decides, with the exchanges' phases, ticks, bands, lots, fees, tax and T+2;
    orders fill by a model that every result names, with its assumptions (bot docs backtest). Needs
    no configuration; if one is found, its risk limits, its fee and its stored bars are used.
    """
    # NumPy, the engine, the rules: slow to import, and help pages do not need them.
    from bot.cli.report.html import write_whole
    from bot.cli.report.page import write_page
    from bot.cli.report.summary import summary_json, summary_lines
    from bot.runtime.history.backtest.figures import benchmarks_of, figures_of
    from bot.runtime.history.backtest.run import run_backtest
    from bot.runtime.history.backtest.spec import spec_of
    from bot.runtime.history.backtest.trades import (
        require_writable,
        write_trades,
        written,
    )

    if trades is not None:
        require_writable(trades)
    folder = output or (Path(mkdtemp(prefix="bot-backtest-")) if opens else None)
    wanted = wanted_of(invocation, files, days)
    spec = spec_of(wanted)
    if folder is not None:
        with written(f"-o {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=folder).close()
    with progress_bar(invocation, "backtest") as progress:
        result = run_backtest(spec, progress)
    figures = figures_of(result, benchmarks_of(result, spec.source))
    summary = summary_json(result, figures)
    if invocation.json:
        print_json(summary)
    else:
        print_lines(summary_lines(result, figures))
    if trades is not None:
        with written(f"--trades {trades}"):
            say(invocation, f"wrote {write_trades(trades, result)} fills to {trades}")
    if folder is not None:
        with written(f"-o {folder}"):
            write_trades(folder / TRADES, result)
            write_whole(folder / SUMMARY, f"{json_text(summary)}\n")
            write_page(folder / PAGE, result, figures, spec.source)
        say(invocation, f"wrote {folder / PAGE}, {SUMMARY} and {TRADES}")
    for text in _faults(result):
        write_line(text, err=True)
    tell_simulated(invocation, wanted)
    if opens and folder is not None:
        webbrowser.open((folder / PAGE).absolute().as_uri())


def _faults(result: "BacktestResult") -> Iterator[str]:
    """Report which strategies have failed, how often, and where first."""
    failed = [each for each in result.decisions if each.verdict is Verdict.FAILED]
    counts = Counter(each.strategy for each in failed)
    for name, count in counts.items():
        first = next(each for each in failed if each.strategy == name)
        yield f"{name} failed {count} times, first on {first.at:%Y-%m-%d} in {first.why}"
