"""Options shared by `backtest` and `optimise`: which past days, bars, money and fills."""

import os
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypedDict, TypeVar

import click

from bot.cli.command import Invocation
from bot.cli.options import ungrouped
from bot.cli.show import say
from bot.cli.target import load
from bot.config.problems import OperatorMistake
from bot.config.settings.places import find_config
from bot.config.shipped import DEMO, shipped

if TYPE_CHECKING:
    from bot.runtime.history.backtest.spec import Wanted

FILLS: Final = ("touch", "depth", "queue")
_DATA: Final = (
    "Bars or recorded days: a folder or files, repeatable; else stored or simulated bars."
)
DIGITS_MAX: Final = 15
"""More than anybody's money in VND."""

Options = TypeVar("Options", bound=Callable[..., object])


class PastDays(TypedDict):
    """The values of those options."""

    first: date | None
    last: date | None
    data: tuple[Path, ...]
    cash: int
    hold: tuple[tuple[str, int], ...]
    fill: Literal["touch", "depth", "queue"]


class Day(click.ParamType[date]):
    """A day as 2026-11-19."""

    name = "day"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> date:
        try:
            return date.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r}: wanted a day like 2026-11-19", param, ctx)


class Whole(click.ParamType[int]):
    """A whole number of 1 to 15 digits, above 0; 100_000_000 and 100,000,000 are the same."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        digits = ungrouped(str(value))
        is_whole = digits.isascii() and digits.isdigit() and digits.strip("0") != ""
        if not is_whole or len(digits) > DIGITS_MAX:
            from bot.config.market_files.table import shown  # slow, and help pages do not need it

            text = f"wanted a whole number above 0, of at most {DIGITS_MAX} digits"
            self.fail(f"{shown(str(value))}: {text}, like 100_000_000", param, ctx)
        return int(digits)


class Held(click.ParamType[tuple[str, int]]):
    """A symbol and its shares, like HPG=1000."""

    name = "holding"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        symbol, _, shares = str(value).partition("=")
        if not (symbol and shares):
            self.fail(f"{value!r}: wanted a symbol and its shares, like HPG=1000", param, ctx)
        return symbol.upper(), Whole().convert(shares, param, ctx)


_PATH: Final = click.Path(path_type=Path)
_OPTIONS: Final = (
    click.option(
        "--from", "first", type=Day(), metavar="DAY", help="First day; else the first with bars."
    ),
    click.option("--to", "last", type=Day(), metavar="DAY", help="Last day, inclusive."),
    click.option("--data", multiple=True, type=_PATH, metavar="PATH", help=_DATA),
    click.option("--cash", type=Whole(), default=100_000_000, metavar="VND", help="Initial cash."),
    click.option("--hold", multiple=True, type=Held(), metavar="SYM=N", help="Initial shares."),
    click.option("--fill", type=click.Choice(FILLS), default="queue", help="How bars fill orders."),
)


def past_days_options(command: Options) -> Options:
    """Add the options of `PastDays` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wanted_of(invocation: Invocation, files: Sequence[Path], days: PastDays) -> "Wanted":
    """Return the request, together with the configuration found. Raises OperatorMistake."""
    from bot.runtime.history.backtest.spec import Wanted

    holdings = dict(days["hold"])
    if len(holdings) < len(days["hold"]):
        names = [symbol for symbol, _ in days["hold"]]
        twice = next(name for name in names if names.count(name) > 1)
        text = f"--hold {twice} is given twice: give the initial shares once"
        raise OperatorMistake.of("E-BT-006", text)
    loaded, base_dir = None, None
    if (invocation.config or find_config(os.environ)) != shipped(DEMO):
        loaded = load(invocation)
        base_dir = loaded.base_dir if invocation.config else None
    asked = (days["data"], days["first"], days["last"], days["cash"], holdings, days["fill"])
    return Wanted(files, *asked, loaded, base_dir)


def tell_simulated(invocation: Invocation, wanted: "Wanted") -> None:
    """Say so if the bars are simulated."""
    from bot.runtime.history.backtest.spec import data_of
    from bot.runtime.history.store.simulated import SAMPLE

    if data_of(wanted) == [shipped(SAMPLE)]:
        say(
            invocation,
            "these bars are simulated, not from a real market: name your own with --data",
        )
