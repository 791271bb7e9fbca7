"""Looking again and again: drawn over on a terminal, written once for each change in a pipe."""

import sys
from collections.abc import Callable, Sequence
from itertools import count
from math import inf
from time import sleep
from typing import Final

import click

from bot.cli.invocation import Invocation
from bot.cli.show import cut, print_lines, steer, wants_color, width
from bot.domain.visible import visible

_UP_AND_WIPE: Final = "\x1b[{lines}F\x1b[0J"

EVERY_S: Final = 2.0
EVERY_S_MIN: Final = 0.5

Draw = Callable[[], Sequence[str]]


class Seconds(click.ParamType[float]):
    """A number of seconds, `2` or `2s`, and not too few of them."""

    name = "seconds"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        """Read it, or say what was wanted."""
        try:
            seconds = float(str(value).removesuffix("s"))
        except ValueError:
            wanted = "how often to look, in seconds like 2 or 2s; write it behind the symbol"
            self.fail(f"{str(value)!r}: wanted {wanted}", param, context)
        if not EVERY_S_MIN <= seconds < inf:
            self.fail(f"{str(value)!r}: wanted at least {EVERY_S_MIN:g} seconds", param, context)
        return seconds


watch_option = click.option(
    "--watch",
    "watch_s",
    type=Seconds(),
    metavar="[S]",
    is_flag=False,
    flag_value=EVERY_S,
    help="Look again every S seconds (2) until Ctrl-C.",
)


def watch(invocation: Invocation, draw: Draw, *, every_s: float, looks: int | None = None) -> None:
    """Show what `draw` returns, every `every_s` seconds until interrupted, or `looks` times."""
    is_animated = sys.stdout.isatty() and wants_color(invocation, sys.stdout)
    before: Sequence[str] = ()
    for number in count(1):
        lines = [cut(visible(line), width()) for line in draw()] if is_animated else draw()
        if is_animated and before:
            steer(_UP_AND_WIPE.format(lines=len(before)))
        if is_animated or lines != before:
            print_lines(lines)
        before = lines
        if number == looks:
            return
        sleep(every_s)
