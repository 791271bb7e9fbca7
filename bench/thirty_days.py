"""Thirty days in one process with a hundred symbols: does memory stay flat, do descriptors?

    .venv/bin/python -m bench.thirty_days [--days 30] [--symbols 100]
    .venv/bin/python -m bench.thirty_days --rest 60 [--polls 10]

The real daemon and the sandbox, its ledger and the journal on SQLite, on a clock without pace. At
the end of each trading day the resident size and the open descriptors of the process are printed;
the slope is that of a straight line through the days after the warm-up. Bot and sandbox share the
process: what grows in either is counted.

`--rest` is the other figure: the bot alone in real time, with a sandbox in a separate process; it
makes this many polls a second and has nothing to do. Printed are the quotes received and the share
of one core.
"""

import asyncio
import gc
import json
import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from ruamel.yaml import YAML

from bench.memory import resident_mb
from bench.virtual_day import SMA, Counted
from bot.clock import monotonic_s
from bot.config.settings.load import load_settings
from bot.domain.entry import Entry, Note
from bot.domain.recovery import Recovery
from bot.runtime.reads import Reads
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions

WARM_DAYS = 3
QUOTA = 120
CLOSED = "HOSE closed"
"""A phase of the day that occurs once."""
CLOSES_AT = 7
"""The hour of the close in UTC: a start before the opening says closed, too."""
OF_A_FILE = 25
SETTLES_S = 10.0
"""A start reads and imports; measuring begins after that."""


@dataclass
class Sized(Counted):
    """Records the size of the process when each day is over."""

    sizes: list[tuple[str, float, int]] = field(default_factory=list)

    def entry(self, entry: Entry) -> None:
        """Count it, and measure the process at a close."""
        super().entry(entry)
        if (
            isinstance(entry, Note)
            and entry.kind == "PHASE"
            and entry.text == CLOSED
            and entry.at.hour >= CLOSES_AT
        ):
            gc.collect()
            size = (
                f"{entry.at:%Y-%m-%d}",
                resident_mb(),
                len(list(Path("/proc/self/fd").iterdir())),
            )
            self.sizes.append(size)
            click.echo(f"{size[0]}  {size[1]:7.1f} MB  {size[2]} descriptors")


