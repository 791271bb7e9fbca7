"""A simulated day traded live in the sandbox, recorded, and traded again on its recording.

    .venv/bin/python -m bench.fidelity [--minutes 361] [--seed 7] [--orders]

The real bot runs against the simulated market, with its orders among those of others, and is
recorded. Then the same strategies trade on the recording, quotes and depth as they were polled,
with fills by each of the three models. Orders count as the same if strategy, symbol, side, shares,
price and time agree.
"""

import asyncio
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from ruamel.yaml import YAML

from bench.virtual_day import SMA, Counted, Day
from bot.config.limits import AccountSection
from bot.config.settings.load import load_settings
from bot.runtime.history.backtest.what_if import Compared, trade_again
from bot.runtime.history.recording.recordings import days_of
from bot.runtime.run import run_bot
from bot.runtime.run_controls import RunOptions
from bot.sandbox.markets.mirror.model import MODELS

SYMBOLS = 6
DICE = """
from random import Random

from bot import Strategy


class Dice(Strategy):
    seed: int

    def on_depth(self, book):
        dice = Random(f"{self.seed}|{self.now}|{self.symbol}")
        if dice.random() < 0.15 and book.depth.bids and book.depth.asks:
            best = dice.choice([book.depth.bids[0], book.depth.asks[0], book.depth.bids[-1]])
            shares = dice.choice([100, 1_000, 10_000, 40_000])
            self.buy(shares, limit=best.price, why="dice")
"""
"""Joins the best bid, takes from the best ask, or waits below; a few lots, or more than is
displayed.
"""
CASH = "cash: 1_000_000_000"
"""What the market's account has: a thousand times as much lasts for the whole day."""
UNLIMITED = (
    *("max_orders_per_day", "max_loss_per_day", "capital", "max_repeats", "max_times_median"),
)
QUOTA = 3_000
ROWS = (
    *("recorded", "played", "the same order", "the same fill", "other price", "other shares"),
    *("only recorded", "only played"),
)


def write_project(folder: Path, seed: int) -> Path:
    """Write a busy day: a strategy on bars and one on depth, polled as often as possible."""
    yaml = YAML(typ="safe")
    symbols = Day(folder, "market").symbols()
    market = (files("bot.sandbox") / "scenarios" / "market.yaml").read_text("utf-8")
    assert CASH in market
    (folder / "rich.yaml").write_text(market.replace(CASH, f"{CASH}_000"), "utf-8")
    (folder / "strategies").mkdir()
    (folder / "strategies" / "dice.py").write_text(DICE)
    limits = {"max_orders_per_day": 1_000, "max_position": 1_000_000}
    takes = {**SMA, "name": "takes", "wake": {"bar": "1m"}, "limits": limits}
    takes["order"] = {"size": {"shares": 1_000}, "type": "LIMIT", "price": "ask", "expire": "3m"}
    dice = {**takes, "name": "dice", "use": "dice", "params": {"seed": seed}}
    dice |= {"wake": {"depth": "20s", "quote": "20s"}}
    for plan, its in ((takes, symbols[:SYMBOLS]), (dice, symbols[SYMBOLS : 2 * SYMBOLS])):
        with (folder / "strategies" / f"{plan['name']}.yaml").open("w") as file:
            yaml.dump({**plan, "symbols": its}, file)
    facts = {
        "mode": "sandbox",
        "state_dir": "state",
        "record": True,
        "broker": {"requests_per_minute": QUOTA},
        "risk": {
            "account": dict.fromkeys(AccountSection.model_fields),
            "limits": dict.fromkeys(UNLIMITED),
        },
        "sandbox": {"scenario": "rich.yaml", "speed": "max", "port": None, "seed": seed},
    }
    yaml.dump(facts, folder / "bot.yaml")
    return folder / "bot.yaml"


def tell(compared: Compared, *, has_orders: bool) -> None:
    """Print the differences, order by order if wanted."""
    ours = {each.key: each for each in compared.played}
    for each in compared.recorded if has_orders else ():
        other = ours.get(each.key)
        local = each.at + timedelta(hours=7)
        words = f"{each.strategy} {each.side} {each.quantity} {each.symbol} {each.price}"
        one = f"{each.executed} for {each.amount:,} {each.state}"
        two = f"{other.executed} for {other.amount:,} {other.state}" if other else "not ordered"
        if other is None or (each.executed, each.amount) != (other.executed, other.amount):
            click.echo(f"  {local:%H:%M:%S} {words:40} recorded {one:32} {compared.fill} {two}")


@click.command()
@click.option("--minutes", default=361.0, show_default=True, help="Of market time.")
@click.option("--seed", default=7, show_default=True)
@click.option("--orders", "has_orders", is_flag=True, help="Show each order that differs.")
def main(minutes: float, seed: int, has_orders: bool) -> None:  # noqa: FBT001
    """Live through the day, trade it again with each model, and print the counts."""
    with TemporaryDirectory() as name:
        config = write_project(Path(name), seed)
        options = RunOptions(
            run_for=timedelta(minutes=minutes), answer_otp_after=timedelta(seconds=20)
        )
        asyncio.run(run_bot(load_settings(config), options, Counted()))
        state = Path(name) / "state"
        [day] = days_of(state)
        found = [trade_again(state, day, fill=fill) for fill in MODELS]
        click.echo(f"{'':16}" + "".join(f"{each.fill:>8}" for each in found))
        for row in ROWS:
            click.echo(f"{row:16}" + "".join(f"{each.counts()[row]:8,}" for each in found))
        for words, side in (("shares recorded", "recorded"), ("shares played", "played")):
            filled = [sum(order.executed for order in getattr(each, side)) for each in found]
            click.echo(f"{words:16}" + "".join(f"{shares:8,}" for shares in filled))
        for each in found:
            tell(each, has_orders=has_orders)


if __name__ == "__main__":
    main()
