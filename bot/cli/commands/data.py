"""`bot data`: lists, imports, checks and fetches the bars for backtests and warm-up."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bot.cli.command import Invocation, define_command, define_group
from bot.cli.options import since_2000
from bot.cli.rows import fields_of
from bot.cli.show import (
    print_json,
    print_table,
    progress_bar,
    say,
    show_problem,
    write_line,
)
from bot.cli.target import load, which_bot
from bot.cli.telling.wording import counted
from bot.clock import SystemClock
from bot.config.problems import ExitCode, OperatorMistake, Problem, shown_path
from bot.config.shipped import DEMO, shipped
from bot.domain.instrument import EXCHANGE_TZ

if TYPE_CHECKING:
    from bot.runtime.history.store.archive import Archive
    from bot.runtime.history.store.importing import Rules
    from bot.runtime.history.store.store import OpenedBars

STORE: Final = "data"
"""The folder of the store in a bot's state directory."""
WIDTHS: Final = ("1m", "5m", "15m", "30m", "1h", "4h", "1d")
HEADS: Final = ("SYM", "WIDTH", "FIRST", "LAST", "BARS", "GAPS", "FROM")
FETCHED: Final = ("5m", "15m", "30m", "1d")
SHOWN_GAPS: Final = 20

store_option: Final = click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="A folder of bars other than the bot's own.",
)
width_option: Final = click.option("--width", type=click.Choice(WIDTHS), help="The width of bars.")
day_type: Final = click.DateTime(["%Y-%m-%d"])


@define_group("data", example="bot data list")
def command() -> None:
    """Manage the bars that backtests and warm-up use.

    They are kept in the bot's state directory, or in a --store of your own.
    """


@define_command("list", group=command, example="bot data list --json")
@store_option
@click.pass_obj
def list_stored(invocation: Invocation, store: Path | None) -> None:
    """List the stored bars.

    Symbols and widths with first and last day, bars, gaps, and where they came from.
    GAPS counts trading days without a bar and days that start late or end early.
    """
    from bot.domain.quote import width_name
    from bot.runtime.history.store.importing import ALWAYS

    archive = _archive(invocation, store)
    found = [(source, symbol) for source in _sources(archive) for symbol in source.symbols()]
    rows: list[dict[str, object]] = []
    with progress_bar(invocation, "reading") as step:
        for source, symbol in found:
            first, last = source.span(symbol) or (None, None)
            of = width_name(source.width), symbol
            known = [each for each in archive.ranges() if (each.width, each.symbol) == of]
            ways = dict.fromkeys(
                f"{each.origin}{' (adjusted)' if each.is_adjusted else ''}" for each in known
            )
            row: dict[str, object] = {
                "symbol": symbol,
                "width": of[0],
                "first": first,
                "last": last,
                "bars": sum(len(columns) for columns in source.chunks(symbol, *ALWAYS)),
                "gaps": len(source.gaps(symbol, first, last)) if first and last else 0,
                "from": ", ".join(ways) or "files",
                "ranges": [fields_of(each) for each in known],
            }
            rows.append(row)
            step(len(rows) / len(found))
    if invocation.json:
        print_json({"store": str(archive.folder), "bars": rows})
        return
    if not rows:
        say(invocation, f"{shown_path(archive.folder)} has no bars yet; {_how_to_begin()}")
        return
    write_line(f"store {shown_path(archive.folder)}")
    names = ("symbol", "width", "first", "last", "bars", "gaps", "from")
    cells = [[cell_of(row[name]) for name in names] for row in rows]
    print_table(invocation, HEADS, cells)


def cell_of(value: object) -> str | int:
    """Return a table cell: numbers stay numbers."""
    return value if isinstance(value, int) else str(value)


@define_command("import", group=command, changes=True, example="bot data import bars/ --width 1m")
@click.argument("places", nargs=-1, required=True, type=click.Path(path_type=Path))
@width_option
@click.option("--adjusted", is_flag=True, help="Prices are adjusted: do not check ticks and band.")
@click.option("--replace", is_flag=True, help="Where stored bars differ, use the new ones.")
@store_option
@click.pass_obj
def import_bars(
    invocation: Invocation,
    places: tuple[Path, ...],
    width: str | None,
    adjusted: bool,
    replace: bool,
    store: Path | None,
) -> None:
    """Add files or folders of bars to the store.

    CSV or Parquet; for the formats: bot docs market-files. Everything is checked before anything is
    written; files of references and ex-dates next to the bars are imported too. Without --adjusted,
    prices are taken as quoted on the day.
    """
    from bot.domain.quote import width_name
    from bot.runtime.history.store.archive import Overlap
    from bot.runtime.history.store.importing import import_files

    archive, rules = _archive(invocation, store), _rules()
    owner = f"{which_bot(invocation)}: " if invocation.bot else ""
    say(invocation, f"{owner}store {shown_path(archive.folder)}")
    with progress_bar(invocation, "importing") as step:
        imported, told, days = import_files(
            archive,
            places,
            rules,
            at=SystemClock().now(),
            width=_width(width),
            overlap=Overlap.REPLACE if replace else Overlap.REFUSE,
            is_adjusted=adjusted,
            progress=step,
        )
    if invocation.json:
        heads = [problem.head for problem in told]
        found = [fields_of(each) for each in imported]
        print_json({"imported": found, "days": days, "odd": heads})
        return
    rows = [
        (
            *(each.symbol, width_name(each.width), str(each.first), str(each.last)),
            *(each.bars, each.added.new, each.added.same),
        )
        for each in imported
    ]
    print_table(invocation, ("SYM", "WIDTH", "FIRST", "LAST", "BARS", "NEW", "THERE"), rows)
    _tell(told)
    new, symbols = sum(each.added.new for each in imported), {each.symbol for each in imported}
    odd = f", {counted(len(told), 'warning')}: see above" if told else ""
    write_line(
        f"{counted(new, 'new bar')} of {counted(len(symbols), 'symbol')}, "
        f"{counted(days, 'day')} with a reference or an ex-date{odd}"
    )
    if adjusted:
        say(invocation, "no backtest, search or warm-up uses adjusted prices: they are only kept")
    else:
        data = shown_path(archive.folder)
        say(invocation, f"to backtest on them: bot backtest FILE --data {data}")


