"""A whole trading day at full speed: the real daemon on a clock without pace.

    .venv/bin/python -m bench.virtual_day [--profile 40] [--scenario market] [--minutes 361]

Three exchanges, thirty symbols, two strategies, a quota of 60 requests a minute; `run_bot` with its
journal on SQLite (WAL, synchronous=FULL), engine, order manager and client, and the sandbox with
its ledger in the same process, called over ASGI. Printed are the seconds of the run itself, from
the first request to the last row, and what it did.
"""

import asyncio
import cProfile
import os
import pstats
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from ruamel.yaml import YAML

from bot.config.scenario_file import load_scenario
from bot.config.settings.load import load_settings
from bot.domain.entry import Entry, Note
from bot.domain.recovery import Recovery
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunEnd, RunOptions
from bot.sandbox.house.ledger import read_ledger

SMA = {
    "name": "sma",
    "use": "sma_cross",
    "params": {"fast": 5, "slow": 20},
    "wake": {"bar": "5m"},
    "when": {"sessions": ["continuous"], "between": "09:15 - 14:20"},
    "order": {"size": {"shares": 100}, "type": "LIMIT", "price": "last", "expire": "60s"},
    "limits": {"max_order_value": 50_000_000, "max_orders_per_day": 100},
    "on_2fa": "hold 15m",
}
DEPTH = {
    **SMA,
    "name": "depth",
    "use": "depth_imbalance",
    "params": {"ratio": 3.0, "levels": 3},
    "wake": {"depth": "30s"},
}
DEPTH_SYMBOLS = 5
QUOTA = 60
QUOTE_AGE_S = 120
"""The quota allows one quote per symbol and minute."""


@dataclass
class Counted:
    """A screen that only counts."""

    entries: dict[str, int] = field(default_factory=dict)
    polls: int = 0

    def entry(self, entry: Entry) -> None:
        """Count an entry by its kind, and the polls reported by the bot."""
        if isinstance(entry, Note) and entry.kind == "PULSE":
            heard = (entry.numbers.get(kind) for kind in ("quotes", "depths"))
            self.polls += sum(number for number in heard if isinstance(number, int))
        kind = type(entry).__name__
        self.entries[kind] = self.entries.get(kind, 0) + 1

    def recovered(self, recovery: Recovery) -> None:
        """Show nothing of the days before."""

    def row(self, name: str, text: str) -> None:
        """Show nothing of the start."""

    def trouble(self, text: str) -> None:
        """Show what went wrong."""
        click.echo(text, err=True)


@dataclass(frozen=True)
class Day:
    """A project in a folder: a scenario, two strategies that share its symbols, no pace."""

    folder: Path
    scenario: str
    record: bool = False
    quota: int = QUOTA
    depth_symbols: int = DEPTH_SYMBOLS
    depth_every: str = "30s"
    is_refused: bool = False
    """Whether the depth strategy requests an order each time, which a limit always refuses."""

    def write(self) -> Path:
        """Write the files; return the path of bot.yaml."""
        yaml, symbols = YAML(typ="safe"), self.symbols()
        (self.folder / "strategies").mkdir()
        depth, cut = {**DEPTH, "wake": {"depth": self.depth_every}}, self.depth_symbols
        if self.is_refused:
            depth |= {"params": {"ratio": 1.001, "levels": 3}, "limits": {"max_order_value": 1}}
        for plan, its in ((depth, symbols[:cut]), (SMA, symbols[cut:])):
            file = self.folder / "strategies" / f"{plan['name']}.yaml"
            yaml.dump({**plan, "symbols": its}, file)
        facts = {
            "mode": "sandbox",
            "state_dir": "state",
            "record": self.record,
            "broker": {"requests_per_minute": self.quota},
            "risk": {"max_quote_age_s": QUOTE_AGE_S},
            "sandbox": {"scenario": self.scenario, "speed": "max", "port": None},
        }
        yaml.dump(facts, self.folder / "bot.yaml")
        return self.folder / "bot.yaml"

    def symbols(self) -> list[str]:
        """Return the symbols of the scenario."""
        return [each.symbol for each in load_scenario(self.scenario, self.folder).symbols]


async def live(config: Path, screen: Counted, minutes: float) -> RunEnd:
    """Run the bot for a span of market time."""
    options = RunOptions(run_for=timedelta(minutes=minutes), answer_otp_after=timedelta(seconds=20))
    return await run_bot(load_settings(config), options, screen)


def tell(folder: Path, end: RunEnd, screen: Counted) -> None:
    """Print what the day cost and what it did."""
    ledger = read_ledger(folder / "state" / "sandbox.jsonl")
    cpu_s = sum(os.times()[:2])
    click.echo(f"{end.seconds:.1f} s ({cpu_s:.1f} s of CPU with the imports)")
    signed = sum(line["kind"] == "nonce" for line in ledger)
    click.echo(f"{signed + screen.polls} requests: {screen.polls} polls, {signed} signed ones")
    click.echo(f"until {end.market_time:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(", ".join(f"{number} {kind}" for kind, number in sorted(screen.entries.items())))


@click.command()
@click.option("--scenario", default="market", show_default=True, help="Shipped, or a file.")
@click.option("--minutes", default=361.0, show_default=True, help="Of market time.")
@click.option("--profile", default=0, help="Show so many of the dearest functions.")
def main(scenario: str, minutes: float, profile: int) -> None:
    """Run the day and print what it took."""
    with TemporaryDirectory() as name:
        folder, screen = Path(name), Counted()
        config = Day(folder, scenario).write()
        profiler = cProfile.Profile()
        if profile:
            profiler.enable()
        end = asyncio.run(live(config, screen, minutes))
        profiler.disable()
        tell(folder, end, screen)
        if profile:
            pstats.Stats(profiler).sort_stats("tottime").print_stats(profile)


if __name__ == "__main__":
    main()
