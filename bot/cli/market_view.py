"""The market of one symbol as a picture: both sides of the depth, our own orders in it. Pure."""

from collections.abc import Iterator
from typing import Final

from bot.cli.fields import Fields, each, inner, instant, maybe_whole, text, whole
from bot.cli.telling.wording import clock_of, counted, phase_of

BAR: Final = 24
"""Columns of the longest bar."""
_SIDES: Final = {"BUY": "bids", "SELL": "asks"}

Level = tuple[int, int]


def headline(reply: Fields) -> str:
    """One line: last price and move, the touch, volume, band, when the broker last changed it."""
    touch = f"bid {_best(reply, 'bids')} | ask {_best(reply, 'asks')}"
    return "  ".join([_name_and_price(reply), touch, *_figures(reply)])


def picture(reply: Fields, before: Fields | None = None) -> list[str]:
    """The figures, the ladder with bars, what it adds up to, and since `before` what traded."""
    head = "  ".join([_name_and_price(reply), *_figures(reply)])
    return [head, *_ladder(reply), "", *_sums(reply), *_since(reply, before)]


def _name_and_price(reply: Fields) -> str:
    found = inner(reply, "quote")
    last, reference = whole(found, "last"), maybe_whole(found, "reference")
    move = f" {(last - reference) * 100 / reference:+.2f}%" if reference else ""
    return f"{text(found, 'symbol')} {text(found, 'exchange')}  {last:,}{move}"


def _figures(reply: Fields) -> Iterator[str]:
    found = inner(reply, "quote")
    yield f"volume {whole(found, 'volume'):,}"
    yield f"floor {_price(found, 'floor')} ceiling {_price(found, 'ceiling')}"
    if at := instant(found, "updated_at"):
        yield clock_of(at)


def levels_of(reply: Fields, side: str) -> list[Level]:
    """A side of the depth, best first, as price and shares."""
    found = inner(reply, "depth").get(side)
    return [(price, volume) for price, volume in found] if isinstance(found, list) else []


def _price(found: Fields, name: str) -> str:
    value = maybe_whole(found, name)
    return f"{value:,}" if value is not None else "-"


def _best(reply: Fields, side: str) -> str:
    return next((f"{price:,} x {volume:,}" for price, volume in levels_of(reply, side)), "-")


def _ladder(reply: Fields) -> Iterator[str]:
    """Asks above bids, the dearest on top; a price of ours is marked behind."""
    asks, bids = levels_of(reply, "asks"), levels_of(reply, "bids")
    most = max((volume for _, volume in [*asks, *bids]), default=1)
    for side, levels in (("SELL", asks[::-1]), ("BUY", bids)):
        if not levels:
            yield f"  {_SIDES[side]:<4} nobody"
        for level in levels:
            yield _row(reply, side, level, most)


def _row(reply: Fields, side: str, level: Level, most: int) -> str:
    price, volume = level
    bar = "█" * max(1, volume * BAR // most)
    ours = " ".join(_own(row) for row in each(reply, "open_orders") if _is_at(row, side, price))
    word = _SIDES[side].removesuffix("s")
    return f"  {word:<4} {price:>10,} {volume:>11,} {bar:<{BAR}} {ours}".rstrip()


def _is_at(row: Fields, side: str, price: int) -> bool:
    return text(row, "side") == side and whole(row, "price") == price


def _own(row: Fields) -> str:
    left = whole(row, "quantity") - whole(row, "executed")
    return f"← {left:,} of ours, {text(row, 'order_id')}"


def _sums(reply: Fields) -> Iterator[str]:
    bids, asks = levels_of(reply, "bids"), levels_of(reply, "asks")
    waits = [sum(volume for _, volume in side) for side in (bids, asks)]
    spread = f"spread {asks[0][0] - bids[0][0]:,}" if bids and asks else "no spread: one side only"
    at = instant(reply, "at")
    phase = phase_of(text(reply, "phase")) if text(reply, "phase") else "phase not polled"
    seen = f"  {clock_of(at)}" if at else ""
    yield f"  {spread}  bids {waits[0]:,} asks {waits[1]:,} shown  {phase}{seen}"
    if elsewhere := [row for row in each(reply, "open_orders") if not _is_shown(reply, row)]:
        yield f"  {counted(len(elsewhere), 'open order')} of ours elsewhere: bot orders --open"


def _is_shown(reply: Fields, row: Fields) -> bool:
    levels = levels_of(reply, _SIDES.get(text(row, "side"), ""))
    return whole(row, "price") in [price for price, _ in levels]


def _since(reply: Fields, before: Fields | None) -> Iterator[str]:
    """What the volume says about the time since the last look."""
    if before is None:
        return
    now, then = inner(reply, "quote"), inner(before, "quote")
    traded = whole(now, "volume") - whole(then, "volume")
    moved = whole(now, "last") - whole(then, "last")
    if traded > 0:
        price = f"price {moved:+,}" if moved else "price unchanged"
        yield f"  traded {traded:,} since the last look, {price}"
    else:
        yield "  nothing traded since the last look"