def slope(values: list[float]) -> float:
    """Return how much they grow from one to the next, by a least-squares line."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    above = sum((at - middle) * (value - mean) for at, value in enumerate(values))
    return above / sum((at - middle) ** 2 for at in range(len(values)))


def write_project(folder: Path, symbols: int, plan: dict[str, Any], **broker: object) -> Path:
    """Write a scenario of symbols on three exchanges and a strategy for all of them."""
    names = [f"{chr(65 + n // 26)}{chr(65 + n % 26)}X" for n in range(symbols)]
    listed = [
        {
            "symbol": name,
            "exchange": ("HOSE", "HNX", "UPCOM")[n % 3],
            "reference": 20_000 + 500 * (n % 40),
            "trade_chance": 0.02,
        }
        for n, name in enumerate(names)
    ]
    scenario = {
        "name": "days",
        "day": "2026-09-03",
        "start": "08:59:50",
        "quota": "PRO",
        "seed": 7,
        "symbols": listed,
        "accounts": [{"id": "0009000011", "cash": 2_000_000_000, "holdings": {names[0]: 1_000}}],
    }
    yaml = YAML(typ="safe")
    (folder / "strategies").mkdir()
    yaml.dump(scenario, folder / "scenario.yaml")
    for first in range(0, symbols, OF_A_FILE):
        name, its = f"plan-{first}", names[first : first + OF_A_FILE]
        yaml.dump({**plan, "name": name, "symbols": its}, folder / "strategies" / f"{name}.yaml")
    sandbox = {"scenario": "scenario.yaml", "speed": "max", "port": None}
    facts = {
        "mode": "sandbox",
        "state_dir": "state",
        "broker": {"requests_per_minute": QUOTA, **broker},
        "risk": {"max_quote_age_s": 300},
        "sandbox": sandbox,
    }
    yaml.dump(facts, folder / "bot.yaml")
    return folder / "bot.yaml"


async def live_on(config: Path, days: int) -> Sized:
    """Run until this many closes are over."""
    screen = Sized()
    weeks = timedelta(days=days * 7 // 5 + 1)
    options = RunOptions(run_for=weeks, answer_otp_after=timedelta(seconds=20))
    await run_bot(load_settings(config), options, screen)
    return screen


async def rest(folder: Path, span_s: float, polls: int) -> float:
    """Return the share of a core, in percent, of a polling bot that has nothing to do."""
    plan = {
        **SMA,
        "wake": {"bar": "1m", "quote": "2s"},
        "when": {"sessions": ["continuous"]},
    }
    write_project(folder, polls, plan)
    server = await create_subprocess_exec(
        *(sys.executable, "-m", "bot", "paper", "serve", "--port", "0", "--speed", "1"),
        *("--scenario", str(folder / "scenario.yaml"), "--now", "2026-09-03T09:30"),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert server.stdout is not None
    given = json.loads(await server.stdout.readline())
    os.environ["BOT_BROKER__API_KEY"] = given["api_key"]
    os.environ["BOT_BROKER__API_SECRET"] = given["api_secret"]
    inner = folder / "inner"
    inner.mkdir()
    # Each symbol has one poll of its quote every second.
    config = write_project(
        inner,
        polls,
        {**plan, "wake": {"bar": "1m", "quote": "1s"}},
        base_url=given["base_url"],
        requests_per_minute=3_000,
    )
    screen, came, read_quote = Quiet(), list[str](), Reads.quote

    async def counted(reads: Reads, symbol: str) -> None:
        await read_quote(reads, symbol)
        came.append(symbol)

    Reads.quote = counted  # type: ignore[method-assign,assignment]
    options = RunOptions(run_for=timedelta(seconds=SETTLES_S + span_s + 2))
    running = asyncio.create_task(run_bot(load_settings(config), options, screen))
    await asyncio.sleep(SETTLES_S)
    begun_s, cpu_s, before = monotonic_s(), sum(os.times()[:2]), len(came)
    await asyncio.sleep(span_s)
    took_s, count = monotonic_s() - begun_s, len(came) - before
    share = 100 * (sum(os.times()[:2]) - cpu_s) / took_s
    await running
    Reads.quote = read_quote  # type: ignore[method-assign]
    server.terminate()
    await server.wait()
    click.echo(f"{count} quotes of {len(set(came))} symbols in {took_s:.0f} s")
    click.echo(", ".join(f"{number} {kind}" for kind, number in sorted(screen.entries.items())))
    return share


class Quiet(Counted):
    """Shows nothing at all."""

    def recovered(self, recovery: Recovery) -> None:
        """Show nothing."""


@click.command()
@click.option("--days", default=30, show_default=True)
@click.option("--symbols", default=100, show_default=True)
@click.option("--rest", "rest_s", default=0.0, help="Measure a bot at rest for so many seconds.")
@click.option("--polls", default=10, show_default=True, help="Polls a second of the bot at rest.")
def main(days: int, symbols: int, rest_s: float, polls: int) -> None:
    """Run the days, or rest, and print the figure."""
    with TemporaryDirectory() as name:
        if rest_s:
            share = asyncio.run(rest(Path(name), rest_s, polls))
            click.echo(f"{polls} polls a second at rest: {share:.2f} % of a core")
            return
        config = write_project(Path(name), symbols, SMA)
        sizes = asyncio.run(live_on(config, days)).sizes[WARM_DAYS:]
        if len(sizes) > 1:
            grown = slope([size for _, size, _ in sizes])
            open_least, open_most = (pick(count for *_, count in sizes) for pick in (min, max))
            click.echo(f"{grown:+.2f} MB a day after {WARM_DAYS} days of warm-up")
            click.echo(f"descriptors {open_least} to {open_most}")


if __name__ == "__main__":
    main()