@define_command("check", group=command, example="bot data check HPG FPT")
@click.argument("symbols", nargs=-1)
@store_option
@click.pass_obj
def check(invocation: Invocation, symbols: tuple[str, ...], store: Path | None) -> None:
    """Check the stored bars.

    Ticks, bands, lots, hours, holidays, gaps, and ex-dates that no file names.
    Exit code 3 when bars are unusable, 12 when something is missing or odd.
    """
    from bot.cli.report.summary import gap_words
    from bot.runtime.history.store.importing import check_source

    archive, rules = _archive(invocation, store), _rules()
    sources = _sources(archive)
    stored = sorted({symbol for source in sources for symbol in source.symbols()})
    wanted = tuple(symbol.upper() for symbol in symbols) or tuple(stored)
    if unknown := [symbol for symbol in wanted if symbol not in stored]:
        held = ", ".join(stored) or f"nothing yet; {_how_to_begin()}"
        text = f"{', '.join(unknown)}: no bars in {shown_path(archive.folder)}; it holds {held}"
        raise OperatorMistake.of("E-DATA-001", text)
    if not stored:
        say(invocation, f"{shown_path(archive.folder)} has no bars yet; {_how_to_begin()}")
    checked = []
    with progress_bar(invocation, "checking") as step:
        for source in sources:
            own = [symbol for symbol in wanted if symbol in source.symbols()]
            checked += check_source(source, rules, own, progress=step)
    fatal = [problem for each in checked for problem in each.fatal]
    told = [problem for each in checked for problem in each.told]
    gaps = [
        gap
        for each in checked
        if not each.fatal and (span := each.source.span(each.symbol))
        for gap in each.source.gaps(each.symbol, *span)
    ]
    if invocation.json:
        heads = {"wrong": [p.head for p in fatal], "odd": [p.head for p in told]}
        print_json({**heads, "gaps": [fields_of(gap) for gap in gaps]})
    else:
        _tell(told)
        for gap in gaps[:SHOWN_GAPS]:
            write_line(gap_words(gap))
        if len(gaps) > SHOWN_GAPS:
            write_line(
                f"and {counted(len(gaps) - SHOWN_GAPS, 'more gap')}: for all of them: --json"
            )
        bars = sum(each.found.bars for each in checked)
        write_line(
            f"{counted(bars, 'bar')} of {counted(len(wanted), 'symbol')}: {len(fatal)} wrong, "
            f"{len(told)} odd, {counted(len(gaps), 'gap')}"
        )
    if fatal:
        raise OperatorMistake(fatal)
    if told or gaps:
        click.get_current_context().exit(ExitCode.DIFFERS)


