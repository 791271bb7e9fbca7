"""`bot quote`: the market of one symbol now, as a line or as a ladder with our orders."""

from collections.abc import Iterator
from math import ceil
from typing import Final

import click

from bot.cli.command import Invocation, define_command
from bot.cli.options import watch_option
from bot.cli.show import json_text, watch
from bot.cli.target import Fields, ask_bot
from bot.cli.telling.wording import counted, phase_of
from bot.domain.local_time import clock_of

BAR: Final = 24
"""Columns of the longest bar."""


@define_command("quote", example="bot quote FPT --depth --watch")
@click.argument("symbol")
@click.option("--depth", is_flag=True, help="Draw the best prices of both sides.")
@watch_option
@click.pass_obj
def command(invocation: Invocation, symbol: str, depth: bool, watch_s: float | None) -> None:
    """Show the market in a symbol; the running bot asks the broker for it.

    With --watch it refreshes until Ctrl-C. What a strategy has just polled costs no request; other
    symbols cost two of the bot's requests at each refresh.
    """
    request = {"symbol": symbol.upper(), "max_age_s": ceil(watch_s or 0)}
    before: Fields | None = None

    def draw() -> list[str]:
        nonlocal before
        reply = ask_bot(invocation, "quote", **request)
        last, before = before, reply
        if invocation.json:
            found = {**reply.inner("quote"), "depth": reply.inner("depth")}
            return json_text(found).splitlines()
        return picture(reply, last) if depth else [headline(reply)]

    watch(invocation, draw, every_s=watch_s)


def headline(reply: Fields) -> str:
    """One line: last price and change, best bid and ask, volume, band, time of the last update."""
    best = [
        next((f"{price:,} x {volume:,}" for price, volume in levels_of(reply, side)), "-")
        for side in ("bids", "asks")
    ]
    name, *figures = _figures(reply)
    return "  ".join([name, f"bid {best[0]} | ask {best[1]}", *figures])


def picture(reply: Fields, before: Fields | None = None) -> list[str]:
    """The figures, the ladder with bars, its totals, and what has traded since `before`."""
    bids, asks = levels_of(reply, "bids"), levels_of(reply, "asks")
    orders = reply.each("open_orders")
    most = max((volume for _, volume in [*asks, *bids]), default=1)
    lines = ["  ".join(_figures(reply))]
    for word, side, levels in (("ask", "SELL", asks[::-1]), ("bid", "BUY", bids)):
        if not levels:
            lines.append(f"  {word}s none")
        for price, volume in levels:
            ours = " ".join(
                f"← {row.whole('quantity') - row.whole('executed'):,} of ours, "
                f"{row.text('order_id')}"
                for row in orders
                if (row.text("side"), row.whole("price")) == (side, price)
            )
            bar = "█" * max(1, volume * BAR // most)
            lines.append(f"  {word:<4} {price:>10,} {volume:>11,} {bar:<{BAR}} {ours}".rstrip())
    shown = {("SELL", price) for price, _ in asks} | {("BUY", price) for price, _ in bids}
    elsewhere = [row for row in orders if (row.text("side"), row.whole("price")) not in shown]
    waiting = [sum(volume for _, volume in side) for side in (bids, asks)]
    spread = f"spread {asks[0][0] - bids[0][0]:,}" if bids and asks else "no spread: one side only"
    at = reply.instant("at")
    phase = phase_of(reply.text("phase")) if reply.text("phase") else "phase not polled"
    seen = f"  {clock_of(at)}" if at else ""
    sums = f"{spread}  bids {waiting[0]:,} asks {waiting[1]:,} shown"
    lines += ["", f"  {sums}  {phase}{seen}"]
    if elsewhere:
        many = counted(len(elsewhere), "open order")
        lines.append(f"  {many} of ours elsewhere: bot orders --open")
    if before is not None:
        now, then = reply.inner("quote"), before.inner("quote")
        moved = now.whole("last") - then.whole("last")
        move = f"price {moved:+,}" if moved else "price unchanged"
        total, earlier = now.maybe_whole("volume"), then.maybe_whole("volume")
        if total is None or earlier is None:
            news = f"nothing known of trades, {move}"
        elif total > earlier:
            news = f"traded {total - earlier:,} since the last look, {move}"
        else:
            news = "nothing traded since the last look"
        lines.append(f"  {news}")
    return lines


def levels_of(reply: Fields, side: str) -> list[tuple[int, int]]:
    """A side of the depth, best first, as price and shares."""
    found = reply.inner("depth").get(side)
    return [(price, volume) for price, volume in found] if isinstance(found, list) else []


def _figures(reply: Fields) -> Iterator[str]:
    """Name and last price first, then volume, band, and the time of the last update."""
    found = reply.inner("quote")
    last, reference = found.whole("last"), found.maybe_whole("reference")
    move = f" {(last - reference) * 100 / reference:+.2f}%" if reference else ""
    yield f"{found.text('symbol')} {found.text('exchange')}  {last:,}{move}"
    names = ("volume", "floor", "ceiling")
    volume, *band = (f"{name} {_number(found.maybe_whole(name))}" for name in names)
    yield volume
    yield " ".join(band)
    if at := found.instant("updated_at"):
        yield clock_of(at)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