@define_command(
    "fetch", group=command, changes=True, example="bot data fetch HPG FPT --from 2026-01-02"
)
@click.argument("symbols", nargs=-1, required=True)
@click.option(
    *("--from", "first"),
    type=day_type,
    callback=since_2000,
    help="The first day, from 2000-01-01 on; default: 90 days ago.",
)
@click.option(
    *("--to", "last"),
    type=day_type,
    callback=since_2000,
    help="The last day; default: yesterday.",
)
@click.option("--width", type=click.Choice(FETCHED), default=FETCHED[0], help="The width of bars.")
@click.option("--adjusted", is_flag=True, help="Prices are adjusted: do not check ticks and band.")
@click.option("--replace", is_flag=True, help="Where stored bars differ, use the broker's.")
@store_option
@click.pass_obj
def fetch(
    invocation: Invocation,
    symbols: tuple[str, ...],
    first: datetime | None,
    last: datetime | None,
    width: str,
    adjusted: bool,
    replace: bool,
    store: Path | None,
) -> None:
    """Fetch bars from the broker's history into the store.

    The API has bars of 5, 15 and 30 minutes and of a day, nothing finer. What was fetched before is
    not requested again, so an interrupted fetch can be continued. Where stored bars differ they are
    kept and reported, with exit code 12. Today is not over, so yesterday's bars are the last.
    """
    from bot.runtime.fetch_bars import fetch_from_broker
    from bot.runtime.history.store.archive import Overlap
    from bot.runtime.history.store.fetching import FetchPlan

    archive, loaded, seconds = _archive(invocation, store), load(invocation), _width(width)
    assert seconds is not None, "a width is given"
    plan = FetchPlan(
        tuple(dict.fromkeys(symbol.upper() for symbol in symbols)),
        seconds,
        first.date() if first else None,
        last.date() if last else None,
        Overlap.REPLACE if replace else Overlap.KEEP,
        is_adjusted=adjusted,
    )
    say(invocation, f"{which_bot(invocation)}: store {shown_path(archive.folder)}")
    with progress_bar(invocation, "fetching") as step:
        done = asyncio.run(fetch_from_broker(loaded, archive, _rules(), plan, step))
    if invocation.json:
        print_json({"fetched": [fields_of(each) for each in done]})
    else:
        heads = ("SYM", "ASKED", "KNOWN", "NEW", "THERE", "DIFFER")
        rows = [(e.symbol, e.asked, e.spared, e.new, e.same, e.differing) for e in done]
        print_table(invocation, heads, rows)
        _tell(problem for each in done for problem in each.told)
    different = [
        Problem("E-DATA-008", f"{each.symbol}: {each.differing:,} stored bars differ, {ends}")
        for each in done
        if each.differing and not replace
        for ends in [
            f"the first {each.first_difference}; they were kept: --replace uses the broker's"
        ]
    ]
    if different:
        raise OperatorMistake(different, ExitCode.DIFFERS)


@define_command(
    "simulate", group=command, example="bot data simulate market.yaml --to 2026-12-30 --into sample"
)
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option("--to", "last", type=day_type, required=True, help="The last day.")
@click.option("--into", type=click.Path(path_type=Path), required=True, help="The folder.")
@click.pass_obj
def simulate(invocation: Invocation, scenario: Path, last: datetime, into: Path) -> None:
    """Write the bars of a simulated market.

    One-minute bars of a scenario, from its first day on, into a folder that holds none. The same
    scenario gives the same files.
    Takes about 100 ms per day and symbol.
    """
    from bot.config.rulebook import load_rulebook
    from bot.config.scenario_file import load_scenario
    from bot.runtime.history.store.simulated import simulate_days
    from bot.runtime.history.store.store import files_in

    script = load_scenario(scenario.name, scenario.parent)
    if script.day is None:
        text = f"the scenario {scenario.name} names no day to begin with: give it one, "
        text += "day: 2026-11-19"
        raise OperatorMistake.of("E-MKT-005", text)
    first = script.starts_at.astimezone(EXCHANGE_TZ).date()
    if last.date() < first:
        raise OperatorMistake.of("E-DATA-012", f"the scenario begins on {first}: use a later --to")
    if held := files_in(into):
        text = f"{shown_path(into)} already holds {held[0].name}: simulated bars would replace or"
        raise OperatorMistake.of("E-DATA-014", f"{text} hide what is there; name another folder")
    with progress_bar(invocation, "simulating") as step:
        days = max(1, (last.date() - first).days)
        made = simulate_days(
            script,
            load_rulebook(),
            last.date(),
            progress=lambda day: step((day - first).days / days),
        )
    made.write(into)
    bars, symbols = sum(map(len, made.minutes.values())), counted(len(made.minutes), "symbol")
    say(invocation, f"{counted(bars, 'bar')} of {symbols} in {shown_path(into)}")


def _archive(invocation: Invocation, store: Path | None) -> "Archive":
    """Return the store to use. A command that changes one does not take the demo's."""
    from bot.runtime.history.store.archive import Archive

    if store is not None:
        return Archive(store)
    loaded = load(invocation)
    if invocation.does_change and invocation.config is None and loaded.path == shipped(DEMO):
        text = (
            "which bot's bars? There is no bot.yaml here: name one with -c FILE, or --store FOLDER"
        )
        raise OperatorMistake.of("E-RUN-007", text, ExitCode.USAGE)
    return Archive(loaded.state_dir / STORE)


def _sources(archive: "Archive") -> "list[OpenedBars]":
    """Return the bars of each width in a store, or those in a folder of files."""
    from bot.runtime.history.store.store import bar_files

    if widths := archive.widths():
        return [archive.source(width) for width in widths]
    folders = [archive.folder, *archive.folder.glob("bars_*")]
    return [archive.source()] if any(bar_files(folder) for folder in folders) else []


def _rules() -> "Rules":
    from bot.config.rulebook import load_rulebook, load_symbols
    from bot.runtime.history.store.importing import Rules

    return Rules(load_rulebook(), load_symbols())


def _width(name: str | None) -> timedelta | None:
    from bot.runtime.history.store.store import WIDTHS as SECONDS

    return timedelta(seconds=SECONDS[name]) if name else None


def _how_to_begin() -> str:
    return "add some: bot data import FOLDER, or bot data fetch SYMBOL"


def _tell(problems: Iterable[Problem]) -> None:
    for problem in problems:
        show_problem(problem)
